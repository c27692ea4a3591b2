"""Stages that run in another Python environment than the one that plans them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder, must_read
from airflow_samza.runs.stages.stage_runners import Claim, all_runners
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import SystemBinding
from demo.spark_cluster import standalone_cluster
from tests.spark.clusters.sessions import SMALL
from tests.spark.connect.connect_server import connect_server
from tests.support.second_environment import MODULE, make_environment

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(600)]

APPLICATION = f"""
import sys
from dataclasses import dataclass
from airflow_samza import stream_application

@dataclass(frozen=True)
class Word:
    word: str
    prefix: str

def looked_up(view):
    from words_beside import word  # which needs {MODULE}
    return Word(word(), sys.prefix)

@stream_application("elsewhere")
def elsewhere(app):
    source = app.input_stream("views", system="logs", schema="member bigint", partitions=1, path="views")
    source.map(looked_up, schema=Word).send_to(app.output_stream("out", system="warehouse", path="out"))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("second") / "environment", "there")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "elsewhere_application.py").write_text(APPLICATION)
    (tmp_path / "words_beside.py").write_text(f"from {MODULE} import WORD\n\ndef word():\n    return WORD\n")
    (tmp_path / "data" / "views").mkdir(parents=True)
    (tmp_path / "data" / "views" / "1.jsonl").write_text('{"member": 1}\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "elsewhere_application", raising=False)
    return tmp_path


def words(project: Path) -> list[tuple[str, str]]:
    import duckdb

    found = duckdb.execute(f"SELECT word, prefix FROM read_parquet('{project}/warehouse/out/*.parquet')").fetchall()
    return [(str(word), str(prefix)) for word, prefix in found]


def pythons(project: Path) -> list[str]:
    """The Pythons of the runners on record."""
    files = LocalFilesystem(str(project / "root"))
    return [
        must_read(files, runner.claim, Claim).python
        for run in files.list("runs/elsewhere")
        for runner in all_runners(files, RunFolder("elsewhere", run))
    ]


def prefix(python: Path) -> str:
    return str(python.parents[1])


@pytest.mark.nightly
def test_the_command_line_runs_stages_in_another_environment(project: Path, python: Path) -> None:
    program = [sys.executable, "-c", "from airflow_samza.cli import main; main()", "run"]
    systems = ["--system", "logs=files:data", "--system", "warehouse=files:warehouse", "--root", "root"]
    place = ["--master", "local[1]", "--runner-python", os.path.relpath(python, project)]
    done = subprocess.run(
        [*program, "elsewhere_application:elsewhere", *systems, *place], cwd=project, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert words(project) == [("there", prefix(python))]
    assert pythons(project) == [str(python)]


def test_an_operator_runs_its_stage_in_the_environment_of_the_connection(
    project: Path, python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_samza.provider.operators.stream import SamzaStreamOperator
    from tests.unit.provider.conftest import context_of

    extra = {"root": str(project / "root"), "runner_python": str(python)}
    connections: dict[str, dict[str, Any]] = {
        "samza_default": {"conn_type": "samza", "extra": extra},
        "lake": {"conn_type": "fs", "extra": {"path": str(project / "data")}},
        "warehouse": {"conn_type": "fs", "extra": {"path": str(project / "warehouse")}},
    }
    for name, connection in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
    operator = SamzaStreamOperator(
        task_id="elsewhere",
        application="elsewhere_application:elsewhere",
        systems={"logs": "lake", "warehouse": "warehouse"},
    )
    operator.execute(context_of(operator))
    assert words(project) == [("there", prefix(python))]
    assert pythons(project) == [str(python)]


def run_on(project: Path, master: str, python: Path, conf: dict[str, str]) -> None:
    runtime = SparkRuntime(
        str(project / "root"),
        {name: SystemBinding("files", {"root": str(project / name)}) for name in ("data", "warehouse")}
        | {"logs": SystemBinding("files", {"root": str(project / "data")})},
        master=master,
        spark_conf=conf,
        runner_python=str(python),
    )
    runtime.run_application(RunRequest("elsewhere_application:elsewhere", "run-1"))


@pytest.mark.nightly
def test_executors_of_a_cluster_may_have_another_environment_than_the_driver(
    project: Path, python: Path, tmp_path: Path
) -> None:
    executors = make_environment(tmp_path / "executors", "on the executors")
    (tmp_path / "cluster").mkdir()
    with standalone_cluster(tmp_path / "cluster", workers=1) as cluster:
        run_on(project, cluster.master, python, {**SMALL, "spark.pyspark.python": str(executors)})
    assert words(project) == [("on the executors", prefix(executors))]
    assert pythons(project) == [str(python)]


@pytest.mark.nightly
def test_a_client_of_spark_connect_runs_in_another_environment_and_workers_in_the_servers(
    project: Path, python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers = make_environment(tmp_path / "workers", "on the server")
    # A server takes it from PYSPARK_PYTHON of its environment.
    monkeypatch.setattr("tests.spark.connect.connect_server.python_without_us", lambda folder: workers)
    with connect_server(tmp_path / "server", master="local[1]") as server:
        run_on(project, server.url, python, {})
    assert words(project) == [("on the server", prefix(workers))]
    assert pythons(project) == [str(python)]
