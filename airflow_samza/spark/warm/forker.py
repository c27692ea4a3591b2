"""A process without threads, with everything imported that a run's driver process needs, which forks one for each run.

It never runs a user's code, and it has no connection to Java. What a run imports, sets or starts is in its own process,
and ends with it.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from airflow_samza.launch.warm.messages import receive, send
from airflow_samza.spark.worker_daemon import preload

PRELOADED = (
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.ipc",
    "pyarrow.parquet",
    "pyspark.sql",
    "pyspark.sql.classic.dataframe",
    "pyspark.sql.functions",
    "pyspark.testing.utils",  # by the first argument of a call to Java
    "sqlglot.dialects.spark",
    "airflow_samza.engine.stage_runner",
    "airflow_samza.spark.catalyst",
    "airflow_samza.spark.dataframe_inputs",
    "airflow_samza.spark.epoch_task",
    "airflow_samza.spark.warm.lent_session",
    "airflow_samza.spark.push_job",
    "airflow_samza.spark.runner",
    "airflow_samza.systems.files.formats.json_lines",
    "airflow_samza.systems.files.formats.parquet",
    "airflow_samza.systems.files.system",
    "airflow_samza.systems.log.system",
)
"""Imported before the fork; one that is not there fails again, with its own words, in the run that needs it."""

REMEMBERED = (
    "airflow_samza.systems.delta.publishing",
    "airflow_samza.systems.delta.system",
    "airflow_samza.systems.iceberg.publishing",
    "airflow_samza.systems.iceberg.system",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table",
    "sqlalchemy.orm",
)
"""Imported before later forks once a run has needed them, as they take a second and more.

None starts a thread, or reads settings that a run may bring in its environment (as ``pyiceberg.catalog`` does).
"""


class Forker:
    """The forking process, as the keeper of a warm runner sees it: :meth:`fork` it, then read :attr:`channel`."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel

    def start_run(self, order: Mapping[str, Any], lease: socket.socket) -> int | None:
        """Have a driver process forked; return its id, None when the forker is gone.

        ``order`` has ``arguments``, ``settings`` and ``environment``; on ``lease`` the process gets the place of Spark.
        The channel brings ``exit`` when it ends.
        """
        try:
            socket.send_fds(self.channel, [b"L"], [lease.fileno()])
            send(self.channel, order)
            answer = receive(self.channel)
        except OSError:
            return None
        return None if answer is None else int(answer["pid"])

    def end(self) -> None:
        """End it, and wait for that."""
        self.channel.close()
        with suppress(OSError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def fork_forker() -> Forker:
    """Fork the forking process; to be called before this one has threads or a connection to Java."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _serve(theirs)
    theirs.close()
    return Forker(pid, ours)


def _serve(channel: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import(PRELOADED)
    while True:
        mark, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        order = receive(channel) if mark else None
        if order is None:
            os._exit(0)
        lease = socket.socket(fileno=descriptors[0])
        lease.set_inheritable(False)
        needs, of_run = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            channel.close()
            needs.close()
            _run(order, lease, of_run)
        lease.close()
        of_run.close()
        with suppress(OSError):
            send(channel, {"pid": pid})
        _, status = os.waitpid(pid, 0)
        with suppress(OSError):
            send(channel, {"exit": os.waitstatus_to_exitcode(status)})
        with needs:
            _import((receive(needs) or {}).get("modules", ()))


def _import(names: Iterable[str]) -> None:
    missing = [name for name in names if name not in sys.modules]
    if not missing:
        return
    preload(missing)
    gc.collect()
    gc.freeze()


def _run(order: dict[str, Any], lease: socket.socket, needs: socket.socket) -> None:
    """Be the driver process of a run, and end with it."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(order["environment"])
        settings = order["settings"]

        from airflow_samza.engine.stage_runner import end_process
        from airflow_samza.spark.runner import main, print_to
        from airflow_samza.spark.warm.lent_session import open_lent_session

        print_to(settings["output"])
        _draw_anew()
        code = main(
            order["arguments"],
            settings,
            lambda name, run_settings, files: open_lent_session(lease, run_settings, files),
        )
        with suppress(OSError):  # a run ends as it has ended, whether the forking process is still there or not
            send(needs, {"modules": [name for name in REMEMBERED if name in sys.modules]})
        end_process(code)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(1)


def _draw_anew() -> None:
    """Give each run random numbers of its own where a library keeps a state; Python's own does so by itself."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
