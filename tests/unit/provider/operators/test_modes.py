"""Runs whose stages run at the same time, runs that carry state on, and runs that read what other applications write."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset

from airflow_samza.errors import ConfigError, SectionOpen, StageError, StageFailed, StateBusy
from airflow_samza.launch import stage_watch
from airflow_samza.provider.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferred,
)
from airflow_samza.provider.assets import shared_stream
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.producer_tasks import ProducerTasks
from airflow_samza.provider.triggers.runs import SamzaProducersTrigger, SamzaSectionsTrigger, SamzaStateTrigger
from airflow_samza.runs.records.folders import RunFolder, StageFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.run_ends import abort
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.tables.push_request import PushResult
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.airflow_names import OutletEvents

VIEWS = "provider_applications:views"
SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}


def plan_operator(**given: Any) -> SamzaPlanOperator:
    return SamzaPlanOperator(**{"task_id": "plan", "application": VIEWS, "systems": SYSTEMS, "scope": "views", **given})


def consumer(**given: Any) -> SamzaStreamOperator:
    """The stage by-member, behind the stage page-views."""
    settings = {
        "task_id": "by-member",
        "stage": "by-member",
        "application": VIEWS,
        "systems": SYSTEMS,
        "poll_interval": 0.001,
    }
    return SamzaStreamOperator(
        **{**settings, "producers": {"page-views": "views.page-views"}, "deferrable": False, **given}
    )


class Airflow:
    """Airflow's answers about the tasks of a run."""

    def __init__(self, **states: str | None) -> None:
        self.states = states

    def __call__(self, asked: ProducerTasks) -> dict[str, str | None]:
        return {stage: self.states.get(stage.replace("-", "_")) for stage in asked.tasks}


@pytest.fixture
def pipelined(runtime: Any, make_context: Any) -> Any:
    operator = plan_operator(mode="pipelined")
    return operator.execute(make_context(operator))


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    airflow = Airflow(page_views="running")
    monkeypatch.setattr(ProducerTasks, "states", lambda self: airflow(self))
    return airflow


class Producer:
    """The records of the stage page-views."""

    def __init__(self, root: Path, ticket: Any) -> None:
        self.files = LocalFilesystem(root)
        self.run = RunFolder(ticket["application"], ticket["run_id"])

    def folder(self, generation: int = 1) -> StageFolder:
        return self.run.stage("page-views", Generation(1, generation))

    def start(self, generation: int = 1) -> None:
        write_once(self.files, self.folder(generation).attempt(1, "request"), StageRequest("views", "1.1", 1))

    def finish(self, generation: int = 1) -> None:
        self.start(generation)
        write_once(self.files, self.folder(generation).result, PushResult())


@pytest.fixture
def producer(tmp_path: Path, pipelined: Any) -> Producer:
    return Producer(tmp_path, pipelined)


def waits(operator: SamzaStreamOperator, make_context: Any, **task: Any) -> SamzaProducersTrigger:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator, **task))
    assert isinstance(raised.value.trigger, SamzaProducersTrigger)
    assert raised.value.method_name == "execute_again"
    return raised.value.trigger


def test_plan_passes_the_mode_and_fused_is_staged_for_the_runtime(runtime: Any, make_context: Any) -> None:
    for number, mode in enumerate(("staged", "fused", "pipelined"), 1):
        operator = plan_operator(mode=mode)
        operator.execute(make_context(operator, try_number=number, max_tries=number - 1))
    assert [request.mode for _, request in runtime.named("prepare")] == ["staged", "staged", "pipelined"]


def test_a_whole_pipelined_application_submits_all_its_stages_at_once(runtime: Any, make_context: Any) -> None:
    operator = SamzaStreamOperator(
        task_id="v", application=VIEWS, systems=SYSTEMS, mode="pipelined", poll_interval=0.001, deferrable=False
    )
    operator.execute(make_context(operator))
    assert [call[0] for call in runtime.calls if call[0] in ("submit", "finish")] == ["submit"] * 3 + ["finish"] * 3


def test_a_consumer_defers_until_its_producers_have_started(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow, runtime: Any
) -> None:
    trigger = waits(consumer(plan=pipelined), make_context)
    assert (trigger.upstream, trigger.beyond, runtime.named("submit")) == (["page-views"], {}, [])
    producer.start()
    operator = consumer(plan=pipelined)
    assert operator.execute_again(make_context(operator), {"producers": {}})["stages"] == ["by-member"]


def test_the_time_that_a_task_may_take_goes_on_while_it_waits_for_its_producers(
    make_context: Any, pipelined: Any, airflow: Airflow
) -> None:
    operator = consumer(plan=pipelined, execution_timeout=timedelta(seconds=5))
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator))
    assert raised.value.trigger.deadline == pytest.approx(time.time() + 5, abs=4)
    assert raised.value.kwargs == {"deadline": raised.value.trigger.deadline}
    later = consumer(plan=pipelined, execution_timeout=timedelta(hours=1))
    with pytest.raises(TaskDeferred) as raised:
        later.execute(make_context(later))
    assert raised.value.trigger.deadline == pytest.approx(time.time() + 15, abs=10)
    assert raised.value.kwargs is not None
    assert raised.value.kwargs["deadline"] == pytest.approx(time.time() + 3600, abs=60)


def test_it_looks_again_at_what_airflow_says_and_then_waits_on(
    make_context: Any, pipelined: Any, airflow: Airflow
) -> None:
    operator = consumer(plan=pipelined)
    with pytest.raises(TaskDeferred):
        operator.execute_again(make_context(operator), {"timed_out": True})
    airflow.states["page_views"] = "failed"
    with pytest.raises(
        AirflowFailException, match="reads what 'page-views' writes, and the task of that stage failed for good"
    ):
        operator.execute_again(make_context(operator), {"timed_out": True})


def test_a_time_out_of_the_trigger_is_the_tasks_end_only_when_its_own_deadline_has_come(
    make_context: Any, pipelined: Any, airflow: Airflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, now = consumer(plan=pipelined), time.time()
    context = make_context(operator)
    monkeypatch.setattr("time.time", lambda: now)
    with pytest.raises(TaskDeferred):
        operator.execute_again(context, {"timed_out": True}, deadline=now + 0.001)
    with pytest.raises(AirflowTaskTimeout, match="took longer than its execution_timeout"):
        operator.execute_again(context, {"timed_out": True}, deadline=now)


def test_a_consumer_whose_producer_gave_up_stops_its_own_readers_too(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow, runtime: Any
) -> None:
    abort(producer.files, producer.folder())
    airflow.states["page_views"] = "failed"
    operator = consumer(plan=pipelined, retries=3)
    with pytest.raises(AirflowFailException, match="failed for good"):
        operator.execute(make_context(operator))
    assert runtime.named("abort") == [("abort", "by-member")]


def test_a_consumer_that_was_cleared_with_its_producer_waits_for_the_new_generation(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow
) -> None:
    producer.finish(1)
    airflow.states["page_views"] = "queued"
    assert waits(consumer(plan=pipelined), make_context, try_number=2, max_tries=1).beyond == {"page-views": "1.1"}
    producer.start(2)
    operator = consumer(plan=pipelined)
    assert operator.execute_again(make_context(operator, try_number=2, max_tries=1))["generation"] == "1.2"


def test_a_producer_that_has_finished_is_no_reason_to_wait(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow
) -> None:
    producer.finish()
    airflow.states["page_views"] = "success"
    operator = consumer(plan=pipelined)
    assert operator.execute(make_context(operator))["stages"] == ["by-member"]


@pytest.mark.parametrize(("state", "told"), [("failed", "failed for good"), ("success", "failed for good")])
def test_a_consumer_at_work_stops_when_its_producers_task_is_over_and_the_stage_is_not(
    make_context: Any,
    pipelined: Any,
    producer: Producer,
    airflow: Airflow,
    runtime: Any,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    told: str,
) -> None:
    monkeypatch.setattr(stage_watch, "GUARD_SECONDS", 0.0)
    runtime.endless.add("by-member")
    producer.start()
    states = iter(["running", "running", "running"])
    airflow.states = SimpleNamespace(get=lambda stage: next(states, state))  # type: ignore[assignment]
    operator = consumer(plan=pipelined)
    with pytest.raises(AirflowFailException, match=told):
        operator.execute(make_context(operator))
    assert runtime.named("cancel") == [("cancel", "by-member")]


def test_a_stage_that_failed_is_given_up_with_its_last_try_and_not_before(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow, runtime: Any
) -> None:
    producer.start()
    runtime.ends["by-member"] = StageFailed("It broke.")
    operator = consumer(plan=pipelined, retries=1)
    for try_number, given_up in ((1, []), (2, [("abort", "by-member")])):
        with pytest.raises(AirflowException, match="It broke"):
            operator.execute(make_context(operator, try_number=try_number))
        assert runtime.named("abort") == given_up


def test_an_error_that_no_try_can_fix_gives_the_stage_up_at_once(
    make_context: Any, pipelined: Any, producer: Producer, airflow: Airflow, runtime: Any
) -> None:
    producer.start()
    runtime.ends["by-member"] = StageError("It cannot be.")
    operator = consumer(plan=pipelined, retries=5)
    with pytest.raises(AirflowFailException, match="It cannot be"):
        operator.execute(make_context(operator))
    assert runtime.named("abort") == [("abort", "by-member")]


def test_a_staged_stage_gives_nothing_up(make_context: Any, runtime: Any) -> None:
    plan = plan_operator()
    ticket = plan.execute(make_context(plan))
    runtime.ends["by-member"] = StageError("It cannot be.")
    operator = consumer(plan=ticket, producers={})
    with pytest.raises(AirflowFailException):
        operator.execute(make_context(operator))
    assert runtime.named("abort") == []


# -- continuous --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["10 minutes", 600, "600"])
def test_a_continuous_run_has_a_time_at_which_it_stops(runtime: Any, make_context: Any, length: Any) -> None:
    operator = plan_operator(mode="continuous", run_for=length)
    ticket = operator.execute(make_context(operator))
    ((_, run_id, at),) = runtime.named("stop")
    assert run_id == ticket["run_id"]
    assert at == pytest.approx(time.time() + 600, abs=10)


def test_a_time_for_a_run_that_ends_by_itself_is_rejected() -> None:
    with pytest.raises(ConfigError, match="whose runs end by themselves"):
        plan_operator(mode="pipelined", run_for="10 minutes")


# -- state -------------------------------------------------------------------------------------------------------------


def states_of(runtime: Any) -> list[str]:
    return [request.state_from for _, request in runtime.named("prepare")]


@pytest.mark.parametrize(
    ("run_type", "state"), [("scheduled", "previous"), ("manual", "previous"), ("backfill", "fresh")]
)
def test_a_backfill_has_a_state_of_its_own_and_other_runs_carry_the_lineage_on(
    runtime: Any, make_context: Any, run_type: str, state: str
) -> None:
    operator = plan_operator()
    operator.execute({**make_context(operator), "dag_run": SimpleNamespace(run_type=run_type)})
    assert states_of(runtime) == [state]


def test_the_run_to_start_from_is_named_by_its_own_id_or_by_airflows(
    runtime: Any, make_context: Any, tmp_path: Path
) -> None:
    earlier = plan_operator(mode="pipelined")
    known = earlier.execute(make_context(earlier, run_id="scheduled__1"))["run_id"]
    LocalFilesystem(tmp_path).put(RunFolder("views", known).plan(1), b"{}")
    for given in (known, "scheduled__1", "previous", "lineage", "fresh"):
        operator = plan_operator(state_from=given)
        operator.execute(make_context(operator))
    assert states_of(runtime)[1:] == [known, known, "previous", "previous", "fresh"]


def busy(*_: Any, **__: Any) -> Any:
    raise StateBusy("The state of 'views' is held by the run 'one', which is at work.", hint="Wait.")


@pytest.mark.parametrize(
    "operator", [plan_operator(), SamzaStreamOperator(task_id="v", application=VIEWS, systems=SYSTEMS)]
)
def test_a_run_waits_deferred_while_another_one_holds_the_state(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch, operator: Any
) -> None:
    prepare = runtime.prepare
    monkeypatch.setattr(SamzaHook, "holder_works", lambda *_: True)
    monkeypatch.setattr(runtime, "prepare", busy)
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator))
    assert isinstance(raised.value.trigger, SamzaStateTrigger)
    assert raised.value.trigger.application == "views"
    assert raised.value.trigger.grace_seconds == 600.0
    monkeypatch.setattr(runtime, "prepare", prepare)
    operator.poll_interval = 0.001
    assert operator.execute_again(make_context(operator), {"state": "free"}, **(raised.value.kwargs or {}))["run_id"]


def test_a_run_waits_for_a_silent_one_for_as_long_as_its_configuration_says(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def works(hook: SamzaHook, application: str, app_id: str, grace_seconds: float) -> bool:
        asked.append(grace_seconds)
        return True

    monkeypatch.setattr(SamzaHook, "holder_works", works)
    monkeypatch.setattr(runtime, "prepare", busy)
    operator = plan_operator(config={"job.state.lease.grace.ms": "1800000"})
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator))
    assert isinstance(raised.value.trigger, SamzaStateTrigger)
    assert (asked, raised.value.trigger.grace_seconds) == ([1800.0], 1800.0)


def test_a_state_that_is_held_by_a_run_that_does_not_go_on_is_an_error(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SamzaHook, "holder_works", lambda *_: False)
    monkeypatch.setattr(runtime, "prepare", busy)
    with pytest.raises(AirflowException, match="is held by the run 'one'"):
        plan_operator().execute(make_context(plan_operator()))


def test_who_does_not_want_to_wait_for_the_state_need_not(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SamzaHook, "holder_works", lambda *_: True)
    monkeypatch.setattr(runtime, "prepare", busy)
    with pytest.raises(AirflowException, match="is held by the run 'one'"):
        plan_operator(wait_for_state=False).execute(make_context(plan_operator()))


# -- shared streams ----------------------------------------------------------------------------------------------------


def test_the_event_of_a_shared_stream_names_the_run_that_wrote_it(runtime: Any, make_context: Any) -> None:
    outlets = [shared_stream("members"), Asset("something-else")]
    operator = SamzaStreamOperator(
        task_id="s",
        application="provider_applications:sharing",
        systems=SYSTEMS,
        outlets=outlets,
        poll_interval=0.001,
        deferrable=False,
    )
    events = OutletEvents(lambda: SimpleNamespace(extra={}))
    runtime.outputs["by-member"] = "members"
    returned = operator.execute({**make_context(operator), "outlet_events": events})
    assert events[outlets[0]].extra == {
        "stream": "members",
        "application": "sharing",
        "run_id": returned["run_id"],
        "stage": "by-member",
        "generation": "1.1",
        "rows": 90,
        "bytes": 1024,
        "files": 1,
        "partition_key": None,
        "interval": None,
    }
    assert events[outlets[1]].extra == {}


@pytest.mark.parametrize(
    ("runs", "sections", "told"),
    [
        (["one"], {"members": "one"}, " has a section of the run one."),
        (["one", "one"], {"members": "one"}, " has a section of the run one."),
        (["one", "two", "three"], {}, " of the run one and 2 more: everything that is new is read."),
        ([], {}, None),
    ],
    ids=["one", "one twice", "several: all that are new", "none"],
)
def test_a_run_reads_the_section_that_its_asset_event_names(
    runtime: Any,
    make_context: Any,
    runs: list[str],
    sections: dict[str, str],
    told: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events = [SimpleNamespace(extra={"stream": "members", "run_id": run}) for run in runs]
    strangers = [SimpleNamespace(extra={}), SimpleNamespace(extra={"stream": "elsewhere", "run_id": "x"})]
    operator = plan_operator(application="provider_applications:reading")
    lines: list[str] = []
    monkeypatch.setattr(type(operator), "tell", lambda self, line: lines.append(line))
    by_asset = {shared_stream("members").uri: events, Asset("y").uri: strangers}  # in Airflow 3.1 assets are no keys
    operator.execute({**make_context(operator), "triggering_asset_events": by_asset})
    assert runtime.named("prepare")[0][1].sections == sections
    about_sections = [line for line in lines if "section" in line]
    assert [line.endswith(told or "") for line in about_sections] == ([] if told is None else [True])


def not_planned(*_: Any, **__: Any) -> Any:
    raise SectionOpen("No run of 'producing' that writes the shared stream 'views' is planned.", hint="Start it.")


def test_a_plan_waits_deferred_for_the_run_that_it_follows_and_fails_when_that_never_comes(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = runtime.prepare
    monkeypatch.setattr(runtime, "prepare", not_planned)
    following = {"sections": {"page-views": "producing@latest"}, "config": {"job.state.lease.wait.ms": "60000"}}
    operator = plan_operator(mode="pipelined", **following)
    began = time.time()
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(make_context(operator))
    trigger = raised.value.trigger
    assert isinstance(trigger, SamzaSectionsTrigger)
    assert trigger.sections == {"page-views": ["page-views", "producing@latest"]}
    assert began + 59 < trigger.until < time.time() + 61
    more = raised.value.kwargs or {}
    with pytest.raises(Exception, match="No run of 'producing'"):
        operator.execute_again(make_context(operator), {"sections": "over"}, **more)
    with pytest.raises(TaskDeferred):  # it was planned, and its topic is not there yet
        operator.execute_again(make_context(operator), {"sections": "planned"}, **more)
    monkeypatch.setattr(runtime, "prepare", prepare)
    assert operator.execute_again(make_context(operator), {"sections": "planned"}, **more)["run_id"]


@pytest.mark.parametrize("mode", ["staged", "fused"])
def test_a_plan_of_whole_sections_is_tried_again_by_airflow(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setattr(runtime, "prepare", not_planned)
    operator = plan_operator(mode=mode, sections={"page-views": "producing@latest"})
    with pytest.raises(Exception, match="No run of 'producing'"):
        operator.execute(make_context(operator))
