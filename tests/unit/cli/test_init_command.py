"""Files of ``init``: the test passes, the application can be planned, the Dag parsed; no file is replaced."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.cli.init_command import files_of
from tests.support.budgets import extended_but

HERE = Path(__file__).parents[3]


def init(*words: str) -> Any:
    return CliRunner().invoke(app, ["init", *words])


def run_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", extended_but(["page_views"], ["page_views", "clicks2"]))
@pytest.mark.extended
def test_the_test_that_is_written_passes_and_the_application_can_be_planned(tmp_path: Path, name: str) -> None:
    said = init(str(tmp_path / "first"), "--name", name)
    assert said.exit_code == 0, said.output
    tested = run_in(tmp_path / "first", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert "1 passed" in tested.stdout, tested.stdout + tested.stderr
    command = "from airflow_samza.cli import main; main()"
    planned = run_in(tmp_path / "first", "-c", command, "plan", f"pipelines.{name}:{name}", "--env", "dev")
    assert planned.returncode == 0, planned.stderr
    assert "by-country" in planned.stdout


def test_the_dag_that_is_written_is_one_that_airflow_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    from tests.support.airflow_names import DagBag

    init(str(tmp_path), "--name", "init_views")
    monkeypatch.syspath_prepend(str(tmp_path))
    bag = DagBag(dag_folder=str(tmp_path / "dags" / "init_views_dag.py"))
    assert not bag.import_errors
    assert [task.task_id for task in bag.dags["init_views"].tasks] == ["plan", "page-views", "by-country", "cleanup"]


def test_nothing_is_written_where_one_of_the_files_is(tmp_path: Path) -> None:
    (tmp_path / "samza.toml").write_text("mine")
    said = init(str(tmp_path))
    assert said.exit_code == 2
    assert "samza.toml is there already, and nothing was written" in said.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["samza.toml"]
    assert (tmp_path / "samza.toml").read_text() == "mine"


@pytest.mark.parametrize("name", ["page-views", "Views", "class", "../views", "2views", ""])
def test_rejects_a_name_that_is_no_module(tmp_path: Path, name: str) -> None:
    said = init(str(tmp_path), "--name", name)
    assert (said.exit_code, list(tmp_path.iterdir())) == (2, [])


def test_the_files_hold_no_mark_that_was_to_be_replaced() -> None:
    assert not [text for text in files_of("page_views").values() if "@NAME@" in text or "@ID@" in text]
