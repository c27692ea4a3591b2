"""Re-partitions: intermediate streams by key, and broadcasts, which every task reads whole.

A stage ends at each of them.
"""

from __future__ import annotations

from typing import Any

from airflow_samza.application.columns import Columns, key_columns
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.identifiers import checked_id
from airflow_samza.application.operator_checks import former_id, named, required_id
from airflow_samza.application.operator_specs import BroadcastSpec, InputOperatorSpec, PartitionBySpec
from airflow_samza.application.rejections import SourceLocation
from airflow_samza.application.stream import Stream


def partition_by(
    sender: Stream[Any], key: Columns, id: str | None, system: str | None, renamed_from: str | None
) -> InputOperatorSpec:
    """Return the input of the stage behind the re-partition; parameters as :meth:`MessageStream.partition_by`."""
    name = required_id(id, "partition_by")
    columns = key_columns(key, sender.schema, named("partition_by", id))
    location = SourceLocation.of_caller()
    stream = _intermediate(sender, name, system, location, key=columns)
    sender._graph.add(
        PartitionBySpec,
        name,
        inputs=(sender._operator,),
        schema=sender.schema,
        location=location,
        stream=stream,
        key=columns,
        renamed_from=former_id(renamed_from, name, "partition_by"),
    )
    return sender._graph.add_input(InputOperatorSpec, stream)


def broadcast(sender: Stream[Any], id: str | None, system: str | None, renamed_from: str | None) -> InputOperatorSpec:
    """Return the input of the stage behind the broadcast; parameters as :meth:`MessageStream.broadcast`."""
    name = required_id(id, "broadcast")
    location = SourceLocation.of_caller()
    stream = _intermediate(sender, name, system, location, broadcast=True)
    sender._graph.add(
        BroadcastSpec,
        name,
        inputs=(sender._operator,),
        schema=sender.schema,
        location=location,
        stream=stream,
        renamed_from=former_id(renamed_from, name, "broadcast"),
    )
    return sender._graph.add_input(InputOperatorSpec, stream)


def _intermediate(
    sender: Stream[Any],
    name: str,
    system: str | None,
    location: SourceLocation | None,
    *,
    key: tuple[str, ...] = (),
    broadcast: bool = False,
) -> StreamDescriptor:
    return sender._graph.add_stream(
        StreamDescriptor(
            stream_id=name,
            role=StreamRole.INTERMEDIATE,
            system=None if system is None else checked_id(system, "system"),
            schema=sender.schema,
            key=key,
            partitions=1 if broadcast else None,  # rule P4
            timestamp=sender._event_time,
            broadcast=broadcast,
            location=location,
        )
    )
