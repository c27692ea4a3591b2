"""The ends of a stream: output streams and tables, and the rules of what may be written to each.

A stage ends at an intermediate stream, too: one by key, or a broadcast, which every task reads whole.
"""

from __future__ import annotations

from typing import Any

from airflow_samza.application.bad_records import on_error_fields
from airflow_samza.application.columns import Columns, check_column, key_columns
from airflow_samza.application.declarations.remote_access import GIVE_WRITER
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole, TableDescriptor, TableKind
from airflow_samza.application.expectations import check_expected_columns, referring
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_checks import checked_id, former_id, named, required_id
from airflow_samza.application.operator_specs import (
    BroadcastSpec,
    InputOperatorSpec,
    PartitionBySpec,
    SendToSpec,
    SendToTableSpec,
)
from airflow_samza.application.output_schemas import unwritable
from airflow_samza.application.rejections import reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.stream import OutputStream, SideInput, Stream, Table
from airflow_samza.schema import Schema


def send(stream: Stream[Any], target: object, id: str | None, on_error: object) -> None:
    """Send every message of a stream to an output stream or a table; parameters as :meth:`MessageStream.send_to`."""
    _check_on_error(target, on_error)
    if isinstance(target, OutputStream):
        schema = stream.schema
        output = check_stream_takes(stream._graph, target, schema, "send_to")
        if output.shared and output.timestamp is not None:
            stream._time(f"send_to of the shared stream {output.stream_id!r}")
        before, beside = referring(stream, output.expect), output.dead_letters
        stream._graph.add(SendToSpec, id, inputs=(before,), schema=schema, stream=output, side_outputs=beside)
    elif isinstance(target, Table):
        _send_to_table(stream, target, id, on_error)
    elif isinstance(target, Stream):
        reject(
            f"send_to got {target!r}, a stream that is read",
            hint="Send to app.output_stream(…); to read what another part of the application made, "
            "use its stream directly.",
            operator="send_to",
        )
    elif isinstance(target, SideInput):
        reject(
            f"send_to got the side input {target.descriptor.stream_id!r}, which is only read",
            hint="Send to app.output_stream(…).",
        )
    else:
        reject(f"send_to got {target!r}", hint='Send to app.output_stream("…") or to a table.', operator="send_to")


def _send_to_table(stream: Stream[Any], target: Table[Any], id: str | None, on_error: object) -> None:
    """Write every message to a table, and to its changelog if it has one."""
    graph, sender, schema = stream._graph, stream._operator, stream.schema
    table = target.descriptor
    graph.check_same_application(target, table.table_id, "send_to")
    _check_table_writable(table)
    for column in table.key:
        check_column(column, schema, f"the key of table {table.table_id!r}")
    _check_fits(table.schema, schema, f"table {table.table_id!r}")
    more = on_error_fields(on_error, graph, named("send_to", id))
    time = stream._time("send_to") if table.ttl_ms is not None else None
    graph.add(SendToTableSpec, id, inputs=(sender,), schema=schema, table=table, time_column=time, **more)
    changelog = graph.changelogs.get(table.table_id)
    if changelog is not None:
        graph.add(SendToSpec, None, inputs=(referring(stream, changelog.expect),), schema=schema, stream=changelog)


def check_stream_takes(
    graph: GraphBuilder, target: OutputStream, schema: Schema | None, where: str
) -> StreamDescriptor:
    """Return the output stream, if it is of this application and declares no column that the schema lacks."""
    stream = target.descriptor
    graph.check_same_application(target, stream.stream_id, where)
    _check_fits(stream.schema, schema, f"output stream {stream.stream_id!r}")
    for column in (*stream.key, *([stream.timestamp] if stream.timestamp else [])):
        check_column(column, schema, f"output stream {stream.stream_id!r}")
    check_expected_columns(stream.expect, stream.schema or schema, f"output stream {stream.stream_id!r}")
    return stream


def _check_on_error(target: object, on_error: object) -> None:
    """Reject ``on_error=`` where nothing of sending fails message by message."""
    table = getattr(target, "descriptor", None)
    if on_error != "fail" and not (isinstance(table, TableDescriptor) and table.kind is TableKind.REMOTE):
        reject(
            "send_to has on_error=, which is for remote tables: streams and local tables take every message",
            hint="Leave it out; messages that do not fit are found by the operators before.",
            operator="send_to",
        )


def _check_table_writable(table: TableDescriptor) -> None:
    if table.kind is TableKind.PUSHED:  # rule S6
        reject(
            f"Table {table.table_id!r} is filled by its side inputs and read-only for the application",
            hint="Write to app.local_table(…), or send the messages to an output stream.",
            table=table.table_id,
        )
    if table.kind is TableKind.REMOTE and table.writer is None:
        reject(
            f"The remote table {table.table_id!r} has no writer",
            hint=GIVE_WRITER,
            table=table.table_id,
        )


def _check_fits(declared: Schema | None, actual: Schema | None, target: str) -> None:
    """Reject messages that do not fit the declared schema of what they are sent to, where both are known."""
    if declared is None or actual is None:
        return
    problem = unwritable(declared, actual)
    if problem:
        reject(
            f"Messages cannot be written to {target} as it is declared: {problem}",
            hint="Bring them to the declared columns with select or map, or declare the schema that they have.",
            target=target,
        )


def partition_by(
    sender: Stream[Any], key: Columns, id: str | None, system: str | None, renamed_from: str | None
) -> InputOperatorSpec:
    """Return the input of the stage behind the re-partition; parameters as :meth:`MessageStream.partition_by`."""
    name = required_id(id, "partition_by")
    columns = key_columns(key, sender.schema, named("partition_by", id))
    return _through(sender, PartitionBySpec, name, system, renamed_from, columns)


def broadcast(sender: Stream[Any], id: str | None, system: str | None, renamed_from: str | None) -> InputOperatorSpec:
    """Return the input of the stage behind the broadcast; parameters as :meth:`MessageStream.broadcast`."""
    return _through(sender, BroadcastSpec, required_id(id, "broadcast"), system, renamed_from)


def _through(
    sender: Stream[Any],
    kind: type[PartitionBySpec | BroadcastSpec],
    name: str,
    system: str | None,
    renamed_from: str | None,
    key: tuple[str, ...] | None = None,
) -> InputOperatorSpec:
    """Return the input of the stage behind an intermediate stream by key; without one it is a broadcast."""
    location = SourceLocation.of_caller()
    stream = sender._graph.add_stream(
        StreamDescriptor(
            stream_id=name,
            role=StreamRole.INTERMEDIATE,
            system=None if system is None else checked_id(system, "system"),
            schema=sender.schema,
            key=key or (),
            partitions=1 if key is None else None,  # rule P4
            timestamp=sender._event_time,
            broadcast=key is None,
            location=location,
        )
    )
    sender._graph.add(
        kind,
        name,
        inputs=(sender._operator,),
        schema=sender.schema,
        location=location,
        stream=stream,
        renamed_from=former_id(renamed_from, name, kind.op),
        **({} if key is None else {"key": key}),
    )
    return sender._graph.add_input(stream)
