"""Tables of side inputs that cannot be filled as they are declared.

They are found when a run is planned, before anything is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ProcessorMissing, SamzaError, SchemaError, UnknownName
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.schema import Schema
from airflow_samza.task.tables.side_inputs import processor_factory


def side_input_errors(spec: ApplicationSpec, plan: ExecutionPlan, streams: Mapping[str, Schema]) -> list[SamzaError]:
    """Return the errors of the tables that the stages use.

    ``streams`` are the columns of side inputs, as far as they are known.
    """
    used = sorted({table_id for stage in plan.stages for table_id in stage.tables})
    errors = [
        error
        for table_id in used
        for error in _errors(spec.table(table_id), streams)
        if spec.table(table_id).side_inputs
    ]
    fed = sorted(
        {
            stream_id
            for table_id in used
            for stream_id in spec.table(table_id).side_inputs
            if spec.table(table_id).processor
        }
    )
    return [
        *errors,
        *(error for stream_id in fed if stream_id in streams for error in _no_key(spec, stream_id, streams[stream_id])),
    ]


def _no_key(spec: ApplicationSpec, stream_id: str, columns: Schema) -> Iterator[SamzaError]:
    """Return why the messages that a processor gets have no key.

    A stream that is only named declares none.
    """
    stream = spec.side_inputs[stream_id]
    missing = next((name for name in stream.key if name not in columns), None)
    if missing is not None and not any(
        stream_id in table.side_inputs and table.key == stream.key for table in spec.tables.values()
    ):
        yield UnknownName(
            f"The side input {stream_id!r} has no column {missing!r}, which is its key.",
            hint=f"{did_you_mean(missing, columns.names)}Its columns are {', '.join(columns.names)}: correct key= of "
            "the side input.",
            name=missing,
            stream=stream_id,
        )


def _errors(table: TableDescriptor, streams: Mapping[str, Schema]) -> Iterator[SamzaError]:
    if table.processor is None:
        for stream_id in table.side_inputs:
            if stream_id in streams:
                yield from _no_rows(table, stream_id, streams[stream_id])
        return
    try:
        processor_factory(table)
    except SamzaError as error:
        yield error
    if table.schema is None:
        yield SchemaError(
            f"The table {table.table_id!r} has a processor, and the columns of its rows are not declared.",
            hint='Declare them: schema= of the table (a dataclass, or "member_id bigint, tier string").',
            table=table.table_id,
        )


def _no_rows(table: TableDescriptor, stream_id: str, columns: Schema) -> Iterator[SamzaError]:
    """Return why the messages of a stream are no rows of a table."""
    key = next((name for name in table.key if name not in columns), None)
    if key is not None:
        yield UnknownName(
            f"The side input {stream_id!r} has no column {key!r}, which is the key of the table {table.table_id!r}.",
            hint=f"{did_you_mean(key, columns.names)}Its columns are {', '.join(columns.names)}: correct key= of the "
            "table, or give a processor that makes rows.",
            name=key,
            table=table.table_id,
            stream=stream_id,
        )
        return
    missing = next(
        (name for name in (table.schema.names if table.schema is not None else ()) if name not in columns), None
    )
    if missing is not None:
        yield ProcessorMissing(
            f"The messages of the side input {stream_id!r} are no rows of the table {table.table_id!r}: they have no "
            f"column {missing!r}.",
            hint=f"{did_you_mean(missing, columns.names)}Their columns are {', '.join(columns.names)}: give processor= "
            "to make rows of them, or correct the table's schema.",
            store=table.table_id,
            stream=stream_id,
            column=missing,
        )
