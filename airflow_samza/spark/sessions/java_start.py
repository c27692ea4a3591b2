"""The start of Java for a session of Spark, which may go on beside what the process does meanwhile.

Local sessions wait for it, and those that a warm runner lends.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import psutil

from airflow_samza.launch.class_archive import archived_classes, session_archive
from airflow_samza.launch.drivers.spark_submit import WORKERS_PYTHON
from airflow_samza.launch.java.container_limits import DRIVER_MEMORY, heap_in_container
from airflow_samza.launch.java.installed_java import find_java
from airflow_samza.launch.java.local_java import local_doors, own_folders, quick_start, unseen_settings
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.own_scratch import LONGEST_SOCKET_FOLDER, sweep_left_behind
from airflow_samza.launch.runner_python import OUR_FOLDER, workers_path
from airflow_samza.launch.spark_settings import DEFAULTS, FIXED, UNIX_SOCKETS
from airflow_samza.launch.spark_versions import check_installed

_LOOK_SECONDS = 0.05


def start_java(name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> dict[str, str]:
    """Start Java, unless one runs already, for the session that is asked for so; return the session's settings."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else a Java runs already: spark-submit's, which started us
        find_java()
        check_installed(os.environ.get("SPARK_HOME", ""))
    choose_pythons(conf)
    is_local = parse_master(master).is_local
    settings = _settings(conf, is_local=is_local)
    own: AbstractContextManager[dict[str, str]] = nullcontext({})
    if is_local:
        sweep_left_behind()
        own = own_folders(conf)
    with archived_classes(session_archive(class_archives, master, conf)), quick_start(conf), own as folders:
        settings = {**settings, **folders}
        _start_java({"spark.app.name": name, "spark.master": master, **settings})
    return settings


def _settings(conf: Mapping[str, str], *, is_local: bool) -> dict[str, str]:
    doors = local_doors(conf) if is_local else {}
    heap = heap_in_container(DEFAULTS[DRIVER_MEMORY]) if is_local and DRIVER_MEMORY not in conf else {}
    # A driver in a cluster names no folder, as it would be one on other hosts, too; workers there find their own.
    fits = is_local or len(tempfile.gettempdir()) <= LONGEST_SOCKET_FOLDER
    short = {} if fits else {UNIX_SOCKETS: "false"}
    return {**DEFAULTS, **heap, **short, **doors, **conf, **FIXED}


class EarlyJava:
    """A Java that starts in a thread, while the process imports what it needs; the session then waits for it.

    ``session`` are the arguments of :func:`start_java`.
    """

    def __init__(self, *session: Any) -> None:
        self.session = session
        self._start = ThreadPoolExecutor(1, "start-java").submit(start_java, *session)

    def settings(self) -> dict[str, str]:
        """Return the session's settings, now that Java is up; raise what has kept it from that."""
        return self._start.result()

    def abandon(self) -> None:
        """End a Java that nobody will use, so that its settings do not stay in their file."""
        is_over = False
        while not is_over:
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            is_over = bool(wait([self._start], _LOOK_SECONDS).done)


def choose_pythons(conf: Mapping[str, str]) -> None:
    """Set the Python of workers, and what it finds: this package, wherever it was imported from."""
    own = sys.executable
    # Else the workers run whatever python3 is first on PATH.
    workers = os.environ["PYSPARK_PYTHON"] = conf.get(WORKERS_PYTHON) or own
    os.environ["PYSPARK_DRIVER_PYTHON"] = own
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = workers_path(OUR_FOLDER, inherited, same_python=workers == own)


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, unless one runs already: PySpark itself would give it all settings on its command line."""
    from pyspark import SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        return
    with unseen_settings(settings):
        SparkContext._ensure_initialized()
