"""The code of a run: which one stages of a plan run with."""

from __future__ import annotations

from pathlib import Path

from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_code import RunCode, code_in_use, use_code
from airflow_samza.systems.filesystems.opening import open_filesystem

FOLDER = RunFolder("sales", "one")
CODE = RunCode(plan=1, path="code/abc.zip", origin="/dags", reference="sales:app")


def test_code_that_a_retry_brought_is_in_use_for_its_plan_while_it_is_there(tmp_path: Path) -> None:
    files = open_filesystem(str(tmp_path))
    assert code_in_use(files, FOLDER, 1) is None
    use_code(files, FOLDER, CODE)
    assert code_in_use(files, FOLDER, 1) is None  # its zip is not there
    files.put(CODE.path, b"zip")
    assert code_in_use(files, FOLDER, 1) == CODE
    assert code_in_use(files, FOLDER, 2) is None
