"""Rules of deferring: when a task may defer, and the events of its triggers.

A stage goes on while no worker looks, so its runner has to outlive the worker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowTaskTimeout

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.provider.bindings import extra_of

TIMED_OUT = "timed_out"
NOT_SEEN = "not_seen"
LOST = "lost"
"""Keys of a trigger's event: the deadline has passed; the reason why this triggerer cannot read the root; the producers
that failed for good."""

OUTLIVES = "runners_outlive_tasks"
"""The field of a Samza connection that tells whether processes of a task outlive the task."""

OF_ONE_TASK = ("kubernetes", "ecs", "batch", "lambda")
"""Executors (by a part of their names) that give each task a container, which ends with it."""


def reject_short_lived(task_id: str, conn_id: str, connection: Any, executor: str | None, in_cluster: bool) -> None:
    """Reject deferring where the stage runner ends with the task.

    ``in_cluster``: the runner is a driver that runs in Spark's cluster, so that no worker has to last. ``executor`` is
    the task's own.
    """
    why = _why_it_ends(conn_id, connection, executor, in_cluster)
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
    return _why_it_ends(conn_id, connection, executor, in_cluster) is None


def _why_it_ends(conn_id: str, connection: Any, executor: str | None, in_cluster: bool) -> str | None:
    """Return the reason why a stage runner ends with the task that starts it; None when it does not."""
    if in_cluster:
        return None
    told = extra_of(conn_id, connection).get(OUTLIVES)
    name = _class_of(executor)
    lasts = (
        not any(part in name.lower() for part in OF_ONE_TASK)
        if told is None
        else str(told).lower() not in ("false", "0", "no")
    )
    if lasts:
        return None
    return (
        f"the connection {conn_id!r} says {OUTLIVES}: false"
        if told is not None
        else f"{name} ends a task's container with the task"
    )


def _class_of(executor: str | None) -> str:
    """Return the executor of a task, or Airflow's first, as its class where ``[core] executor`` has an alias."""
    known: list[str] = [part.strip() for part in conf.get("core", "executor", fallback="").split(",")]
    aliases: dict[str, str] = dict(part.split(":", 1) for part in known if ":" in part)
    name = executor or known[0]
    return aliases.get(name, name.partition(":")[2] or name)


def deadline_of(operator: Any) -> float | None:
    """Return the task's deadline (seconds since 1970).

    Airflow itself does not watch over ``execution_timeout`` while it is deferred.
    """
    return time.time() + operator.execution_timeout.total_seconds() if operator.execution_timeout else None


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
