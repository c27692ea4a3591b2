"""A local Spark whose ports are closed to other users and hosts, and whose settings no list of processes shows."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_samza.launch.handover import leave_settings
from airflow_samza.launch.spark_submit import properties_text
from airflow_samza.private_folder import scratch_folder

LOOPBACK = "127.0.0.1"
SOCKET_FOLDER = "spark.python.unix.domain.socket.dir"

DOORS: Mapping[str, str] = {
    # Driver and executor are one process: no other host needs its ports.
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    # Other users of this machine reach loopback, too. Spark makes a secret of its own for a local master, and shows it
    # nowhere.
    "spark.authenticate": "true",
}
"""Settings of every Spark of this process alone; the user's own win."""

LONGEST_SOCKET_FOLDER = 60
"""A socket's path has at most 107 bytes, and Spark puts a name of about 45 behind the folder."""


def local_doors(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that close the ports of a local Spark, and put its sockets where only we can enter."""
    found = {**DOORS, SOCKET_FOLDER: scratch_folder("sockets")}
    if not set(conf) & set(DOORS):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # for the page, which has no setting of its own
    if len(found[SOCKET_FOLDER]) > LONGEST_SOCKET_FOLDER:
        del found[SOCKET_FOLDER]
    return found


@contextmanager
def unseen_settings(conf: Mapping[str, str]) -> Iterator[None]:
    """Let a Java that PySpark starts meanwhile read its settings from a private file, not from its command line."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as folder:
        path = os.path.join(folder, "spark.conf")
        leave_settings(path, properties_text(conf).encode())
        given = ["--properties-file", path, "--load-spark-defaults"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(given)} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
            else:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before
