"""Streams as edges of the job graph: writers and readers of each, and whether it is bounded.

Source: planner-with-tables, "Conversion to StreamEdges".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_samza.application.descriptors import StreamDescriptor, StreamRole
from airflow_samza.application.operator_spec import OperatorSpec, RepartitioningSpec
from airflow_samza.application.operator_specs import BroadcastSpec, InputOperatorSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import reached
from airflow_samza.planner.job_graph import JobGraph

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec


@dataclass(frozen=True)
class StreamEdge:
    """One stream between operators.

    ``role`` is what it is to the application first: an input that also feeds a table is an input.

    ``side_input_of`` are the tables that it feeds.
    """

    stream_id: str
    role: StreamRole
    descriptor: StreamDescriptor
    writers: tuple[OperatorSpec, ...]
    readers: tuple[InputOperatorSpec, ...]
    bounded: bool
    broadcast: bool
    side_input_of: tuple[str, ...] = ()
    renamed_from: str | None = None
    kind: str | None = None
    """The kind of system in which it lies, where that is known."""

    @property
    def is_intermediate(self) -> bool:
        """Return whether the planner decides its partition count."""
        return self.role is StreamRole.INTERMEDIATE


def build_stream_edges(
    spec: ApplicationSpec, graph: JobGraph, kinds: Mapping[str, str] | None = None
) -> dict[str, StreamEdge]:
    """Every stream of the application by id, in the order of the ids.

    ``kinds`` are the kinds of systems that the environment binds, by stream; others are those that the application
    declares.
    """
    by_role = (
        (StreamRole.SIDE_INPUT, spec.side_inputs),
        (StreamRole.OUTPUT, spec.outputs),
        (StreamRole.INTERMEDIATE, spec.intermediates),
        (StreamRole.INPUT, spec.inputs),
    )
    descriptors = {stream_id: (role, stream) for role, streams in by_role for stream_id, stream in streams.items()}
    writers = grouped((stream_id, op) for op in graph.operators for stream_id in op.written_streams)
    readers = grouped((op.stream.stream_id, op) for op in graph.inputs)
    feeds = grouped((stream_id, table) for table in sorted(spec.tables) for stream_id in spec.tables[table].side_inputs)
    unbounded = _unbounded_streams(spec)
    edges = {}
    for stream_id in sorted(descriptors):
        role, descriptor = descriptors[stream_id]
        operators = writers.get(stream_id, [])
        edges[stream_id] = StreamEdge(
            stream_id=stream_id,
            role=role,
            descriptor=descriptor,
            writers=tuple(sorted(operators, key=lambda op: op.op_id)),
            readers=tuple(sorted(readers.get(stream_id, ()), key=lambda op: op.op_id)),
            bounded=stream_id not in unbounded,
            broadcast=descriptor.broadcast or any(isinstance(op, BroadcastSpec) for op in operators),
            side_input_of=tuple(feeds.get(stream_id, ())),
            renamed_from=next(
                (op.renamed_from for op in operators if isinstance(op, RepartitioningSpec)), descriptor.renamed_from
            ),
            kind=(kinds or {}).get(stream_id) or declared_kind(spec, descriptor),
        )
    return edges


def operators_behind(op: OperatorSpec, graph: JobGraph, edges: Mapping[str, StreamEdge]) -> Iterator[OperatorSpec]:
    """Yield the operators directly behind one, over re-partitions too."""
    yield from graph.outputs.get(op.op_id, ())
    for written in op.written_streams:
        yield from edges[written].readers


def declared_kind(spec: ApplicationSpec, stream: StreamDescriptor) -> str | None:
    """Return the kind of system that the application declares for a stream."""
    name = stream.system or spec.default_system or ""
    system = spec.systems.get(name)
    return spec.config.get(f"systems.{name}.kind") or (system.kind if system else None)


def behind_unbounded(spec: ApplicationSpec) -> set[OperatorSpec]:
    """Return the operators that an unbounded input reaches, over re-partitions too.

    There event time goes on by watermarks, and messages may wait for it.
    """
    inputs = [op for op in spec.operators if isinstance(op, InputOperatorSpec)]
    readers = grouped((op.stream.stream_id, op) for op in inputs)
    endless: list[OperatorSpec] = [op for op in inputs if op.stream.role is StreamRole.INPUT and not op.stream.bounded]

    def behind(op: OperatorSpec) -> list[OperatorSpec]:
        reading = (reader for stream_id in op.written_streams for reader in readers.get(stream_id, ()))
        return [*spec.next_operators(op), *reading]

    return reached(endless, behind)


def _unbounded_streams(spec: ApplicationSpec) -> set[str]:
    """Return the declared unbounded streams, and all that operators write which read one (not tables: rule C7)."""
    declared = {**spec.side_inputs, **spec.inputs}
    unbounded = {
        stream_id for stream_id, stream in declared.items() if not stream.bounded and stream_id not in spec.outputs
    }
    return unbounded.union(*(op.written_streams for op in behind_unbounded(spec)))
