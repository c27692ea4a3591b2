"""A task that defers gives what one that waits gives; whatever ends the wait, no stage is left running unseen."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError, StageFailed
from airflow_samza.provider.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferralTimeout,
    TaskDeferred,
)
from airflow_samza.provider.deferral import reject_short_lived, runner_outlives, trigger_timeout
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.dataset_names import path_dataset
from airflow_samza.provider.operators import stream as stream_operator_module
from airflow_samza.provider.operators.drain import SamzaDrainOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator
from airflow_samza.provider.triggers.runs import SamzaStageTrigger
from tests.support.airflow_names import deserialize, serialize

VIEWS = "provider_applications:views"
SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}
STAGES = ["page-views", "by-member", "by-country"]


def stream_operator(**given: Any) -> SamzaStreamOperator:
    return SamzaStreamOperator(
        **{"task_id": "views", "application": VIEWS, "systems": SYSTEMS, "poll_interval": 0.001, **given}
    )


@pytest.fixture(autouse=True)
def _lasting_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SamzaHook, "reject_short_lived", lambda *_: None)


@pytest.fixture
def ticket(runtime: Any, make_context: Any) -> Any:
    operator = SamzaPlanOperator(task_id="plan", application=VIEWS, systems=SYSTEMS, scope="views")
    return operator.execute(make_context(operator))


def stored_and_read(given: Any) -> dict[str, Any]:
    """Return arguments as another process reads them."""
    written: Any = serialize(given)
    read: Any = deserialize(written)
    return dict(read)


def run_to_the_end(operator: SamzaStreamOperator, make_context: Any, **task: Any) -> tuple[Any, int]:
    """Return the task's result, however often it defers.

    Each part of it is a process of its own, which gets only what was stored.
    """
    deferrals = 0
    step: Callable[[], Any] = lambda: operator.execute(make_context(operator, **task))  # noqa: E731
    while True:
        try:
            return step(), deferrals
        except TaskDeferred as deferred:
            deferrals += 1
            path, given = deferred.trigger.serialize()
            assert path == "airflow_samza.triggers.SamzaStageTrigger"
            SamzaStageTrigger(**stored_and_read(given))
            stored = stored_and_read(deferred.kwargs)
            fresh = stream_operator(
                **{name: getattr(operator, name) for name in ("stage", "plan", "deferrable", "retries")}
            )

            def step(name: str = deferred.method_name, stored: Any = stored, fresh: Any = fresh) -> Any:
                return fresh.resume_execution(name, {**stored, "event": {"states": {}}}, make_context(fresh, **task))


@pytest.mark.parametrize("stage", [None, "by-member"], ids=["whole", "stage"])
def test_a_deferred_task_returns_what_a_waiting_one_returns(
    runtime: Any, make_context: Any, ticket: Any, stage: str | None
) -> None:
    plan = ticket if stage else None
    waiting, _ = run_to_the_end(stream_operator(stage=stage, plan=plan, deferrable=False), make_context)
    calls, runtime.calls = [call for call in runtime.calls if call[0] in ("submit", "close")], []
    runtime._asked.clear()
    deferred, times = run_to_the_end(stream_operator(stage=stage, plan=plan, deferrable=True), make_context)
    assert deferred == waiting
    assert [call for call in runtime.calls if call[0] in ("submit", "close")] == calls
    assert times >= (3 if stage is None else 1)


def test_the_result_of_a_stage_is_told_once(
    runtime: Any, make_context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run_to_the_end(stream_operator(deferrable=True), make_context)
    text = capsys.readouterr().out
    assert [len(re.findall(rf"Stage {stage} \([\w-]+\) is done", text)) for stage in STAGES] == [1, 1, 1]


def test_what_is_over_at_once_does_not_defer(runtime: Any, make_context: Any, ticket: Any) -> None:
    runtime._asked["by-member"] = 10
    _, deferrals = run_to_the_end(stream_operator(stage="by-member", plan=ticket, deferrable=True), make_context)
    assert deferrals == 0


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_failed_stage_is_raised_with_its_own_error(
    runtime: Any, make_context: Any, ticket: Any, deferrable: bool
) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.", hint="Look at line 3.")
    with pytest.raises(AirflowException, match=r"It broke\.\n  Hint: Look at line 3\.") as raised:
        run_to_the_end(stream_operator(stage="by-member", plan=ticket, deferrable=deferrable), make_context)
    assert not isinstance(raised.value, AirflowFailException)


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_whole_application_that_failed_stays_open_while_it_has_tries_left(
    runtime: Any, make_context: Any, deferrable: bool
) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.")
    for try_number, closed in ((1, []), (2, [("close", False, 168 * 3600.0)])):
        with pytest.raises(AirflowException):
            run_to_the_end(stream_operator(deferrable=deferrable, retries=1), make_context, try_number=try_number)
        assert runtime.named("close") == closed


def deferred_by(operator: SamzaStreamOperator, make_context: Any) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator))
    return raised.value


def test_the_time_that_a_task_may_take_goes_on_while_it_is_deferred(
    runtime: Any, make_context: Any, ticket: Any
) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, deferrable=True, execution_timeout=timedelta(seconds=60))
    deferred = deferred_by(operator, make_context)
    assert deferred.trigger.deadline == pytest.approx(time.time() + 60, abs=5)
    assert deferred.kwargs is not None
    assert deferred.kwargs["deadline"] == deferred.trigger.deadline
    with pytest.raises(AirflowTaskTimeout):
        operator.resume_execution(
            deferred.method_name, {**deferred.kwargs, "event": {"timed_out": True}}, make_context(operator)
        )
    assert runtime.named("cancel") == [("cancel", "by-member")]


def test_a_triggerer_that_sees_no_root_is_named_and_the_stage_cancelled(
    runtime: Any, make_context: Any, ticket: Any
) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, deferrable=True)
    deferred = deferred_by(operator, make_context)
    with pytest.raises(AirflowFailException, match="the triggerer on t-1 cannot read"):
        operator.execute_complete(
            make_context(operator), {"not_seen": "the triggerer on t-1 cannot read the run"}, **(deferred.kwargs or {})
        )
    assert runtime.named("cancel") == [("cancel", "by-member")]


@pytest.mark.parametrize(
    ("why", "kind"), [("Trigger timeout", TaskDeferralTimeout), ("Trigger failure", TaskDeferralError)]
)
def test_a_trigger_that_failed_leaves_no_stage_running(
    runtime: Any, make_context: Any, ticket: Any, monkeypatch: pytest.MonkeyPatch, why: str, kind: type[Exception]
) -> None:
    monkeypatch.setattr(SamzaHook, "newest_handle", lambda self, run, stage: SimpleNamespace(stage_id=stage))
    operator = stream_operator(stage="by-member", plan=ticket, deferrable=True)
    with pytest.raises(kind):
        operator.resume_execution("__fail__", {"error": why}, make_context(operator))
    assert runtime.named("cancel") == [("cancel", "by-member")]


def test_a_root_that_is_away_does_not_hide_that_a_trigger_failed(
    runtime: Any, make_context: Any, ticket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise OSError("The root is away.")

    monkeypatch.setattr(SamzaHook, "newest_handle", away)
    operator = stream_operator(stage="by-member", plan=ticket, deferrable=True)
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, make_context(operator))


def test_a_task_whose_trigger_failed_tells_its_datasets_to_openlineage(
    runtime: Any, make_context: Any, ticket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SamzaHook, "newest_handle", lambda self, run, stage: SimpleNamespace(stage_id=stage))
    names = {stream_id: path_dataset(stream_id, "s3://lake") for stream_id in ("by-member", "by-country")}
    monkeypatch.setattr(stream_operator_module, "names_in", lambda hook, run: names)
    operator = stream_operator(stage="by-member", plan=ticket, deferrable=True)
    context = make_context(operator)
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, context)
    told = operator.get_openlineage_facets_on_failure(context["ti"])
    assert ([i.name for i in told.inputs], [o.name for o in told.outputs]) == (["by-member"], ["by-country"])
    assert "Trigger failure" in told.run_facets["errorMessage"].message


@pytest.mark.parametrize(
    ("executor", "told", "in_cluster", "rejected"),
    [
        ("LocalExecutor", None, False, False),
        ("KubernetesExecutor", None, False, True),
        ("KubernetesExecutor", None, True, False),
        ("KubernetesExecutor", True, False, False),
        ("airflow.providers.amazon.aws.executors.ecs.AwsEcsExecutor", None, False, True),
        ("CeleryExecutor", False, False, True),
        ("pods", None, False, True),
    ],
)
def test_deferring_is_rejected_where_the_runner_ends_with_the_task(
    executor: str, told: Any, in_cluster: bool, rejected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    aliased = "airflow.providers.cncf.kubernetes.executors.kubernetes_executor.KubernetesExecutor"
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", f"LocalExecutor,pods:{aliased}")
    connection = Connection(
        conn_id="samza",
        conn_type="samza",
        extra=None if told is None else f'{{"runners_outlive_tasks": {str(told).lower()}}}',
    )
    if rejected:
        with pytest.raises(ConfigError, match="its stage runner would end with the task"):
            reject_short_lived("views", "samza", connection, executor, in_cluster)
    else:
        reject_short_lived("views", "samza", connection, executor, in_cluster)
    assert runner_outlives("samza", connection, executor, in_cluster) is not rejected


@pytest.mark.parametrize(
    "mark", ["AIRFLOW_IS_K8S_EXECUTOR_POD", "AIRFLOW_IS_EXECUTOR_CONTAINER", "AWS_LAMBDA_FUNCTION_NAME"]
)
def test_a_container_that_airflow_marks_ends_with_its_task_whatever_the_configuration_says(
    mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod of the KubernetesExecutor has LocalExecutor in its configuration: the Helm chart writes it there."""
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    connection = Connection(conn_id="samza", conn_type="samza")
    assert runner_outlives("samza", connection, None, in_cluster=False)
    monkeypatch.setenv(mark, "True")
    assert not runner_outlives("samza", connection, None, in_cluster=False)
    assert runner_outlives("samza", connection, None, in_cluster=True)
    with pytest.raises(ConfigError, match="ends a task's container with the task"):
        reject_short_lived("views", "samza", connection, None, False)
    reject_short_lived("views", "samza", connection, "CeleryExecutor", False, here=False)  # it runs elsewhere
    told = Connection(conn_id="samza", conn_type="samza", extra='{"runners_outlive_tasks": true}')
    assert runner_outlives("samza", told, None, in_cluster=False)
    monkeypatch.setenv(mark, "False")
    assert runner_outlives("samza", connection, None, in_cluster=False) or mark == "AWS_LAMBDA_FUNCTION_NAME"


@pytest.mark.parametrize("seconds", [0, -1.5])
@pytest.mark.parametrize(
    "operator",
    [
        lambda seconds: SamzaStreamOperator(task_id="t", application=VIEWS, poll_interval=seconds),
        lambda seconds: SamzaStreamOperator(task_id="t", application=VIEWS, progress_interval=seconds),
        lambda seconds: SamzaTablePushOperator(
            task_id="t", application=VIEWS, table="members", source="/in", poll_interval=seconds
        ),
        lambda seconds: SamzaDrainOperator(task_id="t", application=VIEWS, poll_interval=seconds),
    ],
    ids=["stream", "progress", "push", "drain"],
)
def test_an_interval_of_no_seconds_is_rejected_by_each_operator(
    operator: Callable[[float], object], seconds: float
) -> None:
    with pytest.raises(ConfigError, match=rf"_interval={seconds} of the task 't' is not above 0"):
        operator(seconds)


def test_airflow_ends_a_trigger_a_little_after_its_deadline() -> None:
    grace = trigger_timeout(time.time() - 3600)
    assert grace is not None
    assert timedelta(0) < grace < timedelta(hours=1)
    later = trigger_timeout(time.time() + 36000)
    assert later is not None
    assert later - grace == pytest.approx(timedelta(seconds=36000), abs=timedelta(seconds=60))
    assert trigger_timeout(None) is None
