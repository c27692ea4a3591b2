"""The run that a warm runner serves at the moment, as its keeper knows it, and the errors that it reports to it."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from airflow_samza.engine.heartbeat import RETRY_HINT
from airflow_samza.errors import SamzaError, StageFailed, StageLost
from airflow_samza.launch.java.installed_java import why_spark_does_not_start
from airflow_samza.launch.log_lines import details_in
from airflow_samza.launch.warm.messages import send
from airflow_samza.launch.warm.places import WarmPlace
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.spark.sessions.session_start import as_lost
from airflow_samza.systems.filesystems.opening import open_filesystem


class WarmRun:
    """A run with the process ``pid`` as its driver.

    ``asker`` is the connection of who started it, ``lease`` that of the process itself.
    """

    def __init__(
        self,
        pid: int,
        arguments: Sequence[str],
        asker: socket.socket,
        lease: socket.socket,
        log: str,
    ) -> None:
        self.pid = pid
        root, application, run_id, _ = arguments
        self.name = f"{application} {run_id}"
        self.has_ended = False
        self.was_lent = False
        self.lease = lease
        self._root = root
        self._folder = RunFolder(application, run_id)
        self._asker = asker
        self._log = log
        self._log_from = os.path.getsize(log)
        self._looked = 0.0

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell its process of Spark, or why there is none."""
        with suppress(OSError):
            send(self.lease, {**message, "log": self._log, "log_from": self._log_from})

    def is_closed(self) -> bool:
        """Return whether the run is over, so that its process is about to end; asked where that costs nothing."""
        with suppress(SamzaError, OSError):
            files = open_filesystem(self._root)
            return files.local_path("") is not None and files.exists(self._folder.closed)
        return False

    def end(self, code: int) -> None:
        """Take note that its process has ended; end what it has started, and tell who asked for it."""
        self.has_ended = True
        self._end_group()
        with suppress(OSError):
            send(self._asker, {"exit": code})
        self._asker.close()
        self.lease.close()

    def kill(self) -> None:
        """End its process, which gets a moment to write what it was doing."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline and os.path.exists(f"/proc/{self.pid}"):
            time.sleep(0.05)
        self._end_group()

    def _end_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):  # none is left, as a rule
            os.killpg(self.pid, signal.SIGKILL)


def failure_of(error: BaseException, what: str, place: WarmPlace) -> SamzaError:
    """Return the error for a run whose warm runner failed at ``what``: ``start``, or something later."""
    if isinstance(error, SamzaError):
        return error
    if what != "start":
        return StageLost(f"The warm runner {place.name} is not well: {type(error).__name__}.", hint=RETRY_HINT)
    why = why_spark_does_not_start(error, place.log)
    return as_lost(error, StageFailed(f"Spark does not start: {why}", hint=details_in()))
