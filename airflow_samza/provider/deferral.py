"""Rules of deferring: when a task may defer, and the events of its triggers.

A stage goes on while no worker looks, so its runner has to outlive the worker. Operators and sensors that defer go by
it, and their triggers send what it names.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.provider.airflow_versions import AirflowTaskTimeout, conf
from airflow_samza.provider.configured_numbers import check_number, configured_number
from airflow_samza.provider.containers import OUTLIVES, why_it_ends
from airflow_samza.runs.progress.progress_log import DEFAULT_INTERVAL

TIMED_OUT = "timed_out"
NOT_SEEN = "not_seen"
LOST = "lost"
UNKNOWN = "unknown"
"""Keys of a trigger's event: the deadline has passed; the reason why this triggerer cannot read the root; the producers
that failed for good; the reason why nobody will ever write the stream that is waited for."""


_INTERVALS = {"poll_interval": 1.0, "progress_interval": DEFAULT_INTERVAL}
"""Seconds between two questions for a state, and between two reports, where nobody has configured them."""

_TRIGGER_GRACE_SECONDS = 120.0
"""Seconds after the deadline until Airflow itself ends a trigger."""


def reject_short_lived(
    task_id: str, conn_id: str, connection: Any, executor: str | None, in_cluster: bool, *, here: bool = True
) -> None:
    """Reject deferring where the stage runner ends with the task.

    ``in_cluster``: the runner is a driver that runs in Spark's cluster, so that no worker has to last. ``executor`` is
    the task's own; ``here``: it runs where this task does.
    """
    why = None if in_cluster else why_it_ends(conn_id, connection, executor, here=here)
    if why is None:
        return
    raise ConfigError(
        f"deferrable=True was set on the task {task_id!r}, and its stage runner would end with the task: {why}.",
        hint="Leave deferrable out; or run stages in a cluster (a Spark connection with deploy-mode cluster); "
        f"or, if the worker's host stays, set {OUTLIVES} to true in the connection.",
        key="deferrable",
        value=True,
    )


def runner_outlives(conn_id: str, connection: Any, executor: str | None, in_cluster: bool) -> bool:
    """Return whether a stage runner that a task starts outlives the task.

    Else it is that task's own, and no other task's.
    """
    return in_cluster or why_it_ends(conn_id, connection, executor) is None


def deadline_of(operator: Any) -> float | None:
    """Return the task's deadline (seconds since 1970).

    Airflow itself does not watch over ``execution_timeout`` while it is deferred.
    """
    return time.time() + operator.execution_timeout.total_seconds() if operator.execution_timeout else None


def trigger_timeout(deadline: float | None) -> timedelta | None:
    """Return the time after which Airflow ends a trigger: a little after the deadline, which triggerers keep."""
    left = None if deadline is None else max(deadline - time.time(), 0.0)
    return None if left is None else timedelta(seconds=left + _TRIGGER_GRACE_SECONDS)


def is_deferrable(deferrable: bool | None) -> bool:
    """Return an operator's ``deferrable``: as given, else Airflow's default."""
    return conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable


def check_intervals(operator: Any, **intervals: float | None) -> None:
    """Reject intervals of an operator, in seconds, that are 0 or less; None is Airflow's configuration."""
    for name, seconds in intervals.items():
        if seconds is None:
            interval_seconds(name, None)
        else:
            check_number(f"{name}={seconds} of the task {operator.task_id!r}", name, seconds, "seconds")


def interval_seconds(name: str, seconds: float | None) -> float:
    """Return an interval in seconds: an operator's, else that of Airflow's configuration, which has to be above 0."""
    return configured_number(name, _INTERVALS[name], "seconds") if seconds is None else seconds


SECTIONS, OVER = "sections", "over"
"""Key of an event on sections that a plan waits for, and its value when the time is over."""


def raise_what_the_trigger_met(event: Mapping[str, Any] | None, task_id: str) -> None:
    """Raise the error of an event without an end: the time-out, or a root that the triggerer cannot read."""
    if event and event.get(TIMED_OUT):
        raise AirflowTaskTimeout(
            f"The task {task_id} took longer than its execution_timeout; its stages are cancelled."
        )
    if event and NOT_SEEN in event:
        raise RuntimeMissing(
            f"The task {task_id!r} cannot wait for its stage: {event[NOT_SEEN]}",
            hint="The root has to be one folder that triggerers see, too, under the same path as workers; or leave "
            "deferrable out.",
        )
