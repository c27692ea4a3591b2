"""An Airflow on PostgreSQL with two executors, for the soak."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import databases
from demo.airflow_parts import AirflowInParts
from demo.flights_data import prepare
from tests.soak.soak import LAST_SCHEDULED, Soak

collect_ignore = ["dags"]  # Dag files, for Airflow to read

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[Soak]:
    folders = {name: tmp_path / name for name in ("data", "warehouse", "root", "t")}
    for folder in folders.values():
        folder.mkdir()
    prepare(folders["data"])
    with (
        databases.running_postgres(tmp_path / "postgres") as database,
        databases.running_redis(tmp_path / "redis") as broker,
        AirflowInParts(
            tmp_path / "home",
            dags=Path(__file__).parent / "dags",
            database=database,
            broker=broker,
            env={
                "PYTHONPATH": os.pathsep.join([str(ROOT / "dags"), str(ROOT)]),
                "TMPDIR": str(folders["t"]),  # warm runners of this Airflow, apart from those of others
                "SOAK_LAST_SCHEDULED": LAST_SCHEDULED.isoformat(),
                "AIRFLOW__SAMZA__WARM_RUNNERS": "3,runs=20",
                # A killed task is noticed after half a minute, not after five.
                "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
                "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
                "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
                "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
                "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "20",
            },
            connections={
                "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(folders["root"])}}),
                "flights_data": json.dumps({"conn_type": "fs", "extra": {"path": str(folders["data"])}}),
                "flights_warehouse": json.dumps({"conn_type": "fs", "extra": {"path": str(folders["warehouse"])}}),
            },
        ) as airflow,
    ):
        yield Soak(airflow, folders["data"], folders["warehouse"])
