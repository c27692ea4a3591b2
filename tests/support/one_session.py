"""Runs of many applications in one Spark session of this process.

What the stage runner does, without a process of its own for each run.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_run import run_stage
from airflow_samza.launch.code_shipping import code_of, ship_code
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.schema import Schema
from airflow_samza.spark.sessions.classic_session import ClassicSession
from airflow_samza.spark.sessions.driver_session import DriverSession
from airflow_samza.spark.spark_engine import SparkEngine
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.topic_rows import topic_rows


def open_session(folder: Path, module: str, conf: Mapping[str, str] | None = None) -> DriverSession:
    """A session whose workers have the code of a module that this process has loaded."""
    files = open_filesystem(str(folder))
    shipped = ship_code(files, RunFolder("shared", "code"), code_of(sys.modules[module]))
    session = ClassicSession("random applications", "local[2]", conf or {})
    session.ship([files.location(shipped.path)], ())
    return session


class Runs:
    """A root with input topics, and runs over them."""

    def __init__(
        self, session: DriverSession, folder: Path, bindings: Mapping[str, SystemBinding] | None = None
    ) -> None:
        self._session = session
        self._bindings = dict(bindings or {})
        self._root = str(folder)
        self._files = open_filesystem(self._root)
        self.log = LogSystem("log", SystemBinding("log", {"root": self._root}))
        self.runtime = SparkRuntime(self._root, self._bindings)

    def make(self, topic: str, schema: Schema, partitions: int) -> None:
        """A topic without messages."""
        self.log.create([StreamSpec(topic, partitions, schema.ddl())])

    def send(self, topic: str, schema: Schema, rows: list[dict[str, Any]]) -> None:
        """Appends messages, by their first column."""
        self.log.append(topic, pa.Table.from_pylist(rows, schema=schema.to_arrow()), key=schema.names[:1])

    def prepare(self, application: str, run_id: str, **more: Any) -> RunPlan:
        """Plans a run."""
        return self.runtime.prepare(RunRequest(application, run_id, **more))

    def plan(self, application: str, run_id: str, **more: Any) -> RunPlan:
        """Plans a run."""
        return self.prepare(application, run_id, **more)

    def stages(self, run: RunPlan) -> None:
        """Runs all stages: those of a continuous run at once, others one by one."""
        (self.together if run.mode == CONTINUOUS else self.one_by_one)(run)

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """All user messages of a topic."""
        return list(topic_rows(self.log, topic))

    def start(self, run: RunPlan, stage_id: str) -> threading.Thread:
        """Runs a stage in a thread; :meth:`join` ends it, and raises what ended the stage."""
        generation = Generation(run.generation, 1)
        request = StageRequest(stage_id, str(generation), 1)
        folder = StageHandle(run.application, run.run_id, stage_id, generation, 1).folder
        write_once(self._files, folder.attempt(1, "request"), request)
        attempt = AttemptState(self._files, RunFolder(run.application, run.run_id), request)
        bindings = run_bindings(run.systems, self._bindings)
        thread = _Stage(lambda: run_stage(SparkEngine(self._session), self._files, bindings, attempt, {}))
        thread.start()
        return thread

    def together(self, run: RunPlan) -> None:
        """All stages at once, to their ends."""
        join([self.start(run, stage.stage_id) for stage in run.plan.stages])

    def one_by_one(self, run: RunPlan) -> None:
        """Stage after stage."""
        for stage in run.plan.stages:
            join([self.start(run, stage.stage_id)])

    def outputs(self, run: RunPlan) -> dict[str, list[str]]:
        """All that lies in the outputs, without an order."""
        found: dict[str, list[str]] = {}
        for stream_id in sorted({s for stage in run.plan.stages for s in stage.outputs if not run.is_own(s)}):
            topic = run.stream(stream_id).spec.name
            found[stream_id] = sorted(repr(row) for row in topic_rows(self.log, topic))
        return found


class _Stage(threading.Thread):
    def __init__(self, work: Any) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.error = error


def join(stages: list[threading.Thread]) -> None:
    """Waits for stages; the first error is raised."""
    for stage in stages:
        stage.join(timeout=240)
        assert not stage.is_alive(), "a stage does not end"
    for stage in stages:
        assert isinstance(stage, _Stage)
        if stage.error is not None:
            raise stage.error
