"""Settings of Spark: those of every runner, reserved ones, and those that need a runner of their own.

The launcher checks by them what a user sets, and the runner's sessions are opened with them. Decisions 57 and 60.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import is_secret_name, shown

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
    # Between the JVM and its Python workers TCP waits 40 ms for an acknowledgement, in every task; a Unix socket does
    # not.
    UNIX_SOCKETS: "true",
    # A retry reads the same range again and its manifest is adopted, so retries are harmless where the master allows
    # them.
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
        for rule in (
            "PropagateEmptyRelation",
            "PruneFilters",
            "ConvertToLocalRelation",
            "EliminateLimits",
            "OptimizeOneRowPlan",
        )
    ),
}
"""Settings that the rules depend on (docs/reference/semantics.md); another value of a user's is rejected."""


def is_per_job(key: str) -> bool:
    """Return whether a setting can differ between two stages of one runner; any other needs a runner of its own."""
    static_sql = (
        "spark.sql.extensions",
        "spark.sql.warehouse.dir",
        "spark.sql.catalogImplementation",
        "spark.sql.catalog.",
    )
    return (
        key.startswith("spark.sql.") and not key.startswith(static_sql) and not is_secret_name(key)
    )  # a stage's request is a file


def reject_static(conf: Mapping[str, str]) -> None:
    """Reject settings that are made when a Spark Connect server starts.

    A client of the server cannot change them.
    """
    for key, value in conf.items():
        raise static_setting(key, shown({key: value})[key], "a Spark Connect server")


def static_setting(key: str, value: str, place: str) -> ConfigError:
    """Return the error for a setting that is made when something starts, and cannot be changed by a session of it."""
    return ConfigError(
        f"The Spark setting {key} is fixed when {place} starts, and a session of it cannot set it to {value!r}.",
        hint="Set it there (spark-defaults.conf, or --conf of the server), "
        "or leave it out; settings that begin with spark.sql. are mostly a session's own.",
        key=key,
        value=value,
    )
