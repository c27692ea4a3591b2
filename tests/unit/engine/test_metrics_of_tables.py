"""Counters and gauges of tasks and processors, and the lag of side inputs, in the progress of a run. No Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import InitableTask, StreamTask, task_application
from airflow_samza.engine.tables import followed_tables
from airflow_samza.errors import StorageUnavailable
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.progress.stage_progress import heads_that_answer, stage_progress
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import describe_result
from airflow_samza.runs.stages.stage_state import RUNNING, StageHandle, StageStatus
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES, SEEN, VIEWS, Seen
from tests.support.waiting import until
from tests.unit.engine.tables.test_followed_tables import FOLLOWING, PROCESSED, running, view
from tests.unit.prepare.test_side_inputs import many, profiles, views

GAUGING = "tests.unit.engine.test_metrics_of_tables:gauging"


class Gauging(InitableTask, StreamTask):
    """Counts its messages, under the name that the processor counts under, too; gauges which came last."""

    def init(self, context: Any) -> None:
        self.metrics = context.metrics

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.metrics.count("seen")
        self.metrics.gauge("member", envelope.key)
        self.metrics.gauge(f"of partition {envelope.partition}", 1)
        coordinator.commit()


@task_application("gauging", default_system="log")
def gauging(app: Any) -> None:
    app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    app.table("profiles", key="member_id", side_inputs=[changes], schema=SEEN, processor=Seen)
    app.task(Gauging)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    made = Here(tmp_path)
    made.log.create([StreamSpec("views", 2, "member_id bigint, page string")])
    return made


def progress(here: Here, plan: RunPlan) -> ProgressReport:
    return stage_progress(
        open_filesystem(str(here.root)), heads_that_answer({"log": here.log}, {}), plan, plan.plan.stages[0].stage_id
    )


def test_a_gauge_has_the_last_value_of_each_task_and_is_not_added_up_over_tasks_and_epochs(here: Here) -> None:
    profiles(here, m1="gold")
    with running(here, GAUGING) as (plan, _):
        for member in (9, 1, 2, 3, 4, 5):
            views(here, member)
        until(lambda: progress(here, plan).read == 6)
    report = progress(here, plan)
    assert report.epochs > 2
    last = {}
    for member in (9, 1, 2, 3, 4, 5):
        last[partition_of(here, member)] = member
    assert report.gauges["member"] == {str(task): member for task, member in last.items()}
    assert report.metrics["member"] == max(last.values())
    assert report.metrics["of partition 0"] == report.metrics["of partition 1"] == 1


def partition_of(here: Here, member: int) -> int:
    head = here.log.metadata([StreamSpec("views")])["views"].head
    for partition in range(2):
        place, offsets = SystemStreamPartition("log", "views", partition), OffsetRange(0, head[partition] or 0)
        with contextlib.closing(here.log.consumer(StreamSpec("views"))) as consumer:
            for envelope in consumer.read(place, offsets):
                if isinstance(envelope, MessageRun) and member in envelope.batch.column("member_id").to_pylist():
                    return partition
    raise AssertionError(member)


def test_what_a_processor_and_a_task_count_under_one_name_is_added_up(here: Here) -> None:
    profiles(here, m1="gold", m2="gold", m3="gold", m4="gold")
    with running(here, GAUGING) as (plan, _):
        for member in (1, 2, 3, 4):
            views(here, member)
        until(lambda: progress(here, plan).metrics.get("seen") == 4 + 4)


def test_what_a_processor_counts_and_gauges_is_in_the_result_of_the_stage(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    plan = here.whole("tests.support.side_input_apps:processed_views", "run-1")
    handle = StageHandle(plan.application, plan.run_id, "views", Generation(plan.generation, 1))
    result = here.runtime.finish(handle)
    assert result.task_facts["seen"] == 100
    lines = describe_result(result)
    assert "  seen: 100" in lines
    assert any(line.startswith("  last: ") for line in lines)
    assert not any("gauges" in line for line in lines)


@pytest.mark.parametrize("application", [FOLLOWING, PROCESSED])
def test_progress_says_how_far_tables_are_behind_their_side_inputs(
    here: Here, application: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_tables, "FEW_MESSAGES", 10)
    profiles(here, m1="gold")
    with running(here, application) as (plan, _):
        assert view(here, 1) == "gold"
        report = progress(here, plan)
        assert report.side_input_lags == {"profile-changes": 0}
        assert "  profile-changes  side input, at the head" in describe_progress(report)
        many(here, "silver")
        if application == FOLLOWING:  # nobody prepares what came
            report = progress(here, plan)
            assert report.side_input_lags == {"profile-changes": 100}
            assert "  profile-changes  side input, 100 offsets behind" in describe_progress(report)
            assert report.to_dict()["side_inputs"][0]["lag"] is not None
        else:
            until(lambda: progress(here, plan).side_input_lags["profile-changes"] <= 20)


def test_a_system_that_does_not_answer_hides_its_lag_alone_and_is_named(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles(here, m1="gold")
    with running(here, GAUGING) as (plan, _):
        views(here, 1)
        until(lambda: progress(here, plan).read == 1)
    asked: list[str] = []

    def silent(self: LogSystem, streams: Sequence[StreamSpec]) -> Any:
        asked.extend(stream.name for stream in streams)
        raise StorageUnavailable("The brokers are away.")

    monkeypatch.setattr(LogSystem, "metadata", silent)
    handle = StageHandle(plan.application, plan.run_id, "views", Generation(plan.generation, 1))
    report = here.runtime.progress(handle, StageStatus(RUNNING, 1))
    assert (report.read, report.side_input_lags, asked) == (1, {}, ["profile-changes"])
    sentence = "The lag behind streams of the system 'log' is not known at present: The brokers are away."
    assert [line for line in describe_progress(report) if sentence in line]
