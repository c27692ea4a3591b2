"""The Spark session of a stage runner: how it is set up, and which settings need a runner of their own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import is_secret_name, shown, without
from airflow_samza.spark.class_archive import archived_classes, wanted
from airflow_samza.spark.driver_session import is_gone
from airflow_samza.spark.java import find_java
from airflow_samza.spark.local_java import LONGEST_SOCKET_FOLDER, SOCKET_FOLDER, local_doors, unseen_settings
from airflow_samza.spark.masters import parse_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"

DEFAULTS: Mapping[str, str] = {
    # Stages of one run share the cores evenly instead of queueing behind each other.
    "spark.scheduler.mode": "FAIR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # The driver only plans and collects one row per task; everything else happens in the Python workers.
    "spark.driver.memory": "1g",
    # A cancelled or failed job's Python workers die at once instead of after two seconds.
    "spark.python.task.killTimeout": "100ms",
    "spark.python.daemon.module": "airflow_samza.spark.worker_daemon",
    # Between the JVM and its Python workers TCP waits 40 ms for an acknowledgement, in every task; a Unix socket does not.
    UNIX_SOCKETS: "true",
    # A retry reads the same slice again and its manifest is adopted, so retries are harmless where the master allows them.
    "spark.task.maxFailures": "4",
}
"""Settings of every runner; the user's own win, except for those in FIXED."""

FIXED: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # Adaptive execution re-plans at shuffles, and a stage has none; without it a job starts sooner.
    "spark.sql.adaptive.enabled": "false",
    # A filter that is false for all messages must not remove the source: every task has to run and send end-of-stream.
    "spark.sql.optimizer.excludedRules": ",".join(
        "org.apache.spark.sql.catalyst.optimizer." + rule
        for rule in ("PropagateEmptyRelation", "PruneFilters", "ConvertToLocalRelation", "EliminateLimits", "OptimizeOneRowPlan")
    ),
}
"""Settings that the rules of SEMANTICS hang on; a user's other value is refused."""


def is_per_job(key: str) -> bool:
    """Whether a setting can differ between two stages of one runner; any other needs a runner of its own."""
    static_sql = ("spark.sql.extensions", "spark.sql.warehouse.dir", "spark.sql.catalogImplementation", "spark.sql.catalog.")
    return key.startswith("spark.sql.") and not key.startswith(static_sql) and not is_secret_name(key)  # a stage's request is a file


def refuse_static(conf: Mapping[str, str]) -> None:
    """Refuses settings that are made when a Spark Connect server starts: nobody who only connects to it can change them."""
    for key, value in conf.items():
        raise _static(key, shown({key: value})[key], "a Spark Connect server")


def set_conf(session: SparkSession, conf: Mapping[str, str], place: str) -> None:
    """Makes settings in a session; one that cannot be made there, or not so, is a :class:`~airflow_samza.errors.ConfigError`."""
    from pyspark.errors import PySparkException

    for key, value in conf.items():
        told = shown(conf)[key]
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            if is_gone(error):
                raise
            if "CANNOT_MODIFY_CONFIG" not in str(error) and "CANNOT_MODIFY_STATIC_CONFIG" not in str(error):
                reason = next(iter(str(error).strip().splitlines()), "")
                raise ConfigError(
                    f"The Spark setting {key} cannot be {told!r}: {without(reason, [value] if told != value else [])}",
                    hint="Correct it, or leave it out.",
                    key=key,
                    value=told,
                ) from error
            if key not in FIXED or session.conf.get(key) != value:
                raise _static(key, told, place) from error


def _static(key: str, value: str, place: str) -> ConfigError:
    return ConfigError(
        f"The Spark setting {key} is made when {place} starts, and a session of it cannot set it to {value!r}.",
        hint="Set it there (spark-defaults.conf, or --conf of the server), or leave it out; settings that begin with spark.sql. "
        "are mostly a session's own.",
        key=key,
        value=value,
    )


def _start_java(settings: Mapping[str, str]) -> None:
    """Starts Java, unless one runs already: PySpark itself would give it all settings on its command line."""
    from pyspark import SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        return
    with unseen_settings(settings):
        SparkContext._ensure_initialized()


def start_session(name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> SparkSession:
    """A Spark session in this process; :class:`~airflow_samza.errors.RuntimeMissing` when Java is missing or too old.

    ``class_archives`` is the folder of archives that a local Java maps (None: as the environment says).
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else a Java runs already: spark-submit's, which started us
        find_java()
    # Else the workers run whatever python3 is first on PATH.
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    package = str(Path(__file__).resolve().parents[2])
    paths = [package, *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != package)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)

    from pyspark.sql import SparkSession

    doors = local_doors(conf) if parse_master(master).is_local else {}
    short = {} if SOCKET_FOLDER in doors or len(tempfile.gettempdir()) <= LONGEST_SOCKET_FOLDER else {UNIX_SOCKETS: "false"}
    settings = {**DEFAULTS, **short, **doors, **conf, **FIXED}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with archived_classes(wanted(class_archives, master, conf)):
        _start_java({"spark.app.name": name, "spark.master": master, **settings})
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
