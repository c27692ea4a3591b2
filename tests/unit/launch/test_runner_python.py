"""Checks of another Python environment before a stage runner is started with it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.launch import runner_python
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.launcher import ensure_runner
from airflow_samza.launch.masters import SubmitOptions, parse_master
from airflow_samza.launch.runner_python import NEEDED, check_pythons, checked_path, workers_path
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.second_environment import HERE, make_environment

LOCAL = parse_master("local")


@pytest.fixture(autouse=True)
def _nothing_is_known() -> None:
    runner_python._found.cache_clear()


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("second") / "environment")


def script(folder: Path, *lines: str) -> str:
    """A program in the place of a Python."""
    path = folder / "python"
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def rejection(python: str, master: str = "local", conf: dict[str, str] | None = None) -> RuntimeMissing:
    with pytest.raises(RuntimeMissing) as caught:
        check_pythons(python, parse_master(master), SubmitOptions(), conf or {})
    return caught.value


def fake_package(folder: Path, name: str, version: str, **files: str) -> None:
    (folder / name).mkdir(parents=True)
    for file, text in {"__init__.py": f'__version__ = "{version}"\n', **files}.items():
        (folder / name / file).write_text(text)


def test_another_environment_is_known_by_its_own_python(second: Path) -> None:
    found = check_pythons(str(second), LOCAL, SubmitOptions(), {})
    assert found is not None
    assert (found.python, found.version) == (str(second), sys.version_info[:3])
    assert found.package_home == str(HERE / "airflow_samza")


def test_it_is_run_once_until_one_of_its_files_changes(second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    really = subprocess.run

    def run(*command: Any, **more: Any) -> Any:
        started.append(command)
        return really(*command, **more)

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(3):
        check_pythons(str(second), LOCAL, SubmitOptions(), {})
    assert len(started) == 1
    os.utime(second.parents[1] / "pyvenv.cfg", (1, 1))
    check_pythons(str(second), LOCAL, SubmitOptions(), {})
    assert len(started) == 2


def test_rejects_a_python_that_is_not_there() -> None:
    error = rejection("/opt/environments/etl/bin/python")
    assert error.sentence == "There is no Python at /opt/environments/etl/bin/python, which runner_python names."


def test_rejects_the_folder_of_an_environment_and_names_its_python(second: Path) -> None:
    error = rejection(str(second.parents[1]))
    assert error.sentence.endswith("is no program that can be run.")
    assert error.hint == f"Its Python is {second}."


def test_rejects_a_file_that_cannot_be_executed(tmp_path: Path) -> None:
    (tmp_path / "python").touch(mode=0o644)
    assert rejection(str(tmp_path / "python")).sentence.endswith("is no program that can be run.")


def test_rejects_what_is_no_python_with_its_last_line(tmp_path: Path) -> None:
    error = rejection(script(tmp_path, "echo 'libpython3.14.so: cannot open shared object file' >&2", "exit 127"))
    assert error.sentence.endswith("does not start: it ends with exit code 127: libpython3.14.so: cannot open shared object file.")  # fmt: skip


def test_rejects_a_python_that_is_too_old(tmp_path: Path) -> None:
    error = rejection(script(tmp_path, """echo 'airflow-samza-probe:{"version": [3, 9, 18]}'"""))
    assert error.sentence.endswith("is Python 3.9.18, and stages need 3.10 or newer.")


def test_rejects_an_environment_without_this_package(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "bare", package=None, libraries=False)
    error = rejection(str(python))
    assert error.sentence == f"The environment of {python}, which runner_python names, lacks airflow_samza."
    assert error.hint == f"Install it: {python} -m pip install 'airflow-samza==0.1.0'"


def test_rejects_an_environment_with_another_version_of_this_package(tmp_path: Path) -> None:
    fake_package(tmp_path / "old", "airflow_samza", "0.0.9")
    python = make_environment(tmp_path / "environment", package=tmp_path / "old")
    assert rejection(str(python)).sentence.endswith("has airflow_samza 0.0.9, and 0.1.0 is needed.")


def test_rejects_an_environment_with_an_old_spark(tmp_path: Path) -> None:
    fake_package(tmp_path / "old", "pyspark", "", **{"version.py": '__version__: str = "3.5.1"\n'})
    (tmp_path / "old" / "airflow_samza").symlink_to(HERE / "airflow_samza")
    python = make_environment(tmp_path / "environment", package=tmp_path / "old")
    assert rejection(str(python)).sentence.endswith("has pyspark 3.5.1, and 4.0 or 4.1 or 4.2 or 4.3 is needed.")


def test_accepts_a_spark_whose_client_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    fake_package(tmp_path / "new", "pyspark", "", **{"version.py": '__version__: str = "4.3.0"\n'})
    (tmp_path / "new" / "airflow_samza").symlink_to(HERE / "airflow_samza")
    python = make_environment(tmp_path / "environment", package=tmp_path / "new")
    found = check_pythons(str(python), parse_master("local[2]"), SubmitOptions(), {})
    assert found is not None
    assert found.pyspark == "4.3.0"


IMPORTS = """
import ast, importlib, sys
for name in ("engine.stage_runner", "spark.spark_engine", "spark.epoch_task", "spark.push_job", "spark.small_epochs"):
    importlib.import_module(f"airflow_samza.{name}")
found = set()
for name, module in list(sys.modules.items()):
    if name.startswith("airflow_samza") and getattr(module, "__file__", None):
        for node in ast.parse(open(module.__file__).read()).body:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(node.module.partition(".")[0])
print(*found - sys.stdlib_module_names)
"""


def test_a_runner_and_its_workers_import_nothing_that_is_not_asked_of_their_environment() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True, cwd=HERE)
    of_spark = {"pyspark", "py4j"}
    assert set(done.stdout.split()) <= {*NEEDED, *of_spark, "airflow_samza", "typing_extensions"}


def test_rejects_an_environment_that_lacks_libraries_and_names_all_of_them(tmp_path: Path) -> None:
    fake_package(tmp_path / "some", "pyspark", "", **{"version.py": '__version__: str = "4.2.0"\n'})
    (tmp_path / "some" / "pyspark" / "jars").mkdir()
    (tmp_path / "some" / "airflow_samza").symlink_to(HERE / "airflow_samza")
    python = make_environment(tmp_path / "environment", package=tmp_path / "some", libraries=False)
    assert (
        "lacks aiolimiter, cachetools, cloudpickle, fsspec, msgspec, numpy, pandas, " in rejection(str(python)).sentence
    )


def test_a_local_spark_needs_more_than_the_client_of_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    fake_package(tmp_path / "client", "pyspark", "", **{"version.py": '__version__: str = "4.2.0"\n'})
    (tmp_path / "client" / "airflow_samza").symlink_to(HERE / "airflow_samza")
    python = make_environment(tmp_path / "environment", package=tmp_path / "client")
    assert "has pyspark-client 4.2.0 alone" in rejection(str(python)).sentence
    assert check_pythons(str(python), parse_master("sc://host"), SubmitOptions(), {}) is not None


def test_a_driver_that_spark_submit_starts_is_shipped_this_package(tmp_path: Path) -> None:
    fake_package(tmp_path / "old", "airflow_samza", "0.0.9")
    python = make_environment(tmp_path / "environment", package=tmp_path / "old")
    assert check_pythons(str(python), parse_master("spark://host"), SubmitOptions(), {}) is not None


def test_a_driver_in_a_cluster_has_its_python_there() -> None:
    assert check_pythons("/only/there", parse_master("spark://host"), SubmitOptions("cluster"), {}) is None


def test_rejects_workers_of_another_python_than_the_runners(tmp_path: Path) -> None:
    workers = script(tmp_path, """echo 'airflow-samza-probe:{"version": [3, 99, 1], "lacks": []}'""")
    error = rejection("", conf={"spark.pyspark.python": workers})
    mine = ".".join(map(str, sys.version_info[:3]))
    assert error.sentence == (
        f"Python workers run Python 3.99.1 (spark.pyspark.python is {workers}), and their stage runner Python {mine} "
        f"({sys.executable}); functions go from one to the other by value."
    )


def test_workers_of_another_environment_are_looked_at_with_the_path_that_they_get(second: Path, tmp_path: Path) -> None:
    bare = make_environment(tmp_path / "environment", package=None)
    conf = {"spark.pyspark.python": str(bare)}
    check_pythons(str(second), LOCAL, SubmitOptions(), conf)  # a checkout, which the runner puts on their path
    assert workers_path("/v/lib/site-packages", ["/mine", ""], same_python=False) == "/mine"
    assert workers_path("/v/lib/site-packages", ["/mine"], same_python=True) == "/v/lib/site-packages:/mine"


def test_the_paths_of_this_environment_stay_out_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    monkeypatch.setenv("PYTHONHOME", "/mine")
    monkeypatch.setenv("KEPT", "yes")
    kept = runner_python.environment_for("/other/python")
    assert "PYTHONPATH" not in kept
    assert "PYTHONHOME" not in kept
    assert kept["KEPT"] == "yes"
    assert runner_python.environment_for("")["PYTHONPATH"] == "/mine"


@pytest.mark.parametrize("given", ["python3.12", "environments/etl/bin/python"])
def test_rejects_a_path_that_depends_on_where_a_process_runs(given: str) -> None:
    with pytest.raises(ConfigError, match=f"runner_python is '{given}', which is not an absolute path"):
        checked_path(given)


def test_a_path_of_the_command_line_starts_here_and_no_link_is_followed(second: Path) -> None:
    assert checked_path("environment/bin/python", second.parents[2]) == str(second)
    assert second.is_symlink()


def test_runners_of_two_environments_are_two(tmp_path: Path) -> None:
    keys = {RunnerSettings("/root", {}, python=python).key for python in ("", "/a/python", "/b/python")}
    assert len(keys) == 3


def test_the_submitter_hears_at_once_of_an_environment_that_lacks_something(tmp_path: Path) -> None:
    files, run = LocalFilesystem(str(tmp_path / "root")), RunFolder("views", "run-1")
    settings = RunnerSettings(
        files.root, {}, package=ship_package(files, run), master="sc://127.0.0.1", python="/no/python"
    )
    with pytest.raises(RuntimeMissing, match="There is no Python at /no/python"):
        ensure_runner(files, run, settings)
