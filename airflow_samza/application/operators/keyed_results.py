"""Keyed results: aggregations, windows, one message of several copies, and changes of rows in their order.

There is a row for each key, or for each window and key. Changes leave late and repeated ones out, or make the history
of each row (SCD types 1 and 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow_samza.application.bad_records import error_policy
from airflow_samza.application.callables import check_callable, declared_schema, reject_async
from airflow_samza.application.columns import Columns, check_column, key_columns, optional_columns
from airflow_samza.application.descriptors import ROW_DELETED, StreamDescriptor
from airflow_samza.application.event_times import time_column
from airflow_samza.application.operator_checks import check_choice, former_id, named, required_id
from airflow_samza.application.operator_spec import EventTime
from airflow_samza.application.operator_specs import AggregateSpec, ApplyChangesSpec, DistinctSpec, WindowOperatorSpec
from airflow_samza.application.operators.sending import check_stream_takes
from airflow_samza.application.output_schemas import (
    aggregated_schema,
    named_aggregations,
    reject_twice,
    window_columns,
    windowed_schema,
)
from airflow_samza.application.rejections import did_you_mean, listed, reject, reject_unknown
from airflow_samza.application.stream import OutputStream, Stream
from airflow_samza.application.times import duration_ms
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.schema import DataType, Field, Schema

_OF_WINDOWS = (
    "window",
    "id",
    "key",
    "fold",
    "initial",
    "schema",
    "renamed_from",
    "late_to",
    "on_error",
    "assume_partitioned_by",
)


def _reject_misspelt(aggregations: Mapping[str, object], parameters: Sequence[str], where: str) -> None:
    """Reject what is no aggregation, and named nearly like a parameter."""
    for name, value in aggregations.items():
        if not isinstance(value, Aggregation) and not callable(value) and did_you_mean(name, parameters):
            reject_unknown(name, parameters, where)


def aggregate(
    stream: Stream[Any],
    key: Columns,
    id: str | None,
    timestamp: object,
    renamed_from: str | None,
    assume_partitioned_by: Columns | None,
    aggregations: Mapping[str, object],
) -> AggregateSpec:
    """Return the unwindowed aggregation; parameters as :meth:`MessageStream.aggregate`."""
    where = named("aggregate", id)
    _reject_misspelt(aggregations, ("key", "id", "timestamp", "renamed_from", "assume_partitioned_by"), where)
    name = required_id(id, "aggregate")
    columns = key_columns(key, stream.schema, where)
    if isinstance(timestamp, Aggregation):
        reject(
            f"{where} has timestamp={timestamp.function}({timestamp.column or ''}), and timestamp= names a column of "
            "its rows",
            hint='Name the aggregation, and then its column: at=max_("at"), timestamp="at".',
            operator=where,
        )
    if not aggregations:
        reject(
            f"{where} computes nothing",
            hint='Name the results: aggregate("page", views=count(), id=…).',
            operator=where,
        )
    results = named_aggregations(dict(aggregations), stream.schema, columns, where)
    shape = aggregated_schema(stream.schema, columns, (), results, where)
    return stream._graph.add(
        AggregateSpec,
        name,
        inputs=(stream._operator,),
        schema=shape,
        event_time=None if timestamp is None else _time_of_rows(timestamp, shape, (*columns, *aggregations), where),
        key=columns,
        aggregations=results,
        renamed_from=former_id(renamed_from, name, "aggregate"),
        assume_partitioned_by=assumed_partitions(assume_partitioned_by, columns, stream, where),
    )


def window(
    stream: Stream[Any],
    window: WindowSpec,
    id: str | None,
    key: Columns | None,
    fold: Callable[[Any, Any], Any] | None,
    initial: Any,
    schema: object,
    renamed_from: str | None,
    late_to: OutputStream | None,
    on_error: object,
    assume_partitioned_by: Columns | None,
    aggregations: Mapping[str, object],
) -> WindowOperatorSpec:
    """Return the windows; parameters as :meth:`MessageStream.window`."""
    where = named("window", id)
    _reject_misspelt(aggregations, _OF_WINDOWS, where)
    name = required_id(id, "window")
    if not isinstance(window, WindowSpec):
        reject(
            f"{where} got {window!r}, which is not a window",
            hint='Begin with tumbling("1 minute"), hopping("10 minutes", "1 minute") or session("30 minutes").',
            operator=where,
        )
    columns = optional_columns(key, stream.schema, where)
    time = stream._required_time(where, 'use time="processing"') if window.time == "event" else None
    between = window_columns(window)
    taken = (*columns, *(field.name for field in between))
    double = [field.name for field in between if field.name in columns]
    if double:
        reject_twice(double[0], where, "Rename the key column first.")
    if fold is None:
        if not aggregations:
            reject(f"{where} computes nothing", hint="Name the results: views=count(), or give fold=.", operator=where)
        if initial is not None or schema is not None:
            reject(
                f"{where} has initial= or schema= and no fold",
                hint="They belong to fold=; leave them out.",
                operator=where,
            )
        results = named_aggregations(dict(aggregations), stream.schema, taken, where)
        folded = None
    else:
        if aggregations:
            reject(f"{where} has fold= and aggregations", hint="Give one of the two.", operator=where)
        check_callable(fold, where, 2, hint="Give fold= a callable with two parameters: lambda former, message: …")
        if callable(initial):
            reject_async(initial, f"initial= of {where}")
        results = ()
        folded = _folded(declared_schema(fold, schema, where), taken, where)
    policy = error_policy(on_error, stream._graph, where)
    if policy is not None and fold is None:
        reject(
            f"{where} has on_error= and no fold",
            hint="Aggregations do not fail on single messages: leave on_error= out.",
            operator=where,
        )
    nothing_late = "goes by processing time" if window.time != "event" else None
    late = () if late_to is None else (_late_stream(stream, nothing_late, late_to, where),)
    if policy is not None and policy.stream is not None and policy.stream in late:
        reject(
            f"{where} sends late messages and dead letters to one stream",
            hint="Give each an output stream.",
            operator=where,
        )
    return stream._graph.add(
        WindowOperatorSpec,
        name,
        inputs=(stream._operator,),
        schema=windowed_schema(stream.schema, window, columns, results, folded, where),
        window=window,
        time_column=time,
        key=columns,
        aggregations=results,
        fold=fold,
        fold_schema=folded,
        initial=initial,
        renamed_from=former_id(renamed_from, name, "window"),
        assume_partitioned_by=assumed_partitions(assume_partitioned_by, columns, stream, where),
        side_outputs=(*late, *(policy.side_outputs if policy is not None else ())),
        on_error=policy,
    )


def _time_of_rows(timestamp: object, shape: Schema | None, names: Sequence[str], where: str) -> EventTime:
    """Return the event time that an aggregation's rows have, in one of their columns.

    No watermark comes before the rows, so that none of these is late.
    """
    column = time_column(timestamp, shape, where)
    if column not in names:
        reject(
            f"{where} has timestamp={column!r}, which is no column of its rows",
            hint=f'Name one of {listed(names)}; or add it: {column}=max_("{column}").',
            operator=where,
        )
    return EventTime(column, max_delay_ms=0)


def distinct(
    stream: Stream[Any],
    key: Columns,
    id: str | None,
    within: str | int | timedelta | None,
    keep: str,
    late_to: OutputStream | None,
    renamed_from: str | None,
    assume_partitioned_by: Columns | None,
) -> DistinctSpec:
    """Return what keeps one of several copies; parameters as :meth:`MessageStream.distinct`."""
    where = named("distinct", id)
    name = required_id(id, "distinct")
    columns = key_columns(key, stream.schema, where)
    check_choice("keep", keep, ("first", "last"), where)
    within_ms = None if within is None else duration_ms(within)
    last_resort = "leave within= out, if the input is bounded, to keep one message of each key"
    time = stream._time(where) if within is None else stream._required_time(where, last_resort)
    late: tuple[StreamDescriptor, ...] = ()
    if late_to is not None:
        nothing_late = "goes by the order of arrival" if time is None else None
        late = (_late_stream(stream, nothing_late, late_to, where),)
    return stream._graph.add(
        DistinctSpec,
        name,
        inputs=(stream._operator,),
        schema=stream.schema,
        key=columns,
        within_ms=within_ms,
        keep=keep,
        time_column=time,
        side_outputs=late,
        renamed_from=former_id(renamed_from, name, "distinct"),
        assume_partitioned_by=assumed_partitions(assume_partitioned_by, columns, stream, where),
    )


def assumed_partitions(
    assumed: Columns | None, key: tuple[str, ...], stream: Stream[Any], where: str
) -> tuple[str, ...]:
    """Return the columns by which the user knows the messages to lie, which have to be of the key."""
    columns = optional_columns(assumed, stream.schema, where)
    beside = [column for column in columns if column not in key]
    if beside:
        reject(
            f"{where} has assume_partitioned_by={listed(columns)}, and {listed(beside)} is not of its key",
            hint=f"Name columns of the key: {listed(key) or 'it has none'}.",
            operator=where,
        )
    return columns


def _late_stream(stream: Stream[Any], nothing_late: str | None, target: object, where: str) -> StreamDescriptor:
    """Return the output stream to which late messages go, as they came; ``nothing_late`` says why there are none."""
    if not isinstance(target, OutputStream):
        reject(
            f"{where} has late_to={target!r}, which is no output stream",
            hint='Give an output stream: late_to=app.output_stream("late").',
            operator=where,
        )
    if nothing_late is not None:
        reject(f"{where} {nothing_late}, in which nothing is late", hint="Leave late_to= out.", operator=where)
    return check_stream_takes(stream._graph, target, stream.schema, where)


def _folded(result: Schema | None, taken: tuple[str, ...], where: str) -> Schema:
    if result is None:
        reject(
            f"The fold of {where} does not say which columns it makes",
            hint="Annotate what it returns (a dataclass), or say schema=.",
            operator=where,
        )
    double = [name for name in result.names if name in taken]
    if double:
        reject_twice(double[0], where, "Leave it out of the fold's result.")
    return result


HISTORY = VALID_FROM, VALID_TO, IS_CURRENT = "valid_from", "valid_to", "is_current"
"""The columns of a history: from when and to when a row was as it is, and whether it still is."""

_UNORDERED = ("array", "map", "struct", "boolean", "binary", "float", "double")


def apply_changes(
    stream: Stream[Any],
    key: Columns,
    sequence_by: Columns,
    scd_type: object,
    id: str | None,
    renamed_from: str | None,
    assume_partitioned_by: Columns | None,
) -> ApplyChangesSpec:
    """Return what brings changes into order; parameters as :meth:`MessageStream.apply_changes`."""
    where = named("apply_changes", id)
    name = required_id(id, "apply_changes")
    columns = key_columns(key, stream.schema, where)
    sequence = _sequence(sequence_by, stream.schema, where)
    if scd_type not in (1, 2) or isinstance(scd_type, bool):
        reject(
            f"{where} has stored_as_scd_type={scd_type!r}",
            hint="It is 1 (the newest row of each key) or 2 (each row with the time for which it was valid).",
            operator=where,
            value=repr(scd_type),
        )
    both = next((column for column in sequence if column in columns), None)
    if both is not None:
        reject(
            f"{where} orders the changes of a key by {both!r}, which is a column of the key",
            hint="Name the column that grows from change to change, such as the position in the log of the database.",
            operator=where,
            column=both,
        )
    schema = stream.schema
    if schema is not None:
        _check_changes(schema, sequence, where)
    return stream._graph.add(
        ApplyChangesSpec,
        name,
        inputs=(stream._operator,),
        schema=None if schema is None else applied_schema(schema, sequence[0], int(str(scd_type)), where),
        key=columns,
        sequence_by=sequence,
        scd_type=scd_type,
        renamed_from=former_id(renamed_from, name, "apply_changes"),
        assume_partitioned_by=assumed_partitions(assume_partitioned_by, columns, stream, where),
    )


def applied_schema(changes: Schema, sequence: str, scd_type: int, where: str) -> Schema:
    """Return the columns of what comes of changes: of type 2 the row with the time for which it was valid."""
    if scd_type == 1:
        return changes
    taken = next((name for name in HISTORY if name in changes), None)
    if taken is not None:
        reject_twice(taken, where, "Rename the column of the changes with select.")
    time = changes[sequence].type
    rows = tuple(field for field in changes.fields if field.name != ROW_DELETED)
    history = (
        Field(VALID_FROM, time, nullable=False),
        Field(VALID_TO, time),
        Field(IS_CURRENT, DataType("boolean"), nullable=False),
    )
    return Schema((*rows, *history))


def _sequence(sequence_by: object, schema: Schema | None, where: str) -> tuple[str, ...]:
    columns = (sequence_by,) if isinstance(sequence_by, str) else sequence_by
    if not isinstance(columns, list | tuple) or not columns or not all(isinstance(one, str) for one in columns):
        reject(
            f"{where} has sequence_by={sequence_by!r}",
            hint='Name the column that grows from change to change of a key, or several: sequence_by="lsn".',
            operator=where,
        )
    for column in columns:
        check_column(column, schema, f"sequence_by of {where}")
    return tuple(dict.fromkeys(columns))


def _check_changes(schema: Schema, sequence: tuple[str, ...], where: str) -> None:
    for column in sequence:
        kind = schema[column].type
        if kind.name in _UNORDERED:
            reject(
                f"Column {column!r} in sequence_by of {where} is of type {kind.ddl()}, which orders no changes",
                hint="Order them by whole numbers, decimals, times or texts.",
                column=column,
            )
    if ROW_DELETED in schema and schema[ROW_DELETED].type.name != "boolean":
        reject(
            f"{where} takes {ROW_DELETED!r} as the mark of rows that are gone, and it is of type "
            f"{schema[ROW_DELETED].type.ddl()}",
            hint="Make it a boolean with select.",
            column=ROW_DELETED,
        )
