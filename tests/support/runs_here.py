"""Runs of an application in this process: what stage runners and their Spark do, without either."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.spark import epoch_frames, epoch_task
from airflow_samza.spark import single_epoch as epoch
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.stand_ins import Attempt, Session


class _Frame:
    """A stage's DataFrame: collecting it runs the tasks one after the other."""

    def __init__(self, task: epoch_task.EpochTask, tasks: int) -> None:
        self._task = task
        self._tasks = tasks

    def collect(self) -> None:
        for place in range(self._tasks):
            assert self._task.epoch is not None
            for _ in epoch_task._Section(self._task, self._task.epoch, place, "0").run(iter(())):
                pass


def run_stage(
    root: str, plan: RunPlan, stage: str, generation: int = 1, bindings: Mapping[str, SystemBinding] | None = None
) -> None:
    """Runs a stage to its result, in this process."""
    files = open_filesystem(root)
    handle = StageHandle(plan.application, plan.run_id, stage, Generation(plan.generation, generation))
    frame = lambda spark, program, task, tasks: _Frame(task, tasks)  # noqa: E731
    with mock.patch.object(epoch, "stage_frame", frame), mock.patch.object(epoch_frames, "stage_frame", frame):
        epoch.run_stage(Session(), files, run_bindings(plan.systems, bindings or {}), Attempt(handle), {})


@dataclass
class Here:
    """A root, with its log, and runs of applications under it."""

    root: Path

    @property
    def runtime(self) -> SparkRuntime:
        return SparkRuntime(str(self.root))

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
            run_stage(str(self.root), plan, stage, generation, bindings)

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
        found = self.log.admin.metadata([spec])[topic]
        with contextlib.closing(self.log.consumer(spec)) as consumer:
            for partition in range(found.partitions):
                offsets = OffsetRange(found.oldest[partition], found.head[partition])
                for envelope in consumer.read(SystemStreamPartition("log", topic, partition), offsets):
                    if isinstance(envelope, MessageRun):
                        yield from envelope.batch.to_pylist()


def slice_of(plan: RunPlan, stream: str) -> Any:
    """What a run reads of a stream."""
    return dataclasses.replace(plan.stream(stream)).slice
