"""The example Dags over a topic of Kafka, in a real Airflow with a real broker."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pytest

from demo import flights_topic
from tests.support.kafka_outputs import read_all
from tests.support.signals import let_go, wait_for_start

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [
    pytest.mark.extended,
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

DAYS = (29, 30, 31)
"""The local days whose flights the topic has, of December."""
HOURS = [f"2013-12-30T{hour}" for hour in (12, 13, 14)]
LAG = r"flights +3 partitions, (at the head|[\d,]+ offsets? behind)"
"""The line of a deferred stage's log on its input."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class OverTheTopic:
    """Runs that have ended: of the hours, in the order in which they began, and the continuous one."""

    hours: list[dict[str, Any]]
    live: str
    drained: str


@pytest.fixture(scope="module")
def ran(flights: Any, kafka: Kafka) -> Iterator[OverTheTopic]:
    """The hours are read while the continuous run goes on."""
    airflow = flights.airflow
    flights_topic.fill(
        kafka.address, (row for row in flights_topic.flights() if row["month"] == 12 and row["day"] in DAYS)
    )
    connection = {"conn_type": "kafka", "extra": json.dumps({"bootstrap.servers": kafka.address})}
    airflow.api("POST", "/connections", json={"connection_id": "flights_kafka", **connection})
    live = airflow.trigger("kafka_live")
    airflow.wait_for_dag("kafka_hourly")
    airflow.backfill("kafka_hourly", HOURS[0], HOURS[-1], "--run-backwards", "--max-active-runs", "2")
    airflow.wait_for_task("kafka_live", live, "hours.by-carrier", ("deferred",), timeout=900)
    airflow.wait_until(
        lambda: re.search(LAG, airflow.log("kafka_live", live, "hours.flights")), 900, "the lag of the deferred stage"
    )
    drained = airflow.trigger("kafka_drain")
    hours = [run["dag_run_id"] for run in airflow.runs("kafka_hourly")]
    ended = [airflow.wait_for_run("kafka_hourly", run_id, timeout=1200) for run_id in hours]
    for dag_id, run_id in (("kafka_live", live), ("kafka_drain", drained)):
        assert airflow.wait_for_run(dag_id, run_id, timeout=1200)["state"] == "success", airflow.task_states(
            dag_id, run_id
        )
    yield OverTheTopic(sorted(ended, key=lambda run: str(run["start_date"])), live, drained)
    airflow.api("DELETE", "/connections/flights_kafka")


def asked_of_duckdb(data: Path, within: str = "true") -> list[Row]:
    """Departures by hour and carrier, of the files that nobody has sent through Kafka."""
    files = [str(data / "flights" / f"2013-12-{day}.parquet") for day in DAYS]
    rows: list[Row] = duckdb.execute(
        f"SELECT epoch(time_hour), carrier, count(*), round(avg(dep_delay), 9) FROM read_parquet({files}) "
        f"WHERE dep_delay IS NOT NULL AND {within} GROUP BY 1, 2 ORDER BY 1, 2"
    ).fetchall()
    return rows


def written(flights: Any, hour: str) -> list[Row]:
    folder = flights.warehouse / "kafka-hourly" / hour
    rows: list[Row] = duckdb.execute(
        f"SELECT carrier, flights, round(delay, 9) FROM read_parquet('{folder}/*.parquet') ORDER BY 1"
    ).fetchall()
    return rows


def model(flights: Any, hour: str) -> list[Row]:
    found = [row[1:] for row in asked_of_duckdb(flights.data, f"time_hour = '{hour}:00:00Z'")]
    assert found
    return found


def hour_of(run: Mapping[str, Any]) -> str:
    return str(run["data_interval_start"])[:13]


@pytest.mark.nightly
def test_hours_of_a_topic_are_backfilled_backwards_and_several_at_a_time(flights: Any, ran: OverTheTopic) -> None:
    assert [(run["run_type"], run["state"]) for run in ran.hours] == [("backfill", "success")] * 3
    assert [hour_of(run) for run in ran.hours] == HOURS[::-1]
    assert ran.hours[1]["start_date"] < ran.hours[0]["end_date"]
    assert {hour: written(flights, hour) for hour in HOURS} == {hour: model(flights, hour) for hour in HOURS}


@pytest.mark.nightly
def test_a_cleared_stage_reads_the_same_offsets_whatever_has_come_since(
    flights: Any, ran: OverTheTopic, kafka: Kafka
) -> None:
    airflow, run = flights.airflow, ran.hours[0]
    at = int(datetime.fromisoformat(f"{hour_of(run)}:30:00+00:00").timestamp() * 1000)
    late = {**dict.fromkeys(flights_topic.COLUMNS), "carrier": "XX", "dep_delay": 5, "at": at}
    flights_topic.send(kafka.address, [late])
    airflow.clear("kafka_hourly", run["dag_run_id"], "hour.run")
    assert airflow.wait_for_run("kafka_hourly", run["dag_run_id"])["state"] == "success"
    assert airflow.xcom("kafka_hourly", run["dag_run_id"], "hour.run")["generation"] == "1.2"
    assert written(flights, hour_of(run)) == model(flights, hour_of(run))


@pytest.mark.nightly
def test_a_continuous_run_that_is_drained_has_published_every_window_once(
    flights: Any, ran: OverTheTopic, kafka: Kafka
) -> None:
    found = [json.loads(message.value or b"") for message in read_all(kafka.address, "carrier-hours")]
    windows = sorted(
        (
            datetime.fromisoformat(row["window_start"].replace("Z", "+00:00")).timestamp(),
            row["carrier"],
            row["flights"],
            round(row["delay"], 9),
        )
        for row in found
    )
    assert windows == asked_of_duckdb(flights.data)
    assert "every stage has succeeded" in flights.airflow.log("kafka_drain", ran.drained, "drain")


@pytest.mark.nightly
def test_a_deferred_stage_shows_its_lag_by_the_connection(flights: Any, ran: OverTheTopic) -> None:
    log = flights.airflow.log("kafka_live", ran.live, "hours.flights")
    assert re.search(LAG, log), log


class Between(NamedTuple):
    """A run whose stages hand over through Kafka, and the one of a Dag that waits for the end of its last topic."""

    run_id: str
    waiting: str


@pytest.fixture(scope="module")
def between(flights: Any, ran: OverTheTopic) -> Between:
    """The middle stage has lost its runner once."""
    airflow = flights.airflow
    run_id = str(airflow.trigger("between"))
    wait_for_start(flights, "between")
    waiting = str(airflow.trigger("between_ended", conf={"run_id": run_id}))
    airflow.wait_for_task("between_ended", waiting, "ended", ("deferred",))
    folder = records_of(flights, run_id)
    for claim in folder.glob("servers/*/*/claim.json"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)
    let_go(flights, "between")
    assert airflow.wait_for_run("between", run_id)["state"] == "success", airflow.task_states("between", run_id)
    return Between(run_id, waiting)


def records_of(flights: Any, run_id: str) -> Path:
    ticket = flights.airflow.xcom("between", run_id, "between.plan")
    found: Path = flights.root / "runs" / ticket["application"] / ticket["run_id"]
    return found


def topics_between(kafka: Kafka) -> list[str]:
    """The topics between stages that the broker has."""
    from confluent_kafka.admin import AdminClient

    known = AdminClient({"bootstrap.servers": kafka.address}).list_topics(timeout=60).topics
    return sorted(name.split(".")[1] for name in known if name.startswith("samza.between-"))


def counted(flights: Any, run_id: str) -> dict[str, int]:
    """The number of flights by the carrier, as the last stage of a run has written it."""
    folder = flights.airflow.xcom("between", run_id, "between.by-carrier")["outputs"]["out"]["path"]
    rows = duckdb.execute(f"SELECT carrier, flights FROM read_parquet('{folder}/*.parquet')").fetchall()
    return {carrier: count for carrier, count in rows if carrier != "XX"}  # not of the files


def counted_by_duckdb(data: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for _, carrier, count, _ in asked_of_duckdb(data):
        found[carrier] = found.get(carrier, 0) + count
    return found


def test_stages_hand_over_through_kafka_and_a_stage_is_tried_again(
    flights: Any, between: Between, kafka: Kafka
) -> None:
    assert flights.airflow.task("between", between.run_id, "between.by-plane")["try_number"] == 2
    assert counted(flights, between.run_id) == counted_by_duckdb(flights.data)
    assert topics_between(kafka) == ["between-1-by-carrier", "between-1-by-plane"]


def test_a_sensor_waits_deferred_for_the_end_of_a_topic_between_stages(flights: Any, between: Between) -> None:
    airflow = flights.airflow
    assert airflow.wait_for_run("between_ended", between.waiting)["state"] == "success"
    found = airflow.xcom("between_ended", between.waiting, "ended")
    assert (found["stream"], found["generations"]) == ("by-carrier", {"by-plane": "1.1"})


@pytest.mark.nightly
def test_a_middle_stage_that_is_cleared_reads_and_writes_topics_of_kafka_again(flights: Any, between: Between) -> None:
    airflow, run_id = flights.airflow, between.run_id
    airflow.clear("between", run_id, "between.by-plane", downstream=True)
    assert airflow.wait_for_run("between", run_id)["state"] == "success"
    assert airflow.xcom("between", run_id, "between.by-plane")["generation"] == "1.3"
    assert counted(flights, between.run_id) == counted_by_duckdb(flights.data)


@pytest.mark.nightly
def test_topics_between_stages_go_when_their_time_is_over(flights: Any, between: Between, kafka: Kafka) -> None:
    airflow, run_id = flights.airflow, between.run_id
    (flights.signals / "between.expire").touch()
    airflow.clear("between", run_id, "between.cleanup")
    assert airflow.wait_for_run("between", run_id)["state"] == "success"
    assert topics_between(kafka) == []
    airflow.clear("between", run_id, "between.by-plane", downstream=True)
    assert airflow.wait_for_run("between", run_id)["state"] == "failed"
    tries = airflow.task("between", run_id, "between.by-plane")["try_number"]
    log = airflow.log("between", run_id, "between.by-plane", tries)
    assert "There is no topic 'between-1-by-plane/" in log, log
    assert "a run's own topics are made by its plan task and expire after the run" in log, log
