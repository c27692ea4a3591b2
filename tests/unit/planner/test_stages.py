"""Rule P7: where the graph is cut, what is merged, and the names of stages."""

from __future__ import annotations

import re
from typing import Any

from airflow_samza.application.task_api import StreamTask
from airflow_samza.application.task_application import TaskApplication, task_application
from airflow_samza.application.windows import count
from airflow_samza.planner.explain import explain
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner, plan_shape
from airflow_samza.planner.stages import LONGEST, name_stages
from tests.support.planner_applications import ROW, files, keyed, left, plan_of, spec_of


def stages(plan: ExecutionPlan) -> dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    return {stage.stage_id: (stage.inputs, stage.outputs, stage.upstream) for stage in plan.stages}


def circular(app: Any) -> None:
    """A stage that reads what it writes.

    The join writes its result back through a partition_by into the table that it reads.
    """
    table = app.local_table("state", key="k", schema=ROW)
    results = files(app, "in").partition_by("k", id="by-k").join(table, left, how="left", schema=ROW, id="j")
    results.partition_by("k", id="feedback").send_to(table)


def test_a_stage_ends_at_partition_by_and_is_named_after_what_starts_it() -> None:
    def describe(app: Any) -> None:
        out = app.output_stream("out")
        files(app, "in").where("v > 0").partition_by("k", id="by-k").partition_by("c", id="by-c").send_to(out)

    assert stages(plan_of(describe)) == {
        "in": (("in",), ("by-k",), ()),
        "by-k": (("by-k",), ("by-c",), ("in",)),
        "by-c": (("by-c",), ("out",), ("by-k",)),
    }


def test_stages_with_the_same_inputs_are_merged_so_that_the_input_is_read_once() -> None:
    def describe(app: Any) -> None:
        source = files(app, "in")
        source.send_to(app.output_stream("raw"))
        source.partition_by("k", id="by-k").sink(print)
        source.partition_by("c", id="by-c").sink(print)

    assert [(s.stage_id, s.outputs) for s in plan_of(describe).stages] == [
        ("in", ("by-c", "by-k", "raw")),
        ("by-c", ()),
        ("by-k", ()),
    ]


def test_sharing_an_input_does_not_link_stages_of_other_inputs() -> None:
    def describe(app: Any) -> None:
        a = keyed(app, "a")
        a.sink(print)
        a.join(keyed(app, "b"), left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    assert stages(plan_of(describe)) == {"a": (("a",), (), ()), "a-and-b": (("a", "b"), (), ())}


def test_a_later_reader_of_the_same_input_stays_apart_from_what_it_depends_on() -> None:
    def describe(app: Any) -> None:
        a = keyed(app, "a")
        a.join(a.partition_by("k", id="p"), left, schema=ROW, key="k", ttl="1 hour", id="j").sink(print)

    assert stages(plan_of(describe)) == {"a": (("a",), ("p",), ()), "a-and-p": (("a", "p"), (), ("a",))}


def test_writers_and_readers_of_a_local_table_are_one_stage() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW)
        keyed(app, "w").send_to(table)
        keyed(app, "r").join(table, left, schema=ROW, id="j").sink(print)

    (stage,) = plan_of(describe).stages
    assert (stage.stage_id, stage.inputs, stage.tables) == ("r-and-w", ("r", "w"), ("t",))


def test_readers_of_a_pushed_table_are_stages_of_their_own() -> None:
    def describe(app: Any) -> None:
        table = app.pushed_table("t", key="k", schema=ROW, partitions=8)
        for name in ("a", "b"):
            keyed(app, name).join(table, left, schema=ROW, id=f"j-{name}").sink(print)

    plan = plan_of(describe)
    assert [stage.stage_id for stage in plan.stages] == ["a", "b"]
    assert all(stage.side_inputs == ("t-push",) for stage in plan.stages)


def test_stages_in_a_circle_are_one_that_runs_several_epochs() -> None:
    plan = plan_of(circular)
    assert [(s.stage_id, s.several_epochs, s.inputs) for s in plan.stages] == [
        ("in", False, ("in",)),
        ("by-k-loop", True, ("by-k", "feedback")),
    ]
    assert plan.stages[1].upstream == ("in",)


def test_a_circle_over_several_stages_is_condensed() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("state", key="k", schema=ROW)
        first = files(app, "in").partition_by("k", id="by-k").join(table, left, how="left", schema=ROW, id="j")
        first.partition_by("c", id="away").partition_by("k", id="home").send_to(table)

    plan = plan_of(describe)
    assert [(s.stage_id, s.inputs, s.several_epochs) for s in plan.stages][1] == (
        "by-k-loop",
        ("away", "by-k", "home"),
        True,
    )


def test_a_stage_has_as_many_tasks_as_its_largest_input_that_is_not_broadcast() -> None:
    def describe(app: Any) -> None:
        files(app, "a", 3).merge(files(app, "b", 9), files(app, "c", 2).broadcast(id="all")).sink(print)
        files(app, "d", 5).broadcast(id="alone").sink(print)

    plan = plan_of(describe)
    assert plan.stage("a-and-all-and-b").task_count == 9
    assert plan.stage("alone").task_count == 1


def test_the_shape_at_author_time_has_the_stages_of_the_plan() -> None:
    for describe in (
        circular,
        lambda app: files(app, "in", 4).partition_by("k", id="p").aggregate("k", id="n", n=count()).sink(print),
    ):
        shape, plan = plan_shape(spec_of(describe)), plan_of(describe)
        assert stages(shape) == stages(plan)
        assert shape.shape_only
        assert shape.shape_fingerprint == plan.shape_fingerprint
        assert shape.fingerprint != plan.fingerprint


def test_another_map_renames_no_stage() -> None:
    def describe(app: Any, maps: int) -> None:
        source = files(app, "in")
        for _ in range(maps):
            source = source.map(lambda m: m)
        source.partition_by("k", id="by-k").sink(print)

    one, two = plan_of(lambda app: describe(app, 0)), plan_of(lambda app: describe(app, 2))
    assert one.shape_fingerprint == two.shape_fingerprint
    assert one.fingerprint != two.fingerprint


def test_stage_ids_are_unique_safe_and_not_too_long() -> None:
    many = frozenset(f"a-rather-long-stream-name-{number:03}" for number in range(60))
    other = many - {"a-rather-long-stream-name-059"}
    given = [
        (many, frozenset({"x"}), False),
        (other, frozenset({"x"}), False),
        (frozenset({"s" * 300}), frozenset[str](), False),
        (frozenset({"a.b/c"}), frozenset[str](), False),
        (frozenset({"plan"}), frozenset[str](), False),
        (frozenset({"cleanup"}), frozenset[str](), False),
        (frozenset({"a", "b"}), frozenset({"o"}), False),
        (frozenset({"a-and-b"}), frozenset({"p"}), False),
        (frozenset({"a-and-b"}), frozenset({"p"}), False),
    ]
    names = name_stages(given)
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", name) and len(name) <= LONGEST for name in names)
    assert not {"plan", "cleanup"} & set(names)


def test_stage_ids_do_not_depend_on_the_order_in_which_they_are_named() -> None:
    given = [(frozenset({"a", "b"}), frozenset({"o"}), False), (frozenset({"a-and-b"}), frozenset({"p"}), False)]
    assert name_stages(given) == name_stages(given[::-1])[::-1]


def test_a_low_level_task_is_one_stage_with_all_its_inputs_outputs_and_tables() -> None:
    class Count(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            pass

    class Counting(TaskApplication):
        name = "counting"

        def describe(self, app: Any) -> None:
            app.input_stream("a", schema=ROW, partitions=4)
            app.input_stream("b", schema=ROW, partitions=6)
            app.output_stream("out")
            app.pushed_table("t", key="k", schema=ROW, partitions=6)
            app.local_table("own", key="k", schema=ROW)
            app.task(Count)

    plan = ExecutionPlanner().plan(Counting().spec())
    (stage,) = plan.stages
    assert (stage.stage_id, stage.task_count, stage.outputs) == ("a-and-b", 6, ("out",))
    assert (stage.tables, stage.side_inputs) == (("own", "t"), ("t-push",))
    assert [(table.table_id, table.writers) for table in plan.tables] == [("own", ("counting-1-task-task",)), ("t", ())]
    assert "task task" in explain(plan)


def test_warns_of_a_side_input_with_more_partitions_than_a_low_level_stage_has_tasks() -> None:
    class Task:
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None: ...

    @task_application("low-level")
    def application(app: Any) -> None:
        app.input_stream("views", schema="k bigint", partitions=2)
        app.table("t", key="k", side_inputs=[app.side_input("changes", schema="k bigint", key="k", partitions=4)])
        app.task(Task)

    plan = ExecutionPlanner({}, {}).plan(application.spec())
    assert any("'changes' has 4 partitions, and the stage views 2 tasks" in warning for warning in plan.warnings)
