"""A real Airflow on this machine for the demo and for tests.

``airflow standalone`` with a home of its own, and its REST API.

    with LocalAirflow(home, dags=Path("dags")) as airflow:
        run_id = airflow.trigger("flights")
        run = airflow.wait_for_run("flights", run_id)

Nothing outside ``home`` is touched: database, logs, passwords and generated configuration lie there, all ports are free
ones on 127.0.0.1, and ``stop`` ends every process that was started.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx
import psutil

from demo.airflow_settings import airflow_settings, free_port

T = TypeVar("T")

START_SECONDS = 400.0
"""A start takes about 30 s on two idle cores, and four times that on two busy ones."""

ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


class AirflowProblem(RuntimeError):
    """Airflow did not start, or its API refused; the message holds what it said."""


class LocalAirflow:
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
        self.home = home.resolve()
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_file = self.home / "standalone.log"
        self.username = "admin"
        settings = airflow_settings(self.home, dags, self.port, parallelism)
        known = {f"AIRFLOW_CONN_{name.upper()}": value for name, value in (connections or {}).items()}
        self._env = {**settings, **known, **(env or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._parts: dict[str, psutil.Process] = {}
        self._client: httpx.Client | None = None

    def __enter__(self) -> LocalAirflow:
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

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which its processes run, for commands of one's own."""
        return dict(self._env)

    @property
    def password(self) -> str:
        """The generated password of ``admin``, which the first start wrote into the home."""
        generated = self.home / "simple_auth_manager_passwords.json.generated"
        return str(json.loads(generated.read_text())[self.username])

    def start(self, timeout: float = START_SECONDS) -> None:
        """Starts everything and returns once all components report themselves healthy."""
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "airflow", "standalone"],
                env=self._env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.wait_until(self._is_healthy, timeout, "Airflow to become healthy")
        self._parts = {_part_name(child): child for child in psutil.Process(self._process.pid).children()}
        self._client = httpx.Client(base_url=f"{self.url}/api/v2", timeout=300, trust_env=False)
        self._sign_in()

    def stop(self) -> None:
        """Ends all its processes, politely first, those that outlive tasks, too. Does nothing when it does not run."""
        if self._client is not None:
            self._client.close()
            self._client = None
        process, self._process, self._parts = self._process, None, {}
        if process is None:
            return
        family = _family(process.pid)
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, alive = psutil.wait_procs(family, timeout=20)
        for member in (alive := list({*alive, *_of_home(self._env["AIRFLOW_HOME"])})):
            _tell(member, "terminate")
        _, alive = psutil.wait_procs(alive, timeout=5)
        for member in alive:
            _tell(member, "kill")
        process.wait()

    def api(self, method: str, path: str, *, ok: Sequence[int] = (200, 201, 202, 204), **request: Any) -> Any:
        """One call of the REST API (``path`` below ``/api/v2``); returns the JSON, None when there is none."""
        if self._client is None:
            raise AirflowProblem("Airflow does not run.")
        answer = self._client.request(method, path, **request)
        if answer.status_code == 401:
            self._sign_in()
            answer = self._client.request(method, path, **request)
        if answer.status_code not in ok:
            raise AirflowProblem(f"{method} {path} gave {answer.status_code}: {answer.text}")
        return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else None

    def cli(self, *arguments: str, timeout: float = 120, check: bool = True) -> str:
        """Runs ``airflow <arguments>`` in the same environment and returns its standard output."""
        done = subprocess.run(
            [sys.executable, "-m", "airflow", *arguments],
            env=self._env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        if check and done.returncode:
            raise AirflowProblem(
                f"airflow {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    def backfill(self, dag_id: str, first: str, last: str, *options: str) -> None:
        """Runs ``airflow backfill create`` over the dates from ``first`` to ``last``.

        On SQLite the command now and then finds the database locked, however long it may wait: it reads first and
        writes later, and the scheduler has written in between. It then deletes the runs that it has created so far,
        and is run again here. A scheduler that has just taken up one of them ends with an ``ObjectDeletedError``; so
        the Dag is paused until all of them are there. Before Airflow 3.3 the backfill itself
        stays, without runs, and a Dag may have one at a time: it is cancelled.
        """
        self._pause(dag_id, True)
        try:
            for tries_left in reversed(range(20)):
                try:
                    dates = ("--from-date", first, "--to-date", last)
                    self.cli("backfill", "create", "--dag-id", dag_id, *dates, *options)
                except AirflowProblem as problem:
                    if "database is locked" not in str(problem) or not tries_left:
                        raise
                    self._cancel_backfills(dag_id)
                else:
                    return
        finally:
            self._pause(dag_id, False)

    def _cancel_backfills(self, dag_id: str) -> None:
        for backfill in self.api("GET", "/backfills", params={"dag_id": dag_id})["backfills"]:
            if not backfill["completed_at"]:  # 409: the scheduler has found meanwhile that nothing is left of it
                self.api("PUT", f"/backfills/{backfill['id']}/cancel", ok=(200, 409))

    def _pause(self, dag_id: str, paused: bool) -> None:
        self.api("PATCH", f"/dags/{dag_id}", params={"update_mask": "is_paused"}, json={"is_paused": paused})

    def wait_for_dag(self, dag_id: str, timeout: float = 120) -> dict[str, Any]:
        """The Dag, once the Dag processor has read it; an import error of its folder is raised at once."""

        def look() -> dict[str, Any] | None:
            self._raise_import_errors()
            found = self.api("GET", f"/dags/{dag_id}", ok=(200, 404))
            return found if found and "dag_id" in found else None

        return self.wait_until(look, timeout, f"the Dag {dag_id}")

    def trigger(
        self, dag_id: str, *, conf: Mapping[str, Any] | None = None, logical_date: datetime | None = None, **more: Any
    ) -> str:
        """Starts a Dag run and returns its id. Without ``logical_date`` the run has no data interval."""
        self.wait_for_dag(dag_id)
        body = {"logical_date": logical_date.isoformat() if logical_date else None, "conf": dict(conf or {}), **more}
        return str(self.api("POST", f"/dags/{dag_id}/dagRuns", json=body)["dag_run_id"])

    def run(self, dag_id: str, run_id: str) -> dict[str, Any]:
        """The Dag run as the API shows it."""
        found: dict[str, Any] = self.api("GET", f"/dags/{dag_id}/dagRuns/{run_id}")
        return found

    def runs(self, dag_id: str) -> list[dict[str, Any]]:
        """All runs of a Dag, oldest first."""
        found: list[dict[str, Any]] = self.api(
            "GET", f"/dags/{dag_id}/dagRuns", params={"limit": 100, "order_by": "id"}
        )["dag_runs"]
        return found

    def wait_for_run(self, dag_id: str, run_id: str, timeout: float = 600) -> dict[str, Any]:
        """The Dag run, once it has ended (``state`` is ``success`` or ``failed``)."""

        def look() -> dict[str, Any] | None:
            run = self.run(dag_id, run_id)
            return run if run["state"] in ("success", "failed") else None

        return self.wait_until(
            look, timeout, f"the run {run_id} of {dag_id}", lambda: str(self.task_states(dag_id, run_id))
        )

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The task instances of a run, in the order in which they started."""
        found: list[dict[str, Any]] = self.api(
            "GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances", params={"limit": 100}
        )["task_instances"]
        return sorted(found, key=lambda task: (task["start_date"] is None, task["start_date"] or "", task["task_id"]))

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """State by task id, in the order in which the tasks started."""
        return {task["task_id"]: task["state"] for task in self.tasks(dag_id, run_id)}

    def task(self, dag_id: str, run_id: str, task_id: str) -> dict[str, Any]:
        """One task instance."""
        found: dict[str, Any] = self.api("GET", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}")
        return found

    def wait_for_task(
        self, dag_id: str, run_id: str, task_id: str, states: Sequence[str] = ENDED, timeout: float = 300
    ) -> dict[str, Any]:
        """The task instance, once it is in one of ``states``."""

        def look() -> dict[str, Any] | None:
            task = self.task(dag_id, run_id, task_id)
            return task if task["state"] in states else None

        return self.wait_until(
            look, timeout, f"{task_id} to be {' or '.join(states)}", lambda: str(self.task_states(dag_id, run_id))
        )

    def xcom(self, dag_id: str, run_id: str, task_id: str, key: str = "return_value") -> Any:
        """An XCom value, None when there is none."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/{key}"
        found = self.api("GET", path, ok=(200, 404), params={"deserialize": "false"})
        value = found.get("value") if found else None
        return _plain(value)

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int = 1) -> str:
        """The log of one try as plain lines."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/logs/{try_number}"
        found = self.api("GET", path, params={"full_content": "true"}, headers={"Accept": "application/json"})
        return "\n".join(_log_line(entry) for entry in found["content"])

    def clear(self, dag_id: str, run_id: str, *task_ids: str, downstream: bool = False) -> None:
        """Clears tasks of a run (all of them when none is named), so that they run again."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "only_failed": False,
            "reset_dag_runs": True,
            "include_downstream": downstream,
            **({"task_ids": list(task_ids)} if task_ids else {}),
        }
        self.api("POST", f"/dags/{dag_id}/clearTaskInstances", json=body)

    def mark(self, dag_id: str, run_id: str, task_id: str, state: str) -> None:
        """Marks a task instance ``failed`` or ``success``, as a person does in the page."""
        self.api("PATCH", f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}", json={"new_state": state})

    def wait_until(
        self, look: Callable[[], T | None], timeout: float, what: str, explain: Callable[[], str] | None = None
    ) -> T:
        """What ``look`` finds, asked twice a second.

        Says what it waited for when the time is over, or one of Airflow's processes has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            found = look()
            if found:
                return found
            if ended := self._ended():
                raise AirflowProblem(f"{ended} ended while waiting for {what}; the log:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                raise AirflowProblem(f"Waited {timeout:.0f} s for {what}. {explain() if explain else self._log_tail()}")
            time.sleep(0.5)

    def _ended(self) -> str | None:
        """The process that has ended, None while all of them run. ``airflow standalone`` outlives its scheduler."""
        if self._process is None:
            return None
        if self._process.poll() is not None:
            return f"Airflow ({self._process.returncode})"
        return next((name for name, part in self._parts.items() if not _runs(part)), None)

    def _is_healthy(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10, trust_env=False)
        except httpx.HTTPError:
            return False
        if answer.status_code != 200:
            return False
        parts = answer.json()
        return all(
            (parts.get(name) or {}).get("status") == "healthy"
            for name in ("metadatabase", "scheduler", "triggerer", "dag_processor")
        )

    def _sign_in(self) -> None:
        assert self._client is not None
        body = {"username": self.username, "password": self.password}
        answer = httpx.post(f"{self.url}/auth/token", json=body, timeout=300, trust_env=False)
        if answer.status_code != 201:
            raise AirflowProblem(f"Signing in gave {answer.status_code}: {answer.text}")
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def _raise_import_errors(self) -> None:
        errors = self.api("GET", "/importErrors")["import_errors"]
        if errors:
            raise AirflowProblem("\n".join(f"{error['filename']}:\n{error['stack_trace']}" for error in errors))

    def _log_tail(self, lines: int = 40) -> str:
        if not self.log_file.exists():
            return ""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


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


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _log_line(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    event = str(entry.get("event", ""))
    details = entry.get("error_detail")
    return event if not details else f"{event} {json.dumps(details)}"
