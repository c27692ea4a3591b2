"""The stage runner on Spark: ``python -m airflow_samza.spark.runner ROOT APPLICATION RUN KEY``, settings on stdin."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.launch.code_shipping import archive_here
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.runner_settings import GAVE_WAY, engine_name
from airflow_samza.launch.spark_submit import with_package
from airflow_samza.spark.sessions.session_start import start_early
from airflow_samza.spark.task_process import fork_task_forker, may_run_beside
from airflow_samza.systems.filesystems.local_copies import local_copy

if TYPE_CHECKING:
    from airflow_samza.engine.stage_engine import StageEngine
    from airflow_samza.engine.stage_runner import OpenEngine
    from airflow_samza.spark.sessions.driver_session import DriverSession
    from airflow_samza.spark.spark_engine import SparkEngine
    from airflow_samza.systems.filesystems.filesystem import Filesystem


def main(arguments: list[str], settings: dict[str, Any] | None = None, open_engine: OpenEngine | None = None) -> int:
    """Run the process; the settings come on standard input unless they are given.

    Without ``open_engine`` it starts a session of its own, and a local Java before all else: that takes seconds to come
    up, and the other imports of this process one.
    """
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every connection that closes
    settings = json.load(sys.stdin) if settings is None else settings
    forker = fork_task_forker() if may_run_beside(settings) else None
    java = None
    if open_engine is None and parse_master(settings["master"]).is_local:
        name = engine_name(arguments[1])
        java = start_early(name, settings["master"], settings["conf"], settings.get("class_archives"))

    from airflow_samza.engine.stage_runner import run_process

    def open_with_forker(name: str, settings: Mapping[str, Any], files: Filesystem) -> StageEngine:
        from airflow_samza.spark.spark_engine import SparkEngine

        engine = (open_engine or open_own_engine)(name, settings, files)
        if isinstance(engine, SparkEngine):
            engine.task_forker = forker
        return engine

    code = run_process(arguments, open_with_forker, settings)
    if java is not None and code == GAVE_WAY:
        java.abandon()
    return code


def open_own_engine(name: str, settings: Mapping[str, Any], files: Filesystem) -> SparkEngine:
    """Open the session that a runner's settings ask for: of this process, or of a Spark Connect server."""
    master = parse_master(settings["master"])
    driver: DriverSession
    code = [local_copy(files, path) for path in settings["code"]]
    archives = [archive if master.is_local else archive_here(files, archive) for archive in settings["archives"]]
    if master.is_connect:
        from airflow_samza.spark.sessions.connect_session import ConnectSession

        driver = ConnectSession(master, local_copy(files, settings["package"]))
    else:
        from airflow_samza.spark.sessions.classic_session import ClassicSession
        from airflow_samza.spark.sessions.session_start import jars_beside

        conf = settings["conf"]
        if master.is_submitted and files.local_path("") is None:
            package = local_copy(files, settings["package"])
            code, conf = [package, *code], with_package(conf, package)
        if "program" in settings:
            conf = {**conf, **jars_beside(settings["program"])}
        driver = ClassicSession(name, master.url, conf, settings.get("class_archives"))
    driver.ship(code, archives)

    from airflow_samza.spark.spark_engine import SparkEngine

    return SparkEngine(driver, settings)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    from airflow_samza.engine.stage_runner import end_process

    end_process(code)
