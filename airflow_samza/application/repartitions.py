"""Re-partitions: intermediate streams in which every message lies with its key, or with everybody.

A stage ends at each of them.
"""

from __future__ import annotations

from airflow_samza.application.columns import Columns, key_columns
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.identifiers import checked_id
from airflow_samza.application.operator_checks import former_id, named, required_id
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import BroadcastSpec, InputOperatorSpec, PartitionBySpec
from airflow_samza.application.source_location import SourceLocation


def partition_by(
    graph: GraphBuilder,
    sender: OperatorSpec,
    key: Columns,
    id: str | None,
    system: str | None,
    renamed_from: str | None,
    event_time: str | None,
) -> InputOperatorSpec:
    """The input of the stage behind the re-partition by key; parameters as :meth:`MessageStream.partition_by`."""
    name = required_id(id, "partition_by")
    columns = key_columns(key, sender.schema, named("partition_by", id))
    location = SourceLocation.of_caller()
    stream = _intermediate(graph, sender, name, system, event_time, location, key=columns)
    graph.add(
        PartitionBySpec,
        name,
        inputs=(sender,),
        schema=sender.schema,
        location=location,
        stream=stream,
        key=columns,
        renamed_from=former_id(renamed_from, name, "partition_by"),
    )
    return graph.add_input(InputOperatorSpec, stream)


def broadcast(
    graph: GraphBuilder,
    sender: OperatorSpec,
    id: str | None,
    system: str | None,
    renamed_from: str | None,
    event_time: str | None,
) -> InputOperatorSpec:
    """The input of the stage behind the broadcast; parameters as :meth:`MessageStream.broadcast`."""
    name = required_id(id, "broadcast")
    location = SourceLocation.of_caller()
    stream = _intermediate(graph, sender, name, system, event_time, location, broadcast=True)
    graph.add(
        BroadcastSpec,
        name,
        inputs=(sender,),
        schema=sender.schema,
        location=location,
        stream=stream,
        renamed_from=former_id(renamed_from, name, "broadcast"),
    )
    return graph.add_input(InputOperatorSpec, stream)


def _intermediate(
    graph: GraphBuilder,
    sender: OperatorSpec,
    name: str,
    system: str | None,
    event_time: str | None,
    location: SourceLocation | None,
    *,
    key: tuple[str, ...] = (),
    broadcast: bool = False,
) -> StreamDescriptor:
    return graph.add_stream(
        StreamDescriptor(
            stream_id=name,
            role=StreamRole.INTERMEDIATE,
            system=None if system is None else checked_id(system, "system"),
            schema=sender.schema,
            key=key,
            partitions=1 if broadcast else None,  # rule P4
            timestamp=event_time,
            broadcast=broadcast,
            location=location,
        )
    )
