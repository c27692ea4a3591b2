"""Rule P9 (deterministic plans), rule P10 (pinned counts), and the plan as a value."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.application.task_application import task_application
from airflow_samza.application.windows import approx_count_distinct, count
from airflow_samza.errors import PlanChanged, PlanError, UnknownName
from airflow_samza.planner.difference import difference
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner
from tests.support.planner_applications import ROW, files, keyed, left, plan_of


def stateful(app: Any, partitions: int = 8, name: str = "p", more: int = 0) -> None:
    former = {"renamed_from": "p"} if name != "p" else {}
    files(app, "in", partitions).partition_by("k", id=name, **former).aggregate("k", id="n", n=count()).sink(print)
    if more:
        files(app, "big", more).sink(print)


def test_p9_the_same_application_gives_equal_bytes() -> None:
    assert plan_of(stateful).to_json() == plan_of(stateful).to_json()


def test_p9_the_order_of_declarations_plays_no_part() -> None:
    def describe(app: Any, order: list[str]) -> None:
        streams = {name: keyed(app, name) for name in order}
        out = {name: app.output_stream(f"out-{name}") for name in order}
        for name in order:
            streams[name].where("v > 0", id=f"w-{name}").send_to(out[name], id=f"s-{name}")
        pair = streams["a"].join(streams["b"], left, schema=ROW, key="k", ttl="1 hour", id="j")
        pair.sink(print, id="end")

    one, other = (plan_of(partial(describe, order=order)) for order in (["a", "b", "c"], ["c", "b", "a"]))
    assert one.to_json() == other.to_json()


def test_p9_a_plan_does_not_depend_on_the_hashes_of_the_process() -> None:
    program = (
        "from tests.unit.planner.test_plan import stateful\n"
        "from tests.support.planner_applications import plan_of\n"
        "print(plan_of(lambda app: stateful(app, more=3)).to_json())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_p10_inferred_counts_of_a_stateful_application_are_pinned() -> None:
    last = plan_of(stateful)
    now = plan_of(lambda app: stateful(app, more=64), pinned=last)
    assert (now.stream("p").partitions, now.stream("p").reason) == (8, f"pinned by plan {last.fingerprint}")
    assert plan_of(lambda app: stateful(app, more=64)).stream("p").partitions == 64
    changed = plan_of(stateful, {"job.intermediate.stream.partitions": "3"}, pinned=last)
    assert changed.stream("p").partitions == 8


def test_p10_a_renamed_stream_keeps_its_count() -> None:
    now = plan_of(lambda app: stateful(app, name="by-k", more=64), pinned=plan_of(stateful))
    assert now.stream("by-k").partitions == 8


def test_p10_a_changed_count_of_a_stateful_application_is_rejected() -> None:
    with pytest.raises(PlanChanged) as rejected:
        plan_of(lambda app: stateful(app, 16), pinned=plan_of(stateful))
    assert rejected.value.facts["stream"] == "in"
    assert (rejected.value.facts["partitions"], rejected.value.facts["former_partitions"]) == (16, 8)
    assert "Give 'in' its 8 partitions back" in rejected.value.hint


def test_p10_an_application_without_state_may_change() -> None:
    def describe(app: Any, partitions: int) -> None:
        files(app, "in", partitions).partition_by("k", id="p").sink(print)

    now = plan_of(lambda app: describe(app, 16), pinned=plan_of(lambda app: describe(app, 8)))
    assert now.stream("p").partitions == 16


class Plain:
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...


class Timed(Plain):
    def on_timer(self, key: Any, time: int, collector: Any, coordinator: Any) -> None: ...


@pytest.mark.parametrize(
    ("task", "store", "keeps"),
    [
        (Plain, False, False),
        (Plain, True, True),
        (Timed, False, True),
        (lambda: Timed(), False, True),
        (partial(Timed), False, True),
        (partial(Plain), False, False),
    ],
)
def test_p10_a_task_keeps_state_in_stores_and_timers(task: Any, store: bool, keeps: bool) -> None:
    def planned(partitions: int, pinned: ExecutionPlan | None = None) -> ExecutionPlan:
        def describe(app: Any) -> None:
            app.input_stream("in", schema="k int")
            app.task(task)
            if store:
                app.store("seen", key="int", value="int")

        return ExecutionPlanner({}, {"in": partitions}).plan(task_application("a")(describe).spec(), pinned)

    if not keeps:
        assert planned(4, planned(2)).stream("in").partitions == 4
        return
    with pytest.raises(PlanChanged, match="task-task keep state by the old partitions"):
        planned(4, planned(2))


@pytest.mark.parametrize("low_level", [False, True])
def test_p10_what_only_uses_a_remote_table_keeps_no_state(low_level: bool) -> None:
    def planned(partitions: int, pinned: ExecutionPlan | None = None) -> ExecutionPlan:
        def describe(app: Any) -> None:
            views = app.input_stream("in", schema="k int", partitions=partitions)
            rates = app.remote_table("rates", key="k", schema="k int", writer=lambda key, row: None)
            if low_level:
                app.task(Plain)
            else:
                views.send_to(rates)

        made = task_application("a") if low_level else stream_application("a")
        return ExecutionPlanner({}, {}).plan(made(describe).spec(), pinned)

    assert planned(4, planned(2)).stream("in").partitions == 4


def test_p10_the_plan_of_another_application_is_rejected() -> None:
    last = plan_of(stateful)
    other = ExecutionPlan.from_json(last.to_json().replace('"application":"app"', '"application":"other"'))
    with pytest.raises(PlanChanged, match="belongs to other-1"):
        plan_of(stateful, pinned=other)


def test_a_plan_survives_json_and_pickle() -> None:
    plan = plan_of(stateful)
    for copy in (ExecutionPlan.from_json(plan.to_json()), pickle.loads(pickle.dumps(plan))):
        assert copy == plan
        assert copy.fingerprint == plan.fingerprint
        assert copy.to_json() == plan.to_json()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"operators": 1}'])
def test_text_that_is_no_plan_is_rejected_with_a_sentence(text: str) -> None:
    with pytest.raises(PlanError, match="not a plan"):
        ExecutionPlan.from_json(text)


def test_the_fingerprint_leaves_reasons_and_warnings_out() -> None:
    def describe(app: Any, partitions: int | None) -> None:
        files(app, "in", 8).partition_by("k", id="p").sink(print)

    one = plan_of(lambda app: describe(app, 8))
    other = plan_of(lambda app: describe(app, 8), {"job.intermediate.stream.partitions": "8"})
    assert one.stream("p").reason != other.stream("p").reason
    assert one.fingerprint == other.fingerprint


def test_the_fingerprint_changes_with_an_expression() -> None:
    def describe(app: Any, condition: str) -> None:
        keyed(app, "in").where(condition).sink(print)

    assert (
        plan_of(lambda app: describe(app, "v > 1")).fingerprint
        != plan_of(lambda app: describe(app, "v > 2")).fingerprint
    )


def test_the_fingerprint_changes_with_the_accuracy_of_an_approximate_count() -> None:
    def describe(app: Any, **rsd: float) -> None:
        counted = approx_count_distinct("v", **rsd)
        keyed(app, "in").aggregate("k", id="per-key", values=counted).sink(print)

    usual, exact = plan_of(describe), plan_of(lambda app: describe(app, rsd=0.01))
    assert exact.fingerprint != usual.fingerprint == plan_of(lambda app: describe(app, rsd=0.05)).fingerprint
    assert difference(usual, exact) == (
        "Operator aggregate per-key changed its aggregations: it was values=approx_count_distinct(v) and is "
        "values=approx_count_distinct(v, rsd=0.01).",
    )


def test_the_fingerprint_changes_with_what_is_expected_of_an_input() -> None:
    def describe(app: Any, **expected: Any) -> None:
        keyed(app, "in", **expected).sink(print)

    plans = [plan_of(describe), *(plan_of(partial(describe, expect=[text])) for text in ("v > 1", "v > 2"))]
    assert len({plan.fingerprint for plan in plans}) == 3
    assert difference(plans[1], plans[2]) == ("Operator input in changed its expect: it was v > 1 and is v > 2.",)


def test_the_difference_of_two_plans_tells_what_becomes_of_messages_of_an_input_that_fail() -> None:
    def describe(app: Any, **more: Any) -> None:
        keyed(app, "in", **more).sink(print)

    told = difference(plan_of(describe), plan_of(partial(describe, on_error="drop", schema="k bigint, at timestamp")))
    assert told[0].startswith("Stream 'in' changed its schema: ")
    assert told[1:] == ("Operator input in changed its on error: it was none and is drop.",)


def test_an_unknown_stage_is_named_with_the_known_ones() -> None:
    with pytest.raises(UnknownName) as rejected:
        plan_of(stateful).stage("by-member")
    assert "in, p" in rejected.value.hint


def test_planning_and_showing_a_plan_load_no_heavy_module() -> None:
    program = (
        "import sys\n"
        "from tests.support.planner_applications import files, plan_of\n"
        "from airflow_samza.planner.explain import explain\n"
        "from airflow_samza.planner.pictures import dot, mermaid\n"
        "plan = plan_of(lambda app: files(app, 'in', 8).partition_by('k', id='p').sink(print))\n"
        "explain(plan), dot(plan), mermaid(plan)\n"
        "print([name for name in ('airflow', 'pyspark', 'pyarrow', 'numpy', 'pandas', 'sqlglot') if name in "
        "sys.modules])"
    )
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_json_lists_streams_under_the_names_of_samza() -> None:
    data = json.loads(plan_of(stateful).to_json())
    assert (data["sourceStreams"], data["sinkStreams"], data["intermediateStreams"]) == (["in"], [], ["p"])
    assert data["streams"][1]["reason"] == "max of inputs and outputs"


def test_streams_that_nothing_reads_or_writes_are_warned_of() -> None:
    def describe(app: Any) -> None:
        keyed(app, "b", 4).partition_by("c", id="unread")
        files(app, "idle")
        app.output_stream("silent")

    warnings = "\n".join(plan_of(describe).warnings)
    assert "'unread' is written, but nothing reads it" in warnings
    assert "'idle' is declared, but nothing reads it" in warnings
    assert "'silent' is declared, but nothing is sent to it" in warnings


def test_what_runs_do_not_depend_on_is_no_part_of_the_fingerprint() -> None:
    plan = plan_of(stateful)
    said = dataclasses.replace(plan, warnings=("Take care.",), key_checks=())
    streams = tuple(dataclasses.replace(stream, reason="another") for stream in plan.streams)
    assert said.fingerprint == dataclasses.replace(plan, streams=streams).fingerprint == plan.fingerprint
    more = dataclasses.replace(plan.streams[0], partitions=plan.streams[0].partitions + 1)
    assert dataclasses.replace(plan, streams=(more, *plan.streams[1:])).fingerprint != plan.fingerprint


def test_a_table_is_found_by_its_id() -> None:
    def describe(app: Any) -> None:
        names = app.local_table("names", key="k", schema=ROW)
        keyed(app, "b").send_to(names)
        keyed(app, "a").join(names, left, schema=ROW, id="j").sink(print)

    assert plan_of(describe).table("names").table_id == "names"
    with pytest.raises(UnknownName, match="names"):
        plan_of(stateful).table("names")
