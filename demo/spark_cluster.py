"""A standalone cluster of Spark on this machine: a master, and workers of one core each, from the installed pyspark."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import psutil

from demo.java_servers import NoServer

# A Java takes a second to come up, and a minute where eight people share two cores.
PATIENCE_SECONDS = 120.0

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives for half a minute: half of its time, and more, would go into optimising what is run once."""


def java_options() -> str:
    """Return the options of its Javas: those of ``SPARK_SUBMIT_OPTS``, which tests set for all that they start."""
    return os.environ.get("SPARK_SUBMIT_OPTS", SHORT_LIVED)


def spark_home() -> Path:
    """Return the folder of the installed pyspark's Spark."""
    return Path(str(files("pyspark")))


@dataclass
class Daemon:
    """A process that was started here, and what it prints."""

    log: Path
    process: subprocess.Popen[bytes]

    def await_line(self, pattern: str) -> str:
        """Return the first match in its log.

        Raises:
            NoServer: when it ends before, or takes too long.
        """
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found is not None:
                return found[0]
            if self.process.poll() is not None or time.monotonic() > deadline:
                ended = "ended" if self.process.poll() is not None else f"did not print {pattern!r}"
                raise NoServer(f"Spark {ended}; the end of {self.log}:\n{self.log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Ends it, and all that it started."""
        children = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in children:
            if child.is_running():
                child.send_signal(signal.SIGKILL)

    def kill(self) -> None:
        """End it and all that it started at once, as a machine that is switched off: it can start nothing more."""
        whole = psutil.Process(self.process.pid)
        whole.suspend()
        for process in (whole, *whole.children(recursive=True)):
            process.kill()
        self.process.wait()


def processes_below(pid: int, program: str) -> list[psutil.Process]:
    """Return the processes below one that run a Java program."""
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if program in child.cmdline():
                found.append(child)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return found


@dataclass
class StandaloneCluster:
    """The master's URL, and its workers."""

    master: str
    folder: Path
    workers: list[Daemon] = field(default_factory=list)

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run now, of all applications."""
        program = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
        return [process for worker in self.workers for process in processes_below(worker.process.pid, program)]


@contextmanager
def standalone_cluster(folder: Path, *, workers: int, elsewhere: Sequence[str] = ()) -> Iterator[StandaloneCluster]:
    """Start a cluster that runs inside the ``with``; its files and logs lie in ``folder``.

    ``elsewhere`` is the beginning of a command with which its processes see another machine.
    """
    started: list[Daemon] = []

    def start(name: str, number: int, program: str, *arguments: str) -> Daemon:
        log = folder / f"{name}-{number}.log"
        # An address for each: Spark sees several hosts, and starts no second try at a task on the host of the first.
        host = f"127.0.0.{number + 1}"
        environment = {
            **os.environ,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_WORKER_DIR": str(folder / "work"),
        }
        environment["SPARK_DAEMON_JAVA_OPTS"] = java_options()
        environment["HOST_FOLDER"] = str(folder / f"{name}-{number}")  # as if each had a disk of its own
        # Not ours to inherit: a cluster elsewhere has none of the submitter's environment.
        environment.pop("PYTHONPATH", None)
        with log.open("wb") as output:
            place = ["--host", host, "--port", "0", "--webui-port", "0"]
            command = [
                *elsewhere,
                str(spark_home() / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{program}",
                *place,
                *arguments,
            ]
            process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True, env=environment, cwd=folder
            )
        started.append(Daemon(log, process))
        return started[-1]

    try:
        master = start("master", 0, "master.Master")
        url = master.await_line(r"spark://127\.0\.0\.1:\d+")
        size = ["--cores", "1", "--memory", "1g"]
        made = [start("worker", number, "worker.Worker", *size, url) for number in range(1, workers + 1)]
        for worker in made:
            worker.await_line("Successfully registered with master")
        yield StandaloneCluster(url, folder, made)
    finally:
        for daemon in reversed(started):
            daemon.stop()
