"""The page's application over records of runs that this process has made, and over stand-ins for Airflow's database."""

from __future__ import annotations

import dataclasses
import json
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.testclient import TestClient

from airflow_samza.errors import SamzaError
from airflow_samza.provider.page import looks, opened_run, rights
from airflow_samza.provider.page.airflow_records import (
    Assets,
    Event,
    FailedPlan,
    Note,
    OfTask,
    Planned,
    TaskAfter,
    TaskMark,
    airflow_records,
)
from airflow_samza.provider.page.app import make_app
from airflow_samza.provider.page.routes import data_map
from airflow_samza.provider.xcoms import PlanNote
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import StatusRecord
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.airflow_settings import free_port
from tests.support.runs_here import Here
from tests.support.waiting import until

if TYPE_CHECKING:
    import httpx2  # beside Airflow 3.1 the test client of an older starlette is built on httpx

DAG, DAG_RUN, PLAN_TASK = "visits", "manual__1", "flow.plan"


@dataclass
class KnownToAirflow:
    """Stands in for Airflow's database: notes of plans, task instances, events."""

    plans: list[Planned] = field(default_factory=list)
    failures: list[FailedPlan] = field(default_factory=list)
    dag_runs: set[tuple[str, str]] = field(default_factory=set)
    tasks: dict[str, str | None] = field(default_factory=dict)
    marks: dict[str, TaskMark] = field(default_factory=dict)
    sent: list[Event] = field(default_factory=list)
    form: Any = None
    after: list[TaskAfter] | None = None
    dates: dict[datetime, str | None] = field(default_factory=dict)
    states: dict[str, str | None] = field(default_factory=dict)
    known_assets: Assets = field(default_factory=lambda: Assets({}, {}))

    def has_run(self, dag_id: str, run_id: str) -> bool:
        return (dag_id, run_id) in self.dag_runs

    def notes(self, kind: type[Note], dag_id: str, run_id: str) -> list[OfTask[Note]]:
        return [left for left in self._left(kind) if (left.dag_id, left.run_id) == (dag_id, run_id)]

    def planned_by(self, dag_id: str, task_id: str, most: int) -> list[Planned]:
        return [plan for plan in self.newest(PlanNote) if (plan.dag_id, plan.task_id) == (dag_id, task_id)][:most]

    def newest(self, kind: type[Note], states: Iterable[str] = ()) -> list[OfTask[Note]]:
        wanted = set(states)
        left = [one for one in self._left(kind) if not wanted or self.states.get(one.run_id) in wanted]
        return sorted(left, key=lambda one: -getattr(one.note, "planned_at", 0.0))

    def _left(self, kind: type[Note]) -> list[OfTask[Note]]:
        left: list[Any] = [*self.plans, *self.failures]
        return [one for one in left if isinstance(one.note, kind)]

    def run_states(self, dag_id: str, run_ids: Iterable[str]) -> dict[str, str | None]:
        return {run_id: self.states[run_id] for run_id in run_ids if run_id in self.states}

    def assets(self, uris: Iterable[str]) -> Assets:
        return self.known_assets

    def task_marks(self, dag_id: str, run_id: str, task_ids: Iterable[str], map_index: int) -> dict[str, TaskMark]:
        return {task_id: self.marks[task_id] for task_id in task_ids if task_id in self.marks}

    def plan_tasks(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        return self.tasks

    def schedule(self, dag_id: str) -> Any:
        return self.form

    def tasks_after(self, dag_id: str, run_id: str, task_id: str, map_index: int) -> list[TaskAfter] | None:
        return self.after

    def runs_of_dates(self, dag_id: str, first: datetime, last: datetime) -> dict[datetime, str | None]:
        return {date: state for date, state in self.dates.items() if first <= date <= last}

    def events(self, dag_id: str, run_id: str, task_ids: Iterable[str]) -> list[Event]:
        return [event for event in self.sent if event.task_id in set(task_ids)]


@dataclass
class Page:
    """The application, what is under its root, and what Airflow knows.

    ``systems`` are connections by the names of systems; ``forbidden`` are Dags of other users, ``unlogged`` those whose
    task logs the user may not read.
    """

    here: Here
    app: FastAPI
    airflow: KnownToAirflow
    systems: Mapping[str, str] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)
    unlogged: set[str] = field(default_factory=set)

    def plan(
        self,
        run_id: str = DAG_RUN,
        *,
        dag_id: str = DAG,
        application: str = "visits",
        task_id: str = PLAN_TASK,
        interval: DataInterval | None = None,
        **more: Any,
    ) -> RunPlan:
        """Plan a run, as a task of Airflow's does."""
        name = f"page_app:{application.replace('-', '_')}"
        run = self.here.plan(name, f"{dag_id}~flow~{run_id}", interval=interval, **more)
        files = open_filesystem(str(self.here.root))
        note_origin(
            files, RunFolder(run.application, run.run_id), {"dag_id": dag_id, "run_id": run_id, "task_id": task_id}
        )
        tasks = {stage.stage_id: f"flow.{stage.stage_id}" for stage in run.plan.stages}
        note = PlanNote(
            run.application,
            run.run_id,
            run.generation,
            run.plan.fingerprint,
            "samza_page",
            time.time(),
            run.mode,
            "flow",
            dict(self.systems),
            tasks,
            run.interval,
            run.slot.partition_key if run.slot is not None else None,
        )
        self.airflow.plans.append(Planned(dag_id, run_id, task_id, -1, note))
        self.airflow.dag_runs.add((dag_id, run_id))
        self.airflow.marks.update({task: TaskMark("running", 1, 0, 1.0) for task in tasks.values()})
        return run

    def run(self, **given: Any) -> RunPlan:
        """Make a run from its plan to its end."""
        run = self.plan(**given)
        self.here.stages(run)
        self.here.runtime.close(run)
        return run

    def attempt(
        self,
        run: RunPlan,
        state: str,
        error: SamzaError | None = None,
        number: int = 1,
        *,
        stage_id: str = "visits",
        at: float = 5.0,
    ) -> None:
        """Leave the records of an attempt at a stage, made by the runner 1."""
        files = open_filesystem(str(self.here.root))
        stage = RunFolder(run.application, run.run_id).stage(stage_id, Generation(1, 1))
        request = StageRequest(stage_id, "1.1", number, runner=RunnerPlace("key", 1))
        write_once(files, stage.attempt(number, "request"), request)
        told = error.to_dict() if error is not None else None
        replace(files, stage.attempt(number, "status"), StatusRecord(state, told, at=at))

    def get(self, path: str, status: int = 200, **asked: Any) -> Any:
        """Return the answer of a route of the run, as JSON."""
        answer = self.ask(f"{DAG}/runs/{DAG_RUN}/plans/{PLAN_TASK}/-1/{path}", **asked)
        assert answer.status_code == status, answer.text
        return answer.json()

    def ask(self, path: str, headers: dict[str, str] | None = None, **asked: Any) -> httpx2.Response:
        """Return the answer of an address below that of Dags."""
        return self.browse(f"/api/dags/{path}", headers, **asked)

    def browse(self, path: str, headers: dict[str, str] | None = None, **asked: Any) -> httpx2.Response:
        """Return the answer of any address."""
        return TestClient(self.app, raise_server_exceptions=False).get(path, params=asked, headers=headers)

    def rewrite(self, **more: Any) -> None:
        """Write the note of the last plan anew, as somebody may who may write XComs."""
        last = self.airflow.plans[-1]
        self.airflow.plans[-1] = dataclasses.replace(last, note=dataclasses.replace(last.note, **more))


def make_page(
    here: Here, monkeypatch: pytest.MonkeyPatch, connections: Mapping[str, Mapping[str, Any]] | None = None
) -> Page:
    """Return the page over a root; ``connections`` are those of systems, by the systems' names."""
    root = {"conn_type": "samza", "extra": {"root": str(here.root)}}
    monkeypatch.delitem(sys.modules, "page_app", raising=False)  # that of a server that other tests share
    monkeypatch.setenv("AIRFLOW_CONN_SAMZA_PAGE", json.dumps(root))
    for name, connection in (connections or {}).items():
        monkeypatch.setenv(f"AIRFLOW_CONN_PAGE_{name.upper()}", json.dumps(connection))
    looks.LOOKS._runs.clear()
    data_map._of_plan.cache.clear()
    monkeypatch.setattr(opened_run.AWAY, "_since", {})
    made = Page(here, make_app(), KnownToAirflow(), {name: f"page_{name}" for name in connections or {}})

    def check(dag_id: str) -> None:
        if dag_id in made.forbidden:
            raise HTTPException(403)

    def check_logs(dag_id: str) -> None:
        if dag_id in made.forbidden | made.unlogged:
            raise HTTPException(403)

    made.app.dependency_overrides = {
        rights.may_read_run: check,
        rights.may_read_logs: check_logs,
        rights.may_read_rows: check,
        rights.readable_logs: lambda: lambda dag_id: dag_id not in made.forbidden | made.unlogged,
        rights.readable_dags: lambda: lambda dag_id: bool(dag_id) and dag_id not in made.forbidden,
        airflow_records: lambda: cast(Any, made.airflow),
    }
    return made


@contextmanager
def served(page: Page) -> Iterator[str]:
    """Serve the page to browsers, at the path at which Airflow mounts it; yield the address of the Dag run."""
    site = FastAPI()
    site.mount("/samza", page.app)
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(site, port=port, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), 60)
        assert server.started
        yield f"http://127.0.0.1:{port}/samza/runs/{DAG}/{DAG_RUN}"
    finally:
        server.should_exit = True
        thread.join()
