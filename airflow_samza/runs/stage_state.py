"""The state of a stage, read from the run's records alone: whoever can read the root can ask (task, retry, trigger, page)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.runs.folders import RunFolder, StageFolder, read, write_once
from airflow_samza.runs.names import Generation
from airflow_samza.runs.stage_runners import RunnerFolder
from airflow_samza.systems.filesystem import Filesystem

QUEUED = "queued"
"""Asked for; the runner is starting, or busy."""
RUNNING = "running"
"""The Spark job runs, or its output is being committed and published."""
UNFINISHED = "unfinished"
"""All tasks have staged their output, or it is committed, and nobody works on it: ``finish`` rolls it forward."""
SUCCEEDED = "succeeded"
FAILED = "failed"
CANCELLED = "cancelled"
LOST = "lost"
"""The runner died; submitting again continues where the manifests left off."""

FINAL = frozenset({UNFINISHED, SUCCEEDED, FAILED, CANCELLED, LOST})
"""The states in which waiting longer changes nothing."""


@dataclass(frozen=True)
class StageHandle:
    """One submitted generation of a stage; small and plain, so that it can be stored and handed to another host."""

    application: str
    run_id: str
    stage_id: str
    generation: Generation
    attempt: int = 0

    @property
    def run(self) -> RunFolder:
        """The records of its run."""
        return RunFolder(self.application, self.run_id)

    @property
    def folder(self) -> StageFolder:
        """Its own records."""
        return self.run.stage(self.stage_id, self.generation)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "application": self.application,
            "run_id": self.run_id,
            "stage_id": self.stage_id,
            "generation": str(self.generation),
            "attempt": self.attempt,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StageHandle:
        """The handle that :meth:`to_dict` described."""
        return cls(
            str(data["application"]),
            str(data["run_id"]),
            str(data["stage_id"]),
            Generation.parse(str(data["generation"])),
            int(data["attempt"]),
        )


@dataclass(frozen=True)
class StageStatus:
    """Where a stage is. ``error`` is the JSON form of a ``SamzaError``; ``log`` the runner's log file, from the root."""

    state: str
    attempt: int = 0
    tasks: int = 0
    tasks_done: int = 0
    error: Mapping[str, Any] | None = None
    runner: str = ""
    log: str = ""
    updated_at: float | None = None

    @property
    def is_final(self) -> bool:
        """Whether waiting longer changes nothing."""
        return self.state in FINAL

    def __str__(self) -> str:
        progress = f", {self.tasks_done} of {self.tasks} tasks done" if self.tasks else ""
        return f"{self.state} (attempt {self.attempt}{progress})"


def newest_attempt(files: Filesystem, folder: StageFolder) -> int:
    """The number of the latest attempt; 0 when there was none."""
    return max((int(name) for name in files.list(folder.attempts) if name.isdigit()), default=0)


def stage_status(files: Filesystem, handle: StageHandle) -> StageStatus:
    """The state of a stage's newest attempt."""
    folder = handle.folder
    attempt = newest_attempt(files, folder)
    status = StageStatus(QUEUED, attempt)
    request = read(files, folder.attempt(attempt, "request")) if attempt else None
    runner = _runner(handle, request)
    told = read(files, folder.attempt(attempt, "status")) if attempt else None
    if told is not None:
        status = replace(status, state=str(told["state"]), error=told.get("error"), updated_at=told.get("at"))
    if runner is not None:
        claim = read(files, runner.claim) or {}
        status = replace(status, runner=f"{claim.get('host')}, process {claim.get('pid')}", log=runner.log)
    tasks, done = task_progress(files, folder)
    status = replace(status, tasks=tasks, tasks_done=done)
    if files.exists(folder.result):
        return replace(status, state=SUCCEEDED, error=None)
    if status.state in (FAILED, CANCELLED):
        return status
    if runner is None or not runner.is_alive(files):
        return replace(status, state=UNFINISHED if can_finish(files, folder) else LOST)
    return status


def task_progress(files: Filesystem, folder: StageFolder) -> tuple[int, int]:
    """How many tasks the epoch has, and how many have their manifest."""
    intent = read(files, folder.intent)
    if intent is None:
        return 0, 0
    found = {name for name in files.list(folder.manifests(int(intent["epoch"]))) if name.endswith(".json")}
    return int(intent["tasks"]), len(found)


def can_finish(files: Filesystem, folder: StageFolder) -> bool:
    """Whether the stage can be rolled forward from its records alone: committed, or every manifest there."""
    if files.exists(folder.commit):
        return True
    tasks, done = task_progress(files, folder)
    return tasks > 0 and done >= tasks


def ask_to_cancel(files: Filesystem, handle: StageHandle) -> None:
    """Leaves the request to cancel the newest attempt; its runner kills that stage's Spark jobs and no other's."""
    attempt = newest_attempt(files, handle.folder)
    if attempt:
        write_once(files, handle.folder.attempt(attempt, "cancel"), {"stage": handle.stage_id, "attempt": attempt})


def _runner(handle: StageHandle, request: Mapping[str, Any] | None) -> RunnerFolder | None:
    if request is None or request.get("runner") is None:
        return None
    return RunnerFolder(handle.run, str(request["runner"]["key"]), int(request["runner"]["number"]))
