"""Lists of runs: pages of them, what a task belongs to, and what is said of a root that cannot be opened."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from airflow_samza.provider.page.airflow_records import FailedPlan, Planned, TaskAfter
from airflow_samza.provider.page.routes import runs
from airflow_samza.provider.page.routes.runs import Selected, _selected
from airflow_samza.provider.xcoms import PlanFailure, PlanNote
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.page_here import DAG, DAG_RUN, Page

RUNS = "/api/roots/samza_page/runs"


def failed_plan(dag_id: str = DAG, map_index: int = -1, at: float = 5.0) -> FailedPlan:
    failure = PlanFailure("flows:visits", "samza_page", "NoSuchFile", "There is no file.", "Write it.", at, "topic")
    return FailedPlan(dag_id, DAG_RUN, "flow.plan", map_index, failure)


def test_a_dag_run_says_why_its_application_could_not_be_planned(page: Page) -> None:
    page.airflow.dag_runs.add((DAG, DAG_RUN))
    page.airflow.tasks = {"flow.plan": "failed"}
    page.airflow.failures = [failed_plan(), failed_plan(map_index=3), failed_plan("other")]
    found = page.ask(f"{DAG}/runs/{DAG_RUN}/applications").json()
    assert found["note"] == "Nothing is planned yet: flow.plan (failed)."
    (failed,) = found["failed_plans"]  # of tasks with the same error one
    assert failed == {
        "application": "flows:visits",
        "plan_task": "flow.plan",
        "map_index": -1,
        "kind": "NoSuchFile",
        "sentence": "There is no file.",
        "hint": "Write it.",
        "entry": "docs/reference/errors.md#topic",
        "at": 5.0,
    }


CLEAR = f"{DAG}/runs/{DAG_RUN}/failed-plans/flow.plan/-1/clear"


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (
            [TaskAfter("cleanup", "success", False, True), TaskAfter("visits", "upstream_failed", True, False)],
            ["2 more tasks run", "No stage of this run has begun"],
        ),
        ([TaskAfter("visits", "success", True, True)], ["one more task runs", "Stages have run before: visits."]),
        ([], ["No task comes after it.", "No stage of this run has begun"]),
        (None, ["the tasks after it are not known"]),
    ],
    ids=["none has begun", "a stage has run", "no task", "no version of the Dag"],
)
def test_the_preview_of_a_clear_of_a_failed_plan_says_what_runs_and_what_has_run(
    page: Page, after: list[TaskAfter] | None, told: list[str]
) -> None:
    page.airflow.failures, page.airflow.after = [failed_plan()], after
    found = page.ask(CLEAR).json()
    assert found["sentences"][0] == "flow.plan plans the run anew."
    assert [part in said for part, said in zip(told, found["sentences"][1:], strict=True)] == [True] * len(told)
    assert [task["task_id"] for task in found["tasks"]] == [task.task_id for task in after or []]


def test_a_plan_that_has_not_failed_has_no_such_preview(page: Page) -> None:
    assert page.ask(CLEAR).status_code == 404


def test_why_a_plan_has_failed_is_for_those_who_may_read_its_log(page: Page) -> None:
    page.airflow.dag_runs.add((DAG, DAG_RUN))
    page.airflow.failures = [failed_plan()]
    page.unlogged.add(DAG)
    assert page.ask(f"{DAG}/runs/{DAG_RUN}/applications").json()["failed_plans"] == []


def test_runs_that_could_not_be_planned_are_listed_among_the_others_without_their_reasons(page: Page) -> None:
    page.plan()
    page.airflow.failures = [failed_plan("later", at=4e9), failed_plan("first"), failed_plan("hers")]
    page.forbidden.add("hers")
    found = page.browse(RUNS).json()
    assert [(run["dag_id"], run["state"]) for run in found["runs"]] == [
        ("later", "plan failed"),
        (DAG, "running"),
        ("first", "plan failed"),
    ]
    assert found["applications"] == ["flows:visits", "visits"]
    assert "There is no file" not in str(found)
    (root,) = page.browse("/api/roots").json()["roots"]
    assert (root["runs"], root["newest"]) == (3, 4e9)
    assert [run["dag_id"] for run in page.browse(RUNS, application="flows:visits").json()["runs"]] == ["later", "first"]


def note(**given: Any) -> PlanNote:
    usual = {"group": "flow", "tasks": {"a": "flow.a", "b": "flow.b"}}
    return PlanNote("visits", "run-1", 1, "f", "samza_page", 5.0, **{**usual, **given})


def selected(task_id: str, map_index: int, *planned: Planned) -> tuple[str, int, str | None] | None:
    found: Selected | None = _selected(planned, task_id, map_index)
    return None if found is None else (found.plan_task, found.map_index, found.stage_id)


def test_a_task_belongs_to_the_plan_whose_stage_it_runs_or_that_it_has_made() -> None:
    plan = Planned(DAG, DAG_RUN, "flow.plan", -1, note())
    assert selected("flow.a", -1, plan) == ("flow.plan", -1, "a")
    assert selected("flow.a", 3, plan) == ("flow.plan", -1, "a")  # a task that is mapped within the group
    assert selected("flow.plan", -1, plan) == ("flow.plan", -1, None)
    assert selected("flow.cleanup", -1, plan) == ("flow.plan", -1, None)
    assert selected("flower.a", -1, plan) is None
    assert selected("other", -1, plan) is None


def test_a_task_that_runs_several_stages_belongs_to_none_of_them() -> None:
    plan = Planned(DAG, DAG_RUN, "all", -1, note(group="", tasks={"a": "all", "b": "all"}))
    assert selected("all", -1, plan) == ("all", -1, None)
    assert selected(".plan", -1, plan) is None  # of no group


def test_of_a_mapped_group_a_task_belongs_to_the_plan_of_its_index() -> None:
    plans = [Planned(DAG, DAG_RUN, "flow.plan", index, note()) for index in (0, 1)]
    assert selected("flow.a", 1, *plans) == ("flow.plan", 1, "a")
    assert selected("flow.a", 2, *plans) is None


def test_runs_come_a_page_at_a_time(page: Page) -> None:
    for number in range(3):
        page.plan(f"manual__{number}")
        page.rewrite(planned_at=float(number))
    found = page.browse(RUNS, limit=2).json()
    assert ([row["dag_run_id"] for row in found["runs"]], found["total"]) == (["manual__2", "manual__1"], 3)
    rest = page.browse(RUNS, limit=2, offset=2).json()
    assert ([row["dag_run_id"] for row in rest["runs"]], rest["total"]) == (["manual__0"], 3)
    assert found["place"] == str(page.here.root)


def test_runs_may_be_those_of_one_application(page: Page) -> None:
    page.plan()
    page.plan("manual__2", application="other-visits")
    found = page.browse(RUNS, application="other-visits").json()
    assert ([row["application"] for row in found["runs"]], found["total"]) == (["other-visits"], 1)
    assert found["applications"] == ["other-visits", "visits"]
    (root,) = page.browse("/api/roots").json()["roots"]
    assert (root["runs"], root["applications"]) == (2, ["other-visits", "visits"])
    assert root["newest"] == max(plan.note.planned_at for plan in page.airflow.plans)


def test_without_a_plan_that_the_user_may_read_the_list_says_so(page: Page) -> None:
    page.plan()
    page.forbidden = {DAG}
    assert page.browse("/api/roots").json()["note"].startswith("No run of a Dag that you may read has planned")
    assert (
        page.browse(RUNS).json()["sentence"] == "No run of a Dag that you may read is under the root of 'samza_page'."
    )


def test_a_root_whose_connection_is_gone_has_no_place_and_its_runs_are_unknown(page: Page) -> None:
    page.plan()
    page.rewrite(conn_id="gone_root")
    found = page.browse("/api/roots/gone_root/runs").json()
    (row,) = found["runs"]
    assert (found["place"], row["state"]) == (None, runs.UNKNOWN)
    for said in (found["note"], row["note"]):
        assert said == "The connection 'gone_root' is not defined."


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), OSError("odd")])
def test_a_run_whose_records_cannot_be_read_is_unknown(
    page: Page, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    page.plan()

    def broken(self: Any, path: str) -> bytes:
        raise error

    monkeypatch.setattr(LocalFilesystem, "read", broken)
    (row,) = page.browse(RUNS).json()["runs"]
    assert row["state"] == runs.UNKNOWN
    assert row["note"] == f"The storage could not be read: {error.strerror or error}."


def test_a_run_whose_records_are_deleted_is_gone(page: Page) -> None:
    run = page.plan()
    open_filesystem(str(page.here.root)).delete_tree(RunFolder(run.application, run.run_id).path)
    (row,) = page.browse(RUNS).json()["runs"]
    assert row["state"] == runs.GONE
    assert "are not there any more" in row["note"]
