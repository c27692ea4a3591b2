"""The demonstration follows a run to its end, and ends itself when there will be none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from demo import show
from demo.airflow_api import AirflowAway, AirflowProblem
from demo.airflow_settings import free_port
from demo.local_airflow import LocalAirflow

Answer = dict[str, Any]


class Scripted(LocalAirflow):
    """An Airflow whose run is in one state after the other, each with the states of its tasks; the last one stays."""

    def __init__(self, home: Path, *looks: tuple[str, Mapping[str, str | None]]) -> None:
        super().__init__(home, dags=home)
        self.looks = list(looks)
        self.before_answer: Callable[[int], None] = lambda number: None
        self.asked = 0

    def api(self, method: str, path: str, **more: Any) -> Answer:
        """Answer about the run or about its tasks; a look is over when both were asked for."""
        self.asked += 1
        self.before_answer(self.asked)
        state, tasks = self.looks[0]
        if self.asked % 2 == 0 and self.looks[1:]:
            self.looks.pop(0)
        if path.endswith("/taskInstances"):
            return {"task_instances": [_task(number, *task) for number, task in enumerate(tasks.items())]}
        return {"state": state, "start_date": "2026-01-01T00:00:00Z", "end_date": "2026-01-01T00:00:09.5Z"}


def _task(number: int, name: str, told: str | None) -> Answer:
    """Return a task instance; ``running 2`` is one in its second try, None one that has not begun."""
    task_id, _, index = name.partition("[")
    state, _, tries = (told or "").partition(" ")
    started = f"2026-01-01T00:00:0{number}Z" if state else None
    of = {"task_id": task_id, "map_index": int(index.rstrip("]") or -1), "start_date": started}
    return {**of, "state": state or None, "try_number": int(tries or bool(state))}


def followed(airflow: LocalAirflow, capsys: pytest.CaptureFixture[str], seconds: float = 60) -> tuple[str, list[str]]:
    """Return how a run ended, and the changes that were printed before the table."""
    state = show.follow(airflow, "flights", "manual__1", seconds)
    lines = capsys.readouterr().out.partition("\n\n")[0].splitlines()
    return state, [" ".join(line.split()[2:]) for line in lines]


@pytest.mark.extended
def test_the_changes_of_the_last_moment_are_printed_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = ("running", {"plan": "success", "views": "running"})
    airflow = Scripted(
        tmp_path, ("queued", {"plan": None}), running, ("success", {"plan": "success", "views": "success"})
    )
    state, changes = followed(airflow, capsys)
    assert (state, changes) == ("success", ["plan success", "views running", "views success"])


def test_a_run_that_fails_is_an_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"plan": "failed", "views": "upstream_failed", "cleanup": None}
    state, changes = followed(Scripted(tmp_path, ("failed", failed)), capsys)
    assert (state, changes) == ("failed", ["plan failed", "views upstream_failed"])


@pytest.mark.extended
def test_another_try_and_each_index_of_a_mapped_task_are_changes_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = [("running", {"each[0]": "running", "each[1]": text}) for text in ("running", "running", "running 2")]
    _, changes = followed(Scripted(tmp_path, *looks, ("success", {"each[0]": "success", "each[1]": "success"})), capsys)
    assert changes == ["each[0] running", "each[1] running", "each[1] running", "each[0] success", "each[1] success"]


def test_a_servers_error_is_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    airflow = Scripted(tmp_path, ("success", {"plan": "success"}))

    def fail_once(number: int) -> None:
        if number == 1:
            raise AirflowAway("GET /dags/flights gave 500: database is locked")

    airflow.before_answer = fail_once
    assert followed(airflow, capsys)[0] == "success"


def test_a_run_that_is_deleted_meanwhile_is_a_problem_at_once(tmp_path: Path) -> None:
    airflow = Scripted(tmp_path, ("running", {"plan": "running"}))

    def delete(number: int) -> None:
        if number == 3:
            raise AirflowProblem("GET /dags/flights/dagRuns/manual__1 gave 404: not found")

    airflow.before_answer = delete
    with pytest.raises(AirflowProblem, match="gave 404"):
        show.follow(airflow, "flights", "manual__1", 60)


def test_a_run_that_takes_too_long_names_the_states_of_its_tasks(tmp_path: Path) -> None:
    airflow = Scripted(tmp_path, ("running", {"plan": "success", "views": "deferred"}))
    with pytest.raises(
        AirflowProblem, match=r"Waited 0 s for the end of the Dag run manual__1\. .*'views': 'deferred'"
    ):
        show.follow(airflow, "flights", "manual__1", 0)


@pytest.fixture
def process() -> Iterator[psutil.Popen]:
    started = psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=subprocess.DEVNULL)
    yield started
    started.kill()
    started.wait()


@pytest.mark.extended
def test_a_scheduler_that_is_gone_is_named(tmp_path: Path, process: psutil.Popen) -> None:
    airflow = Scripted(tmp_path, ("running", {"plan": "running"}))
    airflow._parts = {"Airflow's scheduler": psutil.Process(process.pid)}
    airflow.before_answer = lambda number: process.kill() if number == 3 else None
    with pytest.raises(AirflowProblem, match="Airflow's scheduler ended while waiting for the end of the Dag run"):
        show.follow(airflow, "flights", "manual__1", 60)
    assert airflow.asked >= 4


def test_an_api_server_that_is_gone_is_named_and_not_only_its_closed_port(
    tmp_path: Path, process: psutil.Popen
) -> None:
    airflow = LocalAirflow(tmp_path, dags=tmp_path)
    airflow._client = httpx.Client(base_url=f"http://127.0.0.1:{free_port()}", trust_env=False)
    airflow._parts = {"Airflow's api-server": psutil.Process(process.pid)}
    process.kill()
    with pytest.raises(AirflowProblem, match="Airflow's api-server ended while waiting for the end of the Dag run"):
        show.follow(airflow, "flights", "manual__1", 60)
    airflow.close()
