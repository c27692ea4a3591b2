"""Operators over several streams: joins with a table or another stream, and merges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from airflow_samza.application.bad_records import on_error_fields
from airflow_samza.application.callables import check_callable, declared_schema
from airflow_samza.application.columns import Columns, key_columns, optional_columns
from airflow_samza.application.declarations.remote_access import GIVE_READER
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor, TableKind
from airflow_samza.application.event_times import kept_time
from airflow_samza.application.operator_checks import check_choice, former_id, named, required_id
from airflow_samza.application.operator_specs import MergeSpec, StreamJoinSpec, TableJoinSpec
from airflow_samza.application.output_schemas import joined_schema, joined_streams_schema, merged_schema
from airflow_samza.application.rejections import listed, reject
from airflow_samza.application.stream import Stream, Table
from airflow_samza.application.times import duration_ms, duration_text
from airflow_samza.schema import Schema

_STREAM_JOINS = ("inner", "left", "right", "full")
_TABLE_JOINS = ("inner", "left")

AS_OF_EVENT_TIME = "event time"
"""The time as of which a join with a table may look rows up."""


def join_table(
    stream: Stream[Any],
    table: Table[Any],
    function: Callable[[Any, Any], Any] | None,
    id: str | None,
    how: str,
    key: Columns | None,
    left_key: Columns | None,
    right_key: Columns | None,
    ttl: str | int | timedelta | None,
    as_of: object,
    wait: str | int | timedelta | None,
    schema: object,
    assume_partitioned_by: Columns | None,
    renamed_from: str | None,
    on_error: object,
) -> TableJoinSpec:
    """Return the lookup of every message of a stream in a table; parameters as :meth:`MessageStream.join`."""
    descriptor = table.descriptor
    if ttl is not None or left_key is not None or right_key is not None:
        reject(
            f"The join with table {descriptor.table_id!r} names "
            f"{'ttl' if ttl is not None else 'left_key or right_key'}",
            hint="A table join takes key= (columns of the stream); ttl, left_key and right_key belong to stream joins.",
        )
    where = named("join", id)
    stream._graph.check_same_application(table, descriptor.table_id, where)
    name = required_id(id, "join")
    check_choice("how", how, _TABLE_JOINS, where)
    if descriptor.kind is TableKind.REMOTE and descriptor.reader is None:
        reject(
            f"{where} reads the remote table {descriptor.table_id!r}, which has no reader",
            hint=GIVE_READER,
            table=descriptor.table_id,
        )
    if key is None:
        lacking = [] if stream.schema is None else [column for column in descriptor.key if column not in stream.schema]
        if lacking:
            reject(
                f"{where} looks {listed(lacking)} up, the key of table {descriptor.table_id!r}, and the stream has no "
                "such column",
                hint="Say which columns hold the key: key=…, of "
                f"{listed(stream.schema.names if stream.schema else ())}.",
                table=descriptor.table_id,
            )
        columns = descriptor.key
    else:
        columns = key_columns(key, stream.schema, where)
    _check_key_count(columns, descriptor.key, f"table {descriptor.table_id!r}", where)
    as_of_time = _as_of_time(stream, descriptor, as_of, where)
    wait_ms = _wait_ms(descriptor, wait, as_of, where)
    shape = _declared_result(stream, function, schema, where)
    if function is None:
        shape = joined_schema(stream.schema, descriptor.schema, descriptor.key, how, where)
    return stream._graph.add(
        TableJoinSpec,
        name,
        inputs=(stream._operator,),
        schema=shape,
        table=descriptor,
        key=columns,
        function=function,
        how=how,
        time_column=as_of_time or (stream._time(where) if descriptor.ttl_ms is not None else None),
        as_of=AS_OF_EVENT_TIME if as_of_time is not None else None,
        wait_ms=wait_ms,
        event_time=kept_time(stream, shape) if function is not None else None,
        assume_partitioned_by=optional_columns(assume_partitioned_by, None, where),
        renamed_from=former_id(renamed_from, name, "join"),
        **_on_error(stream, on_error, function or descriptor.reader, where),
    )


def _as_of_time(stream: Stream[Any], table: TableDescriptor, as_of: object, where: str) -> str | None:
    """Return the column of the event time as of which rows are looked up; None: ``as_of`` is not given."""
    if as_of is None:
        return None
    if as_of != AS_OF_EVENT_TIME:
        reject(
            f"{where} has as_of={as_of!r}",
            hint=f'Write as_of="{AS_OF_EVENT_TIME}": each message finds the row that was valid at its event time.',
            operator=where,
            value=repr(as_of),
        )
    if not table.has_times:
        reason = "rows with a ttl" if table.is_pushed and table.ttl_ms is not None else "no versions of its rows"
        if table.processor is not None:
            reason = "a processor, which gives rows no times"
        kind = "is a table of a lake, and" if table.from_table else f"is {table.word}, and"
        reject(
            f"{where} looks rows up as of the event time, and the table {table.table_id!r} {kind} has {reason}",
            hint="Declare a table that is pushed in versions (app.pushed_table(…) without ttl), or one whose side "
            "inputs have event times (app.table(…) of app.side_input(…, timestamp=…)); or leave as_of= out.",
            operator=where,
            table=table.table_id,
        )
    if table.sequence_by is not None:
        reject(
            f"{where} looks rows up as of the event time, and the table {table.table_id!r} has "
            f"sequence_by={table.sequence_by!r}, which keeps the newest row alone",
            hint="Leave sequence_by= out: the rows are ordered by the event time of the side input.",
            operator=where,
            table=table.table_id,
        )
    for stream_id in () if table.is_pushed else table.side_inputs:
        _check_times(stream._graph.side_inputs[stream_id], table, where)
    return stream._required_time(where, "leave as_of= out")


def _check_times(side_input: StreamDescriptor, table: TableDescriptor, where: str) -> None:
    """Reject a side input that does not tell from when its rows are valid, or may leave some out."""
    if side_input.timestamp is None:
        reject(
            f"{where} looks rows up as of the event time, and the side input {side_input.stream_id!r} of the table "
            f"{table.table_id!r} names no column of it",
            hint='Name the column from whose time on a row is valid: app.side_input(…, timestamp="at").',
            operator=where,
            stream=side_input.stream_id,
            table=table.table_id,
        )
    if side_input.on_error is not None:
        reject(
            f"{where} looks rows up as of the event time, and the side input {side_input.stream_id!r} of the table "
            f"{table.table_id!r} has on_error={side_input.on_error.text}: a row that is left out would leave an older "
            "one valid",
            hint="Leave on_error= of the side input out.",
            operator=where,
            stream=side_input.stream_id,
            table=table.table_id,
        )


def _wait_ms(table: TableDescriptor, wait: str | int | timedelta | None, as_of: object, where: str) -> int | None:
    """Return how long messages wait for late rows (ms); None: not at all."""
    if wait is None:
        return None
    if as_of is None:
        reject(
            f"{where} has wait={wait!r} and no as_of=",
            hint=f'Messages wait for rows of their time: say as_of="{AS_OF_EVENT_TIME}", or leave wait= out.',
            operator=where,
            value=repr(wait),
        )
    wait_ms = duration_ms(wait)
    if table.retain_ms is not None and wait_ms > table.retain_ms:
        reject(
            f"{where} has wait={wait!r}, and the table {table.table_id!r} keeps its rows for "
            f"{duration_text(table.retain_ms)} only",
            hint="Give the table a retain= that is at least as long as messages wait.",
            operator=where,
            table=table.table_id,
            value=repr(wait),
        )
    return wait_ms


def join_stream(
    stream: Stream[Any],
    other: object,
    function: Callable[[Any, Any], Any] | None,
    id: str | None,
    how: str,
    key: Columns | None,
    left_key: Columns | None,
    right_key: Columns | None,
    ttl: str | int | timedelta | None,
    as_of: object,
    wait: str | int | timedelta | None,
    schema: object,
    assume_partitioned_by: Columns | None,
    renamed_from: str | None,
    on_error: object,
) -> StreamJoinSpec:
    """Return the join of two streams; parameters as :meth:`MessageStream.join`."""
    if not isinstance(other, Stream):
        reject(
            f"join takes a table or a stream, not {other!r}",
            hint="Declare it first: app.pushed_table(…), app.local_table(…), app.input_stream(…).",
            operator="join",
        )
    if other is stream:
        reject(
            f"join got the very same stream twice, {stream!r}",
            hint="Aggregate or window it instead; to pair its messages join two maps of it.",
            operator="join",
        )
    if as_of is not None or wait is not None:
        said = f"as_of={as_of!r}" if as_of is not None else f"wait={wait!r}"
        reject(
            f"{named('join', id)} of two streams has {said}",
            hint="as_of= and wait= belong to joins with a table; two streams are joined within ttl=.",
            operator="join",
        )
    where = named("join", id)
    stream._check_stream(other, where)
    name = required_id(id, "join")
    check_choice("how", how, _STREAM_JOINS, where)
    if ttl is None:
        reject(
            f"{where} of two streams has no ttl: it would keep every message for ever",
            hint='Say how long a message waits for its partner, for example ttl="1 hour".',
            operator=where,
        )
    ttl_ms = duration_ms(ttl)
    if key is not None and (left_key is not None or right_key is not None):
        reject(f"{where} names key and left_key or right_key", hint="Name key, or both others.", operator=where)
    if (left_key is None) != (right_key is None):
        reject(
            f"{where} names one of left_key and right_key",
            hint="Name both, or key when they are the same.",
            operator=where,
        )
    left = _join_key(stream, key if left_key is None else left_key, where, "left")
    right = _join_key(other, key if right_key is None else right_key, where, "right")
    _check_key_count(left, right, "the other stream", where)
    shape = _declared_result(stream, function, schema, where)
    if function is None:
        shape = joined_streams_schema(stream.schema, other.schema, left, right, how, where)
    return stream._graph.add(
        StreamJoinSpec,
        name,
        inputs=(stream._operator, other._operator),
        schema=shape,
        left_key=left,
        right_key=right,
        function=function,
        how=how,
        ttl_ms=ttl_ms,
        left_time=stream._time(where),
        right_time=other._time(where),
        assume_partitioned_by=optional_columns(assume_partitioned_by, None, where),
        renamed_from=former_id(renamed_from, name, "join"),
        **_on_error(stream, on_error, function, where),
    )


def event_time_of(join: StreamJoinSpec) -> str | None:
    """Return the column that holds the event time of joined messages: that of a side that is always there.

    None when there is none.
    """
    if join.how == "full" and join.function is None:
        return None
    if join.how != "right" or join.function is not None:
        return join.left_time
    named = dict(zip(join.right_key, join.left_key, strict=True))  # the right key's columns have the left one's names
    return join.right_time and named.get(join.right_time, join.right_time)


def _check_key_count(left: tuple[str, ...], right: tuple[str, ...], other: str, where: str) -> None:
    """Reject keys of different numbers of columns."""
    if len(left) != len(right):
        reject(
            f"{where} matches the key {listed(left)} with {listed(right)} of {other}: {len(left)} columns with "
            f"{len(right)}",
            hint="Name as many key columns on both sides, in the same order.",
            operator=where,
        )


def _on_error(stream: Stream[Any], on_error: object, function: object, where: str) -> dict[str, Any]:
    """Return the fields of ``on_error=``; ``function`` is what may fail on a message."""
    fields = on_error_fields(on_error, stream._graph, where)
    if fields and function is None:
        reject(
            f"{where} has on_error= and no function",
            hint="A join without a function cannot fail on a message: leave on_error= out.",
            operator=where,
        )
    return fields


def _join_key(stream: Stream[Any], key: Columns | None, where: str, side: str) -> tuple[str, ...]:
    if key is not None:
        return key_columns(key, stream.schema, where)
    if not stream._key:
        reject(
            f"{where} has no key=, and it is not known by which key its {side} stream is partitioned",
            hint='Set key="member_id" (or left_key and right_key).',
            operator=where,
        )
    return stream._key


def _declared_result(
    stream: Stream[Any], function: Callable[[Any, Any], Any] | None, schema: object, where: str
) -> Schema | None:
    """Return the columns that the function of a join makes; None: there is no function, or it does not declare them."""
    if function is not None:
        check_callable(function, where, 2, hint="Give a callable with two parameters: lambda left, right: …")
        return declared_schema(function, schema, where) or stream.schema
    if schema is not None:
        reject(
            f"{where} has schema= and no function",
            hint="Without a function the columns of both sides are put together; "
            "leave schema= out, or give the function.",
            operator=where,
        )
    return None


def merge(streams: Sequence[Stream[Any]], id: str | None) -> MergeSpec:
    """Return the merge of ``streams``, the first of which is the one that the user called it on."""
    first = streams[0]
    if len(streams) == 1:
        reject("merge names no other stream", hint="Give the streams: views.merge(clicks).", operator="merge")
    for place, other in enumerate(streams):
        first._check_stream(other, "merge")
        if any(other is former for former in streams[:place]):
            reject(
                f"merge names {other!r} twice, which would double its messages",
                hint="Name each stream once.",
                operator="merge",
            )
    shape = merged_schema([stream.schema for stream in streams], "merge")
    return first._graph.add(MergeSpec, id, inputs=tuple(stream._operator for stream in streams), schema=shape)
