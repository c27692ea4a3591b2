"""Settings with their secrets for a driver that spark-submit starts: a file that only its owner can read, once.

A command line, Spark's settings, its page and its event log show what they hold; spark-submit passes no standard input
on. So the settings lie in a file of mode 0600 that the driver deletes when it has read it, and the submitter when no
driver came.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from airflow_samza.errors import StageFailed


def leave_settings(path: str, settings: bytes) -> None:
    """Write a file that only its owner reads; one of this name must not be there yet."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(settings)
        file.flush()
        os.fsync(descriptor)


def take_settings(path: str) -> dict[str, Any]:
    """Read the file and deletes it.

    :class:`~airflow_samza.errors.StageFailed` when there is none, or another user's.
    """
    try:
        with open(path, "rb") as file:
            settings: dict[str, Any] = json.loads(file.read())
    except FileNotFoundError:
        raise StageFailed(
            f"There is no hand-over {path}: the submitter gave up waiting, or this host's root is another folder than "
            "its own.",
            hint="The root has to be one shared folder, mounted under the same path on all hosts.",
            path=path,
        ) from None
    except PermissionError:
        raise StageFailed(
            f"The hand-over {path} belongs to another user.",
            hint="The driver has to run as the user that submits: what it is handed holds secrets.",
            path=path,
        ) from None
    os.unlink(path)
    return settings


def withdraw_settings(path: str) -> None:
    """Delete the file if no driver has read it: one that comes later ends by itself."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
