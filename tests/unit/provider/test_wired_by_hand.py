"""Tasks of one run that are wired by hand do what those of a group do: they find the others in their Dag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Asset

from airflow_samza.errors import StageFailed, UnknownName
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException, AirflowSkipException
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators import cleanup as cleanup_module
from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.planning import PLAN_TEXT, SamzaPlanOperator
from airflow_samza.provider.operators.producer_waits import producer_tasks
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.parsed_application import parse_application
from airflow_samza.provider.run_tasks import run_tasks, scopes_to_close
from airflow_samza.provider.task_group import SamzaTaskGroup
from airflow_samza.provider.xcoms import PLAN_NOTE
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.documentation_pages import DOCS, loaded

VIEWS, SHARING = "provider_applications:views", "provider_applications:sharing"
STAGES = ["page-views", "by-member", "by-country"]


@pytest.fixture
def dag() -> Iterator[DAG]:
    with DAG("flights", schedule=None) as dag:
        yield dag


def plan_task(task_id: str = "plan", **given: Any) -> SamzaPlanOperator:
    return SamzaPlanOperator(**{"task_id": task_id, "application": VIEWS, **given})


def stage_task(stage: str | None, task_id: str | None = None, **given: Any) -> SamzaStreamOperator:
    task_id = task_id or f"run-{stage}"
    return SamzaStreamOperator(
        **{"task_id": task_id, "application": VIEWS, "stage": stage, "poll_interval": 0.001, **given}
    )


def cleanup_task(**given: Any) -> SamzaCleanupOperator:
    return SamzaCleanupOperator(**{"task_id": "cleanup", "application": VIEWS, **given})


def by_plan(mode: str = "staged", **given: Any) -> tuple[SamzaPlanOperator, list[SamzaStreamOperator]]:
    plan = plan_task(mode=mode)
    return plan, [stage_task(stage, plan=plan.output, mode=mode, **given) for stage in STAGES]


# -- stages ------------------------------------------------------------------------------------------------------------


def test_a_misspelt_stage_is_found_when_the_dag_is_read(dag: DAG) -> None:
    with pytest.raises(UnknownName) as caught:
        stage_task("by-membr", "second")
    assert caught.value.sentence == (
        "The task 'second' runs the stage 'by-membr', which the application 'views' does not have."
    )
    assert "Did you mean 'by-member'?" in caught.value.hint


@pytest.mark.parametrize("way", ["plan", "scope"])
def test_a_misspelt_stage_of_an_application_that_the_dag_file_does_not_know_is_found_before_its_siblings_run(
    dag: DAG, way: str, runtime: Any, make_context: Any
) -> None:
    unknown = {"application": "{{ 'provider_applications:views' }}"}
    if way == "plan":
        first: Any = plan_task(**unknown)
        given: dict[str, Any] = {"plan": first.output, **unknown}
        tasks = [stage_task(name, **given) for name in ("page-views", "by-membr", "by-country")]
    else:
        given = {"scope": "views", **unknown}
        tasks = [stage_task(name, **given) for name in ("page-views", "by-membr", "by-country")]
        first = tasks[0]
    operator: Any = first.prepare_for_execution()
    operator.application = VIEWS  # as Airflow renders it
    with pytest.raises(
        AirflowFailException, match=r"The task 'run-by-membr' runs the stage 'by-membr'.*\n.*Did you mean"
    ):
        operator.execute(make_context(operator))
    assert runtime.named("prepare") == []
    assert runtime.named("submit") == []


@pytest.mark.parametrize("way", ["plan", "scope"])
def test_a_stage_without_a_task_is_found_by_the_plan(dag: DAG, way: str, runtime: Any, make_context: Any) -> None:
    if way == "plan":
        first: Any = plan_task()
        stage_task("page-views", plan=first.output)
        stage_task("by-member", plan=first.output)
    else:
        first = stage_task("page-views", scope="views")
        stage_task("by-member", scope="views")
    with pytest.raises(
        AirflowFailException, match=r"No task of the Dag runs the stage by-country of the application 'views'"
    ):
        first.execute(make_context(first))
    assert runtime.calls == []


def test_a_stage_by_its_title_is_that_stage(dag: DAG, runtime: Any, make_context: Any) -> None:
    plan = plan_task()
    for name in ("page-views", "partition-by-country", "count-per-country"):
        stage_task(name, plan=plan.output)
    context = make_context(plan)
    plan.execute(context)
    assert context["ti"].pushed[PLAN_NOTE]["tasks"] == {
        "page-views": "run-page-views",
        "by-member": "run-partition-by-country",
        "by-country": "run-count-per-country",
    }


def test_a_stage_may_be_mapped_over(dag: DAG, runtime: Any, make_context: Any) -> None:
    plan = plan_task()
    SamzaStreamOperator.partial(task_id="stages", application=VIEWS, plan=plan.output).expand(stage=STAGES)
    context = make_context(plan)
    plan.execute(context)
    assert context["ti"].pushed[PLAN_NOTE]["tasks"] == dict.fromkeys(STAGES, "stages")


def test_expected_stages_that_are_given_count_alone(dag: DAG, runtime: Any, make_context: Any) -> None:
    plan = plan_task(expected_stages=STAGES)
    stage_task("page-views", plan=plan.output)
    plan.execute(make_context(plan))


def test_another_application_and_another_use_of_it_are_no_siblings(dag: DAG, runtime: Any, make_context: Any) -> None:
    plan, _ = by_plan()
    other = plan_task("other", scope="other")
    stage_task(None, "all-of-other", plan=other.output)
    SamzaStreamOperator(task_id="sharing", application=SHARING, stage="by-member", scope="plan")
    context = make_context(plan)
    plan.execute(context)
    assert context["ti"].pushed[PLAN_NOTE]["tasks"] == {stage: f"run-{stage}" for stage in STAGES}
    assert run_tasks(other, make_context(other)).whole is not None


# -- the same as a group -----------------------------------------------------------------------------------------------

SAME = ("outlets", "doc_md", "task_display_name", "trigger_rule", "is_teardown")


def shown(task: Any) -> dict[str, Any]:
    found = {name: getattr(task, name) for name in SAME if name != "outlets"}
    return {**found, "outlets": [outlet.name for outlet in getattr(task, "outlets", ())]}


@pytest.mark.parametrize("mode", ["staged", "pipelined", "continuous", "fused"])
@pytest.mark.parametrize("application", [VIEWS, SHARING])
def test_tasks_wired_by_hand_are_those_of_a_group(mode: str, application: str) -> None:
    with DAG("group", schedule=None):
        group = SamzaTaskGroup("g", application=application, mode=mode, prefix_group_id=False)
    with DAG("hand", schedule=None) as dag:
        given: Any = {"application": application, "mode": mode}
        plan = plan_task(**given)
        stages = list(group.stage_tasks)
        for name in stages:
            stage_task(None if mode == "fused" else name, name, plan=plan.output, **given)
        cleanup_task(application=application, plan=plan.output)
    for name in ["plan", *stages, "cleanup"]:
        assert shown(dag.get_task(name)) == shown(group.dag.get_task(name))


@pytest.mark.parametrize("mode", ["staged", "pipelined", "fused"])
def test_the_page_finds_the_tasks_of_the_stages(dag: DAG, mode: str, runtime: Any, make_context: Any) -> None:
    if mode == "fused":
        plan = plan_task(mode=mode)
        stage_task(None, "all", plan=plan.output)
        expected = dict.fromkeys(STAGES, "all")
    else:
        plan, _ = by_plan(mode)
        expected = {stage: f"run-{stage}" for stage in STAGES}
    context = make_context(plan)
    plan.execute(context)
    note = context["ti"].pushed[PLAN_NOTE]
    assert (note["tasks"], note["mode"], note["group"]) == (expected, mode, "plan")


def test_a_whole_application_leaves_its_plan_for_the_page(dag: DAG, runtime: Any, make_context: Any) -> None:
    operator = stage_task(None, "all")
    context = make_context(operator)
    operator.execute(context)
    note = context["ti"].pushed[PLAN_NOTE]
    assert (note["tasks"], note["mode"], note["group"]) == (dict.fromkeys(STAGES, "all"), "fused", "all")
    assert "by-country" in context["ti"].pushed[PLAN_TEXT]


def test_of_stages_without_a_plan_task_the_first_leaves_the_plan_for_the_page(
    dag: DAG, runtime: Any, make_context: Any
) -> None:
    tasks = [stage_task(stage, scope="views") for stage in STAGES]
    contexts = [make_context(task) for task in tasks]
    for task, context in zip(tasks, contexts, strict=True):
        task.execute(context)
    assert [PLAN_NOTE in context["ti"].pushed for context in contexts] == [True, False, False]


@pytest.mark.parametrize("way", ["group", "plan", "scope"])
def test_stages_that_run_at_the_same_time_know_their_producers(
    dag: DAG, way: str, runtime: Any, make_context: Any
) -> None:
    mode = "pipelined"
    if way == "group":
        tasks = dict(SamzaTaskGroup("g", application=VIEWS, mode=mode, prefix_group_id=False).stage_tasks)
    elif way == "plan":
        tasks = dict(zip(STAGES, by_plan(mode)[1], strict=True))
    else:
        tasks = {stage: stage_task(stage, scope="views", mode=mode) for stage in STAGES}
    run = runtime.prepare(SimpleNamespace(application=VIEWS, config={}, run_id="r", generation=1, mode=mode))
    asked = {name: producer_tasks(task, run, make_context(task)) for name, task in tasks.items()}
    assert {name: found and dict(found.tasks) for name, found in asked.items()} == {
        "page-views": None,
        "by-member": {"page-views": tasks["page-views"].task_id},
        "by-country": {"by-member": tasks["by-member"].task_id},
    }


def test_the_plan_rejects_a_deferred_stage_whose_runner_would_end_with_its_task(
    dag: DAG, runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(
        SamzaHook, "reject_short_lived", lambda self, task, executor=None: asked.update({task: executor})
    )
    plan = plan_task()
    for stage, deferrable in zip(STAGES, (True, False, True), strict=True):
        stage_task(stage, plan=plan.output, deferrable=deferrable, executor="KubernetesExecutor")
    plan.execute(make_context(plan))
    assert asked == dict.fromkeys(["run-page-views", "run-by-country"], "KubernetesExecutor")


def test_a_stage_says_where_it_writes_by_what_the_dag_file_knows(dag: DAG) -> None:
    plan = plan_task(application=SHARING)
    writing = stage_task("by-member", application=SHARING, plan=plan.output, outlets=[Asset("mine")])
    assert [outlet.name for outlet in writing.outlets] == [
        "samza://samza_default/members",
        "samza-output:samza_default/members",
        "mine",
    ]
    unknown = stage_task("by-member", "later", application="no_module:here", plan=plan.output)
    assert [outlet.name for outlet in unknown.outlets] == ["samza-outputs:samza_default/no_module:here"]
    whole = stage_task(None, "whole", application=SHARING)
    assert [outlet.name for outlet in whole.outlets] == [
        "samza://samza_default/members",
        f"samza-outputs:samza_default/{SHARING}",
    ]


def test_the_dag_of_the_page_has_a_task_for_each_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make_context: Any
) -> None:
    monkeypatch.syspath_prepend(str(DOCS.parent / "dags"))
    page = loaded("how-to/in-a-dag.md", "by_hand_dag.py", tmp_path, monkeypatch)
    plan, cleanup = page.plan, page.cleanup
    shape = parse_application(plan.application, {}).shape
    tasks = run_tasks(plan, make_context(plan))
    tasks.check(shape)
    assert tasks.by_stage(shape) == {
        "flights": "read_flights",
        "planes": "read_planes",
        "by-tail-and-planes-by-tail": "join",
        "by-maker-and-hour": "count",
    }
    assert scopes_to_close(cleanup, make_context(cleanup)) == ["plan"]


# -- cleanup -----------------------------------------------------------------------------------------------------------


class Planned:
    """Runs of a Dag run, on record as their tasks have planned them."""

    def __init__(self, root: Path, runtime: Any, make_context: Any) -> None:
        self.files = LocalFilesystem(root)
        self.runtime = runtime
        self.make_context = make_context

    def by(self, task: Any, **given: Any) -> str:
        """Have a task plan its run; return the run's id."""
        self.runtime.plans.clear()
        found = task.plan_run(self.make_context(task, **given), 1).run
        write_once(self.files, RunFolder(found.application, found.run_id).plan(1), found)
        return str(found.run_id)

    def closed(self, cleanup: SamzaCleanupOperator, plan: Any = None, **given: Any) -> list[str]:
        """Execute a cleanup task; return the ids of the runs that it closes."""
        closed: list[str] = []
        close = self.runtime.close

        def remember(run: RunPlan, **named: Any) -> Any:
            closed.append(run.run_id)
            return close(run, **named)

        self.runtime.close = remember
        self.runtime.load_plan = lambda name, run_id, generation=None: next(
            plan for plan in self.plans() if plan.run_id == run_id
        )
        operator = cleanup.prepare_for_execution()
        object.__setattr__(operator, "plan", plan)
        try:
            operator.execute(self.make_context(operator, **given))
        finally:
            self.runtime.close = close
        return closed

    def plans(self) -> list[Any]:
        found = []
        for application in self.files.list("runs"):
            for run in self.files.list(f"runs/{application}"):
                found.append(read(self.files, f"runs/{application}/{run}/plan/1.json", RunPlan))
        return [plan for plan in found if plan is not None]


@pytest.fixture
def planned(tmp_path: Path, runtime: Any, make_context: Any) -> Planned:
    return Planned(tmp_path, runtime, make_context)


def test_a_cleanup_without_plan_closes_the_run_of_the_plan_task(dag: DAG, planned: Planned) -> None:
    plan, tasks = by_plan()
    cleanup = cleanup_task()
    tasks >> cleanup
    assert planned.closed(cleanup) == []
    run = planned.by(plan)
    assert planned.closed(cleanup) == [run]


def test_a_cleanup_without_plan_closes_the_run_of_its_scope(dag: DAG, planned: Planned) -> None:
    tasks = [stage_task(stage, scope="views") for stage in STAGES]
    cleanup = cleanup_task(scope="views")
    run = planned.by(tasks[0])
    assert planned.closed(cleanup) == [run]


def test_a_cleanup_without_plan_or_scope_closes_the_runs_before_it(dag: DAG, planned: Planned) -> None:
    one, other = stage_task(None, "one"), stage_task(None, "other")
    cleanup = cleanup_task()
    one >> EmptyOperator(task_id="between") >> cleanup
    runs = [planned.by(task) for task in (one, other)]
    assert planned.closed(cleanup) == runs[:1]
    everywhere = cleanup_task(task_id="everywhere")
    assert planned.closed(everywhere) == runs


def test_a_cleanup_whose_plan_task_has_failed_after_planning_closes_the_run(dag: DAG, planned: Planned) -> None:
    plan, _ = by_plan()
    cleanup = cleanup_task(plan=plan.output)
    run = planned.by(plan)
    assert planned.closed(cleanup, plan=None) == [run]


def test_a_run_that_is_closed_is_left_alone(dag: DAG, planned: Planned) -> None:
    plan, tasks = by_plan()
    cleanup = cleanup_task()
    tasks >> cleanup
    run = planned.by(plan)
    write_once(planned.files, RunFolder("views", run).closed, RunEnd())
    assert planned.closed(cleanup) == []


def test_runs_of_other_dag_runs_and_of_other_indexes_are_left_alone(dag: DAG, planned: Planned) -> None:
    plan, tasks = by_plan()
    cleanup = cleanup_task()
    tasks >> cleanup
    planned.by(plan, run_id="yesterday")
    of_index = planned.by(plan, map_index=1)
    assert planned.closed(cleanup) == []
    assert planned.closed(cleanup, map_index=1) == [of_index]


def test_the_run_as_a_whole_is_named_by_the_scope_of_its_plan(dag: DAG, planned: Planned) -> None:
    plan = plan_task(scope="delays")
    cleanup = cleanup_task(plan=plan.output)
    assert scopes_to_close(cleanup, planned.make_context(cleanup)) == ["delays"]


def test_a_cleanup_is_a_teardown_unless_it_is_given_a_trigger_rule(dag: DAG) -> None:
    assert cleanup_task().is_teardown
    assert not cleanup_task(task_id="ordinary", trigger_rule="all_done").is_teardown


def test_what_follows_a_cleanup_does_not_run_behind_a_run_that_has_failed(dag: DAG, planned: Planned) -> None:
    plan, tasks = by_plan()
    cleanup = cleanup_task()
    tasks >> cleanup
    run = planned.by(plan)
    planned.runtime.ends["by-member"] = StageFailed("It broke.")
    assert planned.closed(cleanup) == [run]  # a teardown that nothing follows plays no part in what Airflow shows
    cleanup >> EmptyOperator(task_id="remove").as_teardown()
    assert planned.closed(cleanup) == [run]
    cleanup >> EmptyOperator(task_id="report")
    with pytest.raises(AirflowFailException, match="so what follows the task 'cleanup' does not run"):
        planned.closed(cleanup)
    planned.runtime.ends.clear()
    assert planned.closed(cleanup) == [run]


def test_an_ordinary_cleanup_fails_behind_a_run_that_has_failed(dag: DAG, planned: Planned) -> None:
    plan, tasks = by_plan()
    cleanup = cleanup_task(trigger_rule="all_done")
    tasks >> cleanup
    planned.by(plan)
    planned.runtime.ends["by-member"] = StageFailed("It broke.")
    with pytest.raises(AirflowException, match="Not every stage of the run"):
        planned.closed(cleanup)


@pytest.mark.parametrize(("state", "error"), [("failed", AirflowFailException), ("skipped", AirflowSkipException)])
def test_what_follows_a_cleanup_of_nothing_runs_only_behind_a_success(
    dag: DAG, planned: Planned, monkeypatch: pytest.MonkeyPatch, state: str, error: type[Exception]
) -> None:
    _, tasks = by_plan()
    cleanup = cleanup_task()
    tasks >> cleanup >> EmptyOperator(task_id="report")
    monkeypatch.setattr(cleanup_module, "task_states", lambda of_run, tasks: dict.fromkeys(tasks, state))
    with pytest.raises(error):
        planned.closed(cleanup)
