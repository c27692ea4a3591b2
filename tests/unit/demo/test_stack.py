"""The set that ``make stack`` starts natively is the one that the Compose file starts in containers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from demo.object_stores import DemoStore
from demo.stack import DAGS, Stack
from demo.store_servers import S3Server

COMPOSE = DAGS.parent / "docker" / "compose.yaml"


def stack(folder: Path) -> Any:
    """A stack whose servers are addresses only."""
    found: Any = Stack(folder)
    found.spark = SimpleNamespace(master="spark://127.0.0.1:7077")
    found.kafka = SimpleNamespace(address="127.0.0.1:9092")
    found.store = DemoStore(S3Server(folder), {"conn_type": "aws", "login": "demo", "password": "demo-secret"})
    return found


def test_airflow_has_the_connections_of_the_compose_file_and_the_data(tmp_path: Path) -> None:
    environment = yaml.safe_load(COMPOSE.read_text())["services"]["airflow"]["environment"]
    prefix = "AIRFLOW_CONN_"
    composed = {name.removeprefix(prefix).lower() for name in environment if name.startswith(prefix)}
    assert set(stack(tmp_path).connections) == composed | {"flights_data"}


def test_the_root_lies_in_the_store_and_stages_run_on_the_cluster(tmp_path: Path) -> None:
    connections = {name: json.loads(value) for name, value in stack(tmp_path).connections.items()}
    root = connections["samza_default"]["extra"]
    assert root["root"].startswith("s3://")
    assert connections[root["root_conn_id"]]["conn_type"] == "aws"
    spark = connections[root["spark_conn_id"]]
    assert (spark["host"], spark["port"]) == ("spark://127.0.0.1", 7077)
    assert connections["flights_warehouse"]["extra"]["root_conn_id"] == root["root_conn_id"]
