"""Runs of an application in this process: what stage runners and their Spark do, without either."""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_samza.engine.stage_run import run_stage as run_attempt
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.storage.local_store import default_folder
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.local_engine import LocalEngine
from tests.support.stand_ins import Attempt


def run_stage(
    root: str,
    plan: RunPlan,
    stage: str,
    generation: int = 1,
    bindings: Mapping[str, SystemBinding] | None = None,
    engine: LocalEngine | None = None,
) -> None:
    """Runs a stage to its result, in this process."""
    files = open_filesystem(root)
    handle = StageHandle(plan.application, plan.run_id, stage, Generation(plan.generation, generation))
    files.make_dirs(handle.folder.attempts)  # as if it had been submitted
    run_attempt(engine or LocalEngine(), files, run_bindings(plan.systems, bindings or {}), Attempt(handle), {})


@dataclass
class Here:
    """A root, with its log, and runs of applications under it."""

    root: Path
    engine: LocalEngine = field(default_factory=LocalEngine)
    bindings: Mapping[str, SystemBinding] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have the host keep nothing of a former root at this path: of an earlier run of the tests, or another fork."""
        if not (self.root.is_dir() and any(self.root.iterdir())):
            shutil.rmtree(default_folder(str(self.root)), ignore_errors=True)

    @property
    def runtime(self) -> SparkRuntime:
        return SparkRuntime(str(self.root), systems=self.bindings)

    @property
    def log(self) -> LogSystem:
        return LogSystem("log", SystemBinding("log", {"root": str(self.root)}))

    def plan(self, application: str, run_id: str, **more: Any) -> RunPlan:
        return self.runtime.prepare(RunRequest(application, run_id, **more))

    def stages(
        self, plan: RunPlan, *stages: str, generation: int = 1, bindings: Mapping[str, SystemBinding] | None = None
    ) -> None:
        """Runs stages of a run, all of them when none is named."""
        for stage in stages or [stage.stage_id for stage in plan.plan.stages]:
            run_stage(str(self.root), plan, stage, generation, bindings or self.bindings, self.engine)

    def whole(self, application: str, run_id: str, **more: Any) -> RunPlan:
        """A run from its plan to its end."""
        plan = self.plan(application, run_id, **more)
        self.stages(plan)
        self.runtime.close(plan)
        return plan

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """All user messages of a topic, by partition and offset."""
        return list(self._rows(topic))

    def _rows(self, topic: str) -> Iterator[dict[str, Any]]:
        spec = StreamSpec(topic)
        found = self.log.metadata([spec])[topic]
        with contextlib.closing(self.log.consumer(spec)) as consumer:
            for partition in range(found.partitions):
                offsets = OffsetRange(found.oldest[partition], found.head[partition])
                for envelope in consumer.read(SystemStreamPartition("log", topic, partition), offsets):
                    if isinstance(envelope, MessageRun):
                        yield from envelope.batch.to_pylist()


def slice_of(plan: RunPlan, stream: str) -> Any:
    """Return the messages that a run reads of a stream."""
    return dataclasses.replace(plan.stream(stream)).slice
