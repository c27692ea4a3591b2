"""Random applications: each either plans or names a rule, and every plan holds what plans promise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.windows import count, tumbling
from airflow_samza.control.end_of_stream import producing_task_count, stage_output_sources, task_partitions
from airflow_samza.errors import PlanError, PlanErrors
from airflow_samza.planner.difference import difference
from airflow_samza.planner.explain import explain
from airflow_samza.planner.pictures import dot, mermaid
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from tests.support.budgets import share

ROW = "k bigint, c string, v int, at timestamp"
KEYS = ("k", "k", "k", "c")


@dataclass(frozen=True)
class Step:
    """One call of the API, on streams and tables named by their place in the list of what is there."""

    op: str
    name: str
    inputs: tuple[str, ...]
    key: str = "k"
    table: str = ""
    how: str = "inner"


@dataclass(frozen=True)
class Drawn:
    """A drawn application: everything that is declared, each under an id of its own."""

    inputs: tuple[tuple[str, str, int], ...]
    tables: tuple[tuple[str, str, str, int], ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]
    config: tuple[tuple[str, str], ...] = ()


COUNTS = st.sampled_from([4, 4, 4, 4, 1, 2, 300])
OPS = (
    "where",
    "map",
    "rename",
    "merge",
    "partition_by",
    "partition_by",
    "broadcast",
    "aggregate",
    "window",
    "join",
    "join",
    "table_join",
    "feedback",
    "send_to_table",
    "send_to",
    "sink",
)


@st.composite
def applications(draw: st.DrawFn) -> Drawn:
    keys = st.sampled_from(["k", "k", "k", "topic", "files", "c"])
    inputs = tuple((f"in-{n}", draw(keys), draw(COUNTS)) for n in range(draw(st.integers(1, 3))))
    kinds = st.sampled_from(["local", "local", "pushed"])
    tables = tuple(
        (f"t-{n}", draw(kinds), draw(st.sampled_from(KEYS)), draw(COUNTS)) for n in range(draw(st.integers(1, 2)))
    )
    there = [name for name, _, _ in inputs]
    steps = []
    for number in range(draw(st.integers(4, 14))):
        op, name = draw(st.sampled_from(OPS)), f"x-{number}"
        several = 2 if op in ("merge", "join") else 1
        if len(there) < several:
            continue
        chosen = tuple(draw(st.lists(st.sampled_from(there), min_size=several, max_size=several, unique=True)))
        able = [t for t in tables if op == "table_join" or t[1] == "local"]
        if op in ("table_join", "feedback", "send_to_table") and not able:
            continue
        table = draw(st.sampled_from(able))[0] if op in ("table_join", "feedback", "send_to_table") else ""
        steps.append(
            Step(op, name, chosen, draw(st.sampled_from(KEYS)), table, draw(st.sampled_from(["inner", "left"])))
        )
        if op not in ("send_to", "send_to_table", "sink"):
            there.append(name)
    config = draw(st.sampled_from([(), (), (("job.intermediate.stream.partitions", "4"),)]))
    return Drawn(inputs, tables, ("out",), tuple(steps), config)


def build(drawn: Drawn, order: Sequence[int] | None = None) -> ApplicationSpec:
    """The application; ``order`` prefers steps in another order, as far as their inputs allow it."""

    class Application(StreamApplication):
        name = "random"

        def describe(self, app: Any) -> None:
            reverse = -1 if order is not None else 1
            streams = {name: _input(app, name, key, partitions) for name, key, partitions in drawn.inputs[::reverse]}
            tables = {
                name: _table(app, name, kind, key, partitions)
                for name, kind, key, partitions in drawn.tables[::reverse]
            }
            outputs = {name: app.output_stream(name) for name in drawn.outputs[::reverse]}
            waiting = list(drawn.steps) if order is None else [drawn.steps[place] for place in order]
            while waiting:
                step = next(step for step in waiting if all(name in streams for name in step.inputs))
                waiting.remove(step)
                made = _call(step, [streams[name] for name in step.inputs], tables.get(step.table), outputs["out"])
                if made is not None:
                    streams[step.name] = made

    return Application().spec(dict(drawn.config))


def _input(app: Any, name: str, key: str, partitions: int) -> Any:
    more: dict[str, Any] = {"key": key} if key in KEYS else {"path": name} if key == "files" else {"bounded": False}
    return app.input_stream(name, schema=ROW, timestamp="at", partitions=partitions, **more)


def _table(app: Any, name: str, kind: str, key: str, partitions: int) -> Any:
    if kind == "local":
        return app.local_table(name, key=key, schema=ROW)
    return app.pushed_table(name, key=key, schema=ROW, partitions=partitions)


def _left(one: Any, _: Any) -> Any:
    return one


def _same(message: Any) -> Any:
    return message


def _call(step: Step, inputs: list[Any], table: Any, out: Any) -> Any:
    stream = inputs[0]
    match step.op:
        case "where":
            return stream.where("v > 0", id=step.name)
        case "map":
            return stream.map(_same, schema=ROW, id=step.name)
        case "rename":
            return stream.select("k", "upper(c) AS c", "v", "at", id=step.name).map(
                _same, schema=ROW, id=f"{step.name}-row"
            )
        case "merge":
            return stream.merge(*inputs[1:], id=step.name)
        case "partition_by":
            return stream.partition_by(step.key, id=step.name)
        case "broadcast":
            return stream.broadcast(id=step.name)
        case "aggregate":
            return stream.aggregate(step.key, id=step.name, n=count()).map(_same, schema=ROW, id=f"{step.name}-row")
        case "window":
            window = tumbling("1 minute", time="processing")
            return stream.window(window, key=step.key, id=step.name, n=count()).map(
                _same, schema=ROW, id=f"{step.name}-row"
            )
        case "join":
            return stream.join(inputs[1], _left, schema=ROW, key=step.key, ttl="1 hour", how=step.how, id=step.name)
        case "table_join":
            return stream.join(table, _left, schema=ROW, how=step.how, id=step.name)
        case "feedback":  # a stage that reads what it writes
            result = stream.join(table, _left, schema=ROW, how=step.how, id=step.name)
            result.partition_by(step.key, id=f"{step.name}-back").send_to(table, id=f"{step.name}-write")
            return result
        case "send_to_table":
            return stream.send_to(table, id=step.name)
        case "send_to":
            return stream.send_to(out, id=step.name)
        case _:
            return stream.sink(_same, id=step.name)


def outcome(spec: ApplicationSpec) -> ExecutionPlan | list[dict[str, object]]:
    """The plan, or what was rejected; anything else than a named rule fails the test."""
    try:
        return ExecutionPlanner().plan(spec)
    except PlanErrors as errors:
        return [error.to_dict() for error in errors.errors]
    except PlanError as error:
        return [error.to_dict()]


EXAMPLES = settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(applications())
def test_an_application_plans_or_names_a_rule(drawn: Drawn) -> None:
    found = outcome(build(drawn))
    if isinstance(found, list):
        assert found
        for error in found:
            assert error["rule"] in ("partition-mismatch", "partitioning-mismatch")
            assert error["hint"]
            assert str(error["sentence"]).endswith(".")


@EXAMPLES
@given(applications(), st.data())
def test_a_plan_is_deterministic_and_independent_of_declaration_order(drawn: Drawn, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(drawn.steps))))
    one, same, other = outcome(build(drawn)), outcome(build(drawn)), outcome(build(drawn, order))
    if isinstance(one, ExecutionPlan):
        assert isinstance(same, ExecutionPlan)
        assert isinstance(other, ExecutionPlan)
        assert one.to_json() == same.to_json() == other.to_json()
        assert ExecutionPlan.from_json(one.to_json()) == one
        assert difference(one, other) == ()
        for stage in one.stages:
            owned = [
                {stream for stream, _ in task_partitions(one, stage.stage_id, task)} for task in range(stage.task_count)
            ]
            for output, sources in stage_output_sources(one, stage.stage_id).items():
                enders = [task for task, streams in enumerate(owned) if streams & sources]
                assert enders == list(range(producing_task_count(one, stage.stage_id, output)))
    else:
        assert _without_places(one) == _without_places(same) == _without_places(other)


def _without_places(found: object) -> list[dict[str, Any]]:
    assert isinstance(found, list)
    return [
        {**error, "facts": {name: fact for name, fact in error["facts"].items() if name != "location"}}
        for error in found
    ]


@EXAMPLES
@given(applications())
def test_the_stage_graph_is_acyclic_and_whole(drawn: Drawn) -> None:
    spec = build(drawn)
    plan = plan_shape(spec)
    places = {stage.stage_id: place for place, stage in enumerate(plan.stages)}
    assert len(places) == len(plan.stages)
    writers = {name: stage.stage_id for stage in plan.stages for name in stage.outputs if name in spec.intermediates}
    for stage in plan.stages:
        assert all(places[above] < places[stage.stage_id] for above in stage.upstream)
        assert set(stage.upstream) == {writers[name] for name in stage.inputs if name in writers} - {stage.stage_id}
        assert stage.several_epochs == any(writers.get(name) == stage.stage_id for name in stage.inputs)
    owners: dict[str, list[str]] = {}
    for stage in plan.stages:
        for op_id in stage.operators:
            owners.setdefault(op_id, []).append(stage.stage_id)
    for operator in plan.operators:
        if operator.op != "input":
            assert len(owners[operator.op_id]) == 1
        for source in operator.inputs:
            assert set(owners[operator.op_id]) <= set(owners[source])
    for table in plan.tables:
        if table.kind == "local":
            users = {owners[op_id][0] for op_id in (*table.writers, *table.readers)}
            assert len(users) <= 1
    independent = [stage.inputs for stage in plan.stages if not stage.several_epochs]
    repeated = {inputs for inputs in independent if independent.count(inputs) > 1}
    circles = {name for stage in plan.stages if stage.several_epochs for name in stage.outputs}
    assert all(set(inputs) & circles for inputs in repeated)


@EXAMPLES
@given(applications())
def test_the_streams_of_a_join_group_have_one_count_and_each_count_a_reason(drawn: Drawn) -> None:
    plan = outcome(build(drawn))
    if isinstance(plan, ExecutionPlan):
        for group in plan.join_groups:
            assert len({plan.stream(name).partitions for name in group.streams}) <= 1
        for stream in plan.streams:
            assert not stream.broadcast or stream.partitions == 1
            assert stream.partitions == 0 or stream.reason
        for stage in plan.stages:
            counts = [plan.stream(name).partitions for name in stage.inputs if not plan.stream(name).broadcast]
            assert stage.task_count == max(counts, default=1)
        shape = plan_shape(build(drawn))
        assert shape.shape_fingerprint == plan.shape_fingerprint


@EXAMPLES
@given(applications())
def test_every_plan_can_be_shown(drawn: Drawn) -> None:
    plan = plan_shape(build(drawn))
    text = explain(plan)
    for stage in plan.stages:
        for shown in (text, dot(plan), mermaid(plan)):
            assert stage.stage_id in shown


@EXAMPLES
@given(applications())
def test_a_plan_pinned_by_itself_keeps_every_count(drawn: Drawn) -> None:
    spec = build(drawn)
    plan = outcome(spec)
    if isinstance(plan, ExecutionPlan):
        pinned = ExecutionPlanner().plan(spec, plan)
        assert pinned.fingerprint == plan.fingerprint
