"""Stages: the parts of the operator graph between intermediate streams, and their ids (rule P7).

Operators linked by their outputs, and the writers and readers of one local table, form a stage. Sharing an input links
nothing. Stages that read exactly the same inputs and do not depend on each other are merged; stages that depend on each
other in a circle become one. An id is made of a stage's input streams: stable from run to run, safe in topic and task
names.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.grouping import grouped
from airflow_samza.planner.graphs import strong_components, upstream_first
from airflow_samza.planner.job_graph import JobGraph
from airflow_samza.planner.partition_counts import Counts
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stream_edges import StreamEdge

# The other tasks of a Dag's task group for an application; a stage must not take their names.
RESERVED = frozenset({"plan", "cleanup"})

# Airflow takes task ids of 250 characters, with the ids of the groups around them; topics of some systems take 249.
LONGEST = 100

_SHOWN = 3


@dataclass(frozen=True)
class _Part:
    """A stage in the making: places of its operators in the graph's order, and the streams it touches."""

    operators: tuple[int, ...]
    inputs: frozenset[str]
    outputs: frozenset[str]
    tables: frozenset[str]
    side_inputs: frozenset[str]
    circular: bool = False


def cut_stages(graph: JobGraph) -> tuple[Stage, ...]:
    """The stages, each after its upstream stages; task counts are 1 until :func:`with_task_counts` sets them."""
    parts = _merge_equal_readers(_condense_circles(_linked_parts(graph)))
    names = name_stages([(part.inputs, part.outputs, part.circular) for part in parts])
    writers = _writers(parts)
    stages = {
        names[place]: Stage(
            stage_id=names[place],
            operators=tuple(graph.operators[index].op_id for index in part.operators),
            inputs=tuple(sorted(part.inputs)),
            outputs=tuple(sorted(part.outputs)),
            side_inputs=tuple(sorted(part.side_inputs)),
            tables=tuple(sorted(part.tables)),
            upstream=tuple(
                sorted({names[w] for s in part.inputs | part.side_inputs for w in writers.get(s, ()) if w != place})
            ),
            several_epochs=part.circular,
        )
        for place, part in enumerate(parts)
    }
    ordered = upstream_first({stage_id: stage.upstream for stage_id, stage in stages.items()})
    return tuple(stages[stage_id] for stage_id in ordered)


def with_task_counts(stages: Sequence[Stage], counts: Counts, edges: Mapping[str, StreamEdge]) -> tuple[Stage, ...]:
    """A stage has as many tasks as its largest input that is not broadcast; 1 when all are."""
    return tuple(
        replace(
            stage,
            task_count=max(
                (counts[s].count for s in stage.inputs if not edges[s].broadcast and s in counts), default=1
            ),
        )
        for stage in stages
    )


def _linked_parts(graph: JobGraph) -> list[_Part]:
    linked: dict[int, list[int]] = defaultdict(list)

    def link(one: int, other: int) -> None:
        linked[one].append(other)
        linked[other].append(one)

    place_of = {op.op_id: place for place, op in enumerate(graph.operators)}
    table_users: dict[str, int] = {}
    members = [place for place, op in enumerate(graph.operators) if not isinstance(op, InputOperatorSpec)]
    for place in members:
        op = graph.operators[place]
        for source in op.inputs:
            if not isinstance(source, InputOperatorSpec):
                link(place_of[source.op_id], place)
        for table in op.tables:
            if table.kind is TableKind.LOCAL and not table.side_inputs:
                link(table_users.setdefault(table.table_id, place), place)
    return [_part(graph, places, place_of) for places in strong_components(members, linked)]


def _part(graph: JobGraph, places: Sequence[int], place_of: Mapping[str, int]) -> _Part:
    operators = [graph.operators[place] for place in places]
    # Each stage reads its own copy of an input.
    inputs = [source for op in operators for source in op.inputs if isinstance(source, InputOperatorSpec)]
    tables = [table for op in operators for table in op.tables]
    return _Part(
        operators=tuple(sorted({*places, *(place_of[source.op_id] for source in inputs)})),
        inputs=frozenset(source.stream.stream_id for source in inputs),
        outputs=frozenset(stream for op in (*operators, *inputs) for stream in op.written_streams),
        tables=frozenset(table.table_id for table in tables),
        side_inputs=frozenset(stream for table in tables for stream in table.side_inputs),
    )


def _merge_equal_readers(parts: Sequence[_Part]) -> list[_Part]:
    """Stages of the same inputs become one, unless one depends on the other.

    Of two stages that read the same streams, one depends on the other only when what they read is written behind one of
    them, which then stands in a circle. So it is enough to leave those in circles alone; what a side input brings
    counts as an input here.
    """
    written = _writers(parts)
    alone = [part for part in parts if part.circular]
    readers = grouped(
        (part.inputs.union(s for s in part.side_inputs if s in written), part) for part in parts if not part.circular
    )
    return [*alone, *(_union(together) for together in readers.values())]


def _condense_circles(parts: Sequence[_Part]) -> list[_Part]:
    """Make one stage of those that read what they write, over any of them."""
    readers = grouped((s, place) for place, part in enumerate(parts) for s in part.inputs | part.side_inputs)
    following = {place: [r for s in part.outputs for r in readers.get(s, ())] for place, part in enumerate(parts)}
    components = strong_components(list(following), following)
    circles = [group for group in components if len(group) > 1 or group[0] in following[group[0]]]
    taken = {place for circle in circles for place in circle}
    rest = [part for place, part in enumerate(parts) if place not in taken]
    return [*rest, *(replace(_union([parts[place] for place in circle]), circular=True) for circle in circles)]


def _writers(parts: Sequence[_Part]) -> dict[str, list[int]]:
    return grouped((stream_id, place) for place, part in enumerate(parts) for stream_id in part.outputs)


def _union(parts: Sequence[_Part]) -> _Part:
    return _Part(
        operators=tuple(sorted({place for part in parts for place in part.operators})),
        inputs=frozenset().union(*(part.inputs for part in parts)),
        outputs=frozenset().union(*(part.outputs for part in parts)),
        tables=frozenset().union(*(part.tables for part in parts)),
        side_inputs=frozenset().union(*(part.side_inputs for part in parts)),
    )


def name_stages(stages: Sequence[tuple[frozenset[str], frozenset[str], bool]]) -> list[str]:
    """The ids of stages given as (inputs, outputs, whether it reads what it writes), in the same order.

    A stage is named after its inputs, a circular one after those that it does not write itself. Where that leaves two
    stages with one name, their outputs distinguish them, and at last a number by the order of what they read and write.

    >>> name_stages([(frozenset({"by-member"}), frozenset({"by-country"}), False)])
    ['by-member']
    """
    first = [_after_inputs(inputs - outputs if circular else inputs, circular) for inputs, outputs, circular in stages]
    second = list(first)
    for places in _shared(first).values():
        for place in places:
            second[place] = _safe(
                f"{first[place]}-to-{_listed(stages[place][1])}" if stages[place][1] else first[place]
            )
    taken = set(second)
    final = list(second)
    for name, places in sorted(_shared(second).items()):
        ordered = sorted(
            places, key=lambda place: (sorted(stages[place][0]), sorted(stages[place][1]), stages[place][2])
        )
        number = 2
        for place in ordered[1:]:
            while f"{name}-{number}" in taken:
                number += 1
            final[place] = f"{name}-{number}"
            taken.add(final[place])
    return final


def _shared(names: Iterable[str]) -> dict[str, list[int]]:
    places = grouped((name, place) for place, name in enumerate(names))
    return {name: where for name, where in places.items() if len(where) > 1}


def _after_inputs(inputs: Iterable[str], circular: bool) -> str:
    name = _listed(inputs) + ("-loop" if circular else "")
    return _safe(f"{name}-stage" if name in RESERVED else name)


def _listed(streams: Iterable[str]) -> str:
    ordered = sorted(streams)
    if len(ordered) <= _SHOWN:
        return "-and-".join(ordered)
    # A digest instead of a number: two stages that share their first streams stay apart, whatever else is planned.
    digest = hashlib.sha256("\n".join(ordered).encode()).hexdigest()[:6]
    return f"{ordered[0]}-and-{len(ordered) - 1}-more-{digest}"


def _safe(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", name)
    if plain == name and len(name) <= LONGEST:
        return name
    return f"{plain[: LONGEST - 7]}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"
