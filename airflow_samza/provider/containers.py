"""Tasks in containers of their own, which end with the task and take its processes and its disk along.

Airflow marks such containers by environment variables. The executor's name says it where there is no mark; what the
Samza connection says comes first. The hook asks it whether a runner outlives its task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import conf
from airflow_samza.provider.connections.fields import extra_of

OUTLIVES = "runners_outlive_tasks"
"""The field of a Samza connection that tells whether processes of a task outlive the task."""

OF_ONE_TASK = ("kubernetes", "ecs", "batch", "lambda")
"""Executors (by a part of their names) that give each task a container, which ends with it."""

MARKS = {
    "AIRFLOW_IS_K8S_EXECUTOR_POD": "the KubernetesExecutor",
    "AIRFLOW_IS_EXECUTOR_CONTAINER": "the executor of this container",
    "AWS_LAMBDA_FUNCTION_NAME": "the Lambda executor",
}
"""Variables that are set in a task's own container, and what has set them. A pod of Airflow's Helm chart says
LocalExecutor in ``AIRFLOW__CORE__EXECUTOR``, so that configuration alone would mislead there."""

_OWN_DISKS = frozenset({"overlay", "aufs", "tmpfs", "ramfs", "fuse.fuse-overlayfs"})
"""Filesystems that a container has for itself."""


def why_it_ends(conn_id: str, connection: Any, executor: str | None, *, here: bool = True) -> str | None:
    """Return the reason why a task's container ends with the task; None when processes outlive the task.

    ``executor`` is the task's own, None: Airflow's first. ``here``: the task runs, or will run, where this one does, so
    that the marks of this container count.
    """
    outlives = extra_of(conn_id, connection).get(OUTLIVES)
    if outlives is not None:
        ends = str(outlives).lower() in ("false", "0", "no")
        return f"the connection {conn_id!r} says {OUTLIVES}: false" if ends else None
    mark = _mark(os.environ) if here else None
    name = _class_of(executor)
    if any(part in name.lower() for part in OF_ONE_TASK):
        return f"{name} ends a task's container with the task"
    return f"{mark} ends a task's container with the task" if mark is not None else None


def reject_own_disk(conn_id: str, root: str, why: str) -> None:
    """Reject a root on the disk of this container, which ends (``why``) before the next task of the run begins."""
    kind = _own_disk(root) if "://" not in root else None
    if kind is None:
        return
    raise ConfigError(
        f"The root {root} is on the disk of this task's container ({kind}), and {why}: "
        "the next task would find nothing.",
        hint="Use a root on a volume that the containers of all tasks mount, on HDFS or on an object store; "
        f"or, if the worker's host stays, set {OUTLIVES} to true in the connection {conn_id!r}.",
        key="root",
        value=root,
    )


def _mark(environment: Mapping[str, str]) -> str | None:
    for name, who in MARKS.items():
        value = environment.get(name, "")
        if value and value.lower() not in ("false", "0"):
            return who
    return None


def _class_of(executor: str | None) -> str:
    """Return the executor of a task, or Airflow's first, as its class where ``[core] executor`` has an alias."""
    executors: list[str] = [part.strip() for part in conf.get("core", "executor", fallback="").split(",")]
    aliases: dict[str, str] = dict(part.split(":", 1) for part in executors if ":" in part)
    name = executor or executors[0]
    return aliases.get(name, name.partition(":")[2] or name)


def _own_disk(root: str, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Return the kind of the filesystem of a folder, where only this container has it."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:  # no Linux, and no container of its kind
        return None
    path = Path(os.path.realpath(os.path.expanduser(root)))
    places = [(point.replace("\\040", " "), kind) for _, point, kind, *_ in (line.split(" ") for line in lines)]
    above = [(point, kind) for point, kind in places if path.is_relative_to(point)]
    # Of several at one point the last one hides the others.
    _, kind = max(reversed(above), key=lambda place: len(place[0]), default=("", ""))
    return kind if kind in _OWN_DISKS else None
