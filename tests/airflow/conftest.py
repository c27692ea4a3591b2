"""A real Airflow for all tests here, started once: the example Dags and the tests' own, over the real flights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from demo.databases import NoDatabase, running_postgres
from demo.flights_data import prepare
from demo.local_airflow import LocalAirflow
from tests.support.folder_servers import serving
from tests.support.versioned_bundle import deploy

collect_ignore = ["dags"]  # Dag files, for Airflow to read

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class FlightsAirflow:
    """The running Airflow and the folders of its connections.

    ``signals`` hold and release the tests' own applications; ``lineage`` is the file of OpenLineage's events, of Dags
    that switch it on; ``edited`` is a bundle of Dags that a test writes and edits, ``versioned`` one whose versions a
    test deploys.
    """

    airflow: LocalAirflow
    data: Path
    warehouse: Path
    root: Path
    signals: Path
    edited: Path
    versioned: Path
    lineage: Path


@contextmanager
def database_settings(place: Path) -> Iterator[dict[str, str]]:
    """Yield the settings of a PostgreSQL for Airflow, as installations have it; none where this machine has no server.

    SQLite has one writer at a time: where a dozen runs write at once, the scheduler ends with "database is locked".
    """
    with ExitStack() as running:
        try:
            url = running.enter_context(running_postgres(place))
        except NoDatabase:
            yield {}
        else:
            yield {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}


def _with_versions(folders: dict[str, Path]) -> dict[str, str]:
    """Return the setting of the bundles, with one that has versions."""
    names = {"examples": ROOT / "dags", "tests": Path(__file__).parent / "dags", "edited": folders["edited"]}
    classpath, path = "airflow.dag_processing.bundles.local.LocalDagBundle", "tests.support.versioned_bundle"
    found = [
        {"name": name, "classpath": classpath, "kwargs": {"path": str(folder), "refresh_interval": 5}}
        for name, folder in names.items()
    ]
    kwargs = {"path": str(folders["versioned"]), "refresh_interval": 5}
    found.append({"name": "versioned", "classpath": f"{path}.VersionedBundle", "kwargs": kwargs})
    return {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(found)}


@contextmanager
def airflow_of_tests(place: Path, folders: dict[str, Path], lineage: Path) -> Iterator[LocalAirflow]:
    """Start Airflow over the example Dags, the tests' own, and those that tests write."""
    with (
        database_settings(place / "postgres") as database,
        LocalAirflow(
            place / "home",
            dags={"examples": ROOT / "dags", "tests": Path(__file__).parent / "dags", "edited": folders["edited"]},
            env={
                **database,
                **_with_versions(folders),
                "SAMZA_TEST_SIGNALS": str(folders["signals"]),
                "AIRFLOW__SAMZA__POLL_INTERVAL": "0.2",
                "AIRFLOW__SAMZA__WARM_RUNNERS": "4",
                "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(
                    {"type": "file", "log_file_path": str(lineage), "append": True}
                ),
                "AIRFLOW__OPENLINEAGE__SELECTIVE_ENABLE": "True",
            },
            connections={
                "samza_default": json.dumps({"conn_type": "samza", "extra": {"root": str(folders["root"])}}),
                "flights_data": json.dumps({"conn_type": "fs", "extra": {"path": str(folders["data"])}}),
                "flights_warehouse": json.dumps({"conn_type": "fs", "extra": {"path": str(folders["warehouse"])}}),
                "flights_lake": json.dumps({"conn_type": "iceberg", "extra": {"root": str(place / "tables")}}),
                "flights_mart": json.dumps({"conn_type": "delta", "extra": {"root": str(place / "mart")}}),
            },
        ) as airflow,
    ):
        yield airflow


@pytest.fixture(scope="session")
def flights(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[FlightsAirflow]:
    place = tmp_path_factory.mktemp("airflow")
    folders = {name: place / name for name in ("data", "warehouse", "root", "signals", "edited", "versioned")}
    for folder in folders.values():
        folder.mkdir()
    prepare(folders["data"])
    deploy(folders["versioned"], "none", {})
    lineage = place / "lineage.jsonl"
    with serving(request.config, "tests/airflow", airflow_of_tests(place, folders, lineage)) as airflow:
        yield FlightsAirflow(airflow, **folders, lineage=lineage)
