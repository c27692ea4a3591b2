"""One Airflow with FAB and users of different rights; under its root are runs of two Dags, made by this process."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastapi.routing import APIRoute

from airflow_samza.provider.page.routes import calendar, data, data_map, failures, plan, progress, results, runs
from airflow_samza.provider.xcoms import PlanNote
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.page.fab_airflow import FabAirflow
from tests.page.site_setup import DAG_RUN, PLAN_TASK
from tests.support.folder_servers import serving
from tests.support.runs_here import Here

DAGS = Path(__file__).parent / "views" / "dags"

CONNECTION = "samza_default"

DAY = DataInterval.from_iso("2013-01-01", "2013-01-02")

APPLICATION = """
from airflow_samza import stream_application

@stream_application("visits")
def visits(app):
    read = app.input_stream("visits", system="log", schema="country string, n bigint", partitions=2, bounded=True)
    moved = read.partition_by("country", id="by-country").where("n >= 0", id="there")
    moved.send_to(app.output_stream("countries", system="log", partitions=2, key="country"))
"""


ROUTES = {
    route.path: route
    for module in (runs, plan, progress, results, failures, data, data_map, calendar)
    for route in module.router.routes
    if isinstance(route, APIRoute)
}

PARAMETERS: dict[str, dict[str, Any]] = {
    "difference": {"other_run_id": DAG_RUN},
    "backfill": {"first": "2013-01-01", "last": "2013-01-31"},
    "clearPreview": {"task_id": "flow.visits"},
}
"""The parameters that routes need, by their operations' ids."""


def address(path: str, dag_id: str) -> str:
    """Return an address of a route, about the run of a Dag."""
    values = {"dag_id": dag_id, "run_id": DAG_RUN, "plan_task": PLAN_TASK, "map_index": -1}
    streams = {"stage_id": "by-country", "stream_id": "by-country", "conn_id": CONNECTION}
    return f"/samza{path}".format(**values, **streams)


@dataclass(frozen=True)
class Place:
    """The folders of the Airflow and of the systems of its Dags, and the notes of runs that are there already."""

    folder: Path
    notes: dict[str, Any]

    @property
    def connections(self) -> dict[str, str]:
        """The connections of the Dags, as JSON."""
        folders = {"views_logs": "logs", "views_warehouse": "warehouse"}
        root = {"conn_type": "samza", "extra": {"root": str(self.folder / "root")}}
        return {CONNECTION: json.dumps(root)} | {
            name: json.dumps({"conn_type": "fs", "extra": {"path": str(self.folder / at)}})
            for name, at in folders.items()
        }


def note_of(here: Here, dag_id: str) -> dict[str, Any]:
    """Make a run as a Dag's tasks would, and return its note."""
    run = here.plan("page_app:visits", f"{dag_id}~flow~{DAG_RUN}", interval=DAY)
    files, folder = open_filesystem(str(here.root)), RunFolder(run.application, run.run_id)
    note_origin(files, folder, {"dag_id": dag_id, "run_id": DAG_RUN, "task_id": PLAN_TASK})
    here.stages(run)
    here.runtime.close(run)
    tasks = {stage.stage_id: f"flow.{stage.stage_id}" for stage in run.plan.stages}
    print_ = run.plan.fingerprint
    systems: dict[str, str] = {}
    about = run.application, run.run_id, 1, print_, CONNECTION, time.time(), run.mode, "flow", systems, tasks
    note = PlanNote(*about, interval=run.interval)
    return note.to_dict()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    for name in ("logs/page-views", "warehouse", "root", "signals"):
        (folder / name).mkdir(parents=True)
    here = Here(folder / "root")
    rows = [{"country": "fr", "n": n} for n in range(4)]
    here.log.append("visits", pa.Table.from_pylist(rows), key=["country"], partitions=2)
    sys.path.insert(0, str(folder))
    sys.modules.pop("page_app", None)  # another test's application
    try:
        return Place(folder, {dag_id: note_of(here, dag_id) for dag_id in ("ours", "theirs")})
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="session")
def site(place: Place, request: pytest.FixtureRequest) -> Iterator[FabAirflow]:
    """The Airflow, of which the API server runs."""
    env = {"AIRFLOW__SAMZA__POLL_INTERVAL": "0.2", "AIRFLOW__SAMZA__WARM_RUNNERS": "2"}
    env["SAMZA_TEST_SIGNALS"] = str(place.folder / "signals")
    airflow = FabAirflow(place.folder / "home", dags=DAGS, connections=place.connections, notes=place.notes, env=env)
    with serving(request.config, "tests/page", airflow):
        yield airflow
