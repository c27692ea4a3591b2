"""The stage runner on Spark: ``python -m airflow_samza.spark.runner ROOT APPLICATION RUN KEY``, settings on stdin."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SamzaError
from airflow_samza.launch.code_shipping import archive_here
from airflow_samza.launch.drivers.spark_submit import with_package
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.runner_settings import GAVE_WAY, engine_name
from airflow_samza.spark.sessions.session_start import as_lost, start_early
from airflow_samza.spark.task_process import cores_of, fork_task_forker, may_run_beside
from airflow_samza.systems.filesystems.local_copies import local_copy

if TYPE_CHECKING:
    from airflow_samza.engine.stage_engine import StageEngine
    from airflow_samza.spark.sessions.driver_session import DriverSession
    from airflow_samza.systems.filesystems.filesystem import Filesystem

log = logging.getLogger("airflow_samza.runner")

OpenSession = Callable[[str, Mapping[str, Any], "Filesystem"], "DriverSession"]
"""A function from a name for the session to show, the runner's settings and the root's files to a session."""


def main(arguments: list[str], settings: dict[str, Any] | None = None, lent: OpenSession | None = None) -> int:
    """Run the process; the settings come on standard input unless they are given.

    ``lent`` opens a session in a Java that is there. Without it the process has its own, and starts a local Java before
    all else, unless the settings say that the run may do without: that takes seconds to come up, and the other imports
    of this process one.
    """
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it logs every connection that closes
    settings = json.load(sys.stdin) if settings is None else settings
    is_local = parse_master(settings["master"]).is_local
    is_small = bool(settings.get("is_small"))
    forker = None
    if may_run_beside(settings):
        forker = fork_task_forker(cores=cores_of(settings), imports_at_once=is_small)
    # The user's settings of Spark are checked by Spark, so a run that has some waits for it, whatever it reads.
    may_be_late = forker is not None and not settings["conf"]
    java = None
    if lent is None and is_local and not (may_be_late and is_small):
        name = engine_name(arguments[1])
        java = start_early(name, settings["master"], settings["conf"], settings.get("class_archives"))

    from airflow_samza.engine.stage_runner import run_process

    def open_engine(name: str, settings: Mapping[str, Any], files: Filesystem) -> StageEngine:
        from airflow_samza.engine.stage_runner import start_failure
        from airflow_samza.spark.spark_engine import SparkEngine

        def opened() -> DriverSession:
            nonlocal lent
            started, opening = time.monotonic(), lent or open_session
            lent = None  # a warm runner whose Spark does not come up has no other: who tries again has one of its own
            try:
                driver = opening(name, settings, files)
            except SamzaError:
                raise
            except Exception as error:
                failure = start_failure(error, files, settings["log"], settings.get("output", ""))
                raise as_lost(error, failure) from error
            log.info("Spark is up after %.1f s", time.monotonic() - started)
            return driver

        driver: DriverSession
        leaves_archive = lent is None
        if may_be_late:
            from airflow_samza.spark.sessions.late_session import LateSession

            driver = LateSession(settings["master"], opened, java.abandon if java is not None else lambda: None)
        else:
            driver = opened()
        return SparkEngine(driver, settings if leaves_archive else None, forker)

    code = run_process(arguments, open_engine, settings)
    if java is not None and code == GAVE_WAY:
        java.abandon()
    return code


def print_to(path: str) -> None:
    """Have this process, and all that it starts, print into a file from now on."""
    output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def open_session(name: str, settings: Mapping[str, Any], files: Filesystem) -> DriverSession:
    """Open the session that a runner's settings ask for: of this process, or of a Spark Connect server."""
    master = parse_master(settings["master"])
    code = [local_copy(files, path) for path in settings["code"]]
    archives = [archive if master.is_local else archive_here(files, archive) for archive in settings["archives"]]
    if master.is_connect:
        from airflow_samza.spark.sessions.connect_session import ConnectSession

        return ConnectSession(master, [local_copy(files, settings["package"]), *code], archives)
    from airflow_samza.spark.sessions.classic_session import ClassicSession
    from airflow_samza.spark.sessions.session_start import of_the_submission

    conf = settings["conf"]
    if master.is_submitted and files.local_path("") is None:
        package = local_copy(files, settings["package"])
        code, conf = [package, *code], with_package(conf, package)
    if master.is_submitted:
        conf = {**conf, **of_the_submission(settings.get("program"))}
    driver = ClassicSession(name, master.url, conf, settings.get("class_archives"))
    driver.ship(code, archives)
    return driver


if __name__ == "__main__":
    code = main(sys.argv[1:])
    from airflow_samza.engine.stage_runner import end_process

    end_process(code)
