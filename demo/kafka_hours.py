"""The demonstration on Kafka: a day of a topic, hour by hour, backfilled in a real Airflow and compared with a model.

The broker is one that is started here; the topic has the flights of 2013. The model is plain Python over what was sent.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from airflow_samza.cli.terminal import columns
from demo import backfills, flights_topic, show
from demo.airflow_api import AirflowProblem
from demo.kafka import Kafka
from demo.local_airflow import LocalAirflow

DAG = "kafka_hourly"
DAY = datetime(2013, 12, 30, tzinfo=timezone.utc)
HOURS = [DAY + timedelta(hours=hour) for hour in range(24)]

TOGETHER = 3
"""Dag runs at the same time, and warm runners for them."""

AIRFLOW = {
    # Each run would start a Spark of its own.
    "AIRFLOW__SAMZA__WARM_RUNNERS": str(TOGETHER),
    "AIRFLOW__SAMZA__POLL_INTERVAL": "0.2",
    # Dag files that are read and written anew all the time keep a backfill of many runs from SQLite.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
}
"""Settings of Airflow in this demonstration."""

Carriers = dict[str, tuple[int, float]]
"""Flights that left and their mean delay in minutes, by carrier."""


@dataclass(frozen=True)
class FilledTopic:
    """The broker, and the flights that its topic has."""

    broker: Kafka
    sent: Sequence[Mapping[str, Any]]

    @property
    def connections(self) -> dict[str, str]:
        """Airflow's connection to the broker."""
        extra = {"bootstrap.servers": self.broker.address}
        return {"flights_kafka": json.dumps({"conn_type": "kafka", "extra": extra})}


@contextmanager
def filled_topic(home: Path) -> Iterator[FilledTopic]:
    """Start a broker, and send the flights to it; nothing of a former demonstration is left."""
    for name in ("broker", "airflow", "samza", "warehouse", "t"):
        shutil.rmtree(home / name, ignore_errors=True)
    show.step("A broker of Kafka starts, and gets the flights: a message each, keyed by plane, timed as scheduled")
    broker = Kafka(home / "broker")
    try:
        broker.start()
        sent = flights_topic.flights()
        number = flights_topic.fill(broker.address, sent)
        show.fact(f"{broker.address}: {number:,} messages in {flights_topic.PARTITIONS} partitions of 'flights'")
        yield FilledTopic(broker, sent)
    finally:
        broker.stop()


def run(airflow: LocalAirflow, home: Path, topic: FilledTopic, seconds: float) -> bool:
    """Backfill the day, show what came out; True when all hours equal the model's."""
    airflow.wait_for_dag(DAG)
    show.step(f"The Dag {DAG!r} runs over {DAY:%Y-%m-%d}: 24 hours, the last one first, {TOGETHER} at a time")
    show.fact(f"{airflow.url}/dags/{DAG}")
    options = ("--run-backwards", "--max-active-runs", str(TOGETHER))
    ended = backfills.backfill(airflow, DAG, HOURS, *options, name="%H:%M", seconds=seconds)
    succeeded = backfills.ended_well(airflow, DAG, ended)
    show.step("What each hour gave, beside what plain Python makes of the messages that were sent")
    equal = compare(home / "warehouse" / "kafka-hourly", topic.sent)
    backwards = [backfills.interval_start(run) for run in ended] == HOURS[::-1]
    if not backwards:
        show.fact("The runs did not begin in reversed order.")
    show.step("What to look at")
    _tell_where(airflow, home, ended[0]["dag_run_id"], topic)
    return equal and backwards and succeeded


def model(sent: Sequence[Mapping[str, Any]], hour: datetime) -> Carriers:
    """Return what an hour should give, by plain Python."""
    start = hour.timestamp() * 1000
    delays: dict[str, list[int]] = {}
    for flight in sent:
        if start <= flight["at"] < start + 3_600_000 and flight["dep_delay"] is not None:
            delays.setdefault(flight["carrier"], []).append(flight["dep_delay"])
    return {carrier: (len(found), round(sum(found) / len(found), 9)) for carrier, found in delays.items()}


def written(folder: Path) -> Carriers:
    """Return what an hour gave, by the files that its run has written; each carrier is there once."""
    import pyarrow.parquet as pq

    rows = [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    found = {row["carrier"]: (row["flights"], round(row["delay"], 9)) for row in rows}
    if len(found) < len(rows):
        raise AirflowProblem(f"A carrier is more than once in {folder}.")
    return found


def compare(folder: Path, sent: Sequence[Mapping[str, Any]]) -> bool:
    """Show what lies in the folders of the hours; True when each is what the model gives."""
    rows, total, equal = [], 0, True
    for hour in HOURS:
        expected, found = model(sent, hour), written(folder / f"{hour:%Y-%m-%dT%H}")
        flights = sum(number for number, _ in found.values())
        late = sum(number * delay for number, delay in found.values()) / flights if flights else 0.0
        told = "equal" if expected == found else "DIFFERENT"
        rows.append([f"{hour:%H:%M}", len(found), flights, f"{late:.1f}" if flights else "", told])
        total += flights
        equal = equal and expected == found
    show.indented(columns(["HOUR (UTC)", "CARRIERS", "FLIGHTS", "MINUTES LATE", "THE MODEL'S"], rows))
    show.fact(f"{'Equal' if equal else 'NOT EQUAL'}: {total:,} flights of {DAY:%Y-%m-%d}, {len(HOURS)} hours.")
    return equal


def _tell_where(airflow: LocalAirflow, home: Path, run_id: str, topic: FilledTopic) -> None:
    show.indented(airflow.xcom(DAG, run_id, "hour.plan", key="plan_text") or "(there is no plan)")
    print()
    show.places(
        {
            "the results, a folder per hour": home / "warehouse" / "kafka-hourly",
            "the plans, with the offsets of each run": home / "samza" / "runs" / "kafka-hourly",
            "the tasks' logs": home / "airflow" / "logs" / f"dag_id={DAG}",
            "the broker's log": topic.broker.log,
            "the Dag and its application": "dags/kafka_hourly.py and dags/pipelines/kafka.py",
            "what a run reads of a topic": "docs/how-to/kafka.md",
        }
    )
