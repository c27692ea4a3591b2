"""Surroundings of a worker that is forked."""

from __future__ import annotations

import gc
import importlib.util
import os
import socket
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from airflow_samza.spark.worker_daemon import (
    COLLECT_AFTER,
    SOCKET_FOLDER,
    forget_zips,
    listen_alone,
    quiet_collector,
    without_zips,
)
from airflow_samza.task.messages.messages import CHUNK


def test_the_collector_does_not_start_while_the_messages_of_a_chunk_are_made() -> None:
    before = gc.get_threshold()
    try:
        quiet_collector()
        assert gc.get_threshold() == (COLLECT_AFTER, *before[1:])
        assert COLLECT_AFTER > 6 * CHUNK  # a message, what it holds, and what comes of it; twice
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_pyspark_is_imported_from_its_folder_where_sparks_zip_is_part_of_it() -> None:
    spark = Path(sys.prefix) / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages/pyspark"
    zips = [str(spark / "python/lib/pyspark.zip"), *map(str, spark.glob("python/lib/py4j-*-src.zip"))]
    look = (
        "import sys; from airflow_samza.spark.worker_daemon import without_zips; sys.path[:] = without_zips(sys.path); "
        "import pyspark; print(pyspark.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", look],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*zips, str(Path(__file__).parents[3])])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert os.path.realpath(found.strip()) == os.path.realpath(spark / "__init__.py")


def test_the_zip_of_another_spark_stays_before_an_installed_pyspark(tmp_path: Path) -> None:
    installed, elsewhere = tmp_path / "site-packages", tmp_path / "spark"
    (installed / "pyspark").mkdir(parents=True)
    (installed / "pyspark" / "daemon.py").touch()
    for lib in (elsewhere / "python/lib", installed / "pyspark/python/lib"):
        lib.mkdir(parents=True)
        (lib / "pyspark.zip").touch()
    others, own = str(elsewhere / "python/lib/pyspark.zip"), str(installed / "pyspark/python/lib/pyspark.zip")
    assert without_zips([others, own, str(installed)]) == [others, str(installed)]
    assert without_zips([own]) == [own]


def test_a_worker_does_not_read_jars_again_on_which_no_python_lies(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar, code = tmp_path / "pyspark/jars/spark-core.jar", tmp_path / "code.zip"
    (tmp_path / "pyspark" / "jars").mkdir(parents=True)
    (tmp_path / "pyspark" / "daemon.py").touch()
    for path, module in ((jar, "of_jar"), (code, "of_code")):
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(f"{module}/__init__.py", "")
    before = [str(jar), str(code), str(tmp_path)]
    monkeypatch.setattr(sys, "path", before)
    monkeypatch.setattr(sys, "path_importer_cache", {})
    assert importlib.util.find_spec("of_jar") is not None
    assert importlib.util.find_spec("of_code.more") is None
    after = without_zips(before)
    assert after == before[1:]
    forget_zips(after)
    assert {known for known in sys.path_importer_cache if not os.path.isdir(known)} == {str(code), f"{code}/of_code"}


@pytest.mark.parametrize("length", [60, 61])
def test_only_its_user_connects_to_a_daemon(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    given = f"/{'x' * (length - 1)}"
    monkeypatch.setenv(SOCKET_FOLDER, given)
    before = os.umask(0o022)
    try:
        daemon = ModuleType("daemon")
        daemon.worker = lambda *arguments: (arguments, os.umask(0o022))  # type: ignore[attr-defined]
        listen_alone(daemon)
        assert os.environ[SOCKET_FOLDER] == (given if length == 60 else tempfile.gettempdir())
        with tempfile.TemporaryDirectory(prefix="s", dir="/tmp") as short, socket.socket(socket.AF_UNIX) as listens:
            listens.bind(f"{short}/.sock")
            assert stat.S_IMODE(os.stat(f"{short}/.sock").st_mode) == 0o700
        assert daemon.worker(1, 2) == ((1, 2), 0o022)
    finally:
        os.umask(before)
