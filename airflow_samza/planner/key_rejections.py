"""Joins, keyed windows and aggregations whose messages do not lie as they need (rule P11).

Equal partition counts are not co-partitioning: the rows of one key must lie in one partition, and for a join in the
partition of the same number on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_samza.application.operator_spec import KeyedSpec, OperatorSpec
from airflow_samza.application.operator_specs import (
    ForeignKeySpec,
    StreamJoinSpec,
    TableJoinSpec,
)
from airflow_samza.errors import PartitioningMismatch, PlanError
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.join_groups import streams_arriving
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.partitioning import DIFFERENT, PARTITIONER, UNKNOWN, EdgeState, has_splits, keyed, types_of
from airflow_samza.planner.paths import operator_label, path_to_join
from airflow_samza.planner.plan import KeyCheck, Partitioning
from airflow_samza.planner.stream_edges import StreamEdge
from airflow_samza.planner.wording import columns_text, partition_before
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    from airflow_samza.application.application import ApplicationSpec


@dataclass(frozen=True)
class _Side:
    """One side of a join: its name in errors, its partitioning, and the columns that are compared."""

    partitioning: Partitioning
    key: tuple[str, ...]
    schema: Schema | None
    lost: str
    partitions: int
    op: OperatorSpec | None = None
    stream: str = ""
    table: str = ""

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams behind it: found by a walk, so only for messages."""
        return streams_arriving(self.op) if self.op is not None else (self.stream,) if self.stream else ()

    @property
    def name(self) -> str:
        """The side as errors name it."""
        if self.op is None:
            return f"{self.stream!r} (side input of table {self.table})" if self.stream else f"table {self.table}"
        return _listed(self.streams) + (f" (into table {self.table})" if self.table else "")

    @property
    def positions(self) -> tuple[int, ...] | None:
        """The places of the partition columns in the join's key; None when one is not part of it."""
        if not all(column in self.key for column in self.partitioning.key):
            return None
        return tuple(self.key.index(column) for column in self.partitioning.key)


def check_keys(
    spec: ApplicationSpec,
    graph: JobGraph,
    edges: Mapping[str, StreamEdge],
    states: Mapping[str, EdgeState],
    streams: Mapping[str, Partitioning],
    counts: Counts,
) -> KeyFindings:
    """Check every join, keyed window and aggregation of the application, by operator id."""
    files = frozenset(stream_id for stream_id, edge in edges.items() if has_splits(spec, edge))
    findings = KeyFindings(graph, edges, states, streams, counts, files)
    for join in graph.joins:
        if isinstance(join, StreamJoinSpec):
            findings.stream_join(join)
        else:
            findings.table_join(join)
    for op in sorted(graph.operators, key=lambda op: op.op_id):
        if op.grouped_by is not None:
            findings.keyed_operator(op, op.grouped_by) if op.grouped_by else findings.unkeyed_operator(op)
    return findings


@dataclass(frozen=True)
class KeyFindings:
    """Errors and warnings about an application's keys, and what operators have to check while they run."""

    graph: JobGraph
    edges: Mapping[str, StreamEdge]
    states: Mapping[str, EdgeState]
    streams: Mapping[str, Partitioning]
    counts: Counts
    files: frozenset[str]
    """The streams whose partitions are parts of files, or ranges of another kind."""
    errors: list[PlanError] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    checks: list[KeyCheck] = field(default_factory=list)

    def add_check(self, op: OperatorSpec, side: int, partitioning: Partitioning, partitions: int) -> None:
        """Note that an operator has to check where its messages lie, unless that is certain."""
        if not partitioning.unchecked or partitions in (0, 1):
            return
        if partitioning.partitioner != PARTITIONER:
            self.warnings.append(
                f"{operator_label(op)} goes by {columns_text(partitioning.key)}, by which its messages may not be "
                f"partitioned: {partitioning.unchecked}, and where the partitioner {partitioning.partitioner!r} puts a "
                f"key is not known. {partition_before(partitioning.key)}."
            )
            return
        check = KeyCheck(op.op_id, side, partitioning.key, partitions, partitioning.unchecked)
        if check not in self.checks:
            self.checks.append(check)

    def stream_join(self, join: StreamJoinSpec) -> None:
        """Check that the rows of one key of two streams meet."""
        left, right = (
            self._side(
                op,
                key or self.states[op.op_id].partitioning.key,
                _assumed(join.assume_partitioned_by, key, other),
            )
            for op, key, other in zip(
                join.inputs, (join.left_key, join.right_key), (join.right_key, join.left_key), strict=True
            )
        )
        if not self._types_agree(join, left, right) or _in_one_partition(left, right):
            return
        sound = [self._lies_by_key(join, side, join, number) for number, side in enumerate((left, right))]
        if all(sound):
            self._lie_together(join, left, right)

    def table_join(self, join: TableJoinSpec) -> None:
        """Check that messages meet the rows that they look up."""
        stream = self._side(join.inputs[0], join.key, _assumed(join.assume_partitioned_by, join.key, join.table.key))
        table = _Side(UNKNOWN, join.table.key, join.table.schema, "", 0, table=join.table.table_id)
        sources = list(self._sources_of(join))
        if not self._types_agree(join, stream, table):
            return
        constraining = [source for source in sources if source.partitioning.kind != "broadcast"]
        if not sources:
            self.warnings.append(
                f"Nothing fills the table {join.table.table_id!r} that {operator_label(join)} looks up: no send_to, "
                "no side input."
            )
        if not constraining or _in_one_partition(
            stream, *constraining
        ):  # every task holds the whole table, or one task everything
            return
        sound = [self._lies_by_key(join, stream, join)]
        sound += [
            self._lies_by_key(join, side, None if join.assume_partitioned_by else side.op) for side in constraining
        ]
        if sound[0]:
            for source, source_sound in zip(constraining, sound[1:], strict=True):
                if source_sound:
                    self._lie_together(join, stream, source)

    def keyed_operator(self, op: OperatorSpec, key: tuple[str, ...]) -> None:
        """Check that the messages of one key come to one task."""
        state = self.states[op.inputs[0].op_id]
        partitioning = state.partitioning
        if state.partitions == 1 or partitioning.kind == "broadcast":
            return
        is_certain = partitioning.kind == "keyed" and not partitioning.unchecked
        if _assumes(op) and not is_certain:
            self._reject_coming_files(op, key)
        if _assumes(op) and not is_certain and state.partitions != DIFFERENT:
            return
        if partitioning.kind == "keyed" and set(partitioning.key) <= set(key) and state.partitions != DIFFERENT:
            self.add_check(op, 0, partitioning, state.partitions)
            return
        names = streams_arriving(op)
        if partitioning.kind == "keyed" and state.partitions == DIFFERENT:
            why = f"{_listed(names)} have different partition counts"
        else:
            why = _how_it_lies(_listed(names), partitioning, state.lost, self.edges, several=len(names) > 1)
        self.errors.append(
            PartitioningMismatch(
                f"{operator_label(op)} is keyed by {columns_text(key)}, but the rows of one key may lie in several "
                f"partitions: {why}.",
                hint=f"{partition_before(key)}.",
                operator=op.op_id,
                key=key,
                streams=names,
                partitioned_by=partitioning.key,
                location=str(op.location) if op.location else None,
            )
        )

    def _reject_coming_files(self, op: OperatorSpec, key: tuple[str, ...]) -> None:
        """Reject to assume where the keys of files lie that come while others are read, in any partition."""
        for stream_id in streams_arriving(op):
            stream = self.edges[stream_id].descriptor
            if stream_id in self.files and (not stream.bounded or stream.slice_by == "checkpoint"):
                self.errors.append(
                    PartitioningMismatch(
                        f"{operator_label(op)} has assume_partitioned_by=, and the files of {stream_id!r} that come "
                        "from one run or epoch to the next are read in whichever partition has room: rows of one key "
                        "lie in several.",
                        hint=f"Leave it out, and put .partition_by({columns_text(key)}, id=…) before.",
                        operator=op.op_id,
                        key=key,
                        stream=stream_id,
                        location=str(op.location) if op.location else None,
                    )
                )

    def unkeyed_operator(self, op: OperatorSpec) -> None:
        """Warn of an operator without a key where several tasks each make a result of what they read, as in Samza.

        Worth a warning where there are several.
        """
        state = self.states[op.inputs[0].op_id]
        if state.partitions in (0, 1) or state.partitioning.kind == "broadcast":  # 0: not counted yet
            return
        count = "several" if state.partitions == DIFFERENT else state.partitions
        self.warnings.append(
            f"{operator_label(op)} has no key, so each task makes its own result of what it reads: "
            f"{_listed(streams_arriving(op))} has {count} partitions. "
            "Give it a key; or put .broadcast(id=…) before it, for one result of all messages."
        )

    def _side(self, op: OperatorSpec, key: tuple[str, ...], assumed: tuple[str, ...]) -> _Side:
        state = self.states[op.op_id]
        partitioning = state.partitioning
        # Files lie by their sizes, whatever somebody assumes: no key of theirs has the number that it has elsewhere.
        of_files = bool(assumed) and not self.files.isdisjoint(streams_arriving(op))
        if assumed and not of_files and (partitioning.kind in ("unknown", "unkeyed") or partitioning.unchecked):
            partitioning = keyed(assumed, state.schema, PARTITIONER)
        return _Side(partitioning, key, state.schema, state.lost, state.partitions, op)

    def _sources_of(self, join: TableJoinSpec) -> Iterator[_Side]:
        table = join.table
        for writer in self.graph.table_writers.get(table.table_id, ()):
            state = self.states[writer.op_id]
            schema = state.schema or table.schema
            yield _Side(
                state.partitioning, table.key, schema, state.lost, state.partitions, writer, table=table.table_id
            )
        for stream_id in table.side_inputs:
            if stream_id in self.edges:
                partitioning = self.streams[stream_id]
                if partitioning.unchecked:  # no operator checks the rows that fill a table
                    partitioning = Partitioning("unkeyed", unchecked=partitioning.unchecked)
                count = self.counts[stream_id].count if stream_id in self.counts else 0
                yield _Side(
                    partitioning, table.key, table.schema, stream_id, count, stream=stream_id, table=table.table_id
                )

    def _types_agree(self, join: StreamJoinSpec | TableJoinSpec, left: _Side, right: _Side) -> bool:
        types = zip(
            left.key, right.key, types_of(left.key, left.schema), types_of(right.key, right.schema), strict=False
        )
        wrong = [
            (a, b, one, other) for a, b, one, other in types if one is not None and other is not None and one != other
        ]
        for a, b, one, other in wrong:
            self.errors.append(
                PartitioningMismatch(
                    f"{operator_label(join)} compares {a!r} of {left.name} ({one}) with {b!r} of {right.name} "
                    f"({other}): equal values of different types lie in different partitions.",
                    hint=f'Cast one side before its partition_by: .select(…, "CAST({b} AS {one.upper()}) AS {b}").',
                    join=join.name,
                    operator=join.op_id,
                    column=a,
                    type=one,
                    other_column=b,
                    other_type=other,
                    location=str(join.location) if join.location else None,
                )
            )
        return not wrong

    def _lies_by_key(
        self, join: StreamJoinSpec | TableJoinSpec, side: _Side, checking: OperatorSpec | None, number: int = 0
    ) -> bool:
        """Return whether the rows of one join key lie in one partition.

        An unknown partitioning is not looked at further; it warns, unless the join assumes one. ``checking`` is the
        operator that gets the rows as its input ``number``, and checks them where that is not certain.
        """
        partitioning = side.partitioning
        if partitioning.kind == "broadcast":
            return False  # one partition that all tasks read: the counts alone decide (rule P4)
        if partitioning.kind == "unknown":
            if not join.assume_partitioned_by:
                self.warnings.append(
                    f"{operator_label(join)}: {self._how_side_lies(side)}; rows of one key that lie apart "
                    f"would not meet. Re-partition it by {columns_text(side.key)}, or set "
                    f"assume_partitioned_by={columns_text(side.key)}."
                )
            return False
        if partitioning.kind == "keyed" and side.positions is not None:
            if checking is not None:
                self.add_check(checking, number, partitioning, side.partitions)
            return True
        streams = side.streams
        path = path_to_join(self.graph, self.edges, streams[0], join) if streams else ()
        lies = self._how_side_lies(side)
        said = bool(join.assume_partitioned_by) and not self.files.isdisjoint(streams)
        verb = "looks keys up" if isinstance(join, ForeignKeySpec) else "joins"
        self.errors.append(
            PartitioningMismatch(
                f"{operator_label(join)} {verb} by {columns_text(side.key)}, but {lies}; the path to the join is "
                f"{' → '.join(path)}.",
                hint=_way_out(side)
                + (" Files lie by their sizes, so assume_partitioned_by= says nothing of them." if said else ""),
                join=join.name,
                operator=join.op_id,
                stream=streams[0] if streams else None,
                key=side.key,
                partitioning=partitioning.kind,
                partitioned_by=partitioning.key,
                path=path,
                location=str(join.location) if join.location else None,
            )
        )
        return False

    def _how_side_lies(self, side: _Side) -> str:
        return _how_it_lies(side.name, side.partitioning, side.lost, self.edges, several=len(side.streams) > 1)

    def _lie_together(self, join: StreamJoinSpec | TableJoinSpec, left: _Side, right: _Side) -> None:
        one, other = left.partitioning, right.partitioning
        types = zip(one.types, other.types, strict=False)
        same_types = all(a is None or b is None or a == b for a, b in types)
        if left.positions == right.positions and one.partitioner == other.partitioner and same_types:
            return
        self.errors.append(
            PartitioningMismatch(
                f"{operator_label(join)} joins {left.name}, partitioned by {_described(one)}, with {right.name}, "
                f"partitioned by {_described(other)}: rows of one key lie in partitions of different numbers.",
                hint=_together(join, left, right),
                join=join.name,
                operator=join.op_id,
                key=left.key,
                partitioned_by=one.key,
                other_partitioned_by=other.key,
                location=str(join.location) if join.location else None,
            )
        )


def _together(join: StreamJoinSpec | TableJoinSpec, left: _Side, right: _Side) -> str:
    """Return what brings the sides of a join together; a side input has no stage that could re-partition it."""
    if isinstance(join, TableJoinSpec) and join.table.side_inputs and right.partitioning.partitioner != PARTITIONER:
        return (
            f"{right.name} is not re-partitioned: look it up by a stream that lies like it; or give it one partition "
            f"and broadcast=True; or read it with app.input_stream(…), .partition_by({columns_text(right.key)}, id=…), "
            "and send that to app.local_table(…)."
        )
    return (
        f"Re-partition {left.name} by all of the join's key: .partition_by({columns_text(left.key)}, id=…); "
        f"the other side by {columns_text(right.key)}."
    )


def _assumes(op: OperatorSpec) -> bool:
    return isinstance(op, KeyedSpec) and bool(op.assume_partitioned_by)


def _in_one_partition(*sides: _Side) -> bool:
    """Return whether all sides of a join lie in one partition.

    Rows cannot lie apart there, whatever the keys (rule P11).
    """
    return all(side.partitions == 1 for side in sides)


def _assumed(assumed: tuple[str, ...], own: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """Return the assumed columns under this side's names; they may be those of the join's other side."""
    if not assumed or all(column in own for column in assumed):
        return assumed
    names = dict(zip(other, own, strict=False))
    return tuple(names.get(column, column) for column in assumed)


def _way_out(side: _Side) -> str:
    if side.op is None:
        return (
            f"Key the topic by {columns_text(side.key)} (key= of the stream; of files it is no proof), have every task "
            "read all of it (broadcast=True in place of key= and partitions=), or push the table with a "
            "SamzaTablePushOperator, which keys it."
        )
    into = "sending it to the table" if side.table else "the join"
    more = (
        ""
        if side.partitioning.kind == "keyed"
        else f" If it is keyed already, declare key={columns_text(side.key)} on the stream."
    )
    return f"Put .partition_by({columns_text(side.key)}, id=…) before {into}.{more}"


def _how_it_lies(
    name: str, partitioning: Partitioning, lost: str, edges: Mapping[str, StreamEdge], *, several: bool
) -> str:
    verb, whose = ("are", "their") if several else ("is", "its")
    if partitioning.kind == "keyed":
        return f"{name} {verb} partitioned by {_described(partitioning)}"
    if partitioning.kind == "unkeyed":
        why = partitioning.unchecked or f"{whose} rows come from files, or from streams with other keys"
        return f"{name} {verb} not keyed ({why})"
    where = "" if not lost or lost in edges else f" ({whose} key was lost at {lost!r})"
    return f"how {name} {verb} partitioned is not declared{where}"


def _described(partitioning: Partitioning) -> str:
    columns = ", ".join(f"{c} {t}" if t else c for c, t in zip(partitioning.key, partitioning.types, strict=True))
    return columns if partitioning.partitioner == PARTITIONER else f"{columns} with {partitioning.partitioner!r}"


def _listed(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return " and ".join(map(repr, names)) or "its input"
    return f"{names[0]!r}, {names[1]!r} and {len(names) - 2} other streams"
