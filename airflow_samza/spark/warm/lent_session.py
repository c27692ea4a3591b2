"""The session of a run in a Java that a warm runner lends to it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil

from airflow_samza.engine.heartbeat import RETRY_HINT
from airflow_samza.errors import SamzaError, StageLost
from airflow_samza.launch.programs import variables_set
from airflow_samza.launch.warm.messages import LEND, receive, send
from airflow_samza.spark.sessions.classic_session import ClassicSession
from airflow_samza.spark.sessions.java_start import choose_pythons
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import local_copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.2


class LentSession(ClassicSession):
    """A driver in a Java that goes on without it."""

    def __init__(self, lent: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self._lent = lent
        super().__init__("", settings["master"], settings["conf"])

    def _open(self, name: str, conf: Mapping[str, str], class_archives: str | None) -> SparkSession:
        choose_pythons(conf)
        from pyspark import SparkConf, SparkContext, java_gateway
        from pyspark.sql import SparkSession

        server = {"PYSPARK_GATEWAY_PORT": str(self._lent["port"]), "PYSPARK_GATEWAY_SECRET": str(self._lent["secret"])}
        with variables_set(server):
            launch: Any = java_gateway.launch_gateway
            gateway = launch()
        jvm: Any = gateway.jvm
        default_session: Any = SparkSession._get_j_spark_session_class(jvm).getDefaultSession().get()
        java_context = jvm.JavaSparkContext(default_session.sparkContext())
        # A SparkContext of Python asks Java for each of its first settings, several times; then it takes over all.
        settings, needed = java_context.getConf(), jvm.SparkConf(False)
        needed.setMaster(settings.get("spark.master")).setAppName(settings.get("spark.app.name"))
        needed.setExecutorEnv(settings.getExecutorEnv())
        context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jvm=jvm, _jconf=needed))
        return SparkSession(context, default_session.newSession())

    def ship(self, code: Sequence[str], archives: Sequence[str]) -> None:
        """Name the files to the workers of this run alone, which are on this host; the archives are there."""
        context: Any = self._session.sparkContext
        context._python_includes += [os.path.abspath(path) for path in code]

    def stop(self) -> None:
        """End what this run has in Java; Spark goes on."""
        with suppress(Exception):  # the warm runner does it again, whatever is left
            self._session.sparkContext.cancelAllJobs()

    def _java(self) -> psutil.Process | None:
        try:
            return psutil.Process(int(self._lent["java"]))
        except psutil.Error:
            return None


def follow(log: str, offset: int) -> None:
    """Copy what Java and its workers print from now on into this run's own log."""
    threading.Thread(target=_copy, args=(log, offset), name="java's log", daemon=True).start()


def _copy(log: str, offset: int) -> None:
    with suppress(OSError), open(log, "rb") as file:
        file.seek(offset)
        while True:
            output = file.read(1 << 16)
            if output:
                os.write(2, output)
            else:
                time.sleep(_LOOK_SECONDS)


def open_lent_session(lease: socket.socket, settings: Mapping[str, Any], files: Filesystem) -> LentSession:
    """Ask the warm runner for its Spark, wait until that is up, and open a session there."""
    with suppress(OSError):
        send(lease, {"do": LEND})
    lent = receive(lease)
    if lent is None:
        raise StageLost(
            f"The warm runner {settings.get('warm', '')} ended before its Spark was up.",
            hint=RETRY_HINT,
        )
    if "error" in lent:
        raise SamzaError.from_dict(lent["error"])
    follow(lent["log"], lent["log_from"])
    driver = LentSession(lent, settings)
    driver.ship([local_copy(files, path) for path in settings["code"]], ())
    return driver
