"""Runs of an application that carries state on, as their records alone: no Spark, no tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_samza.planner.plan import ExecutionPlan, Partitioning, PlannedStream, Stage
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest, Staged
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CARRIED, OWN, BoundStream, RunPlan, RunState
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.state_at_start import Patience, take_lease
from airflow_samza.runs.state_history.versions import Version, find_version
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import Publication, StreamSpec

STAGES = ("views", "by-member")


class Sink:
    """A system that remembers what was published to it."""

    def __init__(self) -> None:
        self.published: list[str] = []

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        self.published.append(publication.producer)
        return {}


def planned(stream_id: str, role: str) -> PlannedStream:
    return PlannedStream(stream_id, role, None, 1, "declared", Partitioning("unknown"), role == "output")


PLAN = ExecutionPlan(
    "app",
    "1",
    operators=(),
    streams=(planned("views", "input"), planned("by-member", "intermediate"), planned("out", "output")),
    tables=(),
    join_groups=(),
    stages=(
        Stage("views", (), ("views",), ("by-member",)),
        Stage("by-member", (), ("by-member",), ("out",), upstream=("views",)),
    ),
)


class Carried:
    """A root, and runs of two stages.

    Each run reads ``step`` further messages, and its state is how many were read in all.
    """

    def __init__(self, root: Path) -> None:
        self.files = LocalFilesystem(root)
        self.history = StateHistory("app")
        self.sink = Sink()
        self.head = 0

    def folder(self, run_id: str) -> RunFolder:
        return RunFolder("app", run_id)

    def version(self, number: int) -> Version:
        found = find_version(self.files, self.history, number)
        assert found is not None
        return found

    def plan(
        self, run_id: str, generation: int = 1, *, step: int = 10, patience: Patience | None = None, keep: int = 5
    ) -> RunPlan:
        """Do the part of ``prepare`` that concerns the state."""
        known = read(self.files, self.folder(run_id).plan(generation), RunPlan)
        if known is not None:
            return known
        lease = take_lease(self.files, self.history, run_id, generation, patience or Patience())
        start = find_version(self.files, self.history, lease.start)
        begin = start.offsets["views"][0] if start is not None else 0
        self.head = max(self.head, begin + step)
        state = RunState(CARRIED, lease.start, fence=lease.fence, keep=keep)
        return self.store(run_id, generation, state, begin)

    def apart(self, run_id: str, version: Version | None, *, keep: int = 5) -> RunPlan:
        """The plan of a run with a state of its own."""
        begin = version.offsets["views"][0] if version is not None else 0
        return self.store(run_id, 1, RunState(OWN, version.number if version is not None else 0, keep=keep), begin)

    def store(self, run_id: str, generation: int, state: RunState, begin: int) -> RunPlan:
        streams = {
            s.stream_id: BoundStream(s.stream_id, s.role, "sink", StreamSpec(s.stream_id, 1)) for s in PLAN.streams
        }
        views = BoundStream(
            "views", "input", "sink", StreamSpec("views", 1), {"offsets": [[begin, self.head]], "final": False}
        )
        run = RunPlan("app", "1", "module:app", run_id, generation, PLAN, {**streams, "views": views}, state=state)
        write_once(self.files, self.folder(run_id).plan(generation), run)
        return run

    def run_stage(self, run: RunPlan, stage: str, generation: int = 1) -> None:
        """Runs a stage of one task to its result; its state is a file with the number of messages read in all."""
        number = Generation(run.generation, generation)
        folder = self.folder(run.run_id).stage(stage, number)
        slice_ = run.streams["views"].slice if stage == "views" else {"offsets": [[0, 1]]}
        assert slice_ is not None
        inputs = {"views" if stage == "views" else "by-member": InputIntent("topic", slice_)}
        outputs = {"by-member": "topic"} if stage == "views" else {"out": "out"}
        write_once(self.files, folder.intent(0), Intent(stage, str(number), 0, 1, inputs, outputs))
        path = f"{folder.path}/state/0/first/counter.table.arrow"
        self.files.put_if_absent(path, str(slice_["offsets"][0][1]).encode())
        checkpoint = {"offsets": {"views": {"0": slice_["offsets"][0][1]}}} if stage == "views" else {"offsets": {}}
        state = {"counter": {"table": {"path": path, "rows": 1, "bytes": 1, "checksum": 0}}}
        staged = {name: Staged({}, 1) for name in outputs}
        write_once(self.files, folder.manifest(0, 0), Manifest(0, 0, "first", 1.0, {}, staged, {}, checkpoint, state))
        finish_stage(self.files, {"sink": self.sink}, run, stage, number, folder)  # type: ignore[dict-item]

    def whole(self, run_id: str, generation: int = 1, **more: Any) -> Version | None:
        """A run from its plan to its end."""
        run = self.plan(run_id, generation, **more)
        for stage in STAGES:
            self.run_stage(run, stage)
        return leave_state(self.files, run)

    def state_of(self, version: Version) -> str:
        """The content of the state file of the first stage."""
        return self.files.read(version.stages["views"][0]["state"]["counter"]["table"]["path"]).decode()
