"""The partitioning of the messages of every edge: keyed, unknown, unkeyed or broadcast (rule P11).

The pass follows the key columns through the operators, whatever their names are. It knows no SQL: a selection passes on
a key column that it names plainly (``a``, ``a AS b``, ``*``), every other selection loses it. A Python callable may
have kept a key column when its output schema has it with the same type: the next keyed operator checks that while it
runs. What is lost is *unknown*, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.operator_spec import KeyedResultSpec, OperatorSpec
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    ApplyChangesSpec,
    BroadcastSpec,
    DistinctSpec,
    FilterSpec,
    FlatMapSpec,
    ForeignKeySpec,
    InputOperatorSpec,
    MapAsyncSpec,
    MapBatchesSpec,
    MapSpec,
    MergeSpec,
    PartitionBySpec,
    ReadTimeSpec,
    SelectSpec,
    SendToSpec,
    SendToTableSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TaskSpec,
    TransformSpec,
    WhereSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.output_schemas import passed_on
from airflow_samza.errors import SchemaError
from airflow_samza.planner.graphs import strong_components
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.plan import Partitioning
from airflow_samza.planner.replication import Replication
from airflow_samza.planner.stream_edges import StreamEdge, declared_kind, operators_behind
from airflow_samza.schema import Schema, key_type
from airflow_samza.system_kinds import traits_of

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec

PARTITIONER = "samza"
UNKNOWN = Partitioning("unknown")
UNKEYED = Partitioning("unkeyed")
BROADCAST = Partitioning("broadcast")
DIFFERENT = -1


@dataclass(frozen=True)
class EdgeState:
    """The partitioning, schema and partition count of the messages that an operator emits.

    ``partitions`` is their count, 0 where it is not known and :data:`DIFFERENT` where streams of several counts were
    merged; ``lost`` names the operator at which the key was lost.
    """

    partitioning: Partitioning
    schema: Schema | None
    partitions: int
    lost: str = ""


def keyed(key: Sequence[str], schema: Schema | None, partitioner: str = PARTITIONER) -> Partitioning:
    """Partitioned by these columns, with their types where the schema is known."""
    return Partitioning("keyed", tuple(key), types_of(key, schema), partitioner)


def types_of(columns: Iterable[str], schema: Schema | None) -> tuple[str | None, ...]:
    """The types by which columns are hashed; None where no schema is known."""
    return tuple(_type_of(column, schema) for column in columns)


def _type_of(column: str, schema: Schema | None) -> str | None:
    if schema is None or column not in schema:
        return None
    try:
        return key_type(schema[column].type)
    except SchemaError:
        return schema[column].type.ddl()


def stream_partitionings(
    spec: ApplicationSpec, edges: Mapping[str, StreamEdge], states: Mapping[str, EdgeState]
) -> dict[str, Partitioning]:
    """The partitioning of every stream; that of an intermediate stream has the types of what is sent to it."""
    return {stream_id: _of_stream(spec, edge, states) for stream_id, edge in edges.items()}


def track_partitionings(
    spec: ApplicationSpec, graph: JobGraph, edges: Mapping[str, StreamEdge], counts: Counts, replication: Replication
) -> dict[str, EdgeState]:
    """Return the state of what every operator emits, by operator id.

    What every task holds alike is broadcast, whatever made it. An intermediate stream may be read before its writer
    comes in the order of the graph, so writers are visited first.
    """
    states: dict[str, EdgeState] = {}
    for op in _writers_first(graph, edges):
        if isinstance(op, InputOperatorSpec):
            edge = edges[op.stream.stream_id]
            partitioning = _of_stream(spec, edge, states)
            schema = op.schema or op.stream.schema or _schema_of_writer(edge, states)
            count = counts[edge.stream_id].count if edge.stream_id in counts else 0
            states[op.op_id] = EdgeState(
                partitioning, schema, count, "" if partitioning.kind != "unkeyed" else edge.stream_id
            )
        else:
            after = AFTER[type(op)](op, [states[source.op_id] for source in op.inputs])
            if op.op_id in replication.replicated:
                after = replace(after, partitioning=BROADCAST, partitions=1)
            elif (
                after.partitioning.kind == "broadcast"
            ):  # looked up in a table of which a task has only a part: task 0 alone does
                after = replace(after, partitioning=UNKEYED, partitions=1, lost=op.name)
            states[op.op_id] = after
    return states


def _writers_first(graph: JobGraph, edges: Mapping[str, StreamEdge]) -> list[OperatorSpec]:
    """Return the operators, each after its inputs, and readers after what writes their streams.

    A stage that reads what it writes closes a cycle of streams: its types then come from the declaration only.
    """
    places = {op.op_id: place for place, op in enumerate(graph.operators)}
    following = {
        places[op.op_id]: [places[o.op_id] for o in operators_behind(op, graph, edges)] for op in graph.operators
    }
    circles = strong_components(list(following), following)
    return [graph.operators[place] for circle in reversed(circles) for place in circle]


def _schema_of_writer(edge: StreamEdge, states: Mapping[str, EdgeState]) -> Schema | None:
    sent = [states[source.op_id].schema for op in edge.writers for source in op.inputs if source.op_id in states]
    return sent[0] if edge.is_intermediate and len(sent) == 1 else None


def _of_stream(spec: ApplicationSpec, edge: StreamEdge, states: Mapping[str, EdgeState]) -> Partitioning:
    stream = edge.descriptor
    if edge.broadcast:
        return BROADCAST
    for writer in edge.writers:
        if isinstance(writer, PartitionBySpec):
            schema = _schema_of_writer(edge, states) or stream.schema
            return keyed(writer.key, schema, stream.partitioner or PARTITIONER)
    if stream.key:
        by_key = keyed(stream.key, stream.schema, stream.partitioner or traits_of(edge.kind).partitioner)
        if edge.role in (StreamRole.INPUT, StreamRole.SIDE_INPUT) and has_splits(spec, edge):
            return replace(by_key, unchecked=f"{stream.stream_id!r} declares it by key=, and files lie as they came")
        return by_key
    return UNKEYED if _comes_as_it_is(spec, edge) else UNKNOWN


def _comes_as_it_is(spec: ApplicationSpec, edge: StreamEdge) -> bool:
    # A topic was partitioned in a way that no declaration states; files, tables of a database and DataFrames were not.
    # (The stream of a push has the key of its table: rule P11.)
    if has_splits(spec, edge):
        return True
    return not declared_kind(spec, edge.descriptor) and edge.role is StreamRole.INPUT and edge.descriptor.bounded


def has_splits(spec: ApplicationSpec, edge: StreamEdge) -> bool:
    """Return whether a stream is known to be cut into partitions by files, or by ranges of another kind."""
    stream = edge.descriptor
    is_split = any(traits_of(kind).unkeyed_splits for kind in (declared_kind(spec, stream), edge.kind))
    return bool(stream.path or stream.format or stream.reader is not None or is_split)


def _messages(op: OperatorSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """The messages that arrive, or such as the operator declares."""
    return arriving[0] if op.schema is None else _through_schema(op, arriving[0], op.schema)


def _called(op: OperatorSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """The messages that a callable makes: it may have changed what is in the key's columns."""
    return _after_call(op, _messages(op, arriving))


def _after_call(op: OperatorSpec, state: EdgeState) -> EdgeState:
    if state.partitioning.kind != "keyed":
        return state
    return replace(state, partitioning=replace(state.partitioning, unchecked=f"{op.title} may have changed it"))


def _stamped(op: ReadTimeSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """The messages with the time at which they are read, in a column that may have been there."""
    before = arriving[0]
    after = _messages(op, arriving)
    return _lost(op, after) if op.column in before.partitioning.key else after


def _nothing(op: OperatorSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """Return the messages that arrive: no edge leads on from an operator that ends a stage."""
    return arriving[0]


def _keyed_results(op: KeyedResultSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    after = _renamed(op, replace(arriving[0], schema=op.schema), {column: column for column in op.key})
    return after if op.assume_partitioned_by else _verified(after)


def _distinct(op: DistinctSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    return arriving[0] if op.assume_partitioned_by else _verified(arriving[0])


def _applied(op: ApplyChangesSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    after = replace(arriving[0], schema=op.schema)
    return after if op.assume_partitioned_by else _verified(after)


def _windows(op: WindowOperatorSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    if op.fold is not None and op.schema is None:
        return _unknown(op, arriving)
    return _keyed_results(op, arriving)


def _verified(state: EdgeState) -> EdgeState:
    """The messages behind an operator that checks by which key they lie."""
    return replace(state, partitioning=replace(state.partitioning, unchecked=""))


def _looked_up(op: TableJoinSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """The stream's columns and the table's; which those are is not declared."""
    after = replace(arriving[0], schema=None) if op.schema is None else _messages(op, arriving)
    return after if op.function is None else _after_call(op, after)


def _referring(op: ForeignKeySpec, arriving: Sequence[EdgeState]) -> EdgeState:
    return _verified(arriving[0])


def _unknown(op: OperatorSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    return _lost(op, replace(arriving[0], schema=None)) if op.schema is None else _called(op, arriving)


def _through_schema(op: OperatorSpec, before: EdgeState, schema: Schema | None) -> EdgeState:
    """Key columns survive by name, when the output still has them with the type that was hashed."""
    after = replace(before, schema=schema)
    if schema is not None and schema is not before.schema:
        for column, hashed in zip(before.partitioning.key, before.partitioning.types, strict=True):
            if column not in schema or (hashed is not None and _type_of(column, schema) != hashed):
                return _lost(op, after)
    return after


def _renamed(op: OperatorSpec, before: EdgeState, names: Mapping[str, str]) -> EdgeState:
    """The key under the output's names; lost when one of its columns is not kept."""
    partitioning = before.partitioning
    if not all(column in names for column in partitioning.key):
        return _lost(op, before)
    return replace(before, partitioning=replace(partitioning, key=tuple(names[column] for column in partitioning.key)))


def _lost(op: OperatorSpec, before: EdgeState) -> EdgeState:
    if before.partitioning.kind != "keyed":
        return before
    return replace(before, partitioning=UNKNOWN, lost=op.name)


def _selected(op: SelectSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    before = arriving[0]
    passed = passed_on(op.expressions)
    names = {column: passed.name(column) for column in before.partitioning.key}
    schema = op.schema if op.schema is not None else before.schema if op.expressions == ("*",) else None
    kept = {column: name for column, name in names.items() if name is not None}
    return _renamed(op, replace(before, schema=schema), kept)


def _merged(op: MergeSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    kinds = {state.partitioning.kind for state in arriving}
    same = all(state.partitioning == arriving[0].partitioning for state in arriving)
    counts = {state.partitions for state in arriving}
    partitions = counts.pop() if len(counts) == 1 else DIFFERENT
    schema = op.schema or arriving[0].schema
    if same or _alike(arriving):
        partitioning = max(
            (state.partitioning for state in arriving), key=lambda p: sum(kind is not None for kind in p.types)
        )
        unchecked = next((s.partitioning.unchecked for s in arriving if s.partitioning.unchecked), "")
        partitioning = replace(partitioning, unchecked=unchecked)
    else:
        # Two keys in one stream: rows of one key are known to lie apart. With an unknown part it cannot be known.
        partitioning = UNKNOWN if "unknown" in kinds and "unkeyed" not in kinds else UNKEYED
    return EdgeState(partitioning, schema, partitions, op.name if partitioning.kind in ("unknown", "unkeyed") else "")


def _alike(arriving: Sequence[EdgeState]) -> bool:
    """Keyed by the same columns, with types that do not contradict each other."""
    first = arriving[0].partitioning
    return first.kind == "keyed" and all(
        (other.kind, other.key, other.partitioner) == (first.kind, first.key, first.partitioner)
        and all(a is None or b is None or a == b for a, b in zip(first.types, other.types, strict=True))
        for other in (state.partitioning for state in arriving)
    )


def _joined(op: StreamJoinSpec, arriving: Sequence[EdgeState]) -> EdgeState:
    """Rows of a join lie where its keyed side lies; a side that may be missing gives no key."""
    left, right = arriving
    partitions = max(left.partitions, right.partitions)
    sides = []
    if op.how in ("inner", "left"):
        sides.append((left, {column: column for column in left.partitioning.key}))
    if op.how in ("inner", "right"):
        sides.append((right, _names_of_right(op, left, right)))
    for side, names in sides:
        if side.partitioning.kind != "keyed" or (op.schema is None and op.function is not None and side is right):
            continue
        before = replace(side, partitions=partitions)
        if op.function is not None:
            after = _after_call(op, _through_schema(op, before, op.schema))
        else:
            after = _renamed(op, replace(before, schema=op.schema), names)
            after = after if op.assume_partitioned_by else _verified(after)
        if after.partitioning.kind == "keyed":
            return after
    return EdgeState(UNKNOWN, op.schema, partitions, op.name)


def _names_of_right(op: StreamJoinSpec, left: EdgeState, right: EdgeState) -> dict[str, str]:
    """The names that the right side's columns have in the rows of a join without a function.

    Its key's columns are those of the left key; of an inner join, because they are equal.
    """
    keys = dict(zip(op.right_key, op.left_key, strict=True))
    own = [] if left.schema is None else [name for name in right.partitioning.key if name not in left.schema]
    return {column: keys.get(column, column) for column in right.partitioning.key if column in keys or column in own}


AFTER: Mapping[type[OperatorSpec], Callable[[Any, Sequence[EdgeState]], EdgeState]] = {
    ReadTimeSpec: _stamped,
    FilterSpec: _messages,
    WhereSpec: _messages,
    MapSpec: _called,
    FlatMapSpec: _called,
    MapAsyncSpec: _called,
    MapBatchesSpec: _called,
    SelectSpec: _selected,
    TransformSpec: _unknown,
    MergeSpec: _merged,
    AggregateSpec: _keyed_results,
    WindowOperatorSpec: _windows,
    DistinctSpec: _distinct,
    ApplyChangesSpec: _applied,
    TableJoinSpec: _looked_up,
    ForeignKeySpec: _referring,
    StreamJoinSpec: _joined,
    PartitionBySpec: _nothing,
    BroadcastSpec: _nothing,
    SendToSpec: _nothing,
    SendToTableSpec: _nothing,
    SinkSpec: _nothing,
    TaskSpec: _nothing,
}
"""Effect of every kind of operator on the way in which messages lie; those of an input lie as its stream's."""
