"""The pages of Get started, done as a reader does them: each command and each file, in one folder.

Stages run without Spark; what only Airflow can do (connections, a backfill, a clear) is left out, and its Dags are read.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_samza.cli.init_command import files_of
from tests.support.documentation_pages import DOCS

HERE = Path(__file__).parents[3]
STEP = re.compile(r"<!-- example: (\S+) -->\n```(\w+)\n(.*?)```", re.DOTALL)


def steps(page: str) -> list[tuple[str, str, str]]:
    """Return the named blocks of a page in their order: name, language, text."""
    return STEP.findall((DOCS / "get-started" / page).read_text(encoding="utf-8"))


def run(folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    if program == "airflow-samza":
        words = ["-m", "tests.support.command_without_spark", *words]
    else:
        assert program == "python"
        words = [*words, *(["-q", "-p", "no:cacheprovider"] if words[0] == "-m" else [])]
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "AIRFLOW_HOME": str(folder / "airflow"),
        "RUNNER_DIALS": str(folder),
    }
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def done(folder: Path, page: str) -> Path:
    """Do what a page says, and return the folder in which its reader then is."""
    failure = ""
    for name, language, text in steps(page):
        if language == "python" and "dags" not in name:
            (folder / name).write_text(text)
        elif language == "console":
            for command in text.strip().splitlines():
                if command.startswith("cd "):
                    folder = folder / command[3:]
                    continue
                said = run(folder, command)
                failing = name == "fails" and command.startswith("airflow-samza run")
                assert bool(said.returncode) is failing, f"{command}\n{said.stdout}{said.stderr}"
                failure = said.stdout + said.stderr if failing else failure
        elif name == "error":
            assert all(line in failure for line in text.strip().splitlines()), failure
    return folder


def results(folder: Path, where: str) -> dict[str, int]:
    import pyarrow.dataset as ds

    rows = ds.dataset(folder / "warehouse" / "views-per-country" / where, format="parquet").to_table().to_pylist()
    return {row["country"]: row["views"] for row in rows}


@pytest.mark.extended
def test_a_reader_who_does_what_the_pages_say_gets_what_they_say(tmp_path: Path) -> None:
    folder = done(tmp_path, "first-pipeline.md")
    assert results(folder, "") == {"NL": 2, "SE": 1}
    done(folder, "in-airflow.md")
    assert len(list((folder / "landing" / "page-views").glob("2026-01-*.json"))) == 31
    assert results(folder, "2026-01-05") == {"NL": 10, "SE": 4}
    done(folder, "repair.md")
    assert results(folder, "2026-01-09") == {"NL": 12, "SE": 6}


def test_the_first_application_is_the_one_that_init_writes() -> None:
    shown = {name: text for name, language, text in steps("first-pipeline.md") if language == "python"}
    assert shown == {name: text for name, text in files_of("page_views").items() if name.startswith("pipelines/")}


def test_the_commands_that_install_are_those_that_the_matrix_tries() -> None:
    from tests.matrix.test_constrained_install import commands_of_the_page

    (install,) = [text for name, _, text in steps("install.md") if name == "install"]
    assert install.strip().splitlines() == commands_of_the_page()


def test_every_extra_that_is_named_is_one() -> None:
    text = (DOCS / "get-started" / "install.md").read_text(encoding="utf-8")
    table = text.partition("| extra |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    extras = re.findall(r"^(\w+) = \[", (HERE / "pyproject.toml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} <= set(extras)


@pytest.mark.parametrize(
    ("page", "dag", "tasks"),
    [
        ("in-airflow.md", "page_views", {"plan", "page-views", "by-country", "cleanup"}),
        ("reference-tables.md", "named_views", {"push", "views.plan", "views.cleanup"}),
    ],
)
def test_the_dag_of_a_page_has_its_tasks(
    page: str, dag: str, tasks: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    from tests.support.airflow_names import DagBag

    for name, _, text in steps(page):
        if "/" in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    bag = DagBag(dag_folder=str(tmp_path / "dags" / f"{dag}_dag.py"))
    assert not bag.import_errors
    assert tasks <= {task.task_id for task in bag.dags[dag].tasks}


def test_a_view_gets_the_name_of_its_country() -> None:
    scope: dict[str, object] = {"__name__": "named_views"}
    (text,) = [text for name, _, text in steps("reference-tables.md") if name.startswith("pipelines/")]
    exec(compile(text, "named_views.py", "exec"), scope)
    test = scope["test_a_view_gets_the_name_of_its_country"]
    assert callable(test)
    test()


@pytest.mark.extended
def test_the_plan_that_is_explained_is_that_of_the_first_pipeline(tmp_path: Path) -> None:
    for name, text in files_of("page_views").items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    page = (DOCS / "concepts/reading-a-plan.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert shown is not None
    said = run(tmp_path, "airflow-samza plan pipelines.page_views:page_views")
    assert [line.rstrip() for line in said.stdout.strip().splitlines()] == [
        line.rstrip() for line in shown[1].strip().splitlines()
    ]
    assert re.findall(r"fingerprint\* \(`(\w+)`\)", page) == re.findall(r", plan (\w+)$", shown[1], flags=re.MULTILINE)
