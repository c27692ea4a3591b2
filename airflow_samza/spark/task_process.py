"""Processes beside the driver that run the tasks of small epochs without a Spark job (decision 121).

The driver has threads and a connection to Java, neither of which survives a fork. So it forks a process while it has
neither: the task forker, which forks a process for each that a stage asks for, and never runs a user's code. All of
them end with the driver.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from airflow_samza.launch.drivers.spark_submit import WORKERS_PYTHON
from airflow_samza.launch.java.container_limits import cores_here
from airflow_samza.launch.masters import parse_master

if TYPE_CHECKING:
    from airflow_samza.engine.stage_task import StageTask

HELLO_SECONDS = 0.2
"""For how long a stage waits for its process where all imports are there; a fork takes some ms."""

_END_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of Linux."""

_OTHER_WORKERS = (
    "spark.executor.pyspark.memory",
    "spark.executorEnv.",
    "spark.python.daemon.module",
    "spark.files",
    "spark.archives",
    "spark.submit.pyFiles",
)
"""Beginnings of settings by which Spark's Python workers differ from a process of ours, or have files that it lacks."""


def may_run_beside(settings: Mapping[str, Any]) -> bool:
    """Return whether tasks may run in processes that the driver forks: they are what Spark's workers would be.

    So they are on a local master, with the same Python, no settings of their own for workers, no files or archives in
    their folder, and the hash seed that Spark gives to its workers.
    """
    conf = settings["conf"]
    return (
        parse_master(settings["master"]).is_local
        and not settings.get("archives")
        and not any(key.startswith(_OTHER_WORKERS) for key in conf)
        and conf.get(WORKERS_PYTHON, sys.executable) == sys.executable
        and _has_hash_seed_of_workers()
    )


def cores_of(settings: Mapping[str, Any]) -> int:
    """Return how many tasks a local Spark of a runner's settings runs at a time."""
    cores = parse_master(settings["master"]).local_cores or cores_here()
    with suppress(ValueError):  # Spark says what is wrong
        cores //= max(int(settings["conf"].get("spark.task.cpus", 1)), 1)
    return max(cores, 1)


def _has_hash_seed_of_workers() -> bool:
    return not sys.flags.hash_randomization and os.environ.get("PYTHONHASHSEED", "0") == "0"


@dataclass(frozen=True)
class TaskOrder:
    """Tasks of an epoch, run in turn; ``path`` is where code is imported from.

    ``stage`` is a pickled :class:`~airflow_samza.engine.stage_task.StageTask`: to read it is to import what it needs.
    ``places`` are those of the tasks among the ones that run in the epoch.
    """

    stage: bytes
    epoch: int
    places: Sequence[int]
    path: Sequence[str]


class TaskProcess:
    """A process that runs tasks of one stage at a time, as the driver sees it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pid: int | None = None

    def is_ready(self, seconds: float) -> bool:
        """Return whether it can take an order, after waiting for that for some time."""
        with suppress(OSError, EOFError):
            if self._pid is None and self.connection.poll(seconds):
                self._pid = self.connection.recv()
        return self._pid is not None

    @property
    def is_there(self) -> bool:
        """Return whether a process without an order lives, as far as its connection tells."""
        with suppress(OSError, EOFError):
            return self.is_ready(0.0) and not self.connection.poll(0.0)
        return False

    def send(self, order: TaskOrder) -> None:
        """Have tasks run."""
        with suppress(OSError):  # that it is gone is seen where the answer is awaited
            self.connection.send(order)

    def answer(self) -> dict[str, Any] | None:
        """Return the error of an order as JSON, empty when all tasks have succeeded; None while they run.

        Raises:
            EOFError: the process has died.
        """
        try:
            return self.connection.recv() if self.connection.poll() else None
        except OSError as error:
            raise EOFError from error

    @property
    def has_died(self) -> bool:
        """Return whether it is gone without a word, though a process that a task has started holds its connection."""
        if self._pid is None or self.connection.closed or self.connection.poll(0.0):
            return False
        with suppress(PermissionError):
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                return not self.connection.poll(0.0)
        return False

    def close(self) -> None:
        """Let it end once it is idle."""
        self.connection.close()

    def kill(self) -> None:
        """End it in the middle of a task."""
        if self._pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self._pid, signal.SIGKILL)
        self.close()


def said(processes: Sequence[TaskProcess], seconds: float) -> list[TaskProcess]:
    """Wait until one of the processes has said something, or has died, and return those that have."""
    ready = wait([process.connection for process in processes], seconds)
    return [process for process in processes if process.connection in ready]


class TaskForker:
    """The process that forks task processes, as the driver sees it; ``has_imports``: a fork of it is ready at once.

    ``cores`` is the number of tasks that the master runs at a time. Each stage has a process; the further ones are one
    fewer than cores for all stages together. Those that stages give back serve the next ones, as Spark's workers do:
    they have its code imported, and memory allocated.
    """

    def __init__(self, channel: socket.socket, *, has_imports: bool, cores: int = 1) -> None:
        self.has_imports = has_imports
        self.cores = cores
        self._channel = channel
        self._further = cores - 1
        self._idle: list[TaskProcess] = []
        self._lock = threading.Lock()

    def open(self, *, further: bool = False) -> TaskProcess | None:
        """Return a process, which may be one that is just being forked.

        None when the forker is gone, or there are as many ``further`` ones as there may be.
        """
        with self._lock:
            if further and not self._further:
                return None
            process = self._kept() or self._fork()
            self._further -= further and process is not None
            return process

    def give_back(self, process: TaskProcess, *, further: bool = False) -> None:
        """Take a process that has nothing to do, or was killed."""
        with self._lock:
            self._further += further
            if process.is_there and len(self._idle) < self.cores:
                self._idle.append(process)
            else:
                process.close()

    def _kept(self) -> TaskProcess | None:
        while self._idle:
            process = self._idle.pop()
            if process.is_there:
                return process
            process.close()
        return None

    def _fork(self) -> TaskProcess | None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._channel, [b"F"], [theirs.fileno()])
            except OSError:
                ours.close()
                return None
        return TaskProcess(Connection(ours.detach()))

    def close(self) -> None:
        """End it, with all processes that it has forked."""
        self._channel.close()


def fork_task_forker(*, cores: int = 1, imports_at_once: bool = False) -> TaskForker:
    """Fork the task forker; to be called before this process has threads, or a connection to Java.

    ``cores`` is the number of tasks that the master runs at a time. ``imports_at_once``: a stage will ask for a process
    for sure, so it imports meanwhile what tasks need.
    """
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            ours.close()
            if imports_at_once:
                _import()
            _serve(theirs)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    theirs.close()
    return TaskForker(ours, has_imports="airflow_samza.engine.task_section" in sys.modules, cores=cores)


def _serve(channel: socket.socket) -> None:
    """Fork a process for each that is asked for, until the driver is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the driver still ends its stages
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while True:
        mark, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if not mark:
            os._exit(0)
        _import()
        os.set_inheritable(descriptors[0], False)  # a program that a task starts may outlive it
        forker = os.getpid()
        if os.fork() == 0:
            channel.close()
            _end_with(forker)
            _run_tasks(Connection(descriptors[0]))
        os.close(descriptors[0])


def _import() -> None:
    """Import what tasks need, once: where the driver was forked from a warm runner it is all there."""
    from airflow_samza.spark.worker_daemon import preload, quiet_collector

    if "airflow_samza.spark.epoch_task" not in sys.modules:
        preload()
        quiet_collector()


def _run_tasks(connection: Connection) -> None:
    """Be a task process: run orders until the driver hangs up, or is gone."""
    import pyarrow as pa

    from airflow_samza.spark.worker_daemon import quiet_collector

    try:
        for number in (signal.SIGCHLD, signal.SIGTERM):  # programs would inherit that they are ignored
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pa.set_cpu_count(1)
        quiet_collector()
        connection.send(os.getpid())
        while True:
            connection.send(_run(connection.recv()))
    except (EOFError, OSError):
        os._exit(0)


def _run(order: TaskOrder) -> dict[str, Any]:
    """Run the tasks of an order; return the error as JSON of the one that has failed, else nothing."""
    from airflow_samza.engine.task_section import TaskSection
    from airflow_samza.engine.worker_errors import error_of_task
    from airflow_samza.launch.bindings import take_root_access
    from airflow_samza.private_folder import scratch_folder

    if sys.path != order.path:
        sys.path[:] = order.path
    stage = _stage(order.stage)
    take_root_access(stage.root, stage.bindings)
    task = 0
    try:
        intent, folder = stage.intent(order.epoch), scratch_folder("aside")
        for place in order.places:
            task = intent.running[place]
            for _ in TaskSection(stage, intent, place, uuid.uuid4().hex, folder=folder).run(iter(())):
                raise AssertionError("a stage of one section yields nothing")
    except Exception as error:
        with suppress(OSError, ValueError):  # the error counts, whether its traceback can be printed or not
            traceback.print_exc()
            sys.stderr.flush()
        return error_of_task(error, stage.stage, task).to_dict()
    return {}


@lru_cache(maxsize=1)
def _stage(pickled: bytes) -> StageTask:
    """Return the stage of an order; the orders of a process are of one stage."""
    stage: StageTask = pickle.loads(pickled)
    return stage


def _end_with(forker: int) -> None:
    """Have the kernel end this process with the forker, which ends with the driver.

    A thread could not while a callable keeps the interpreter. Without such a kernel it ends after its task.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != forker:
        os._exit(1)
