"""The preview of a backfill in the page: the schedule's slices, and what is on record of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.provider.airflow_versions import scheduler_form
from airflow_samza.provider.page import backfill
from airflow_samza.runs.records.data_interval import DataInterval
from tests.support.page_here import Page


def day(number: int) -> datetime:
    return datetime(2013, 1, number, tzinfo=timezone.utc)


def scheduled(schedule: Any) -> Any:
    return scheduler_form(DAG("visits", schedule=schedule, start_date=pendulum.datetime(2013, 1, 1)))


@pytest.fixture
def daily(page: Page) -> Page:
    page.airflow.form = scheduled(CronDataIntervalTimetable("@daily", timezone="UTC"))
    page.airflow.dates = {day(2): "success"}
    return page


def test_slices_say_what_is_there_and_what_another_run_may_cost(daily: Page) -> None:
    daily.run(interval=DataInterval(day(2), day(3)))
    found = daily.get("backfill", first="2013-01-01", last="2013-01-02")
    first, second = found["slices"]
    assert [first["name"], second["name"]] == ["2013-01-01 – 2013-01-02", "2013-01-02 – 2013-01-03"]
    assert (first["airflow_run"], first["there"], first["inputs"]) == (None, [], [])
    (there,) = second["there"]
    assert (second["airflow_run"], there["state"], there["rows"]) == ("success", "succeeded", 4)
    assert second["inputs"][0]["offsets"] == 5
    assert (found["former"], found["rows"], second["estimate_rows"]) == (1, 8, 4)
    assert found["seconds"] == pytest.approx(first["estimate_seconds"] + second["estimate_seconds"])
    assert found["command"] == "airflow-samza backfill-preview visits --from 2013-01-01 --to 2013-01-02"


def test_slices_of_a_schedule_of_moments_are_named_by_one_moment(daily: Page) -> None:
    daily.airflow.form = scheduled("@daily")
    daily.plan()
    found = daily.get("backfill", first="2013-01-01", last="2013-01-02")
    assert [slice_["name"] for slice_ in found["slices"]] == ["2013-01-01", "2013-01-02"]


def test_a_run_of_another_dag_over_the_same_interval_is_not_named(daily: Page) -> None:
    daily.run(dag_id="secret", interval=DataInterval(day(2), day(3)))
    daily.plan()
    daily.forbidden = {"secret"}
    (slice_,) = daily.get("backfill", first="2013-01-02", last="2013-01-02")["slices"]
    assert [there["run"] for there in slice_["there"]] == [backfill.HIDDEN_RUN]


def test_a_backfill_without_runs_says_why(daily: Page) -> None:
    daily.plan()
    wrong = daily.get("backfill", first="2013-01-02", last="2013-01-01")
    assert wrong["note"] == "The first day is after the last one."
    assert "no interval" in daily.get("backfill", first="2100-01-01", last="2100-01-02")["note"]
    daily.airflow.form = scheduled(None)
    assert "has no schedule" in daily.get("backfill", first="2013-01-01", last="2013-01-02")["note"]
    daily.airflow.form = None
    assert "no version" in daily.get("backfill", first="2013-01-01", last="2013-01-02")["note"]


def test_a_long_backfill_shows_its_first_runs(daily: Page) -> None:
    daily.plan()
    found = daily.get("backfill", first="2013-01-01", last="2016-01-01")
    assert len(found["slices"]) == backfill.SLICES_SHOWN
    assert "more runs" in found["note"]
