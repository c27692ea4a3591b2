"""Set-up of the Spark session of a stage runner, and the settings that need a runner of their own (decision 61).

The runner on Spark, and whoever starts a Spark to lend or to train, set up by it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_samza.errors import ConfigError, SamzaError, StageLost
from airflow_samza.launch.masters import SUBMITTED
from airflow_samza.launch.spark_settings import FIXED, static_setting
from airflow_samza.secrecy import shown, without
from airflow_samza.spark.sessions.driver_session import is_spark_lost
from airflow_samza.spark.sessions.java_start import EarlyJava, start_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JARS = "spark.jars"

_EXECUTOR_TEMPLATE = "spark.kubernetes.executor.podTemplateFile"

_POOLS = "org.apache.spark.scheduler.FairSchedulableBuilder"
"""The logger that warns of each pool that no file configures; every stage has such a pool."""


def set_conf(session: SparkSession, conf: Mapping[str, str], place: str) -> None:
    """Set settings in a session; one that cannot be set there is a :class:`~airflow_samza.errors.ConfigError`."""
    from pyspark.errors import PySparkException

    for key, value in conf.items():
        shown_value = shown(conf)[key]
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            if is_spark_lost(error):
                raise
            if "CANNOT_MODIFY_CONFIG" not in str(error) and "CANNOT_MODIFY_STATIC_CONFIG" not in str(error):
                reason = next(iter(str(error).strip().splitlines()), "")
                raise ConfigError(
                    f"The Spark setting {key} cannot be {shown_value!r}: "
                    f"{without(reason, [value] if shown_value != value else [])}",
                    hint="Correct it, or leave it out.",
                    key=key,
                    value=shown_value,
                ) from error
            if key not in FIXED or session.conf.get(key) != value:
                raise static_setting(key, shown_value, place) from error


def as_lost(error: BaseException, failure: SamzaError) -> SamzaError:
    """Return the error of a Spark that does not come up; of one that has gone away meanwhile, that it is lost."""
    if is_spark_lost(error):  # whoever looks after the stage asks who has ended its driver
        return StageLost("Spark went away while it started.", hint=failure.hint, **failure.facts)
    return failure


_early: list[EarlyJava] = []
"""The Java that was started before its session was asked for, if there is one."""


def start_early(name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> EarlyJava:
    """Start Java for the session that :func:`start_session` will be asked for with the same arguments."""
    _early[:] = [EarlyJava(name, master, conf, class_archives)]
    return _early[0]


def of_the_submission(program: str | None) -> dict[str, str]:
    """Return the settings that count in a submitted driver as spark-submit has made them, and not as they were asked.

    The template of executors' pods is a copy in the driver's pod. The application's jars come without ``program``, the
    driver's own, where it is a link: a standalone cluster has fetched it as one of them, and executors would, too.
    """
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # no spark-submit has given this process a Java with settings
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf, found = SparkConf(), {}
    template = conf.get(_EXECUTOR_TEMPLATE)
    if template is not None:
        found[_EXECUTOR_TEMPLATE] = template
    if program is not None:
        jars = (conf.get(JARS, "") or "").split(",")
        found[JARS] = ",".join(jar for jar in jars if jar and urlsplit(jar).path.rpartition("/")[2] != program)
    return found


def start_session(name: str, master: str, conf: Mapping[str, str], class_archives: str | None = None) -> SparkSession:
    """Return a Spark session; :class:`~airflow_samza.errors.RuntimeMissing` when Java is missing or too old.

    ``class_archives`` is the folder of archives that a local Java maps (None: as the environment says).
    """
    session = (name, master, conf, class_archives)
    early = _early.pop() if _early and _early[0].session == session else None
    settings = early.settings() if early is not None else start_java(*session)

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name)
    if master != SUBMITTED:
        builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    started = builder.getOrCreate()
    started.sparkContext.setLogLevel("WARN")
    log4j: Any = started.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # Java runs
    log4j.core.config.Configurator.setLevel(_POOLS, log4j.Level.ERROR)
    return started
