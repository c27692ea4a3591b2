"""One lake, one run and one stage runner for all tests of this folder: starting a Spark is what costs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from airflow_samza.testing import TestDriver
from tests.spark.clusters.sessions import in_test_all
from tests.support.one_session import open_session

APPS = Path(__file__).parent / "apps"
APPLICATION = "samza_spark_apps.views:everything"
TWO_STAGES = "samza_spark_apps.views:two_stages"

collect_ignore = ["apps"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to ``make nightly`` what every kind of Spark keeps in the same way."""
    for item in items:
        kind = (
            item.callspec.params.get("session_kind")
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else None
        )
        if kind is not None and not in_test_all(str(kind), item.name):
            item.add_marker(pytest.mark.nightly)


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverSession]:
    """A session whose workers have the code of the module that a file of tests names as ``SHIPPED``."""
    made = open_session(tmp_path_factory.mktemp("session"), request.module.SHIPPED.__name__)
    yield made
    made.stop()


VIEWS: list[dict[str, Any]] = [
    {"member_id": number, "country": ("nl", "de", "fr", "us")[number % 4], "dwell_ms": (number * 7) % 3000}
    for number in range(1000)
]


@dataclass
class Lake:
    """The data, the root, and a run that all tests share."""

    folder: Path
    runtime: SparkRuntime
    run: RunPlan

    @property
    def flag(self) -> Path:
        """The file that the waiting stage waits for."""
        return self.folder / "flag"

    @property
    def entered(self) -> Path:
        """The file that the waiting stage makes when it starts to wait."""
        return self.folder / "flag.entered"

    def rows(self, output: str) -> list[dict[str, Any]]:
        """The rows that lie in an output."""
        import pyarrow.parquet as pq

        found: list[dict[str, Any]] = pq.read_table(self.folder / "data" / "out" / output).to_pylist()
        return sorted(found, key=repr)

    def driven(self, output: str) -> list[dict[str, Any]]:
        """The rows that the test driver makes of the same messages, by the same operators."""
        found: list[dict[str, Any]] = TestDriver(TWO_STAGES).pipe("views", VIEWS).run().output_table(output).to_pylist()
        return sorted(found, key=repr)

    def runner_pids(self) -> list[int]:
        """The processes of the run's live runners."""
        files = open_filesystem(str(self.folder / "root"))
        claims = [read(files, runner.claim, Claim) for runner in self.runtime.live_runners(self.run)]
        return [claim.pid for claim in claims if claim is not None]


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("lake")
    flags: list[dict[str, Any]] = [{"member_id": 1, "country": str(folder / "flag"), "dwell_ms": 1}]
    for name, rows in {"views": VIEWS, "flags": flags}.items():
        (folder / "data" / name).mkdir(parents=True)
        for part in range(2):
            pq.write_table(
                pa.Table.from_pylist(rows[part::2] or rows[:0], pa.schema(SCHEMA)),
                folder / "data" / name / f"{part}.parquet",
            )
    binding = SystemBinding("files", {"root": str(folder / "data")})
    runtime = SparkRuntime(str(folder / "root"), {"lake": binding}, idle_seconds=600)
    made = Lake(folder, runtime, runtime.prepare(RunRequest(APPLICATION, "run 1")))
    yield made
    runtime.close(made.run, wait_seconds=60)
    for pid in made.runner_pids():
        os.kill(pid, signal.SIGKILL)


SCHEMA = [("member_id", "int64"), ("country", "string"), ("dwell_ms", "int64")]
