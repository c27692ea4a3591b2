"""A local Spark with closed ports, with settings that no list of processes shows, and with a Java that is up sooner.

Java compiles in tiers: first quickly, and what has run often again, slowly and well. By its own thresholds two fifths
of a start go into the second compiler, for code that then runs no more. Here a method has to run ten times as often
first: loops over rows come to that within a second, the start does not (decision 83). Stage runners with a local master
and warm runners start Spark so.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_samza.launch.class_archive import user_options
from airflow_samza.launch.drivers.handover import leave_settings
from airflow_samza.launch.drivers.spark_submit import properties_text
from airflow_samza.launch.own_scratch import own_local_dirs, own_scratch, socket_folder
from airflow_samza.launch.spark_settings import UNIX_SOCKETS

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

LOCAL_DIRS = "spark.local.dir"
_LOCAL_DIRS_VARIABLE = "SPARK_LOCAL_DIRS"
"""The variable that comes before the setting."""
_TEMPORARY = "java.io.tmpdir"


def local_doors(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that close the ports of a local Spark, and put its sockets where only we can enter.

    Where no such folder has a path that is short enough for a socket, there are no Unix sockets.
    """
    sockets = socket_folder()
    settings = {**DOORS, **({SOCKET_FOLDER: sockets} if sockets is not None else {UNIX_SOCKETS: "false"})}
    if not set(conf) & set(DOORS):
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)  # for the page, which has no setting of its own
    return settings


@contextmanager
def own_folders(conf: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Let a Java that is started meanwhile keep its temporary files and Spark's blocks where only we can enter.

    Yields the settings of that. A folder for temporary files that the user's own options name stays.
    """
    variables = {name: os.environ.get(name) for name in (_LOCAL_DIRS_VARIABLE, "SPARK_SUBMIT_OPTS")}
    former = tempfile.tempdir
    named = variables[_LOCAL_DIRS_VARIABLE]
    settings = {} if named else {LOCAL_DIRS: own_local_dirs(conf.get(LOCAL_DIRS, ""))}
    if named:
        os.environ[_LOCAL_DIRS_VARIABLE] = own_local_dirs(named)
    if not any(_TEMPORARY in text for text in user_options(conf, os.environ)):
        option = f"-D{_TEMPORARY}={shlex.quote(own_scratch('t'))}"
        os.environ["SPARK_SUBMIT_OPTS"] = f"{option} {variables['SPARK_SUBMIT_OPTS'] or ''}".strip()
    tempfile.tempdir = own_scratch("t")  # PySpark leaves the address of Java there, and its secret
    try:
        yield settings
    finally:
        tempfile.tempdir = former
        for name, value in variables.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def unseen_settings(conf: Mapping[str, str]) -> Iterator[None]:
    """Let a Java that PySpark starts meanwhile read its settings from a private file, not from its command line."""
    before = os.environ.get("PYSPARK_SUBMIT_ARGS")
    with tempfile.TemporaryDirectory(dir=own_scratch()) as folder:
        path = os.path.join(folder, "spark.conf")
        leave_settings(path, properties_text(conf).encode())
        options = ["--properties-file", path, "--load-spark-defaults"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{shlex.join(options)} {before or 'pyspark-shell'}"
        try:
            yield
        finally:
            if before is None:
                del os.environ["PYSPARK_SUBMIT_ARGS"]
            else:
                os.environ["PYSPARK_SUBMIT_ARGS"] = before


LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times Java's own thresholds."""

LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the Java that only writes Spark's command line; it lives for a third of a second."""

_OWN_WORD = re.compile(r"Tier|CompileThreshold|-Xint|-Xcomp")


@contextmanager
def quick_start(conf: Mapping[str, str]) -> Iterator[None]:
    """Give a Java that Spark starts meanwhile these options, unless the user's own speak of compilation."""
    before = {name: os.environ.get(name) for name in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")}
    if not any(_OWN_WORD.search(text) for text in user_options(conf, os.environ)):
        os.environ["SPARK_SUBMIT_OPTS"] = f"{LATE_SECOND_COMPILER} {before['SPARK_SUBMIT_OPTS'] or ''}".strip()
    if before["SPARK_LAUNCHER_OPTS"] is None:
        os.environ["SPARK_LAUNCHER_OPTS"] = LAUNCHER
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
