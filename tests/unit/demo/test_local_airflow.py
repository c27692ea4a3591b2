"""Commands of the local Airflow that its database lets down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from demo.airflow_api import AirflowAway, AirflowProblem
from demo.local_airflow import LocalAirflow

pytestmark = pytest.mark.extended


Request = tuple[str, str]


class LocksOnce(LocalAirflow):
    """An Airflow before 3.3 whose first ``backfill create`` leaves a backfill and no runs, as it does when SQLite is locked."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, dags=home)
        self.requests: list[Request] = []
        self.open: list[int] = []

    def cli(self, *arguments: str, timeout: float = 120, check: bool = True) -> str:
        """Reject a second backfill beside one that is open, as Airflow does."""
        if self.open:
            raise AirflowProblem("AlreadyRunningBackfill: Another backfill is running for dag daily.")
        self.open.append(7)
        if not self.requests[1:]:
            raise AirflowProblem("sqlite3.OperationalError: database is locked")
        return ""

    def api(self, method: str, path: str, **more: Any) -> Any:
        """Answer about the backfills."""
        self.requests.append((method, path))
        if path.endswith("/cancel"):
            self.open.remove(int(path.split("/")[2]))
        ended = {"id": 3, "completed_at": "2026-01-01T00:00:00Z"}
        return {"backfills": [ended, *({"id": number, "completed_at": None} for number in self.open)]}


def test_a_backfill_that_was_left_by_a_locked_database_is_cancelled_before_the_next_try(tmp_path: Path) -> None:
    airflow = LocksOnce(tmp_path)
    airflow.backfill("daily", "2013-01-01", "2013-01-03")
    assert airflow.open == [7]
    assert airflow.requests == [
        ("PATCH", "/dags/daily"),
        ("GET", "/backfills"),
        ("PUT", "/backfills/7/cancel"),
        ("PATCH", "/dags/daily"),
    ]


def test_a_backfill_of_somebody_else_is_not_cancelled(tmp_path: Path) -> None:
    airflow = LocksOnce(tmp_path)
    airflow.open.append(5)
    with pytest.raises(AirflowProblem, match="AlreadyRunningBackfill"):
        airflow.backfill("daily", "2013-01-01", "2013-01-03")
    assert airflow.open == [5]


def test_waiting_goes_on_while_airflow_is_away_and_says_in_the_end_why_it_is(tmp_path: Path) -> None:
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    answers = iter(["away", None, "there", "away"])

    def look() -> str | None:
        if (answer := next(answers)) == "away":
            raise AirflowProblem("GET /dags gave 503")
        return answer

    assert airflow.wait_until(look, 60, "an answer", away=(AirflowProblem,)) == "there"
    with pytest.raises(AirflowProblem, match=r"Waited -1 s for an answer\. GET /dags gave 503"):
        airflow.wait_until(look, -1, "an answer", away=(AirflowProblem,))


def test_a_backfill_is_waited_for_until_the_scheduler_has_noticed_its_end(tmp_path: Path) -> None:
    class NoticesLate(LocksOnce):
        def api(self, method: str, path: str, **more: Any) -> Any:
            found = super().api(method, path, **more)
            self.open.clear()
            return found

    airflow = NoticesLate(tmp_path)
    airflow.open.append(5)
    airflow.wait_for_backfills("daily")
    assert airflow.requests == [("GET", "/backfills")] * 2


def test_processes_that_outlive_their_tasks_end_with_their_airflow_and_no_other(tmp_path: Path) -> None:
    airflow = LocalAirflow(tmp_path, dags=tmp_path)

    def started(home: Path) -> subprocess.Popen[bytes]:
        environment = {**airflow.environment, "AIRFLOW_HOME": str(home)}
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        return subprocess.Popen(command, env=environment, start_new_session=True)

    runner, of_another = started(tmp_path), started(tmp_path / "another")
    airflow._processes["Airflow"] = started(tmp_path)
    try:
        airflow.stop()
        assert runner.poll() is not None
        assert of_another.poll() is None
    finally:
        for process in (runner, of_another):
            process.kill()
            process.wait()


def answering(airflow: LocalAirflow, *answers: httpx.Response) -> list[str]:
    """Give an Airflow's client these answers, one after another; return the list in which its requests are noted."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.path}")
        return answers[len(asked) - 1]

    airflow._client = httpx.Client(base_url="http://airflow/api/v2", transport=httpx.MockTransport(answer))
    return asked


def test_a_call_that_found_the_database_locked_is_made_again(tmp_path: Path) -> None:
    locked = {"detail": {"reason": "Database error", "orig_error": "database is locked"}}
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    asked = answering(airflow, httpx.Response(500, json=locked), httpx.Response(200, json={"dag_run_id": "manual"}))
    assert airflow.api("POST", "/dags/daily/dagRuns", json={}) == {"dag_run_id": "manual"}
    assert asked == ["POST /api/v2/dags/daily/dagRuns"] * 2


def test_a_call_that_failed_otherwise_is_not_made_again(tmp_path: Path) -> None:
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    asked = answering(airflow, httpx.Response(500, text="disk image is malformed"))
    with pytest.raises(AirflowAway, match="POST /dags/daily/dagRuns gave 500: disk image is malformed"):
        airflow.api("POST", "/dags/daily/dagRuns", json={})
    assert len(asked) == 1


def test_an_error_of_the_database_is_in_the_answer_of_the_local_airflow(tmp_path: Path) -> None:
    assert LocalAirflow(tmp_path, dags=tmp_path).environment["AIRFLOW__API__EXPOSE_STACKTRACE"] == "True"


@pytest.mark.parametrize(("last_line", "restarted"), [("database is locked", 5), ("no space left on device", 0)])
def test_a_scheduler_that_lost_the_lock_of_sqlite_is_started_again_five_times(
    tmp_path: Path, last_line: str, restarted: int
) -> None:
    started: list[str] = []

    class Dying(LocalAirflow):
        def start_part(self, name: str) -> None:
            started.append(name)
            self._processes[name] = subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"])
            self._processes[name].wait()

    airflow = Dying(tmp_path, dags=tmp_path)
    airflow.log_file.write_text(last_line)
    airflow.start_part("scheduler")
    with pytest.raises(AirflowProblem, match=r"scheduler \(1\) ended while waiting for a run"):
        airflow.wait_until(lambda: None, 600, "a run")
    assert started == ["scheduler"] * (1 + restarted)
