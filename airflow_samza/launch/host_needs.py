"""Needs of Java and Spark on the host or container on which a stage runner starts, checked before it does."""

from __future__ import annotations

import os
import pwd
import tempfile

from airflow_samza.errors import RuntimeMissing
from airflow_samza.private_folder import scratch_folder


def check_scratch() -> None:
    """Reject a host without a folder for temporary files: :class:`~airflow_samza.errors.RuntimeMissing`."""
    try:
        scratch_folder()
    except OSError as error:
        raise RuntimeMissing(
            f"There is no folder for temporary files that can be written: {error.strerror or error}.",
            hint="In a container with a read-only root filesystem mount a volume at /tmp (of Kubernetes: an emptyDir), "
            "or set TMPDIR to a folder that can be written.",
            folder=os.environ.get("TMPDIR") or tempfile.gettempprefix(),
        ) from None


def check_user() -> None:
    """Reject a user without a name: Java finds none, and Spark ends with a NullPointerException."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        raise RuntimeMissing(
            f"The user id {os.geteuid()} has no entry in /etc/passwd, and Java starts no Spark without a user's name.",
            hint="Add one when the container starts, as the entrypoint of Airflow's own image does "
            "(on OpenShift /etc/passwd has to be writable by its group), or use a Spark Connect server, "
            "which needs no Java here.",
            user=os.geteuid(),
        ) from None
