from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_samza.errors import ConfigError, StageFailed, StorageUnavailable, UnknownName, UnsupportedShape
from airflow_samza.planner.titles import stage_titles
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException
from airflow_samza.provider.configured_numbers import configured_number
from airflow_samza.provider.deferral import interval_seconds
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.planning import PLAN_TEXT, SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.xcoms import PLAN_FAILURE, PlanFailure, summary

VIEWS = "provider_applications:views"
SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}
STAGES = ["page-views", "by-member", "by-country"]


def plan_operator(**given: Any) -> SamzaPlanOperator:
    return SamzaPlanOperator(task_id="plan", application=VIEWS, systems=SYSTEMS, scope="views", **given)


def stream_operator(**given: Any) -> SamzaStreamOperator:
    return SamzaStreamOperator(
        **{"task_id": "views", "application": VIEWS, "systems": SYSTEMS, "poll_interval": 0.001, **given}
    )


def test_plan_returns_where_the_plan_lies_and_pushes_it_as_text(runtime: Any, make_context: Any) -> None:
    context = make_context(plan_operator())
    ticket = plan_operator().execute(context)
    assert (ticket["application"], ticket["generation"], ticket["stages"]) == ("views", 1, STAGES)
    assert ticket["fingerprint"] == runtime.plans[1].plan.fingerprint
    assert "by-country" in context["ti"].pushed[PLAN_TEXT]


def test_plan_passes_the_partition_key_of_the_dag_run(runtime: Any, make_context: Any) -> None:
    for given in ({}, {"partition_key": "nl"}):
        operator = plan_operator()
        operator.execute({**make_context(operator), **given})
    assert [request.partition_key for _, request in runtime.named("prepare")] == [None, "nl"]


def test_a_date_key_is_the_data_interval_of_the_run_by_every_operator(runtime: Any, make_context: Any) -> None:
    for operator in (plan_operator(), stream_operator(), stream_operator(stage="by-country")):
        operator.execute({**make_context(operator), "partition_key": "2013-01-31"})
    requests = [request for _, request in runtime.named("prepare")]
    assert {request.partition_key for request in requests} == {"2013-01-31"}
    assert {request.interval.iso() for request in requests} == {
        ("2013-01-31T00:00:00+00:00", "2013-02-01T00:00:00+00:00")
    }
    assert len(requests) == 3


def test_a_task_whose_code_is_of_another_version_of_its_bundle_says_so(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(SamzaStreamOperator, "tell", lambda self, line: lines.append(line))

    def bundle(version: str) -> Any:
        return SimpleNamespace(name="dags", version=version)

    operator = plan_operator()
    ticket = operator.execute(make_context(operator, bundle_instance=bundle("abc")))
    (request,) = (request for _, request in runtime.named("prepare"))
    assert request.bundle == {"name": "dags", "version": "abc"}
    runtime.plans[1] = replace(runtime.plans[1], bundle=request.bundle)
    stage = stream_operator(stage="by-country", plan=ticket)
    stage.execute(make_context(stage, bundle_instance=bundle("abc")))
    assert not any("The code is another" in line for line in lines)
    stage.execute(make_context(stage, bundle_instance=bundle("def")))
    assert any("version def of the Dag bundle 'dags', and then it was abc." in line for line in lines)


def test_a_plan_says_in_words_by_which_version_of_the_code_it_was_made_before(runtime: Any, make_context: Any) -> None:
    operator = plan_operator()
    operator.execute(make_context(operator))
    runtime.plans[1] = replace(runtime.plans[1], bundle={"name": "dags", "version": "def", "before": "abc"})
    context = make_context(operator)
    operator.execute(context)
    assert context["ti"].pushed[PLAN_TEXT].endswith("version def of the Dag bundle 'dags', and then it was abc.\n")


def test_a_stage_may_be_named_by_its_title(runtime: Any, make_context: Any) -> None:
    ticket = plan_operator().execute(make_context(plan_operator()))
    title = stage_titles(runtime.plans[1].plan)["by-country"]
    assert title != "by-country"
    operator = stream_operator(stage=title, plan=ticket)
    assert operator.execute(make_context(operator))["stages"] == ["by-country"]
    assert runtime.named("submit") == [("submit", "by-country", "1.1")]


def test_plan_passes_the_data_interval_and_a_given_one_wins(runtime: Any, make_context: Any) -> None:
    day = {
        "data_interval_start": datetime(2013, 1, 1, tzinfo=timezone.utc),
        "data_interval_end": datetime(2013, 1, 2, tzinfo=timezone.utc),
    }
    for operator in (plan_operator(), plan_operator(data_interval="2013-05-01/2013-05-02")):
        operator.execute(make_context(operator, **day))
    plan_operator().execute(make_context(plan_operator()))
    intervals = [request.interval and request.interval.iso()[0] for _, request in runtime.named("prepare")]
    assert intervals == ["2013-01-01T00:00:00+00:00", "2013-05-01T00:00:00+00:00", None]


def test_a_cleared_plan_task_makes_a_new_generation_and_a_retried_one_does_not(runtime: Any, make_context: Any) -> None:
    operator = plan_operator(retries=1)
    for tries in (
        {"try_number": 1, "max_tries": 1},
        {"try_number": 2, "max_tries": 1},
        {"try_number": 3, "max_tries": 3},
    ):
        operator.execute(make_context(operator, **tries))
    assert [request.generation for _, request in runtime.named("prepare")] == [1, 1, 3]


def test_plan_rejects_stages_that_the_dag_has_no_tasks_for(runtime: Any, make_context: Any) -> None:
    operator = plan_operator(expected_stages=["page-views", "by-member"])
    with pytest.raises(AirflowFailException, match="the plan has page-views, by-member, by-country"):
        operator.execute(make_context(operator))


@pytest.mark.parametrize("operator", [plan_operator, stream_operator])
def test_who_cannot_plan_leaves_why_for_the_page(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch, operator: Callable[[], Any]
) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise UnsupportedShape("The shape of http://me:hush@host is odd.", hint="Change it.")

    monkeypatch.setattr(runtime, "prepare", reject)
    context = make_context(operator())
    with pytest.raises(AirflowFailException):
        operator().execute(context)
    failure = PlanFailure.from_dict(context["ti"].pushed[PLAN_FAILURE])
    assert failure is not None
    assert (failure.application, failure.kind, failure.hint) == (VIEWS, "UnsupportedShape", "Change it.")
    assert failure.sentence.startswith("The shape of http://")
    assert "hush" not in failure.sentence


def test_who_cannot_open_the_connection_of_the_root_leaves_why_for_the_page(make_context: Any) -> None:
    operator = plan_operator(conn_id="nowhere")
    context = make_context(operator)
    with pytest.raises(AirflowFailException):
        operator.execute(context)
    assert "nowhere" in context["ti"].pushed[PLAN_FAILURE]["sentence"]


def test_a_rejection_of_the_planner_fails_the_task_without_retry(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: Any, **__: Any) -> None:
        raise UnsupportedShape("The shape is odd.", hint="Change it.")

    monkeypatch.setattr(runtime, "prepare", reject)
    with pytest.raises(AirflowFailException, match=r"The shape is odd\.\n  Hint: Change it\."):
        plan_operator().execute(make_context(plan_operator()))


@pytest.fixture
def ticket(runtime: Any, make_context: Any) -> Any:
    return plan_operator().execute(make_context(plan_operator()))


def test_a_stage_runs_under_the_plans_and_its_own_generation(runtime: Any, make_context: Any, ticket: Any) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, retries=1)
    returned = operator.execute(make_context(operator, try_number=2, max_tries=2))
    assert runtime.named("submit") == [("submit", "by-member", "1.2")]
    assert runtime.named("finish") == [("finish", "by-member")]
    assert runtime.named("close") == []
    assert returned["stages"] == ["by-member"]
    assert returned["generation"] == "1.2"
    assert returned["rows"] == {"out-by-member": 90}
    assert returned["outputs"]["out-by-member"]["files"] == ["part-00000.parquet"]
    assert returned["outputs"]["out-by-member"]["offsets"] == {"0": 9}


def test_the_log_tells_progress_and_what_was_read_and_written(
    runtime: Any, make_context: Any, ticket: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, progress_interval=0.0001)
    operator.execute(make_context(operator))
    text = capsys.readouterr().out
    for told in (
        "queued (attempt 1)",
        "running, 1 of 2 tasks done; read 50",
        "100 messages",
        "90 messages",
        "part-00000.parquet",
    ):
        assert told in text


def test_a_retry_submits_the_same_generation(runtime: Any, make_context: Any, ticket: Any) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, retries=2)
    for try_number in (1, 2, 3):
        operator.execute(make_context(operator, try_number=try_number))
    assert runtime.named("submit") == [("submit", "by-member", "1.1")] * 3


def test_the_runners_last_lines_stand_above_the_sentence_in_the_log_of_a_failed_task(
    runtime: Any, make_context: Any, ticket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    log = SimpleNamespace(
        info=lambda event, *args: said.append(event % args if args else event),
        error=lambda text: said.append(text),
        warning=lambda *_: None,
    )
    monkeypatch.setattr(SamzaStreamOperator, "log", log)
    monkeypatch.setattr(SamzaHook, "bindings", lambda self: {})
    (tmp_path / "runner.log").write_text("Spark is up\nOutOfMemoryError: Java heap space\n")
    runtime.ends["by-member"] = StageFailed("It broke.", hint="Look at line 3.", log="runner.log")
    operator = stream_operator(stage="by-member", plan=ticket)
    with pytest.raises(AirflowException):
        operator.execute(make_context(operator))
    first = said.index("::group::The last 2 lines of the runner and its driver (runner.log, under the root)")
    assert said[first + 1 :] == [
        "Spark is up",
        "OutOfMemoryError: Java heap space",
        "::endgroup::",
        "It broke.\n  Hint: Look at line 3.\n  More: docs/reference/errors.md#stage-failed",
    ]


def test_a_log_that_cannot_be_read_hides_no_failure(runtime: Any, make_context: Any, ticket: Any) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.", log="../../elsewhere")
    operator = stream_operator(stage="by-member", plan=ticket)
    with pytest.raises(AirflowException, match="It broke"):
        operator.execute(make_context(operator))


def test_a_failed_stage_is_retried_with_its_own_error(runtime: Any, make_context: Any, ticket: Any) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.", hint="Look at line 3.")
    operator = stream_operator(stage="by-member", plan=ticket)
    with pytest.raises(AirflowException, match=r"It broke\.\n  Hint: Look at line 3\.") as raised:
        operator.execute(make_context(operator))
    assert not isinstance(raised.value, AirflowFailException)


def test_a_stage_with_other_configuration_than_its_plan_is_rejected(
    runtime: Any, make_context: Any, ticket: Any
) -> None:
    operator = stream_operator(stage="by-member", plan=ticket, config={"task.window.ms": "5"})
    with pytest.raises(AirflowFailException, match=r"task\.window\.ms was not set and is '5'"):
        operator.execute(make_context(operator))


@pytest.mark.parametrize(
    "plan", [{}, {"application": "views"}, "", 7, {"application": "a", "stages": None, "generation": "x"}]
)
def test_a_stage_without_a_plan_says_what_to_clear(runtime: Any, make_context: Any, plan: Any) -> None:
    operator = stream_operator(stage="by-member", plan=plan)
    with pytest.raises(AirflowFailException, match="clear the plan task"):
        operator.execute(make_context(operator))


def test_an_unknown_stage_names_those_there_are(runtime: Any, make_context: Any, ticket: Any) -> None:
    operator = stream_operator(stage="by-membr", plan=ticket, application="{{ params.application }}")
    operator.application = VIEWS  # as Airflow renders it
    with pytest.raises(AirflowFailException, match="page-views, by-member, by-country"):
        operator.execute(make_context(operator))
    with pytest.raises(UnknownName, match="page-views, by-member, by-country"):  # where the Dag file can know it
        stream_operator(stage="by-membr", plan=ticket)


def test_a_whole_application_plans_runs_all_stages_in_order_and_closes_the_run(runtime: Any, make_context: Any) -> None:
    operator = stream_operator()
    returned = operator.execute(make_context(operator))
    assert [call[1] for call in runtime.named("submit")] == STAGES
    assert runtime.named("close") == [("close", True, 24 * 3600.0)]
    assert returned["stages"] == STAGES
    # A stage starts when the one before it has ended.
    assert returned["slices"] == {"page-views": {"files": 2, "bytes": 7}}
    order = [call[:2] for call in runtime.calls if call[0] in ("submit", "finish")]
    assert order == [(what, stage) for stage in STAGES for what in ("submit", "finish")]


def test_a_cleared_whole_application_supersedes_all_its_stages(runtime: Any, make_context: Any) -> None:
    operator = stream_operator(retries=0)
    operator.execute(make_context(operator, try_number=2, max_tries=1))
    assert {call[2] for call in runtime.named("submit")} == {"2.1"}


def test_a_stage_alone_adopts_the_plan_of_its_siblings(runtime: Any, make_context: Any) -> None:
    operator = stream_operator(stage="by-member", retries=0)
    operator.execute(make_context(operator, try_number=2, max_tries=1))
    assert runtime.named("prepare")[0][1].generation == 1
    assert runtime.named("submit") == [("submit", "by-member", "1.2")]
    assert runtime.named("close") == []


def test_a_whole_application_that_failed_for_good_is_kept_for_a_week_and_one_with_tries_left_stays_open(
    runtime: Any, make_context: Any
) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.")
    operator = stream_operator(retries=1)
    for try_number in (1, 2):
        with pytest.raises(AirflowException):
            operator.execute(make_context(operator, try_number=try_number))
        assert runtime.named("close") == [("close", False, 168 * 3600.0)] * (try_number - 1)


def test_a_kill_cancels_this_tasks_stage_and_no_other(runtime: Any, make_context: Any, ticket: Any) -> None:
    runtime.endless.update(STAGES)
    operator = stream_operator(stage="by-member", plan=ticket, poll_interval=600)
    # As Airflow does it: a signal, whose handler calls on_kill while execute waits.
    former = signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGTERM])
    submit = runtime.submit

    def submit_and_be_killed(*given: Any) -> Any:
        handle = submit(*given)
        timer.start()
        return handle

    runtime.submit = submit_and_be_killed
    try:
        with pytest.raises(AirflowException, match="was cancelled"):
            operator.execute(make_context(operator))
    finally:
        timer.join()
        signal.signal(signal.SIGTERM, former)
    assert set(runtime.named("cancel")) == {("cancel", "by-member")}


def test_a_kill_before_anything_was_submitted_does_nothing(runtime: Any) -> None:
    stream_operator(stage="by-member").on_kill()
    assert runtime.calls == []


def test_a_time_out_leaves_no_stage_running(
    runtime: Any, make_context: Any, ticket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TimedOut(BaseException):
        pass

    def time_out(handle: Any) -> None:
        raise TimedOut

    monkeypatch.setattr(runtime, "status", time_out)
    operator = stream_operator(stage="by-member", plan=ticket)
    with pytest.raises(TimedOut):
        operator.execute(make_context(operator))
    assert runtime.named("cancel") == [("cancel", "by-member")]


def test_a_run_that_cannot_be_closed_does_not_hide_why_it_has_failed(
    runtime: Any, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("The root is away.")

    monkeypatch.setattr(runtime, "close", close)
    runtime.ends["page-views"] = ConfigError("The stage is odd.", hint="Change it.", key="odd")
    with pytest.raises(AirflowFailException, match=r"The stage is odd\."):
        stream_operator().execute(make_context(stream_operator()))


def test_cleanup_closes_the_run(runtime: Any, make_context: Any, ticket: Any) -> None:
    operator = SamzaCleanupOperator(task_id="cleanup", application=VIEWS, plan=ticket)
    operator.execute(make_context(operator))
    assert runtime.named("close") == [("close", True, 24 * 3600.0)]


def test_cleanup_keeps_a_failed_run_longer(runtime: Any, make_context: Any, ticket: Any) -> None:
    runtime.ends["by-member"] = StageFailed("It broke.")
    operator = SamzaCleanupOperator(task_id="cleanup", application=VIEWS, plan=ticket)
    operator.execute(make_context(operator))
    assert runtime.named("close") == [("close", False, 168 * 3600.0)]


@pytest.mark.parametrize("name", ["keep_topics_after_success", "keep_topics_after_failure"])
@pytest.mark.parametrize("hours", ["-1", "nan"])
def test_cleanup_closes_no_run_for_a_time_that_is_none(
    name: str, hours: str, runtime: Any, make_context: Any, ticket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = SamzaCleanupOperator(task_id="cleanup", application=VIEWS, plan=ticket)
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", hours)
    with pytest.raises(AirflowFailException, match=rf"\[samza\] {name} = {hours} in .* is not 0 or more"):
        operator.execute(make_context(operator))
    assert runtime.named("close") == []
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", "0")
    operator.execute(make_context(operator))
    assert runtime.named("close") == [("close", True, 0.0 if name.endswith("success") else 24 * 3600.0)]


def test_cleanup_of_a_run_that_was_never_planned_does_nothing(runtime: Any, make_context: Any) -> None:
    operator = SamzaCleanupOperator(task_id="cleanup", application=VIEWS, plan=None)
    operator.execute(make_context(operator))
    assert runtime.calls == []


@pytest.mark.parametrize("name", ["poll_interval", "progress_interval"])
@pytest.mark.parametrize("seconds", [0, -1])
def test_an_interval_that_is_no_time_is_rejected(name: str, seconds: float) -> None:
    with pytest.raises(ConfigError, match=name):
        stream_operator(**{name: seconds})


@pytest.mark.parametrize("name", ["poll_interval", "progress_interval"])
@pytest.mark.parametrize("seconds", ["0", "-1", "nan"])
def test_a_configured_interval_that_is_no_time_is_rejected_when_the_dag_is_read_and_by_the_task(
    name: str, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", seconds)
    sentence = rf"\[samza\] {name} = {seconds} in Airflow's configuration is not above 0"
    with pytest.raises(ConfigError, match=sentence):
        stream_operator(poll_interval=None)
    with pytest.raises(ConfigError, match=sentence):  # a worker may have another configuration
        interval_seconds(name, None)
    assert stream_operator(poll_interval=1, progress_interval=1)
    assert interval_seconds(name, 2) == 2


@pytest.mark.parametrize(
    ("name", "usual", "unit", "least", "most"),
    [
        ("poll_interval", 1.0, "seconds", "above 0", "31,536,000,000"),
        ("keep_topics_after_failure", 168.0, "hours", "from 0 on", "8,760,000"),
        ("keep_runs_days", 30.0, "days", "from 0 on", "365,000"),
    ],
)
def test_a_configured_time_is_a_millennium_at_most(
    name: str, usual: float, unit: str, least: str, most: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_be_0 = least != "above 0"
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", most.replace(",", ""))
    assert datetime.now() + timedelta(**{unit: configured_number(name, usual, unit, may_be_0=may_be_0)})
    for beyond in ("inf", "1e+300", "1e+12"):
        monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", beyond)
        with pytest.raises(ConfigError) as rejected:
            configured_number(name, usual, unit, may_be_0=may_be_0)
        assert rejected.value.sentence == f"[samza] {name} = {beyond} in Airflow's configuration is not at most {most}."
        assert rejected.value.hint == f"Give a number of {unit} {least} up to {most}."


@pytest.mark.parametrize("name", ["keep_topics_after_success", "keep_topics_after_failure"])
@pytest.mark.parametrize("hours", ["inf", "-1"])
def test_topics_that_are_kept_for_no_time_are_rejected_when_the_dag_is_read(
    name: str, hours: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIRFLOW__SAMZA__{name.upper()}", hours)
    for operator in (SamzaCleanupOperator, SamzaStreamOperator):
        with pytest.raises(ConfigError, match=rf"\[samza\] {name} = {hours} in Airflow's configuration is not"):
            operator(task_id="t", application=VIEWS)


OPERATORS: list[Callable[..., Any]] = [SamzaPlanOperator, SamzaStreamOperator, SamzaCleanupOperator]


@pytest.mark.parametrize("kind", OPERATORS)
def test_templated_fields_are_rendered(kind: Any) -> None:
    with DAG("d", schedule=None):
        operator = kind(
            task_id="t",
            application="{{ params_.app }}",
            conn_id="{{ env }}_samza",
            systems={"logs": "{{ env }}_logs"},
            config={"job.x": "{{ env }}"},
            spark_conf={"spark.x": "{{ env }}"},
            py_modules=["/{{ env }}/a.zip"],
        )
    operator.render_template_fields({"env": "prod", "params_": {"app": "a:b"}})
    assert (operator.application, operator.conn_id, operator.systems) == ("a:b", "prod_samza", {"logs": "prod_logs"})
    assert (operator.config, operator.spark_conf, operator.py_modules) == (
        {"job.x": "prod"},
        {"spark.x": "prod"},
        ["/prod/a.zip"],
    )


def test_long_lists_of_paths_stay_out_of_the_xcom(
    runtime: Any, make_result: Any, ticket: Any, make_context: Any
) -> None:
    handle = runtime.submit(runtime.plans[1], "by-member", 1)
    facts = summary(runtime.plans[1], [make_result(handle, files=1000)])["outputs"]["out-by-member"]
    assert (len(facts["files"]), facts["files_left_out"]) == (50, 950)
