"""Stages run task by task in this process, with all that they leave on record, and no Spark: our share of a run."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_run import bind_inputs, decide
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from tests.support.local_engine import LocalEngine
from tests.support.stand_ins import Attempt


@dataclasses.dataclass
class StageRun:
    """A stage that was run here: its result, and the seconds of its parts."""

    stage: str
    seconds: dict[str, float]
    result: StageResult


class InProcess:
    """Runs applications under a root of their own."""

    def __init__(self, root: Path, systems: Mapping[str, SystemBinding]) -> None:
        self.root = root
        self.files = open_filesystem(str(root))
        self._bindings = dict(systems)
        self.runtime = SparkRuntime(str(root), systems)

    def prepare(self, application: str, config: Mapping[str, str]) -> RunPlan:
        """Plans a run."""
        return self.runtime.prepare(RunRequest(application, "here", config=config))

    def run_stage(self, run: RunPlan, stage_id: str) -> StageRun:
        """Runs the tasks of a stage one after the other and finishes it."""
        seconds: dict[str, float] = {}
        clock = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal clock
            now = time.perf_counter()
            seconds[name] = now - clock
            clock = now

        bindings = run_bindings(run.systems, self._bindings)
        systems = bind_systems(bindings, str(self.root))
        handle = StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, 1), 1)
        self.files.make_dirs(handle.folder.attempts)  # as if it had been submitted
        inputs = bind_inputs(self.files, systems, run, handle)
        engine = LocalEngine()
        context = StageContext(self.files, bindings, Attempt(handle), {}, systems, run)
        with engine.start_stage(context, inputs) as stage:
            lap("program")
            intent = decide(self.files, run, handle, inputs, stage.setup.outputs)
            lap("intent")
            stage.run_epoch(intent, None)
        lap("tasks")
        result = finish_stage(self.files, systems, run, stage_id, handle.generation, handle.folder)
        lap("finish")
        return StageRun(stage_id, seconds, result)
