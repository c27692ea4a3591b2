"""The scheduled model refresh in a real Airflow: exactly the versions expected score exactly the flights expected."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_samza.runs.tables import versions
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from dags.pipelines.delay_model import train
from tests.support.scored_flights import day, is_scored, moment, scored_by

pytestmark = [pytest.mark.nightly, pytest.mark.airflow, pytest.mark.spark, pytest.mark.timeout(3600)]

PLACE = ("log", "delay-model-push")


@dataclass(frozen=True)
class Refreshed:
    """Events so far: models of Monday and Tuesday were pushed, and the second taken back.

    Flights came before each of the three.
    """

    scored: tuple[str, ...]
    pushed: tuple[str, ...]
    rolled_back: str


def succeeds(airflow: Any, dag_id: str, run_id: str) -> str:
    assert airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success", airflow.task_states(dag_id, run_id)
    return run_id


@pytest.fixture(scope="module")
def refreshed(flights: Any) -> Refreshed:
    airflow = flights.airflow
    airflow.wait_for_dag("delay_scores")
    scored: list[str] = []

    def come(number: int) -> None:
        """Further flights come, from a source of their own."""
        rows = pq.read_table(
            flights.data / "flights" / f"{day(number)}.parquet",
            columns=["carrier", "flight", "origin", "hour", "time_hour"],
        )
        LogSystem("log", SystemBinding("log", {"root": str(flights.root)})).append(
            "planned-flights", rows, key=["carrier"]
        )

    def refresh(number: int) -> str:
        interval = {
            "data_interval_start": moment(number).isoformat(),
            "data_interval_end": moment(number + 1).isoformat(),
        }
        run_id = airflow.trigger("delay_model_refresh", logical_date=moment(number), **interval)
        return succeeds(airflow, "delay_model_refresh", run_id)

    def follows() -> None:
        """The run of the scoring Dag that the event has started."""
        begun = airflow.wait_until(
            lambda: airflow.runs("delay_scores")[len(scored) :] or None, 600, "a run scheduled by the asset"
        )
        scored.append(succeeds(airflow, "delay_scores", begun[0]["dag_run_id"]))

    succeeds(airflow, "delay_flights_feed", airflow.trigger("delay_flights_feed", conf={"day": str(day(1))}))
    first = refresh(0)
    follows()
    come(2)
    second = refresh(1)
    follows()
    come(3)
    back = succeeds(airflow, "delay_model_rollback", airflow.trigger("delay_model_rollback"))
    follows()
    return Refreshed(tuple(scored), (first, second), back)


def output_of(flights: Any, dag_id: str, run_id: str) -> Path:
    return Path(flights.airflow.xcom(dag_id, run_id, "scores.run")["outputs"]["scores"]["path"])


def test_each_push_scores_what_came_since_the_last_with_the_newest_version(flights: Any, refreshed: Refreshed) -> None:
    first, second, _ = refreshed.scored
    assert is_scored(output_of(flights, "delay_scores", first), scored_by(flights.data, 1, 0))
    assert is_scored(output_of(flights, "delay_scores", second), scored_by(flights.data, 2, 1))


def test_after_the_rollback_the_older_model_scores(flights: Any, refreshed: Refreshed) -> None:
    assert flights.airflow.xcom("delay_model_rollback", refreshed.rolled_back, "rollback")["reads"] == 1
    assert is_scored(output_of(flights, "delay_scores", refreshed.scored[2]), scored_by(flights.data, 3, 0))


def test_a_push_tells_version_rows_and_interval_with_its_event(flights: Any, refreshed: Refreshed) -> None:
    found = flights.airflow.api("GET", "/assets/events", params={"limit": 100})["asset_events"]
    versions = [event for event in found if event["extra"].get("table") == "delay-model"]
    ours, by_place = (
        sorted(
            (event["extra"] for event in versions if event["uri"].startswith(scheme)),
            key=lambda extra: extra["version"],
        )
        for scheme in ("samza://", "file:")
    )
    assert by_place == ours  # the asset by where the table lies has the same events
    assert [(extra["version"], extra["kind"], extra["reads"]) for extra in ours] == [
        (1, "full", 1),
        (2, "full", 2),
        (3, "rollback", 1),
    ]
    assert ours[0]["rows"] == len(train(flights.data, day(0)))
    assert datetime.fromisoformat(ours[1]["interval"][1]) == moment(2)


def test_the_log_of_a_push_tells_rows_bytes_version_and_offsets(flights: Any, refreshed: Refreshed) -> None:
    log = flights.airflow.log("delay_model_refresh", refreshed.pushed[0], "push")
    assert "Table delay-model: version 1 (full, push " in log
    assert "partition 0: offsets [0, " in log


@pytest.mark.nightly
def test_a_cleared_push_finds_its_version(flights: Any, refreshed: Refreshed) -> None:
    run_id = refreshed.pushed[1]
    flights.airflow.clear("delay_model_refresh", run_id, "push")
    succeeds(flights.airflow, "delay_model_refresh", run_id)
    assert flights.airflow.xcom("delay_model_refresh", run_id, "push")["version"] == 2
    assert len(versions.versions(open_filesystem(str(flights.root)), *PLACE)) == 3
    # Its event starts another run; nothing new has come, and nothing is scored. (A backfill made meanwhile can end a
    # scheduler on SQLite.)
    known = len(refreshed.scored)
    (more,) = flights.airflow.wait_until(
        lambda: flights.airflow.runs("delay_scores")[known:] or None, 600, "a run scheduled by the asset"
    )
    succeeds(flights.airflow, "delay_scores", more["dag_run_id"])
    assert flights.airflow.xcom("delay_scores", more["dag_run_id"], "scores.run")["rows"] == {"scores": 0}


@pytest.mark.nightly
def test_a_backfill_scores_each_day_with_the_version_that_was_current_on_it(flights: Any, refreshed: Refreshed) -> None:
    airflow = flights.airflow
    airflow.wait_for_dag("delay_scores_daily")
    airflow.backfill("delay_scores_daily", str(day(1)), str(day(3)), "--max-active-runs", "2")
    runs = airflow.runs("delay_scores_daily")
    assert len(runs) == 3
    for run in runs:
        succeeds(airflow, "delay_scores_daily", run["dag_run_id"])
    # Tuesday by Monday's model; Wednesday and Thursday by Tuesday's: it was taken back long after them.
    for number, model in ((1, 0), (2, 1), (3, 1)):
        assert is_scored(
            flights.warehouse / "delay-scores-of-a-day" / str(day(number)), scored_by(flights.data, number, model)
        )


def test_the_plan_of_a_run_says_which_version_it_reads(flights: Any, refreshed: Refreshed) -> None:
    plan = flights.airflow.xcom("delay_scores", refreshed.scored[1], "scores.plan")
    (stored,) = (flights.root / "runs" / "delay-scores" / plan["run_id"] / "plan").glob("*.json")
    assert json.loads(stored.read_text())["tables"]["delay-model"]["number"] == 2
