"""The last runs of a stage, and what is said of one that is slow."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.provider.page.routes.progress import RUNS_SHOWN, StageRun, slow_note
from airflow_samza.provider.page.stage_answers import stage_answer
from airflow_samza.runs.progress.progress import ProgressReport
from tests.support.page_here import DAG_RUN, PLAN_TASK, Page


def history(page: Page) -> dict[str, Any]:
    found: dict[str, Any] = page.get("stages/visits/history")
    return found


def test_the_runs_of_a_stage_come_oldest_first_with_rows_time_and_bytes(page: Page) -> None:
    page.run(run_id="manual__0")
    page.run()
    page.plan(run_id="manual__2")  # has no result yet
    found = history(page)
    assert [(run["dag_run_id"], run["rows"], run["is_this"]) for run in found["runs"]] == [
        ("manual__0", 5, False),
        (DAG_RUN, 5, True),
    ]
    assert all(run["seconds"] > 0 and run["bytes"] > 0 for run in found["runs"])


@pytest.mark.parametrize(
    "other",
    [{"application": "other-visits"}, {"dag_id": "others"}, {"task_id": "other.plan"}],
    ids=lambda one: next(iter(one)),
)
def test_runs_of_others_are_no_part_of_it(page: Page, other: dict[str, str]) -> None:
    page.run()
    page.run(run_id="manual__0", **other)
    assert [run["dag_run_id"] for run in history(page)["runs"]] == [DAG_RUN]


def test_records_that_another_dag_run_has_planned_are_not_shown(page: Page) -> None:
    page.run()
    page.run(dag_id="others", run_id="manual__0")
    theirs = page.airflow.plans.pop()
    page.run(run_id="manual__2")
    page.rewrite(run_id=theirs.note.run_id)  # as somebody may who may write XComs
    assert [run["dag_run_id"] for run in history(page)["runs"]] == [DAG_RUN]


def test_a_stage_that_there_is_not_is_not_found(page: Page) -> None:
    page.plan()
    page.get("stages/nobody/history", 404)


def of_runs(page: Page, seconds: float, *others: float, rows: int = 20) -> str | None:
    """Return what is said of a stage that took so long, beside other runs that read ten rows each."""
    report = ProgressReport("visits", "1.1", "succeeded", 5.0, seconds=seconds, read=rows)
    runs = [
        StageRun(dag_run_id=str(n), planned_at=0.0, rows=10, seconds=took, bytes=1, is_this=False)
        for n, took in enumerate(others)
    ]
    this = StageRun(dag_run_id="this", planned_at=0.0, rows=rows, seconds=seconds, bytes=1, is_this=True)
    return slow_note(stage_answer(page.plan(), report, "visits", "flow.visits", {}), [*runs, this])


def test_a_run_that_takes_far_longer_than_the_others_is_called_slow(page: Page) -> None:
    assert of_runs(page, 30.0, 9.0, 10.0, 60.0) == (
        "3.0 times slower than usual: 30.0 s instead of 10.0 s, the median of 3 runs, for 2.0 times the rows."
    )


@pytest.mark.parametrize(
    ("seconds", "others"),
    [(19.0, (10.0, 10.0, 10.0)), (30.0, (10.0, 10.0)), (0.3, (0.1, 0.1, 0.1))],
    ids=["not twice", "too few others", "less than a second more"],
)
def test_a_run_is_not_called_slow_without_a_reason(page: Page, seconds: float, others: tuple[float, ...]) -> None:
    assert of_runs(page, seconds, *others) is None


def test_of_many_runs_the_newest_are_shown(page: Page) -> None:
    page.run()
    (planned,) = page.airflow.plans
    page.airflow.plans += [planned] * RUNS_SHOWN
    assert planned.task_id == PLAN_TASK
    assert len(history(page)["runs"]) == RUNS_SHOWN
