"""Links on tasks: written while a task runs and by the trigger of one that is deferred, and kept at the end."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.bases import xcom

from airflow_samza.provider import links
from airflow_samza.provider.links import ENDED_RUN, OUTPUT, PAGE, RUNNER_LOG, SPARK, SparkPages
from airflow_samza.provider.operators.drain import SamzaDrainOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.triggers.runs import SamzaStageTrigger
from airflow_samza.runs.progress import run_list
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.spark_page import SparkPage, note_spark_page
from airflow_samza.runs.stages.stage_runners import RunnerFolder, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import QUEUED, RUNNING, SUCCEEDED, StageHandle, StageStatus
from airflow_samza.systems.filesystems.local import LocalFilesystem

VIEWS = "provider_applications:views"
SYSTEMS = {"logs": "views_logs", "warehouse": "views_out"}
RUN = "manual__2026-01-01T00:00:00+00:00"


def stream_operator(**given: Any) -> SamzaStreamOperator:
    return SamzaStreamOperator(
        **{"task_id": "views", "application": VIEWS, "systems": SYSTEMS, "poll_interval": 0.001, **given}
    )


@pytest.fixture(autouse=True)
def below_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    served_at = SimpleNamespace(get=lambda *_, **__: "https://company.example:8443/airflow/")
    monkeypatch.setattr(links, "conf", served_at)


def handle_of(stage: str) -> StageHandle:
    return StageHandle("views", "run-1", stage, Generation(1, 1), 1)


def a_runner(files: LocalFilesystem, page: SparkPage | None, stage: str = "page-views") -> None:
    """Leave an attempt at a stage with its runner, whose Spark is up if it has a page."""
    runner = RunnerFolder(RunFolder("views", "run-1"), "key", 1)
    request = StageRequest(stage, "1.1", 1, runner=RunnerPlace("key", 1))
    write_once(files, handle_of(stage).folder.attempt(1, "request"), request)
    if page is not None:
        note_spark_page(files, runner, page)


def task_instance(map_index: int) -> Any:
    return SimpleNamespace(dag_id="flights", run_id=RUN, task_id="views", map_index=map_index)


def test_a_task_links_to_its_page_before_it_does_anything(make_context: Any) -> None:
    operator = SamzaPlanOperator(task_id="plan", application=VIEWS)
    context = make_context(operator)
    operator.pre_execute(context)
    run = "manual__2026-01-01T00%3A00%3A00%2B00%3A00"
    assert context["ti"].pushed == {
        PAGE.xcom_key: f"/airflow/dags/flights/runs/{run}/tasks/plan/plugin/samza-task",
    }


def test_a_mapped_task_links_to_the_page_of_its_index(make_context: Any) -> None:
    operator = SamzaPlanOperator(task_id="plan", application=VIEWS)
    context = make_context(operator, map_index=3)
    operator.pre_execute(context)
    assert context["ti"].pushed[PAGE.xcom_key].endswith("/tasks/plan/mapped/3/plugin/samza-task")


def test_a_stage_that_runs_links_to_log_and_outputs(runtime: Any, make_context: Any) -> None:
    operator = stream_operator()
    context = make_context(operator)
    runtime.status, finished = lambda handle: seen_at(context, handle), runtime.status
    seen: dict[str, Any] = {}

    def seen_at(context: Any, handle: StageHandle) -> StageStatus:
        seen.update(context["ti"].pushed)
        status: StageStatus = finished(handle)
        return status

    operator.execute(context)
    assert seen[RUNNER_LOG.xcom_key].endswith("/tasks/views/plugin/samza-task#/results")
    assert seen[OUTPUT.xcom_key].endswith("/tasks/views/plugin/samza-task#/results")


def test_a_stage_that_only_sends_to_the_next_one_has_no_output_to_link_to(runtime: Any, make_context: Any) -> None:
    operator = stream_operator(stage="page-views")
    context = make_context(operator)
    operator.execute(context)
    assert OUTPUT.xcom_key not in context["ti"].pushed


def test_sparks_page_is_looked_up_when_a_stage_runs_and_its_history_when_it_has_ended(tmp_path: Path) -> None:
    files, pages = LocalFilesystem(tmp_path), SparkPages()
    a_runner(files, SparkPage("app-1", "http://driver:4040", "http://history:18080/history/app-1"))
    moments = [StageStatus(QUEUED, 1), StageStatus(RUNNING, 1), StageStatus(RUNNING, 1), StageStatus(SUCCEEDED, 1)]
    found = [pages.look(files, handle_of("page-views"), moment) for moment in moments]
    assert found == ["", "http://driver:4040", "", "http://history:18080/history/app-1"]


def test_a_spark_that_comes_up_in_the_middle_of_a_stage_is_found_by_looks_that_grow_rarer(tmp_path: Path) -> None:
    now, looks = [0.0], 0
    pages, running = SparkPages(clock=lambda: now[0]), StageStatus(RUNNING, 1)

    class Watched(LocalFilesystem):
        def read(self, path: str) -> bytes:
            nonlocal looks
            looks += path.endswith("spark.json")
            return super().read(path)

    files = Watched(tmp_path)
    a_runner(files, None)
    for second in range(100):
        now[0] = second
        assert not pages.look(files, handle_of("page-views"), running)
    assert 0 < looks < 10
    a_runner(files, SparkPage("app-1", "http://driver:4040"))
    found = []
    for second in range(100, 200):
        now[0] = second
        found.append(pages.look(files, handle_of("page-views"), running))
    assert [address for address in found if address] == ["http://driver:4040"]


def test_a_stage_whose_runner_told_of_no_page_has_no_link(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    a_runner(files, None)
    assert not SparkPages().look(files, handle_of("page-views"), StageStatus(RUNNING, 1))


def test_the_trigger_of_a_deferred_task_writes_the_link_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: dict[str, Any] = {}
    monkeypatch.setattr(xcom.BaseXCom, "set", lambda **given: written.update(given))
    files = LocalFilesystem(tmp_path)
    a_runner(files, SparkPage("app-1", "http://driver:4040"))
    trigger = SamzaStageTrigger(root=str(tmp_path), poll_interval=0.01, stages=[handle_of("page-views").to_dict()])
    trigger.task_instance = task_instance(map_index=2)
    trigger.show_spark(files, handle_of("page-views"), StageStatus(RUNNING, 1))
    assert written == {
        "key": SPARK.xcom_key,
        "value": "http://driver:4040",
        "dag_id": "flights",
        "run_id": RUN,
        "task_id": "views",
        "map_index": 2,
    }


def test_a_trigger_that_cannot_write_a_link_waits_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def reject(**_: Any) -> None:
        raise ConnectionError("the API server is away")

    monkeypatch.setattr(xcom.BaseXCom, "set", reject)
    files = LocalFilesystem(tmp_path)
    a_runner(files, SparkPage("app-1", "http://driver:4040"))
    trigger = SamzaStageTrigger(root=str(tmp_path), poll_interval=0.01, stages=[handle_of("page-views").to_dict()])
    trigger.task_instance = task_instance(map_index=-1)
    trigger.show_spark(files, handle_of("page-views"), StageStatus(RUNNING, 1))
    assert "the API server is away" in caplog.text


def test_a_task_whose_link_cannot_be_written_goes_on(make_context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = SamzaPlanOperator(task_id="plan", application=VIEWS)
    context = make_context(operator)

    def reject(**_: Any) -> None:
        raise ConnectionError("the API server is away")

    monkeypatch.setattr(xcom.BaseXCom, "set", reject)
    operator.pre_execute(context)
    assert PAGE.get_link(operator, ti_key=context["ti"]).endswith("/tasks/plan/plugin/samza-task")


def test_the_end_of_a_task_keeps_what_its_trigger_wrote(make_context: Any) -> None:
    operator = stream_operator()
    ti = make_context(operator)["ti"]
    ti.xcom_pull = lambda *, task_ids, key, map_indexes: {SPARK.xcom_key: "http://driver:4040"}.get(key)
    assert SPARK.get_link(operator, ti_key=ti) == "http://driver:4040"
    assert not RUNNER_LOG.get_link(operator, ti_key=ti)


def test_a_drain_links_to_the_run_that_it_ends(
    runtime: Any, make_context: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_samza.provider.operators import drain as drain_operator

    run = SimpleNamespace(application="views", run_id="run-1", generation=1)
    note_origin(
        LocalFilesystem(tmp_path),
        RunFolder("views", "run-1"),
        {"dag_id": "live", "run_id": "manual/1", "task_id": "x.plan"},
    )
    monkeypatch.setattr(drain_operator, "active_runs", lambda *_: [run])
    operator = SamzaDrainOperator(task_id="drain", application=VIEWS, wait_for_completion=False)
    context = make_context(operator)
    operator.execute(context)
    assert context["ti"].pushed[ENDED_RUN.xcom_key] == "/airflow/dags/live/runs/manual%2F1/plugin/samza-run"
    assert run_list.origin_of(LocalFilesystem(tmp_path), "views", "another").dag_id == ""


def test_links_lead_to_views_that_the_page_has() -> None:
    from airflow_samza.provider.page.plugin import SamzaPlugin

    routes = {view["destination"]: view["url_route"] for view in SamzaPlugin.external_views}
    assert routes["task_instance"] == links.TASK_ROUTE
    assert routes["dag_run"] == links.RUN_ROUTE
