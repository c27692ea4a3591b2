"""``make stack`` as a user has it: a Dag reads Kafka on Spark's cluster, with its root in S3 and its tasks on Celery.

``make nightly`` runs it; it prints the seconds that each server took to start.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import sqlalchemy

from airflow_samza.systems.files.location import open_location
from demo import flights_topic, kafka_hours
from demo.kafka_hours import DAG, DAY, Carriers
from demo.stack import Stack
from tests.support.waiting import until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

ROOT = Path(__file__).resolve().parents[2]
HOUR = DAY + timedelta(hours=12)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    found = Stack(tmp_path_factory.mktemp("stack"))
    try:
        found.start()
        print(found.facts())
        yield found
    finally:
        found.stop()


def carriers(stack: Stack, folder: str) -> Carriers:
    """The rows that a run has written to the store, by carrier."""
    place = open_location(folder, stack.store.access.options)
    rows: list[dict[str, Any]] = pq.read_table(place.path, filesystem=place.filesystem).to_pylist()
    return {row["carrier"]: (row["flights"], round(row["delay"], 9)) for row in rows}


def test_a_dag_from_kafka_over_spark_to_s3_gives_what_the_model_gives(stack: Stack) -> None:
    airflow = stack.airflow
    sent = [row for row in flights_topic.flights() if row["month"] == 12 and row["day"] in (29, 30, 31)]
    flights_topic.fill(stack.kafka.address, sent)
    airflow.wait_for_dag(DAG)
    airflow.pause(DAG, False)
    airflow.backfill(DAG, f"{HOUR:%Y-%m-%dT%H:%M}", f"{HOUR:%Y-%m-%dT%H:%M}")
    airflow.wait_for_backfills(DAG, 900)
    (run,) = (run for run in airflow.runs(DAG) if run["run_type"] == "backfill")
    run_id = run["dag_run_id"]
    tasks = airflow.tasks(DAG, run_id)
    assert {task["state"] for task in tasks} == {"success"}, airflow.task_states(DAG, run_id)

    output = stack.store.warehouse + f"/kafka-hourly/{HOUR:%Y-%m-%dT%H}"
    assert carriers(stack, output) == kafka_hours.model(sent, HOUR) != {}

    # Each piece has had its part in it.
    with sqlalchemy.create_engine(stack.postgres).connect() as database:
        done = database.scalar(sqlalchemy.text("SELECT count(*) FROM celery_taskmeta WHERE status = 'SUCCESS'"))
    assert done >= len(tasks)
    assert len(list((stack.folder / "spark" / "work").glob("app-*"))) >= 1
    assert [folder for folder, _, _ in stack.store.folders() if str(folder).startswith("samza/runs")]
    assert not (stack.folder / "samza").exists()


def test_commands_of_the_shell_reach_it_by_the_script_that_it_has_written(stack: Stack) -> None:
    command = [str(stack.script), "sh", "-c", "airflow-samza status --conn-id samza_default && airflow dags list"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "kafka-hourly" in done.stdout
    assert "flights_pipelined" in done.stdout


def test_the_command_prints_addresses_and_ctrl_c_stops_all_that_it_has_started(tmp_path: Path) -> None:
    folder = tmp_path / "stack"
    with (tmp_path / "out").open("w+") as out:
        command = subprocess.Popen(
            [sys.executable, "-m", "demo.stack", "--folder", str(folder)], cwd=ROOT, stdout=out, stderr=out
        )
        try:
            printed = tmp_path / "out"
            until(lambda: "in-airflow" in printed.read_text() or command.poll() is not None, 900)
            told = printed.read_text()
            assert command.poll() is None, told
            assert re.search(r"Spark +spark://127\.0\.0\.1:\d+", told)
            started = processes_of(folder)
            assert len(started) > 10
        finally:
            command.send_signal(signal.SIGINT)
            assert command.wait(180) == 0
    until(lambda: not processes_of(folder), 60)


def processes_of(folder: Path) -> list[psutil.Process]:
    """The processes that name a folder in their command line or work in it, but the command itself."""
    found = []
    for process in psutil.process_iter():
        try:
            words = " ".join(process.cmdline())
            if "demo.stack" not in words and (str(folder) in words or Path(process.cwd()).is_relative_to(folder)):
                found.append(process)
        except psutil.Error:
            continue
    return found
