"""Set-up of the Spark session of a stage runner, and the settings that need a runner of their own."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_samza.errors import ConfigError
from airflow_samza.launch.class_archive import archived_classes, wanted
from airflow_samza.launch.java import find_java
from airflow_samza.launch.local_java import LONGEST_SOCKET_FOLDER, SOCKET_FOLDER, local_doors, unseen_settings
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.spark_settings import DEFAULTS, FIXED, UNIX_SOCKETS, static_setting
from airflow_samza.secrecy import shown, without
from airflow_samza.spark.driver_session import is_gone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def set_conf(session: SparkSession, conf: Mapping[str, str], place: str) -> None:
    """Set settings in a session; one that cannot be set there is a :class:`~airflow_samza.errors.ConfigError`."""
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
                raise static_setting(key, told, place) from error


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, unless one runs already: PySpark itself would give it all settings on its command line."""
    from pyspark import SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ or SparkContext._gateway is not None:
        return
    with unseen_settings(settings):
        SparkContext._ensure_initialized()


def start_session(name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> SparkSession:
    """Return a Spark session; :class:`~airflow_samza.errors.RuntimeMissing` when Java is missing or too old.

    ``class_archives`` is the folder of archives that a local Java maps (None: as the environment says).
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else a Java runs already: spark-submit's, which started us
        find_java()
    # Else the workers run whatever python3 is first on PATH.
    os.environ["PYSPARK_PYTHON"] = conf.get("spark.pyspark.python") or sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    package = str(Path(__file__).resolve().parents[2])
    paths = [
        package,
        *(path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != package),
    ]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)

    from pyspark.sql import SparkSession

    doors = local_doors(conf) if parse_master(master).is_local else {}
    short = (
        {} if SOCKET_FOLDER in doors or len(tempfile.gettempdir()) <= LONGEST_SOCKET_FOLDER else {UNIX_SOCKETS: "false"}
    )
    settings = {**DEFAULTS, **short, **doors, **conf, **FIXED}
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with archived_classes(wanted(class_archives, master, conf)):
        _start_java({"spark.app.name": name, "spark.master": master, **settings})
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    return session
