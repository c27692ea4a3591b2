"""Dags are read as Airflow reads them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from airflow_samza.provider.airflow_versions import dags_in

DAG = """
from airflow.sdk import DAG

import beside_the_dag_file

with DAG(beside_the_dag_file.DAG_ID, schedule=None):
    pass
"""


def test_a_dag_file_imports_what_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "beside_the_dag_file.py").write_text("DAG_ID = 'found'\n", encoding="utf-8")
    (tmp_path / "dags.py").write_text(DAG, encoding="utf-8")
    for _ in range(2):
        dags, problems = dags_in(tmp_path / "dags.py")
        assert (list(dags), problems) == (["found"], {})
    assert sys.path.count(str(tmp_path)) == 1
