"""The stage runner on Spark: ``python -m airflow_samza.spark.runner ROOT APPLICATION RUN KEY``, settings on stdin."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from airflow_samza.engine.stage_runner import end_process, run_process
from airflow_samza.launch.masters import parse_master
from airflow_samza.spark.driver_session import DriverSession
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import local_copy


def main(arguments: list[str], settings: dict[str, Any] | None = None) -> int:
    """Run the process; the settings come on standard input unless they are given."""
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every connection that closes
    return run_process(arguments, open_engine, settings)


def open_engine(name: str, settings: Mapping[str, Any], files: Filesystem) -> SparkEngine:
    """Open the session that a runner's settings ask for: of this process, or of a Spark Connect server."""
    master = parse_master(settings["master"])
    driver: DriverSession
    if master.is_connect:
        from airflow_samza.spark.connect_session import ConnectSession

        driver = ConnectSession(master, local_copy(files, settings["package"]))
    else:
        from airflow_samza.spark.classic_session import ClassicSession

        driver = ClassicSession(name, master.url, settings["conf"], settings.get("class_archives"))
    driver.ship([local_copy(files, path) for path in settings["code"]], settings["archives"])
    return SparkEngine(driver, settings)


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
