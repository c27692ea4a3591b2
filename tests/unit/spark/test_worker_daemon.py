"""Surroundings of a worker that is forked."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

from airflow_samza.spark.worker_daemon import COLLECT_AFTER, quiet_collector, without_zip
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
        "import sys; from airflow_samza.spark.worker_daemon import without_zip; sys.path[:] = without_zip(sys.path); "
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
    assert without_zip([others, own, str(installed)]) == [others, str(installed)]
    assert without_zip([own]) == [own]
