"""Random applications with broadcasts, merges, tables and joins give what plain Python gives.

Every message counts once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, assume, given, settings, strategies as st

from airflow_samza import count, stream_application
from airflow_samza.errors import PlanError
from airflow_samza.testing import TestDriver
from tests.support.budgets import share
from tests.support.planner_reference import Node

ROW = "k bigint, v bigint"
KINDS = [
    "filter",
    "merge",
    "merge",
    "partition_by",
    "broadcast",
    "broadcast",
    "write",
    "write",
    "look_up",
    "look_up",
    "join",
    "aggregate",
]
Bag = Counter[int]


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Tables are written first and looked up then, so that what a lookup finds does not hang on the order of messages."""
    counts = draw(st.sampled_from([(3,), (1, 3)]))
    nodes = [
        Node(f"in-{place}", "input", count=draw(st.sampled_from(counts))) for place in range(draw(st.integers(1, 2)))
    ]
    looked_up: set[str] = set()
    for place in range(draw(st.integers(3, 9))):
        there = [node.name for node in nodes if node.kind != "write"]
        kind = draw(st.sampled_from(KINDS))
        several = 2 if kind in ("merge", "join") else 1
        if len(there) < several:
            continue
        sources = tuple(draw(st.lists(st.sampled_from(there), min_size=several, max_size=several, unique=True)))
        table = draw(st.sampled_from(["t-1", "t-2"])) if kind in ("write", "look_up") else ""
        if kind == "write" and table in looked_up:
            continue
        looked_up.update({table} if kind == "look_up" else ())
        nodes.append(Node(f"x-{place}", kind, sources, table=table))
    return nodes


def _same(left: Any, _: Any) -> Any:
    return left


def application(nodes: list[Node]) -> Any:
    def describe(app: Any) -> None:
        streams: dict[str, Any] = {}
        tables = {name: app.local_table(name, key="k", schema=ROW) for name in ("t-1", "t-2")}
        for node in nodes:
            name, sources = node.name, [streams[source] for source in node.sources]
            match node.kind:
                case "input":
                    streams[name] = app.input_stream(name, schema=ROW, key="k", partitions=node.count)
                case "filter":
                    streams[name] = sources[0].filter(lambda row: row.k % 3 != 0, id=name)
                case "merge":
                    streams[name] = sources[0].merge(sources[1], id=name)
                case "partition_by":
                    streams[name] = sources[0].partition_by("k", id=name)
                case "broadcast":
                    streams[name] = sources[0].broadcast(id=name)
                case "write":
                    sources[0].send_to(tables[node.table], id=name)
                case "look_up":
                    streams[name] = sources[0].join(tables[node.table], _same, schema=ROW, id=name)
                case "join":
                    streams[name] = sources[0].join(sources[1], _same, schema=ROW, key="k", ttl="1 hour", id=name)
                case "aggregate":
                    counted = sources[0].aggregate("k", id=name, n=count())
                    streams[name] = counted.map(lambda row: {"k": row.k, "v": row.n}, schema=ROW, id=f"{name}-row")
        for name, stream in streams.items():
            stream.send_to(app.output_stream(f"out-{name}"), id=f"send-{name}")

    return stream_application("random")(describe)


def evaluate(nodes: list[Node], given: dict[str, list[int]]) -> dict[str, Bag]:
    """The keys that come out of every node, with how often; ``given`` holds those of inputs."""
    bags: dict[str, Bag] = {}
    tables: dict[str, set[int]] = {"t-1": set(), "t-2": set()}
    for node in nodes:
        bag = [bags[source] for source in node.sources]
        match node.kind:
            case "input":
                bags[node.name] = Counter(given[node.name])
            case "filter":
                bags[node.name] = Counter({k: n for k, n in bag[0].items() if k % 3 != 0})
            case "merge":
                bags[node.name] = bag[0] + bag[1]
            case "write":
                tables[node.table] |= set(bag[0])
            case "look_up":
                bags[node.name] = Counter({k: n for k, n in bag[0].items() if k in tables[node.table]})
            case "join":
                bags[node.name] = Counter({k: n * bag[1][k] for k, n in bag[0].items() if bag[1][k]})
            case "aggregate":
                bags[node.name] = Counter(dict.fromkeys(bag[0], 1))
            case _:
                bags[node.name] = bag[0]
    return bags


@settings(
    max_examples=share(80), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(
    graphs(),
    st.lists(st.integers(0, 8), max_size=8),
    st.lists(st.integers(0, 8), max_size=4),
    st.sampled_from(["staged", "pipelined"]),
)
def test_every_planned_application_gives_what_python_gives(
    nodes: list[Node], one: list[int], other: list[int], mode: str
) -> None:
    driver = TestDriver(application(nodes))
    try:
        _ = driver.plan
    except PlanError:
        assume(False)
    given = {"in-0": one, "in-1": other}
    for node in nodes:
        if node.kind == "input":
            driver.pipe(node.name, [{"k": k, "v": 1} for k in given[node.name]])
    driver.run(mode=mode, epoch_messages=None if mode == "staged" else 3)
    for name, bag in evaluate(nodes, given).items():
        assert Counter(row.k for row in driver.output(f"out-{name}")) == bag, name
