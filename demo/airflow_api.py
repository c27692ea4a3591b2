"""The REST API and the command line of an Airflow whose settings are an environment.

airflow = AirflowApi(home, port=8080, env=environment)
airflow.sign_in()
run_id = airflow.trigger("flights")
run = airflow.wait_for_run("flights", run_id)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

T = TypeVar("T")

ENDED = ("success", "failed", "skipped", "upstream_failed", "removed")


class AirflowProblem(RuntimeError):
    """Error for an Airflow that did not start, or whose API rejected a call; the message holds what it said."""


class AirflowAway(AirflowProblem):
    """Error for an Airflow that gave no answer, or a server's error: the same call may succeed later."""


class DatabaseLocked(AirflowAway):
    """Error for a call that changed nothing, since SQLite found its database locked."""


_ASKED_AGAIN = Retrying(
    retry=retry_if_exception_type(DatabaseLocked),
    stop=stop_after_delay(120),
    wait=wait_random_exponential(multiplier=0.2, max=5),
    reraise=True,
)


class AirflowApi:
    """The actions of a person at the page and the command line, for the user ``admin`` of the simple auth manager."""

    def __init__(self, home: Path, *, port: int, env: Mapping[str, str]) -> None:
        self.home = home
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.log_file = home / "standalone.log"
        self.username = "admin"
        self._env = dict(env)
        self._client: httpx.Client | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which its processes run, for commands of one's own."""
        return dict(self._env)

    @property
    def password(self) -> str:
        """The generated password of ``admin``, which the first start wrote into the home."""
        generated = self.home / "simple_auth_manager_passwords.json.generated"
        return str(json.loads(generated.read_text())[self.username])

    def sign_in(self) -> None:
        """Opens the client, with a token of the user's."""
        self._client = httpx.Client(base_url=f"{self.url}/api/v2", timeout=300, trust_env=False)
        self._sign_in()

    def close(self) -> None:
        """Closes the client. Does nothing when there is none."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def api(self, method: str, path: str, *, ok: Sequence[int] = (200, 201, 202, 204), **request: Any) -> Any:
        """One call of the REST API (``path`` below ``/api/v2``); returns the JSON, None when there is none.

        A call that found SQLite's database locked is made again for two minutes: Airflow reads first and writes later,
        and where the scheduler has written in between, SQLite ends the call at once, however long it may wait.
        """
        if self._client is None:
            raise AirflowProblem("Airflow does not run.")
        return _ASKED_AGAIN.copy()(self._call, self._client, method, path, ok, request)

    def _call(self, client: httpx.Client, method: str, path: str, ok: Sequence[int], request: Mapping[str, Any]) -> Any:
        answer = client.request(method, path, **request)
        if answer.status_code == 401:
            self._sign_in()
            answer = client.request(method, path, **request)
        if answer.status_code not in ok:
            raise _problem(answer)(f"{method} {path} gave {answer.status_code}: {answer.text}")
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
        self.pause(dag_id, True)
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
            self.pause(dag_id, False)

    def _cancel_backfills(self, dag_id: str) -> None:
        for backfill in self.open_backfills(dag_id):
            # 409: the scheduler has found meanwhile that nothing is left of it
            self.api("PUT", f"/backfills/{backfill['id']}/cancel", ok=(200, 409))

    def backfills(self, dag_id: str) -> list[dict[str, Any]]:
        """The backfills of a Dag, newest first."""
        asked = {"dag_id": dag_id, "limit": 100, "order_by": "-id"}
        found: list[dict[str, Any]] = self.api("GET", "/backfills", params=asked)["backfills"]
        return found

    def open_backfills(self, dag_id: str) -> list[dict[str, Any]]:
        """The backfills of a Dag that are not over: of one, the scheduler notices half a minute after its last run."""
        return [backfill for backfill in self.backfills(dag_id) if not backfill["completed_at"]]

    def wait_for_backfills(self, dag_id: str, timeout: float = 300, **more: Any) -> None:
        """Returns once no backfill of a Dag is open: Airflow allows one at a time. ``more``: as of ``wait_until``."""
        self.wait_until(lambda: not self.open_backfills(dag_id), timeout, f"the end of {dag_id}'s backfill", **more)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pauses a Dag, or lets it go on."""
        self.api("PATCH", f"/dags/{dag_id}", params={"update_mask": "is_paused"}, json={"is_paused": paused})

    def parse_again(self, dag_id: str) -> None:
        """Has the file of a Dag read again soon."""
        token = self.api("GET", f"/dags/{dag_id}/details")["file_token"]
        self.api("PUT", f"/parseDagFile/{token}")

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

    def links(self, dag_id: str, run_id: str, task_id: str) -> dict[str, str | None]:
        """The addresses of a task's links, by their names."""
        path = f"/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links"
        found: dict[str, str | None] = self.api("GET", path)["extra_links"]
        return found

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
        self,
        look: Callable[[], T | None],
        timeout: float,
        what: str,
        explain: Callable[[], str] | None = None,
        *,
        away: tuple[type[Exception], ...] = (),
    ) -> T:
        """Return the first answer of ``look`` that is not None, asked twice a second.

        An error of a type in ``away`` means that there is no answer yet. Says what it waited for when the time is over,
        or one of Airflow's processes has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            problem: Exception | None = None
            try:
                if found := look():
                    return found
            except away as error:
                problem = error
            if ended := self._ended():
                raise AirflowProblem(f"{ended} ended while waiting for {what}; the log:\n{self._log_tail()}")
            if time.monotonic() > deadline:
                why = str(problem) if problem else explain() if explain else self._log_tail()
                raise AirflowProblem(f"Waited {timeout:.0f} s for {what}. {why}") from problem
            time.sleep(0.5)

    def _ended(self) -> str | None:
        """Return the process of this Airflow that has ended unasked, None while all of them run."""
        return None

    def is_healthy(self) -> bool:
        """Return True when database, scheduler, triggerer and Dag processor say that they are well."""
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


def _problem(answer: httpx.Response) -> type[AirflowProblem]:
    if not answer.is_server_error:
        return AirflowProblem
    return DatabaseLocked if "database is locked" in answer.text else AirflowAway


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
