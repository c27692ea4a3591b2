"""The reason for which a stage has not begun, in the words of the page, and the stage for which a run waits longest."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.provider.page.looks import bottleneck_of, why_not_begun
from airflow_samza.provider.page.stage_answers import Stage, stage_answer
from airflow_samza.runs.progress.progress import NOT_STARTED, PartitionProgress, ProgressReport, Rate
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import FAILED, QUEUED, RUNNING, SUCCEEDED
from tests.support.page_here import Page


@pytest.fixture
def run(page: Page) -> RunPlan:
    return page.plan()


def stage(run: RunPlan, stage_id: str, state: str, **more: object) -> Stage:
    report = ProgressReport(stage_id, "1.1", state, 5.0, **more)  # type: ignore[arg-type]
    return stage_answer(run, report, stage_id, f"flow.{stage_id}", {})


def reason(run: RunPlan, mark: TaskMark | None, *, before: str = RUNNING, state: str = NOT_STARTED) -> str | None:
    """Return why the second stage has not begun, while the first one is in the state ``before``."""
    stages = {"visits": stage(run, "visits", before), "by-country": stage(run, "by-country", state)}
    return why_not_begun(stages["by-country"], mark, ("visits",), stages)


@pytest.mark.parametrize(
    ("state", "before", "expected"),
    [
        (None, RUNNING, "Waits for the stage visits."),
        (None, SUCCEEDED, "Waits for Airflow to schedule its task."),
        ("scheduled", SUCCEEDED, "Waits for a slot (pool gate)."),
        ("queued", SUCCEEDED, "Waits for a worker of Airflow's executor."),
        ("running", SUCCEEDED, "A stage runner and its Spark start."),
        ("deferred", SUCCEEDED, "A stage runner and its Spark start."),
        ("upstream_failed", FAILED, "The stage visits failed."),
        ("upstream_failed", NOT_STARTED, "A task before its own failed."),
        ("failed", SUCCEEDED, "Its task failed before the stage began: its log says why."),
    ],
)
def test_a_stage_that_has_not_begun_says_for_what_it_waits(
    run: RunPlan, state: str | None, before: str, expected: str
) -> None:
    assert reason(run, TaskMark(state, 0, 0, None, "gate"), before=before) == expected


def test_a_stage_that_its_runner_has_not_taken_up_waits_for_the_runner(run: RunPlan) -> None:
    assert reason(run, TaskMark("running", 1, 0, 1.0), state=QUEUED) == (
        "Its stage runner starts Spark, or works on another stage."
    )


@pytest.mark.parametrize("state", [RUNNING, SUCCEEDED, FAILED])
def test_a_stage_that_has_begun_has_no_reason(run: RunPlan, state: str) -> None:
    assert reason(run, TaskMark("running", 1, 0, 1.0), state=state) is None


def test_a_stage_waits_for_the_one_that_has_to_start_first(run: RunPlan) -> None:
    answer = stage(run, "by-country", RUNNING, waiting_for="visits")
    assert why_not_begun(answer, None, (), {}) == "The stage visits has to start first."


def behind(run: RunPlan, stage_id: str, lag: int, rate: float = 10.0) -> Stage:
    partitions = (PartitionProgress(stage_id, 0, 0, lag),)
    return stage(run, stage_id, RUNNING, partitions=partitions, now=Rate(rate, 0.0, 30.0))


def test_the_bottleneck_is_the_stage_with_the_most_time_left(run: RunPlan) -> None:
    stages = [behind(run, "visits", 100), behind(run, "by-country", 50, rate=1.0)]
    assert [found.seconds_left for found in stages] == [10.0, 50.0]
    assert bottleneck_of(stages) == "by-country"


def test_there_is_no_bottleneck_of_one_stage_or_where_nothing_is_behind(run: RunPlan) -> None:
    assert bottleneck_of([behind(run, "visits", 100), stage(run, "by-country", NOT_STARTED)]) is None
    assert bottleneck_of([behind(run, "visits", 0), behind(run, "by-country", 0)]) is None


def test_every_stage_of_an_answer_says_why_it_has_not_begun(page: Page) -> None:
    run = page.plan()
    page.here.stages(run, "visits")
    page.airflow.marks["flow.by-country"] = dataclasses.replace(TaskMark("scheduled", 0, 0, None), pool="gate")
    found = page.get("progress")
    assert [stage["waits"] for stage in found["stages"]] == [
        None,
        "Waits for a slot (pool gate).",
    ]
    assert found["bottleneck"] is None
