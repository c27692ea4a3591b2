"""The preview of a backfill in the page: the schedule's slices, and what is on record of them."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza.provider.airflow_versions import events_take_partitions, scheduler_form
from airflow_samza.provider.page import backfill
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.system import SystemBinding
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


def test_later_runs_whose_rows_would_be_replaced_by_older_ones_are_named(daily: Page, tmp_path: Path) -> None:
    daily.here.bindings = {"tables": SystemBinding("delta", {"root": str(tmp_path / "tables")})}
    for number, dag_id in ((1, "visits"), (2, "visits"), (3, "secret"), (4, "visits")):
        interval = DataInterval(day(number), day(number + 1))
        daily.run(run_id=f"day-{number}", dag_id=dag_id, application="newest-visits", interval=interval)
    daily.run(application="newest-visits", interval=DataInterval(day(1), day(2)))
    daily.forbidden = {"secret"}
    found = daily.get("backfill", first="2013-01-01", last="2013-01-02")
    assert found["note"] == (
        f"The later runs {backfill.HIDDEN_RUN!r}, 'visits~flow~day-4' have written to 'newest', and this run replaces "
        "newer rows there by older ones: clear them behind it, too, in their order."
    )
    assert daily.get("backfill", first="2013-01-03", last="2013-01-04")["note"] is None


def test_a_clear_names_later_runs_too(daily: Page, tmp_path: Path) -> None:
    daily.here.bindings = {"tables": SystemBinding("delta", {"root": str(tmp_path / "tables")})}
    daily.run(application="newest-visits", interval=DataInterval(day(1), day(2)))
    assert not [one for one in daily.get("clear", task_id="flow.visits")["sentences"] if "later" in one]
    daily.run(run_id="after", application="newest-visits", interval=DataInterval(day(2), day(3)))
    (said,) = [one for one in daily.get("clear", task_id="flow.visits")["sentences"] if "later" in one]
    assert said.startswith("The later run 'visits~flow~after' has written to 'newest'")


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


@pytest.mark.skipif(not events_take_partitions(), reason="backfills are of partitions since Airflow 3.3")
def test_slices_of_partitions_are_named_by_their_keys_and_find_the_runs_of_these(daily: Page) -> None:
    from airflow.sdk import CronPartitionTimetable

    daily.airflow.form = scheduled(CronPartitionTimetable("@daily", timezone="UTC", key_format="%Y-%m-%d"))
    daily.run(partition_key="2013-01-02")
    first, second = daily.get("backfill", first="2013-01-01", last="2013-01-02")["slices"]
    assert [first["name"], second["name"]] == ["2013-01-01", "2013-01-02"]
    assert (first["airflow_run"], first["there"]) == (None, [])
    assert (second["airflow_run"], [there["rows"] for there in second["there"]]) == ("success", [4])
