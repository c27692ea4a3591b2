"""The map over all Dags, and the calendar of an application's outputs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.provider.page.airflow_records import Assets, Sender
from airflow_samza.provider.page.routes import calendar
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.page_here import DAG, PLAN_TASK, Page

DAY = [datetime(2026, 1, day, tzinfo=timezone.utc) for day in range(1, 8)]


def the_map(page: Page) -> dict[str, Any]:
    answer = page.browse("/api/map")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def of(found: dict[str, Any], stream_id: str) -> dict[str, Any]:
    (data,) = (data for data in found["data"] if stream_id in data["streams"])
    return dict(data)


def test_the_map_has_who_writes_and_reads_what_of_two_dags(page: Page) -> None:
    page.plan("one", dag_id="first")
    page.plan("one", dag_id="second", application="other-visits")
    found = the_map(page)
    read = {data["node"]: set(data["streams"]) for data in found["data"]}
    assert [
        (one["dag_id"], [read[node] for node in one["reads"]], [read[node] for node in one["writes"]])
        for one in found["applications"]
    ] == [("first", [{"visits"}], [{"countries"}]), ("second", [{"visits"}], [{"elsewhere"}])]
    assert found["note"] is None


def test_topics_of_one_run_are_not_on_the_map(page: Page) -> None:
    page.plan()
    assert {name for data in the_map(page)["data"] for name in data["streams"]} == {"visits", "countries"}


def test_a_dag_has_its_newest_run_on_the_map_and_the_newest_that_succeeded_is_how_fresh_its_data_is(page: Page) -> None:
    for number, state in enumerate(("success", "success", "failed")):
        page.plan(f"run-{number}", interval=DataInterval(DAY[number], DAY[number + 1]))
        page.airflow.states[f"run-{number}"] = state
    found = the_map(page)
    (application,) = found["applications"]
    assert application["dag_run_id"] == "run-2"
    fresh = of(found, "countries")["fresh"]
    assert fresh["dag_run_id"] == "run-1"
    assert [datetime.fromisoformat(text) for text in fresh["interval"]] == [DAY[1], DAY[2]]
    assert of(found, "visits")["fresh"] is None


def test_nothing_of_a_dag_that_the_user_may_not_read_is_on_the_map(page: Page) -> None:
    page.plan("one", dag_id="ours")
    page.plan("one", dag_id="theirs", application="other-visits")
    uri = of(the_map(page), "countries")["uri"]
    page.airflow.known_assets = Assets(
        {uri: [Sender("theirs", 1.0), Sender("pushes", 2.0)]}, {uri: ["theirs", "after"]}
    )
    page.forbidden.add("theirs")
    found = the_map(page)
    assert "theirs" not in str(found)
    assert "elsewhere" not in str(found)
    assert (of(found, "countries")["writers"], of(found, "countries")["readers"]) == (["pushes"], ["after"])
    assert of(found, "countries")["fresh"]["dag_id"] == "pushes"


def test_the_note_of_another_dags_run_brings_nothing_on_the_map(page: Page) -> None:
    page.plan("one", dag_id="theirs")
    known = page.airflow.plans.pop()
    page.plan("one", dag_id="ours", application="other-visits")
    page.rewrite(application=known.note.application, run_id=known.note.run_id, generation=known.note.generation)
    assert the_map(page)["data"] == []


def test_a_plan_is_read_once_for_all_who_look(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow_samza.provider.page.routes import data_map

    page.plan()
    before = the_map(page)
    monkeypatch.setattr(data_map, "_read", lambda opened: pytest.fail("read again"))
    assert the_map(page) == before


def test_of_many_applications_those_that_were_planned_last_are_shown(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_samza.provider.page.routes import data_map

    monkeypatch.setattr(data_map, "MOST", 1)
    page.plan("one", dag_id="first")
    page.plan("one", dag_id="second")
    found = the_map(page)
    assert [one["dag_id"] for one in found["applications"]] == ["second"]
    assert found["note"] == "The 1 applications that were planned last are shown."


def scheduled(days: Iterable[int]) -> Any:
    slices = [SimpleNamespace(start=DAY[day], end=DAY[day + 1]) for day in days]
    return lambda form, first, last: ([one for one in slices if first <= one.start <= last], None)


def of_days(page: Page, *runs: tuple[str, int, str]) -> None:
    """Make runs of days, by id, day and state; those that succeed write their slots."""
    for run_id, day, state in runs:
        make = page.run if state == "success" else page.plan
        make(run_id=run_id, interval=DataInterval(DAY[day], DAY[day + 1]))
        page.airflow.states[run_id] = state


def shown(found: dict[str, Any]) -> list[tuple[str, str | None, list[str]]]:
    return [(slot["state"], slot["holder"], [run["dag_run_id"] for run in slot["runs"]]) for slot in found["slots"]]


def calendar_of(page: Page, run_id: str) -> dict[str, Any]:
    answer = page.ask(f"{DAG}/runs/{run_id}/plans/{PLAN_TASK}/-1/calendar")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_calendar_has_filled_failed_and_missing_slots_with_their_runs(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calendar, "scheduled", scheduled(range(6)))
    of_days(page, ("a", 0, "success"), ("b", 0, "failed"), ("c", 1, "failed"), ("d", 4, "running"), ("e", 3, "success"))
    of_days(page, ("manual__1", 3, "success"))
    found = calendar_of(page, "d")
    assert (found["outputs"], found["follows"], found["note"]) == (["countries"], ["countries"], None)
    assert shown(found) == [
        ("filled", "a", ["b", "a"]),
        ("failed", None, ["c"]),
        ("missing", None, []),
        ("filled", "manual__1", ["manual__1", "e"]),
        ("running", None, ["d"]),
    ]


def test_what_was_deleted_by_hand_is_missing_though_a_run_has_succeeded(page: Page) -> None:
    of_days(page, ("a", 0, "success"), ("b", 1, "success"))
    (folder,) = [path.parent for path in page.here.root.rglob("topic.json") if "countries" in str(path)]
    shutil.rmtree(folder)
    assert shown(calendar_of(page, "b")) == [("missing", None, ["a"]), ("missing", None, ["b"])]


def test_a_slot_that_a_run_outside_of_the_dag_has_filled_says_so_without_its_name(page: Page) -> None:
    of_days(page, ("a", 0, "success"), ("b", 1, "failed"))
    page.here.whole("page_app:visits", "by-hand", interval=DataInterval(DAY[1], DAY[2]))
    assert shown(calendar_of(page, "a")) == [("filled", "a", ["a"]), ("filled", calendar.ELSEWHERE, ["b"])]


def test_a_day_without_a_row_is_filled(page: Page) -> None:
    shutil.rmtree(page.here.root / "topics")
    page.here.log.make("visits", 2, "country string, email string, n bigint")
    of_days(page, ("a", 0, "success"))
    assert shown(calendar_of(page, "a")) == [("filled", "a", ["a"])]


def test_partition_keys_have_slots_of_their_own(page: Page) -> None:
    for run_id, key in (("a", "fr"), ("b", "de"), ("c", "nl")):
        (page.plan if key == "nl" else page.run)(run_id=run_id, partition_key=key)
        page.airflow.states[run_id] = "failed" if key == "nl" else "success"
    found = calendar_of(page, "c")
    assert [(slot["partition_key"], slot["start"], slot["state"], slot["holder"]) for slot in found["slots"]] == [
        ("de", None, "filled", "b"),
        ("fr", None, "filled", "a"),
        ("nl", None, "failed", None),
    ]


@pytest.mark.parametrize("error", [StorageUnavailable("The disk did not answer."), OSError("no disk")])
def test_where_the_storage_does_not_answer_the_calendar_follows_the_dag_runs(
    page: Page, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> list[Any]:
        raise error

    of_days(page, ("a", 0, "success"), ("b", 1, "failed"))
    monkeypatch.setattr(LogSystem, "slot_writers", fails)
    found = calendar_of(page, "b")
    assert found["follows"] == []
    assert "the calendar follows the Dag runs" in found["note"]
    assert shown(found) == [("filled", "a", ["a"]), ("failed", None, ["b"])]


def test_where_each_interval_has_a_place_of_its_own_the_calendar_follows_the_dag_runs(page: Page) -> None:
    (page.here.root / "lake").mkdir()
    page.here.bindings = {"lake": SystemBinding("files", {"root": str(page.here.root / "lake")})}
    for day in (0, 1):
        run_id = f"day-{day}"
        page.plan(run_id, application="daily-visits", interval=DataInterval(DAY[day], DAY[day + 1]))
        page.airflow.states[run_id] = "success"
    found = calendar_of(page, "day-1")
    assert found["follows"] == []
    assert calendar.OF_ITS_OWN in found["note"]
    assert shown(found) == [("filled", "day-0", ["day-0"]), ("filled", "day-1", ["day-1"])]


def test_runs_without_an_interval_have_no_slots_by_time(page: Page) -> None:
    page.plan()
    found = page.get("calendar")
    assert (found["slots"], found["outputs"]) == ([], [])
    assert "its outputs have no slots" in found["note"]


def test_the_calendar_of_a_dag_of_others_is_not_shown(page: Page) -> None:
    page.plan()
    page.forbidden.add(DAG)
    assert page.get("calendar", 403)["rule"] == "not-permitted"
