"""Checks of table declarations: lengths of time, changelogs, processors of side inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.application.callables import check_callable, reject_async_methods
from airflow_samza.application.columns import check_column
from airflow_samza.application.declarations.streams import declared_stream
from airflow_samza.application.descriptors import ROW_DELETED, StreamDescriptor, StreamRole, TableDescriptor
from airflow_samza.application.identifiers import is_system_stream, parts_of
from airflow_samza.application.rejections import reject
from airflow_samza.errors import BadId
from airflow_samza.schema import Schema


def changelog_stream(table: TableDescriptor, name: str) -> StreamDescriptor:
    """Return the changelog stream of a table: ``system.stream``, or a stream of the default system."""
    if not is_system_stream(name.strip()):
        reject(
            f"Table {table.table_id!r} has the changelog {name!r}, which is no stream",
            hint='Write "system.stream", or the name of a stream in the default system.',
            kind=BadId,
            value=name,
        )
    system, stream_id, topic = parts_of(name)
    return declared_stream(
        stream_id, StreamRole.OUTPUT, system=system or None, schema=table.schema, key=table.key, topic=topic
    )


def with_changelog(table: TableDescriptor, changelog: object) -> tuple[tuple[str, str], ...]:
    """Return the options of a table, which say that its rows are lost with the run where it has no changelog."""
    if not isinstance(changelog, bool | str):
        reject(
            f"Table {table.table_id!r} has changelog={changelog!r}",
            hint='Write True or False, or the stream to which changes go: "system.stream".',
            table=table.table_id,
        )
    return table.options if changelog else tuple(sorted((*table.options, ("changelog", "false"))))


def checked_processor(processor: object, where: str) -> Any:
    """Return the factory of a processor of side inputs, or its name; None: each message is a row."""
    if processor is None:
        return None
    if isinstance(processor, str):
        module, _, attribute = processor.replace(":", ".").rpartition(".")
        if not module or not all(part.isidentifier() for part in (*module.split("."), attribute)):
            reject(
                f"{where} has processor={processor!r}, which names nothing that can be imported",
                hint='Write "package.module:factory".',
                value=processor,
            )
        return processor
    if not isinstance(processor, type) and hasattr(processor, "process") and not callable(processor):
        reject(
            f"{where} got a processor that is made already",
            hint="Give its factory, (config, metrics) -> processor: each task makes its own.",
            value=repr(processor),
        )
    check_callable(
        processor,
        f"the processor factory of {where}",
        2,
        hint="Give a callable (config, metrics) -> SideInputsProcessor.",
    )
    reject_async_methods(processor, f"the processor of {where}", "process")
    return processor


def lake_stream(
    table: TableDescriptor,
    system: str | None,
    from_table: str | None,
    options: Mapping[str, object] | None,
    partitions: int | None,
    partitioner: str,
) -> StreamDescriptor:
    """Return the side input that is a table of a lake, which every task reads whole, as it is."""
    if from_table is None or system is None:
        word, lacking = ("from_table", "system") if from_table is not None else ("options", "from_table")
        reject(
            f"The table {table.table_id!r} has {word}=, and no {lacking}=",
            hint='Name the table and its system: from_table="web.members", system="lake".',
            table=table.table_id,
        )
    if partitions is not None or partitioner != "samza":
        word = "partitions" if partitions is not None else "partitioner"
        reject(
            f"The table {table.table_id!r} has from_table=, which every task reads whole, and {word}=",
            hint=f"Leave {word}= out; or feed the table by a side input or by pushes.",
            table=table.table_id,
        )
    return declared_stream(
        table.table_id,
        StreamRole.SIDE_INPUT,
        system=system,
        schema=table.schema,
        table=from_table,
        broadcast=True,
        options=options,
    )


def rows_of(stream: StreamDescriptor) -> Schema | None:
    """Return the columns of the rows of which a side input's messages are changes."""
    if stream.events is None or stream.schema is None:
        return stream.schema
    return Schema(tuple(field for field in stream.schema.fields if field.name != ROW_DELETED))


_ORDERED = ("bigint", "int", "smallint", "tinyint", "timestamp", "timestamp_ntz", "date")


def checked_sequence(
    table: TableDescriptor, sequence_by: object, streams: Sequence[StreamDescriptor], where: str
) -> str:
    """Return the column that orders the changes of a table, if all of its side inputs have it."""
    if not isinstance(sequence_by, str) or not sequence_by.strip():
        reject(
            f"{where} has sequence_by={sequence_by!r}",
            hint='Name the column that orders the changes of a key: sequence_by="lsn".',
            table=table.table_id,
        )
    if table.processor is not None:
        reject(
            f"{where} has sequence_by={sequence_by!r} and a processor, which gets the messages as they come",
            hint="Leave one of them out.",
            table=table.table_id,
        )
    for stream in streams:
        check_column(sequence_by, stream.schema, f"sequence_by of {where}, fed by {stream.stream_id!r}")
        if stream.schema is None:
            reject(
                f"{where} has sequence_by={sequence_by!r}, and the columns of its side input {stream.stream_id!r} are "
                "not known",
                hint="Declare them: schema= of the side input.",
                table=table.table_id,
            )
        kind = stream.schema[sequence_by].type
        if kind.name not in _ORDERED:
            reject(
                f"Column {sequence_by!r} of the side input {stream.stream_id!r} is of type {kind.ddl()}, which orders "
                f"no changes of {where}",
                hint="Order them by a whole number, a timestamp or a date.",
                column=sequence_by,
            )
    return sequence_by
