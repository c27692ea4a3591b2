"""A real YARN on this machine: Hadoop's own minicluster, from Maven, with two node managers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from demo.spark_cluster import Daemon, processes_below

SOURCES = Path(__file__).parent / "yarn_cluster"


@dataclass
class YarnCluster:
    """The process that is the cluster."""

    daemon: Daemon

    def executors(self) -> list[psutil.Process]:
        """The executors that run now, of all applications."""
        return processes_below(self.daemon.process.pid, "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend")


@contextmanager
def yarn_cluster(folder: Path, default_fs: str = "file:///", elsewhere: Sequence[str] = ()) -> Iterator[YarnCluster]:
    """A cluster that runs inside the ``with``; HADOOP_CONF_DIR points to it there.

    ``elsewhere`` is the beginning of a command with which it sees another machine.
    """
    conf, classes = folder / "conf", folder / "classes"
    conf.mkdir(exist_ok=True)
    listed = folder / "classpath"
    maven = [
        "mvn",
        "-q",
        "-B",
        "-f",
        str(SOURCES / "pom.xml"),
        "dependency:build-classpath",
        f"-Dmdep.outputFile={listed}",
    ]
    subprocess.run(maven, check=True, cwd=folder)
    path = os.pathsep.join([str(classes), listed.read_text().strip()])
    subprocess.run(["javac", "-cp", path, "-d", str(classes), str(SOURCES / "YarnForTests.java")], check=True)
    log = folder / "yarn.log"
    command = [
        *elsewhere,
        "java",
        "-Xmx512m",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        "-cp",
        path,
        "YarnForTests",
        str(conf),
        "2",
        default_fs,
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, cwd=folder)
    daemon = Daemon(log, process)
    try:
        daemon.await_line("the cluster is up")
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("HADOOP_CONF_DIR", str(conf))
            yield YarnCluster(daemon)
    finally:
        daemon.stop()
