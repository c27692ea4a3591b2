"""Runs a planner case.

Builds the application through the public API, plans it, compares counts, groups and rejections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.windows import WindowSpec, count, hopping, session, tumbling
from airflow_samza.errors import PlanErrors, SamzaError
from airflow_samza.planner.planner import ExecutionPlanner
from tests.conformance.shape import fields

ROW = "k bigint, v bigint, at timestamp"
KEY = "k"  # all streams of a case use one key
DEFAULT_TTL_MS = 3_600_000
REJECTIONS = ("partition-mismatch", "invalid-config", "host-affinity-batch", "unreachable")


def run_planner_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["graph", "expect"], ["config"])
    expect = fields(case["expect"], "expect", [], ["partitions", "groups", "reject"])
    if not expect or ("reject" in expect and len(expect) > 1):
        pytest.fail(f"unknown shape: expect is {expect!r}")
    if "reject" in expect:
        _expect_rejection(case, expect["reject"])
        return
    spec = application_of(case)
    plan = ExecutionPlanner({}, metadata_of(case)).plan(spec)
    name_of = {operator.op_id: operator.name for operator in plan.operators}
    if "partitions" in expect:
        assert {s.stream_id: s.partitions for s in plan.streams if s.role == "intermediate"} == expect["partitions"]
    if "groups" in expect:
        assert {name_of[group.join]: list(group.streams) for group in plan.join_groups} == {
            join: sorted(streams) for join, streams in expect["groups"].items()
        }
    assert all(stream.reason for stream in plan.streams if stream.partitions)


def _expect_rejection(case: Mapping[str, Any], keyword: str) -> None:
    if keyword not in REJECTIONS:
        pytest.fail(f"unknown shape: expect.reject is {keyword!r}, not one of {', '.join(REJECTIONS)}")
    with pytest.raises(SamzaError) as rejected:
        ExecutionPlanner({}, metadata_of(case)).plan(application_of(case))
    errors = rejected.value.errors if isinstance(rejected.value, PlanErrors) else (rejected.value,)
    assert {error.rule for error in errors} == {keyword}
    assert all(error.hint for error in errors)


def metadata_of(case: Mapping[str, Any]) -> dict[str, int]:
    graph = case["graph"]
    streams = [*graph["inputs"], *graph["outputs"], *graph.get("side_input_streams", ())]
    return {stream["id"]: stream["partitions"] for stream in streams}


def application_of(case: Mapping[str, Any]) -> ApplicationSpec:
    graph = fields(case["graph"], "graph", ["inputs", "outputs", "operators"], ["tables", "side_input_streams"])

    class Case(StreamApplication):
        name = "case"

        def describe(self, app: Any) -> None:
            _Builder(app, graph).build()

    return Case().spec({name: str(value) for name, value in (case.get("config") or {}).items()})


class _Builder:
    """Calls the API as the case says, in the order of the case; an operator waits until its inputs are there."""

    def __init__(self, app: Any, graph: Mapping[str, Any]) -> None:
        self.app = app
        self.graph = graph
        self.streams: dict[str, Any] = {}
        self.outputs: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        self.calls: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
            "map": lambda s, op: s.map(lambda m: m, schema=ROW, id=op["id"]),
            "filter": lambda s, op: s.filter(lambda m: True, id=op["id"]),
            "flat_map": lambda s, op: s.flat_map(lambda m: [m], schema=ROW, id=op["id"]),
            "merge": lambda s, op: s.merge(*self._inputs(op)[1:], id=op["id"]),
            "partition_by": lambda s, op: s.partition_by(KEY, id=op["stream"]),
            "broadcast": lambda s, op: s.broadcast(id=op["stream"]),
            "join": self._join,
            "table_join": lambda s, op: s.join(self.tables[op["table"]], lambda a, b: a, schema=ROW, id=op["id"]),
            "window": self._window,
            "send_to": lambda s, op: s.send_to(self.outputs[op["stream"]], id=op["id"]),
            "send_to_table": lambda s, op: s.send_to(self.tables[op["table"]], id=op["id"]),
            "sink": lambda s, op: s.sink(lambda m: None, id=op["id"]),
        }
        self.optional = {
            "partition_by": ("stream",),
            "broadcast": ("stream",),
            "join": ("ttl_ms",),
            "table_join": ("table",),
            "window": ("kind", "duration_ms", "gap_ms", "hop_ms"),
            "send_to": ("stream",),
            "send_to_table": ("table",),
        }

    def build(self) -> None:
        for stream in self.graph["inputs"]:
            fields(stream, "input", ["id", "partitions"], ["system"])
            self.streams[stream["id"]] = self.app.input_stream(
                stream["id"], system=stream.get("system"), schema=ROW, key=KEY, timestamp="at"
            )
        for stream in self.graph["outputs"]:
            fields(stream, "output", ["id", "partitions"], ["system"])
            self.outputs[stream["id"]] = self.app.output_stream(stream["id"], system=stream.get("system"))
        side_inputs = {}
        for stream in self.graph.get("side_input_streams", ()):
            fields(stream, "side input", ["id", "partitions"], ["system"])
            side_inputs[stream["id"]] = self.app.side_input(
                stream["id"], system=stream.get("system"), schema=ROW, key=KEY
            )
        for table in self.graph.get("tables", ()):
            fields(table, "table", ["id", "kind"], ["side_inputs"])
            fed = [side_inputs.get(stream, self.streams.get(stream)) for stream in table.get("side_inputs", ())]
            if table["kind"] not in (("local", "pushed") if fed else ("local", "remote")):
                pytest.fail(
                    f"unknown shape: the table {table['id']!r} is {table['kind']!r} with {len(fed)} side inputs"
                )
            if table["kind"] == "remote":
                self.tables[table["id"]] = self.app.remote_table(
                    table["id"], key=KEY, schema=ROW, reader=lambda key: None, writer=lambda key, row: None
                )
            elif fed:
                self.tables[table["id"]] = self.app.table(table["id"], key=KEY, schema=ROW, side_inputs=fed)
            else:
                self.tables[table["id"]] = self.app.local_table(table["id"], key=KEY, schema=ROW)
        waiting = list(self.graph["operators"])
        while waiting:
            ready = [op for op in waiting if all(name in self.streams for name in op["inputs"])]
            if not ready:
                pytest.fail(f"unknown shape: nothing feeds {[op['id'] for op in waiting]}")
            for op in ready:
                self._operator(op)
            waiting = [op for op in waiting if op not in ready]

    def _operator(self, op: Mapping[str, Any]) -> None:
        if op.get("op") not in self.calls:
            pytest.fail(f"unknown shape: the operator {op!r}")
        fields(op, f"operator {op['id']}", ["id", "op", "inputs"], self.optional.get(op["op"], ()))
        made = self.calls[op["op"]](self._inputs(op)[0], op)
        if made is not None:
            self.streams[op.get("stream", op["id"])] = made
            self.streams[op["id"]] = made

    def _inputs(self, op: Mapping[str, Any]) -> list[Any]:
        return [self.streams[name] for name in op["inputs"]]

    def _join(self, stream: Any, op: Mapping[str, Any]) -> Any:
        other = self._inputs(op)[1]
        return stream.join(
            other, lambda a, b: a, schema=ROW, key=KEY, ttl=op.get("ttl_ms", DEFAULT_TTL_MS), id=op["id"]
        )

    def _window(self, stream: Any, op: Mapping[str, Any]) -> Any:
        keyed, _, kind = op["kind"].rpartition("_")
        if keyed not in ("", "keyed"):
            pytest.fail(f"unknown shape: the window {op!r}")
        made = stream.window(_window_spec(kind, op), id=op["id"], key=KEY if keyed else None, v=count())
        return made.map(lambda m: m, schema=ROW, id=f"{op['id']}-row")  # the rows of a case have one schema


def _window_spec(kind: str, op: Mapping[str, Any]) -> WindowSpec:
    if kind == "tumbling":
        return tumbling(op["duration_ms"])
    if kind == "hopping":
        return hopping(op["duration_ms"], op["hop_ms"])
    if kind == "session":
        return session(op["gap_ms"] if "gap_ms" in op else op["duration_ms"])
    pytest.fail(f"unknown shape: the window {op!r}")
