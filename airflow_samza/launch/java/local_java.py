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
from contextlib import AbstractContextManager, contextmanager

from airflow_samza.launch.class_archive import user_options
from airflow_samza.launch.drivers.spark_submit import leave_properties
from airflow_samza.launch.own_scratch import own_local_dirs, own_scratch, socket_folder
from airflow_samza.launch.programs import submit_options, variables_set
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
    settings, variables = {}, {}
    named = os.environ.get(_LOCAL_DIRS_VARIABLE)
    if named:
        variables[_LOCAL_DIRS_VARIABLE] = own_local_dirs(named)
    else:
        settings[LOCAL_DIRS] = own_local_dirs(conf.get(LOCAL_DIRS, ""))
    if not any(_TEMPORARY in text for text in user_options(conf)):
        variables |= submit_options(f"-D{_TEMPORARY}={shlex.quote(own_scratch('t'))}")
    former = tempfile.tempdir
    with variables_set(variables):
        tempfile.tempdir = own_scratch("t")  # PySpark leaves the address of Java there, and its secret
        try:
            yield settings
        finally:
            tempfile.tempdir = former


@contextmanager
def unseen_settings(conf: Mapping[str, str]) -> Iterator[None]:
    """Let a Java that PySpark starts meanwhile read its settings from a private file, not from its command line."""
    with tempfile.TemporaryDirectory(dir=own_scratch()) as folder:
        path = os.path.join(folder, "spark.conf")
        leave_properties(path, conf)
        options = shlex.join(["--properties-file", path, "--load-spark-defaults"])
        further = os.environ.get("PYSPARK_SUBMIT_ARGS") or "pyspark-shell"
        with variables_set({"PYSPARK_SUBMIT_ARGS": f"{options} {further}"}):
            yield


LATE_SECOND_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 "
    "-XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times Java's own thresholds."""

LAUNCHER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of the Java that only writes Spark's command line; it lives for a third of a second."""

_OWN_WORD = re.compile(r"Tier|CompileThreshold|-Xint|-Xcomp")


def quick_start(conf: Mapping[str, str]) -> AbstractContextManager[None]:
    """Give a Java that Spark starts meanwhile these options, unless the user's own speak of compilation."""
    has_own_word = any(_OWN_WORD.search(text) for text in user_options(conf))
    options = {} if has_own_word else submit_options(LATE_SECOND_COMPILER)
    return variables_set({"SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", LAUNCHER), **options})
