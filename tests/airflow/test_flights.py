"""The example Dags on the real flights, in a real Airflow."""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.flights_answers import asked_of_duckdb, written

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(1800)]

STAGES = ("flights", "planes", "by-tail-and-planes-by-tail", "by-maker-and-hour")
LAST = "delays.by-maker-and-hour"


@pytest.fixture(scope="session")
def year(flights: Any) -> str:
    """A run of the whole year, a task per stage, that has ended."""
    run_id: str = flights.airflow.trigger("flights")
    run = flights.airflow.wait_for_run("flights", run_id, timeout=1200)
    assert run["state"] == "success", flights.airflow.task_states("flights", run_id)
    return run_id


def output_of(flights: Any, dag_id: str, run_id: str, task_id: str = LAST) -> Path:
    return Path(flights.airflow.xcom(dag_id, run_id, task_id)["outputs"]["delays"]["path"])


def test_the_whole_year_gives_what_duckdb_gives(flights: Any, year: str) -> None:
    found = written(output_of(flights, "flights", year))
    assert len(found) == 477
    assert found == asked_of_duckdb(flights.data)


def test_each_stage_is_a_task_and_all_have_succeeded(flights: Any, year: str) -> None:
    states = flights.airflow.task_states("flights", year)
    assert states == dict.fromkeys(
        ("delays.plan", *(f"delays.{stage}" for stage in STAGES), "delays.cleanup"), "success"
    )
    assert next(iter(states)) == "delays.plan"
    assert list(states)[-1] == "delays.cleanup"


def test_the_log_of_a_stage_tells_what_it_read_and_sent(flights: Any, year: str) -> None:
    log = flights.airflow.log("flights", year, "delays.flights")
    assert re.search(r"Stage flights( \([\w-]+\))? is done: 4 tasks, [\d.]+ (s|min)", log)
    assert re.search(r"read +flights +336,776 messages", log)
    assert re.search(r"sent +by-tail +328,521 messages .*16 control messages \(4 to each of 4 partitions\)", log)


def test_xcoms_hold_the_plan_the_rows_and_where_they_are(flights: Any, year: str) -> None:
    ticket = flights.airflow.xcom("flights", year, "delays.plan")
    assert ticket["stages"] == list(STAGES)
    assert ticket["fingerprint"] in flights.airflow.xcom("flights", year, "delays.plan", "plan_text")
    done = flights.airflow.xcom("flights", year, "delays.flights")
    assert (done["generation"], done["read"]["flights"]["messages"], done["rows"]) == (
        "1.1",
        336_776,
        {"by-tail": 328_521},
    )
    assert done["slices"]["flights"]["files"] == 365


def test_cleanup_keeps_the_topics_for_a_day_and_ends_the_runner(flights: Any, year: str) -> None:
    assert "may be deleted after 24 h" in flights.airflow.log("flights", year, "delays.cleanup")
    run = flights.root / "runs" / "flights-of-the-year" / flights.airflow.xcom("flights", year, "delays.plan")["run_id"]
    assert json.loads((run / "closed.json").read_text())["succeeded"] is True


def test_clearing_a_stage_replaces_its_output(flights: Any, year: str) -> None:
    output = output_of(flights, "flights", year)
    before = written(output)
    flights.airflow.clear("flights", year, LAST)
    assert flights.airflow.wait_for_run("flights", year)["state"] == "success"
    again = flights.airflow.xcom("flights", year, LAST)
    assert again["generation"].split(".")[1] == "2"
    assert written(output) == before


@pytest.mark.extended
def test_clearing_everything_plans_anew_and_keeps_what_has_not_changed(flights: Any, year: str) -> None:
    output = output_of(flights, "flights", year)
    before = written(output)
    flights.airflow.clear("flights", year)
    assert flights.airflow.wait_for_run("flights", year, timeout=1200)["state"] == "success"
    assert flights.airflow.xcom("flights", year, "delays.plan")["generation"] == 2
    assert flights.airflow.xcom("flights", year, LAST)["generation"].split(".")[0] == "1"  # kept (rule P13)
    assert written(output) == before


@pytest.mark.nightly
def test_the_fused_dag_gives_the_same(flights: Any) -> None:
    run_id = flights.airflow.trigger("flights_fused")
    assert flights.airflow.wait_for_run("flights_fused", run_id, timeout=1200)["state"] == "success"
    assert written(output_of(flights, "flights_fused", run_id, "delays")) == asked_of_duckdb(flights.data)


def day_of(run: dict[str, Any]) -> date:
    """The day whose flights a run reads."""
    return date.fromisoformat(run["data_interval_start"][:10])


@pytest.mark.parametrize(
    ("first", "backwards"),
    [
        pytest.param(date(2013, 3, 1), False, id="parallel", marks=pytest.mark.nightly),
        pytest.param(date(2013, 2, 1), True, id="reversed", marks=pytest.mark.nightly),
    ],
)
def test_a_backfill_gives_each_date_its_own_result_through_its_own_topics(
    flights: Any, first: date, backwards: bool
) -> None:
    days = [first + timedelta(days=n) for n in range(3)]
    flights.airflow.wait_for_dag("flights_daily")
    flights.airflow.wait_for_backfills("flights_daily")
    options = ("--run-backwards", "--max-active-runs", "1") if backwards else ("--max-active-runs", "3")
    flights.airflow.backfill("flights_daily", str(days[0]), str(days[-1]), *options)
    runs = [run for run in flights.airflow.runs("flights_daily") if run["logical_date"] and day_of(run) in days]
    assert [run["run_type"] for run in runs] == ["backfill"] * 3
    ended = [flights.airflow.wait_for_run("flights_daily", run["dag_run_id"], timeout=1200) for run in runs]
    assert [run["state"] for run in ended] == ["success"] * 3
    started = [day_of(run) for run in sorted(ended, key=lambda run: run["start_date"])]
    if backwards:
        assert started == sorted(started, reverse=True)
    for day in days:
        assert written(flights.warehouse / "delays-of-a-day" / str(day)) == asked_of_duckdb(
            flights.data, f"{day}.parquet"
        )
    ids = {flights.airflow.xcom("flights_daily", run["dag_run_id"], "delays.plan")["run_id"] for run in runs}
    topics = {path.parent.name for path in (flights.root / "topics").glob("flights-of-a-day-1-by-tail/*/*")}
    assert len(ids) == 3
    assert ids <= topics


@pytest.mark.nightly
def test_an_hour_is_cut_out_by_its_timestamps(flights: Any) -> None:
    flights.airflow.wait_for_dag("flights_hourly")
    flights.airflow.backfill("flights_hourly", "2013-03-01T13:00:00", "2013-03-01T13:00:00")
    (run,) = flights.airflow.runs("flights_hourly")
    assert flights.airflow.wait_for_run("flights_hourly", run["dag_run_id"], timeout=1200)["state"] == "success"
    right = asked_of_duckdb(
        flights.data, within="time_hour >= '2013-03-01T13:00:00Z' AND time_hour < '2013-03-01T14:00:00Z'"
    )
    assert right
    assert written(flights.warehouse / "delays-by-time" / "2013-03-01T13") == right


def test_a_run_without_a_data_interval_says_what_it_lacks_and_stays_red(flights: Any) -> None:
    run_id = flights.airflow.trigger("flights_daily")
    run = flights.airflow.wait_for_run("flights_daily", run_id)
    # Cleanup runs after a failure, too, and must not turn the run green; a rejection is not retried.
    assert run["state"] == "failed"
    assert flights.airflow.task_states("flights_daily", run_id) == {
        "delays.plan": "failed",
        "delays.run": "upstream_failed",
        "delays.cleanup": "success",
    }
    assert "The input 'flights' needs the data interval for its path" in flights.airflow.log(
        "flights_daily", run_id, "delays.plan"
    )


def test_airflow_lists_the_provider(flights: Any) -> None:
    told = json.loads(flights.airflow.cli("providers", "get", "airflow-samza", "--output", "json"))
    assert told[0]["Provider"] == "airflow-samza"
    hooks = json.loads(flights.airflow.cli("providers", "hooks", "--output", "json"))
    assert [hook["class"] for hook in hooks if hook["connection_type"] == "samza"] == [
        "airflow_samza.provider.hooks.samza.SamzaHook"
    ]


def test_the_page_of_connections_has_the_samza_form(flights: Any) -> None:
    forms = flights.airflow.api("GET", f"{flights.airflow.url}/ui/connections/hook_meta")
    (form,) = [form for form in forms if form["connection_type"] == "samza"]
    assert form["hook_name"] == "Samza"
    assert list(form["extra_fields"]) == [
        "root",
        "root_conn_id",
        "default_system",
        "spark_conn_id",
        "spark_conf",
        "runner_python",
        "runners_outlive_tasks",
    ]
    assert form["standard_fields"]["password"]["hidden"]
