"""Processes beside the driver that run the tasks of small epochs without a Spark job (decision 121).

The driver has threads and a connection to Java, neither of which survives a fork. So it forks a process while it has
neither: the task forker, which forks one process for each stage that asks for one, and never runs a user's code. All
of them end with the driver.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.spark_submit import WORKERS_PYTHON

if TYPE_CHECKING:
    from airflow_samza.engine.stage_task import StageTask

HELLO_SECONDS = 0.2
"""For how long a stage waits for its process where all imports are there; a fork takes some ms."""

_OTHER_WORKERS = ("spark.executor.pyspark.memory", "spark.executorEnv.", "spark.python.daemon.module")
"""Beginnings of settings by which Spark's Python workers differ from a process of ours."""


def may_run_beside(settings: Mapping[str, Any]) -> bool:
    """Return whether tasks may run in processes that the driver forks: they are what Spark's workers would be.

    So they are on a local master, with the same Python, no settings of their own for workers, no archives in their
    folder, and the hash seed that Spark gives to its workers.
    """
    conf = settings["conf"]
    return (
        parse_master(settings["master"]).is_local
        and not settings.get("archives")
        and not any(key.startswith(_OTHER_WORKERS) for key in conf)
        and conf.get(WORKERS_PYTHON, sys.executable) == sys.executable
        and _has_hash_seed_of_workers()
    )


def _has_hash_seed_of_workers() -> bool:
    return not sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "0") == "0"


@dataclass(frozen=True)
class TaskOrder:
    """The tasks of an epoch, run in turn until ``seconds`` are over; ``path`` is where code is imported from.

    ``stage`` is a pickled :class:`~airflow_samza.engine.stage_task.StageTask`: to read it is to import what it needs.
    """

    stage: bytes
    epoch: int
    seconds: float
    path: Sequence[str]

    @classmethod
    def of(cls, stage: StageTask, epoch: int, seconds: float) -> TaskOrder:
        """Return the order for an epoch of a stage, with this process's path of modules."""
        return cls(pickle.dumps(stage), epoch, seconds, list(sys.path))


@dataclass(frozen=True)
class TasksRun:
    """The number of tasks that were run, and the error of the last as JSON; None when it has succeeded."""

    count: int
    error: dict[str, Any] | None = None


class TaskProcess:
    """A process that runs tasks of one stage, as the driver sees it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pid: int | None = None

    def is_ready(self, seconds: float) -> bool:
        """Return whether it can take an order, after waiting for that for some time."""
        with suppress(OSError, EOFError):
            if self._pid is None and self._connection.poll(seconds):
                self._pid = self._connection.recv()
        return self._pid is not None

    def send(self, order: TaskOrder) -> None:
        """Have tasks run."""
        with suppress(OSError):  # that it is gone is seen where the answer is awaited
            self._connection.send(order)

    def answer(self, seconds: float) -> TasksRun | None:
        """Return what became of an order; None while the tasks run, which is asked again.

        Raises:
            EOFError: the process has died.
        """
        try:
            return self._connection.recv() if self._connection.poll(seconds) else None
        except OSError as error:
            raise EOFError from error

    def close(self) -> None:
        """Let it end once it is idle."""
        self._connection.close()

    def kill(self) -> None:
        """End it in the middle of a task."""
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)
        self.close()


class TaskForker:
    """The process that forks task processes, as the driver sees it; ``has_imports``: a fork of it is ready at once."""

    def __init__(self, channel: socket.socket, life: int, *, has_imports: bool) -> None:
        self.has_imports = has_imports
        self._channel = channel
        self._life = life
        self._lock = threading.Lock()

    def open(self) -> TaskProcess | None:
        """Return a process that is being forked; None when the forker is gone."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                socket.send_fds(self._channel, [b"F"], [theirs.fileno()])
            except OSError:
                ours.close()
                return None
        return TaskProcess(Connection(ours.detach()))

    def close(self) -> None:
        """End it, with all processes that it has forked."""
        self._channel.close()
        os.close(self._life)


def fork_task_forker() -> TaskForker:
    """Fork the task forker; to be called before this process has threads, or a connection to Java."""
    ours, theirs = socket.socketpair()
    life_of_driver, life = os.pipe()
    if os.fork() == 0:
        try:
            ours.close()
            os.close(life)
            _serve(theirs, life_of_driver)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    os.close(life_of_driver)
    return TaskForker(ours, life, has_imports="airflow_samza.engine.task_section" in sys.modules)


def _serve(channel: socket.socket, life_of_driver: int) -> None:
    """Fork a process for each that is asked for, until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the driver still ends its stages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        mark, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not mark:
            os._exit(0)
        _import()
        if os.fork() == 0:
            channel.close()
            _run_tasks(Connection(descriptors[0]), life_of_driver)
        os.close(descriptors[0])


def _import() -> None:
    """Import what tasks need, once: where the driver was forked from a warm runner it is all there."""
    from airflow_samza.spark.worker_daemon import preload, quiet_collector

    if "airflow_samza.spark.epoch_task" not in sys.modules:
        preload()
        quiet_collector()


def _run_tasks(connection: Connection, life_of_driver: int) -> None:
    """Be a task process: run orders until the driver hangs up, or is gone."""
    import pyarrow as pa

    from airflow_samza.spark.worker_daemon import quiet_collector

    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        threading.Thread(target=_end_with_driver, args=(life_of_driver,), name="driver's life", daemon=True).start()
        pa.set_cpu_count(1)
        quiet_collector()
        connection.send(os.getpid())
        while True:
            connection.send(_run(connection.recv()))
    except (EOFError, OSError):
        os._exit(0)


def _run(order: TaskOrder) -> TasksRun:
    from airflow_samza.engine.task_section import TaskSection
    from airflow_samza.engine.worker_errors import error_of_task
    from airflow_samza.launch.bindings import take_root_access
    from airflow_samza.private_folder import scratch_folder

    if sys.path != order.path:
        sys.path[:] = order.path
    stage: StageTask = pickle.loads(order.stage)
    take_root_access(stage.root, stage.bindings)
    until = time.monotonic() + order.seconds
    count = task = 0
    try:
        intent, folder = stage.intent(order.epoch), scratch_folder("aside")
        for place, number in enumerate(intent.running):
            if place and time.monotonic() > until:
                return TasksRun(count)
            count, task = place + 1, number
            for _ in TaskSection(stage, intent, place, uuid.uuid4().hex, folder=folder).run(iter(())):
                raise AssertionError("a stage of one section yields nothing")
    except Exception as error:
        with suppress(OSError, ValueError):  # the error counts, whether its traceback can be printed or not
            traceback.print_exc()
            sys.stderr.flush()
        return TasksRun(count, error_of_task(error, stage.stage, task).to_dict())
    return TasksRun(count)


def _end_with_driver(life_of_driver: int) -> None:
    os.read(life_of_driver, 1)
    os._exit(1)
