"""Tasks that share a run: which runs which stage, and plans that do not fit them."""

from __future__ import annotations

import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.errors import PlanChanged
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import plan_shape
from airflow_samza.provider.run_tasks import RunTasks, StageTask

FIRST, SECOND, THIRD = STAGES = ("page-views", "by-member", "by-country")


@pytest.fixture
def plan() -> ExecutionPlan:
    return plan_shape(load_application("provider_applications:views").spec({}))


def of(*tasks: tuple[str, ...] | None, late: bool = False) -> RunTasks:
    """Tasks of these stages; a late one, too, if asked for."""
    named = [StageTask(f"task-{number}", names) for number, names in enumerate(tasks)]
    return RunTasks((*named, *([StageTask("mapped", None, is_late=True)] if late else [])))


def test_each_stage_is_run_by_the_task_that_names_it(plan: ExecutionPlan) -> None:
    tasks = of((FIRST, THIRD), (SECOND,), None)
    assert tasks.by_stage(plan) == {FIRST: "task-0", SECOND: "task-1", THIRD: "task-0"}
    tasks.check(plan)


def test_a_task_without_names_runs_all_stages_where_no_task_names_one(plan: ExecutionPlan) -> None:
    tasks = of(None)
    assert tasks.by_stage(plan) == dict.fromkeys(STAGES, "task-0")
    tasks.check(plan)


def test_rejects_a_plan_with_stages_that_no_task_runs(plan: ExecutionPlan) -> None:
    with pytest.raises(PlanChanged, match="No task of the Dag runs the stages by-member, by-country") as raised:
        of((FIRST,)).check(plan)
    assert "SamzaStreamOperator(stage='by-member')" in str(raised.value)
    with pytest.raises(PlanChanged, match="No task of the Dag runs the stage by-country of"):
        of((FIRST,), (SECOND,)).check(plan)


def test_a_task_whose_stages_are_known_later_may_run_the_missing_ones(plan: ExecutionPlan) -> None:
    tasks = of((FIRST,), late=True)
    tasks.check(plan)
    assert (tasks.by_stage(plan), tasks.whole) == ({FIRST: "task-0"}, None)


def test_rejects_a_task_of_a_stage_that_the_plan_does_not_have(plan: ExecutionPlan) -> None:
    with pytest.raises(PlanChanged, match="The task 'task-1' runs the stage 'by-membre', which") as raised:
        of((FIRST,), ("by-membre",)).check(plan)
    assert "'by-member'" in str(raised.value)


def test_a_dag_of_which_no_task_is_known_rejects_nothing(plan: ExecutionPlan) -> None:
    of().check(plan)
    assert of().by_stage(plan) == {}
