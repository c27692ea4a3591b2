"""Stages run task by task in this process, with all that they leave on record, and no Spark.

What of a run is ours alone.

Intent, program, tasks, manifests, commit and publication are made by the code that the stage runner and its workers
call.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path

from airflow_samza.launch.bindings_json import bindings_to_json
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import bind_systems, run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import plain
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.spark import single_epoch as epoch
from airflow_samza.spark import stage_setup
from airflow_samza.spark.epoch_task import EpochTask, _Section
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding


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
        inputs = epoch.bind_inputs(self.files, systems, run, handle)
        source = stage_setup.program_source(systems, run, stage_id, inputs)
        program = source.load()
        lap("program")
        outputs = {
            stream_id: stage_setup.bound_output(run, program, stream_id, handle.generation)
            for stream_id in program.stage.outputs
        }
        for bound in outputs.values():
            systems[bound.system].admin.create([bound.spec])
        intent = epoch.decide(self.files, run, handle, inputs, outputs)
        path = handle.folder.attempt(1, "program")
        write_once(self.files, path, source)
        task = EpochTask(
            root=self.files.root,
            bindings=bindings_to_json(bindings),
            stage=stage_id,
            stage_folder=handle.folder.path,
            program=path,
            epoch=0,
            inputs={stream_id: plain(dataclasses.replace(bound, slice=None)) for stream_id, bound in inputs.items()},
            outputs={stream_id: plain(bound) for stream_id, bound in outputs.items()},
            own=tuple(stream_id for stream_id in (*inputs, *outputs) if run.is_own(stream_id)),
            side_inputs={
                stream_id: plain(dataclasses.replace(run.side_input(stream_id), slice=None))
                for stream_id in program.stage.side_inputs
            },
        )
        lap("intent")
        for number in range(intent.tasks):
            for _ in _Section(task, 0, number, "0").run(iter(())):
                pass
        lap("tasks")
        result = finish_stage(self.files, systems, run, stage_id, handle.generation, handle.folder)
        lap("finish")
        return StageRun(stage_id, seconds, result)
