"""A real Spark Connect server on this machine, from the installed pyspark.

A process that knows nothing of this package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.spark_cluster import Daemon, spark_home

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

TWO_CORES = "local[2]"
FOUR_TRIES = "local[2,4]"
"""Two cores, and a task may fail three times."""


@dataclass
class ConnectServer:
    """A server that runs, and may be killed and started again at its port."""

    daemon: Daemon
    port: int

    @property
    def url(self) -> str:
        """Its URL without a token."""
        return f"sc://localhost:{self.port}"

    def java(self) -> psutil.Process:
        """Its process."""
        return psutil.Process(self.daemon.process.pid)


def start_server(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    port: int = 0,
    master: str = TWO_CORES,
    python_path: str | None = None,
) -> ConnectServer:
    """Starts a server, at any free port, and waits until it listens; ``python_path`` is what its Python has besides."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"connect-{len(list(folder.glob('connect-*')))}.log"
    conf = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **(settings or {}),
    }
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        "--class",
        SERVER,
        "--master",
        master,
        "--driver-memory",
        "600m",
    ]
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python_without_us(folder)), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("PYTHONPATH", None)  # not ours to inherit: a server elsewhere has none of the client's environment
    if python_path is not None:
        environment["PYTHONPATH"] = python_path
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "spark-internal"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
            cwd=folder,
        )
    daemon = Daemon(log, process)
    try:
        found = daemon.await_line(r"Spark Connect server started at: \S*:\d+")
    except BaseException:
        daemon.stop()
        raise
    return ConnectServer(daemon, int(found.rpartition(":")[2]))


def python_without_us(folder: Path) -> Path:
    """This Python with its installed packages, and without this one, which a server of others does not have."""
    script = folder / "python"
    installed = sysconfig.get_paths()[
        "purelib"
    ]  # named on the path, so that no .pth file of it is read: those lead to us
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{installed}" exec {sys.executable} -S "$@"\n')
    script.chmod(0o755)
    return script


@contextmanager
def connect_server(
    folder: Path, settings: Mapping[str, str] | None = None, *, master: str = TWO_CORES
) -> Iterator[ConnectServer]:
    """A server that runs inside the ``with``."""
    server = start_server(folder, settings, master=master)
    try:
        yield server
    finally:
        server.daemon.stop()
