"""An Airflow API server with FAB, users of different rights, and runs of two Dags under one root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from airflow_samza.provider.plan_note import PlanNote
from airflow_samza.runs.progress.run_list import note_origin
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.opening import open_filesystem
from demo.airflow_settings import free_port
from demo.local_airflow import process_family
from tests.page.site_setup import DAG_RUN, PASSWORD, PLAN_TASK
from tests.support.runs_here import Here

ROOT = Path(__file__).resolve().parents[2]

START_SECONDS = 400.0

APPLICATION = """
from airflow_samza import stream_application

@stream_application("visits")
def visits(app):
    read = app.input_stream("visits", system="log", schema="country string, n bigint", partitions=2, bounded=True)
    moved = read.partition_by("country", id="by-country").where("n >= 0", id="there")
    moved.send_to(app.output_stream("countries", system="log", partitions=2, key="country"))
"""


@dataclass(frozen=True)
class Site:
    """The running API server."""

    address: str

    def token(self, user: str) -> str:
        """Return a token of a user."""
        answer = httpx.post(f"{self.address}/auth/token", json={"username": user, "password": PASSWORD}, timeout=60)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["access_token"])

    def get(self, path: str, token: str | None = None, **asked: Any) -> httpx.Response:
        """Return the answer of an address."""
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.get(f"{self.address}{path}", headers=headers, params=asked, timeout=120)


def note_of(here: Here, dag_id: str) -> dict[str, Any]:
    """Make a run as a Dag's tasks would, and return its note."""
    run = here.plan("page_app:visits", f"{dag_id}~flow~{DAG_RUN}")
    files, folder = open_filesystem(str(here.root)), RunFolder(run.application, run.run_id)
    note_origin(files, folder, {"dag_id": dag_id, "run_id": DAG_RUN, "task_id": PLAN_TASK})
    here.stages(run)
    here.runtime.close(run)
    tasks = {stage.stage_id: f"flow.{stage.stage_id}" for stage in run.plan.stages}
    print_ = run.plan.fingerprint
    note = PlanNote(run.application, run.run_id, 1, print_, "samza_page", time.time(), run.mode, "flow", {}, tasks)
    return note.to_dict()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    place = tmp_path_factory.mktemp("page")
    (place / "page_app.py").write_text(APPLICATION, encoding="utf-8")
    here, home, port = Here(place / "root"), place / "home", free_port()
    rows = [{"country": "fr", "n": n} for n in range(4)]
    here.log.append("visits", pa.Table.from_pylist(rows), key=["country"], partitions=2)
    sys.path.insert(0, str(place))
    try:
        notes = {dag_id: note_of(here, dag_id) for dag_id in ("ours", "theirs")}
    finally:
        sys.path.remove(str(place))
    home.mkdir()
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__AUTH_MANAGER": "airflow.providers.fab.auth_manager.fab_auth_manager.FabAuthManager",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a-secret-of-tests-that-is-long-enough-for-sha-512-" * 2,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "AIRFLOW_CONN_SAMZA_PAGE": json.dumps({"conn_type": "samza", "extra": {"root": str(here.root)}}),
    }
    with (home / "server.log").open("wb") as log:
        for command in (["airflow", "db", "migrate"], ["tests.page.site_setup", json.dumps(notes)]):
            subprocess.run([sys.executable, "-m", *command], env=env, cwd=home, check=True, stdout=log, stderr=log)
        words = [sys.executable, "-m", "airflow", "api-server", "--port", str(port), "--host", "127.0.0.1"]
        server = subprocess.Popen([*words, "--workers", "1"], env=env, cwd=home, stdout=log, stderr=log)
    try:
        found = Site(f"http://127.0.0.1:{port}")
        _wait_for(found, server, home / "server.log")
        yield found
    finally:
        family = process_family(server.pid)
        for process in family:
            process.terminate()
        server.wait(timeout=60)


def _wait_for(site: Site, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            if site.get("/api/v2/version").status_code == 200:
                return
        except httpx.TransportError:
            pass
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"The API server does not answer:\n{log.read_text(errors='replace')[-5000:]}")
        time.sleep(0.5)
