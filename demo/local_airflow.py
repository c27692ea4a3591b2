"""A real Airflow on this machine for the demo and for tests.

``airflow standalone`` with a home of its own, and its REST API.

    with LocalAirflow(home, dags=Path("dags")) as airflow:
        run_id = airflow.trigger("flights")
        run = airflow.wait_for_run("flights", run_id)

Nothing outside ``home`` is touched: database, logs, passwords and generated configuration lie there, all ports are free
ones on 127.0.0.1, and ``stop`` ends every process that was started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

import psutil
from typing_extensions import Self

from demo.airflow_api import AirflowApi
from demo.airflow_settings import airflow_settings, free_port

START_SECONDS = 400.0
"""A start takes about 30 s on two idle cores, and four times that on two busy ones."""

_LAST_BYTES = 20_000
"""Length of the end of Airflow's log that has the error with which its scheduler ended."""


class LocalAirflow(AirflowApi):
    """One ``airflow standalone`` process tree.

    ``connections`` are URIs or JSON by connection id, ``env`` further environment variables (of the Dag processor and
    of the tasks, too). ``dags`` is the folder of the Dag files, or such folders by the names of their bundles, in which
    files do not change while it runs. ``parallelism`` bounds the tasks that run at once.
    """

    def __init__(
        self,
        home: Path,
        *,
        dags: Path | Mapping[str, Path],
        env: Mapping[str, str] | None = None,
        connections: Mapping[str, str] | None = None,
        port: int | None = None,
        parallelism: int = 8,
    ) -> None:
        home, port = home.resolve(), port or free_port()
        settings = airflow_settings(home, dags, port, parallelism)
        known = {f"AIRFLOW_CONN_{name.upper()}": value for name, value in (connections or {}).items()}
        super().__init__(home, port=port, env={**settings, **known, **(env or {})})
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._parts: dict[str, psutil.Process] = {}
        self._restarts_left = 5

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, timeout: float = START_SECONDS) -> None:
        """Starts everything and returns once all components report themselves healthy."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._launch(timeout)
        self.wait_until(self.is_healthy, timeout, "Airflow to become healthy")
        self.sign_in()

    def stop(self) -> None:
        """Ends all its processes, politely first, those that outlive tasks, too. Does nothing when it does not run."""
        self.close()
        processes, self._processes, self._parts = self._processes, {}, {}
        if not processes:
            return
        family = _families(processes)
        for process in processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        alive = still_running(family, 20)
        for member in (alive := list({*alive, *_of_home(self._env["AIRFLOW_HOME"])})):
            _tell(member, "terminate")
        for member in still_running(alive, 5):
            _tell(member, "kill")
        for process in processes.values():
            process.wait()

    def processes(self) -> set[psutil.Process]:
        """Return all its processes, those that outlive tasks, too."""
        return {*_families(self._processes), *self.outliving()}

    def outliving(self) -> set[psutil.Process]:
        """Return what its tasks have left in sessions of their own, such as stage runners, and what is left of them."""
        return set(_of_home(self._env["AIRFLOW_HOME"])).difference(_families(self._processes))

    def kill(self, name: str) -> None:
        """Kills one of its processes (``scheduler``, ``triggerer``, …) and those that this one has started."""
        part = self._parts.pop(f"Airflow's {name}")
        family = process_family(part.pid)
        for member in family:
            _tell(member, "kill")
        still_running(family, 20)

    def start_part(self, name: str) -> None:
        """Starts a process that was killed."""
        self._spawn(name, name)

    def _launch(self, timeout: float) -> None:
        """Starts the processes, within ``timeout`` seconds where it waits for one."""
        process = self._spawn("Airflow", "standalone")
        self.wait_until(self.is_healthy, timeout, "Airflow to become healthy")
        self._parts = {_part_name(child): child for child in psutil.Process(process.pid).children()}

    def _spawn(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts ``airflow <arguments>`` under a name; its output goes to the log."""
        with self.log_file.open("ab") as log:
            process = self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "airflow", *arguments],
                env=self._env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return process

    def _ended(self) -> str | None:
        """Return the process that has ended unasked. ``airflow standalone`` outlives its scheduler.

        A scheduler that lost SQLite's lock to another process is started again, as a supervisor does.
        """
        for name, process in list(self._processes.items()):  # others may kill one meanwhile
            if process.poll() is not None and not self._started_again(name):
                return f"{name} ({process.returncode})"
        ended = [name for name, part in list(self._parts.items()) if not _runs(part)]
        return next((name for name in ended if not self._started_again(name)), None)

    def _started_again(self, name: str) -> bool:
        """Start a scheduler that ended with "database is locked"; return False for what ended otherwise."""
        part = name.removeprefix("Airflow's ")
        if part != "scheduler" or self._restarts_left == 0 or not self.log_file.exists():
            return False
        if b"database is locked" not in self.log_file.read_bytes()[-_LAST_BYTES:]:
            return False
        self._restarts_left -= 1
        self._parts.pop(name, None)
        self.start_part(part)
        return True


def process_family(pid: int) -> list[psutil.Process]:
    """Return a process and all its descendants; nothing when it is gone."""
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def still_running(processes: Iterable[psutil.Process], timeout: float) -> list[psutil.Process]:
    """Wait up to ``timeout`` seconds for processes to end; return those that have not.

    psutil's own ``wait_procs`` raises an error for one that is gone, where a kernel without its file under ``/proc``
    answers with another error than "no such process".
    """
    deadline = time.monotonic() + timeout
    while (alive := [process for process in processes if _runs(process)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def _families(processes: Mapping[str, subprocess.Popen[bytes]]) -> list[psutil.Process]:
    return [member for process in list(processes.values()) for member in process_family(process.pid)]


def _of_home(home: str) -> list[psutil.Process]:
    """Return the processes that were started for an Airflow's home, such as stage runners in sessions of their own."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("AIRFLOW_HOME") == home and process.pid != os.getpid():
                found.append(process)
        except psutil.Error:  # somebody else's, or gone
            continue
    return found


def _runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _part_name(process: psutil.Process) -> str:
    """Return the name of one of Airflow's processes, by its subcommand."""
    known = ("scheduler", "dag-processor", "api-server", "triggerer")
    try:
        words = " ".join(process.cmdline()).split()  # api-server writes its title anew
    except psutil.NoSuchProcess:
        words = []
    return next((f"Airflow's {name}" for name in known if name in words), f"A process of Airflow ({process.pid})")


def _tell(process: psutil.Process, what: str) -> None:
    try:
        getattr(process, what)()
    except psutil.NoSuchProcess:
        return
