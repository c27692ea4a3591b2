"""State of a stage, read from the run's records alone, by whoever can read the root (task, trigger, page)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import SamzaError, StageCancelled, StageLost
from airflow_samza.records import durable, parse_object, understood
from airflow_samza.runs.records.epoch_records import Manifest, read_commit, rejection_of
from airflow_samza.runs.records.expectations import Rejection
from airflow_samza.runs.records.folders import (
    KEPT,
    RunFolder,
    StageFolder,
    newest,
    read_fixed,
    read_report,
    read_unsynced,
    write_once,
)
from airflow_samza.runs.records.liveness import process_is_there
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.spans import Span
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_runners import RunnerFolder, StageRequest
from airflow_samza.systems.filesystems.filesystem import Filesystem

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
        """Return the handle that :meth:`to_dict` described."""
        with understood("of a stage's handle"):
            return cls(
                str(data["application"]),
                str(data["run_id"]),
                str(data["stage_id"]),
                Generation.parse(str(data["generation"])),
                int(data["attempt"]),
            )


def restored_bytes(facts: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of state that tasks have restored, by where from, as their manifests tell."""
    restored = {place: int(facts.get(f"restored_from_{place}_bytes", 0)) for place in ("memory", "host", "root")}
    return restored if any(restored.values()) else {}


@dataclass(frozen=True)
class StageProgress:
    """The progress of a stage of several epochs, as its runner reports it.

    ``epochs`` that are committed and the user messages that they read (``messages``) and wrote (``written``); ``lag``
    the offsets that are in the inputs and not read yet. ``waiting_for``: the stage that has to start first.
    ``restored``: the bytes of state with which tasks began their epochs, by where they were: in the ``memory`` of the
    process, on the ``host``, or only under the ``root``.
    """

    epochs: int = 0
    messages: int = 0
    written: int = 0
    lag: int = 0
    waiting_for: str | None = None
    restored: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.waiting_for is not None:
            return f"waiting for {self.waiting_for}"
        epochs = "1 epoch" if self.epochs == 1 else f"{self.epochs:,} epochs"
        behind = "1 offset behind" if self.lag == 1 else f"{self.lag:,} offsets behind"
        return f"{epochs}, {self.messages:,} messages" + (f", {behind}" if self.lag else "")


@dataclass(frozen=True)
class StageStatus:
    """The status of a stage. ``error`` is the JSON form of a ``SamzaError``; ``log`` the path of the runner's log.

    ``tasks_done`` of its ``tasks`` have nothing left to do in the open epoch; ``progress`` is told by stages of several
    epochs. ``silent_since`` (seconds since 1970): the runner's process is there, and has given no sign of life since
    then. ``ran`` are the times for which attempts have run the stage, as the newest one has told them at
    ``updated_at``.
    """

    state: str
    attempt: int = 0
    tasks: int = 0
    tasks_done: int = 0
    error: Mapping[str, Any] | None = None
    runner: str = ""
    log: str = ""
    updated_at: float | None = None
    progress: StageProgress | None = None
    silent_since: float | None = None
    ran: tuple[Span, ...] = ()

    @property
    def is_final(self) -> bool:
        """Return whether waiting longer changes nothing."""
        return self.state in FINAL

    def __str__(self) -> str:
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks} tasks"
        progress = f", {self.tasks_done} of {tasks} done" if self.tasks else ""
        progress = progress if self.progress is None else f", {self.progress}"
        return f"{self.state} (attempt {self.attempt}{progress})"


@durable("status of a stage", reports=True)
@dataclass(frozen=True)
class StatusRecord:
    """The status of an attempt at a stage as its runner has reported it ``at`` a time (seconds since 1970).

    ``ran`` are the times for which this attempt and those before it have run the stage.
    """

    state: str = ""
    error: Mapping[str, Any] | None = None
    progress: StageProgress | None = None
    at: float | None = None
    ran: tuple[Span, ...] = ()


@durable("request to cancel a stage", reports=True)
@dataclass(frozen=True)
class Cancellation:
    """The request to cancel an attempt at a stage; that it is there is all that counts."""

    stage: str = ""
    attempt: int = 0


@durable("intent")
@dataclass(frozen=True)
class EpochTasks:
    """The part of an intent, of a stage or of a push, that says which tasks run."""

    epoch: int
    tasks: int
    active: tuple[int, ...] | None = None
    whole: bool = True

    @property
    def running(self) -> Sequence[int]:
        """The tasks that run in this epoch."""
        return range(self.tasks) if self.active is None else self.active


def newest_attempt(files: Filesystem, folder: StageFolder) -> int:
    """The number of the latest attempt that was asked for; 0 when there was none."""

    def requested(number: int) -> int | None:
        return number if KEPT.read(files, folder.attempt(number, "request")) is not None else None

    return newest(files, folder.attempts, requested) or 0


def newest_request(files: Filesystem, folder: StageFolder) -> StageRequest | None:
    """Return the request of the latest attempt at a stage; None where there was none."""
    number = newest_attempt(files, folder)
    return read_fixed(files, folder.attempt(number, "request"), StageRequest) if number else None


def written_by(files: Filesystem, handle: StageHandle) -> Generation:
    """Return the generation that wrote the output of one: itself, or the former one whose result it keeps."""
    result = read_fixed(files, handle.folder.result, StageResult)
    return Generation.parse(result.generation) if result is not None else handle.generation


def stage_status(files: Filesystem, handle: StageHandle) -> StageStatus:
    """The state of a stage's newest attempt."""
    if not files.pace.is_free and handle.attempt:
        status = _going_on(files, handle)
        if status is not None:
            return status
    return _whole_status(files, handle)


_TASKS_SEEN: dict[str, tuple[float, int, int]] = {}
"""Last count of the tasks of stages at work: its time, all tasks, those done; by the stage's folder."""

_MOST = 10_000
"""Of stages that are remembered: a triggerer lives for months, and a stage may end where nobody looks."""


def _going_on(files: Filesystem, handle: StageHandle) -> StageStatus | None:
    """The status of an attempt whose runner lives and has reported no end, by two requests; None of any other.

    The tasks that are done are counted seldom.
    """
    folder = handle.folder
    runner = runner_of(files, handle, handle.attempt)
    status, where, now = _told(files, handle, handle.attempt, runner), files.location(folder.path), time.monotonic()
    is_over = runner is None or status.is_final or not runner.was_heard(files)
    if is_over:
        _TASKS_SEEN.pop(where, None)
    if status.state == SUCCEEDED:  # its result stands, and says how many tasks there were
        result = KEPT.read(files, folder.result)
        if result is not None:
            tasks = parse_object(result, files.location(folder.result)).get("tasks", 0)
            return replace(status, tasks=tasks, tasks_done=tasks, progress=None)
    if is_over:
        return None
    if where not in _TASKS_SEEN and len(_TASKS_SEEN) >= _MOST:
        _TASKS_SEEN.clear()
    seen = _TASKS_SEEN.setdefault(where, (now, 0, 0))
    if now - seen[0] >= files.pace.most and status.state == RUNNING:
        seen = _TASKS_SEEN[where] = (now, *task_progress(files, folder))
    return replace(status, tasks=seen[1], tasks_done=seen[2])


def _whole_status(files: Filesystem, handle: StageHandle) -> StageStatus:
    folder = handle.folder
    attempt = newest_attempt(files, folder)
    runner = runner_of(files, handle, attempt)
    tasks, done = task_progress(files, folder)
    status = replace(_told(files, handle, attempt, runner), tasks=tasks, tasks_done=done)
    if files.exists(folder.result):
        return replace(status, state=SUCCEEDED, error=None, progress=None)
    if status.state in (FAILED, CANCELLED):
        return status
    if runner is None or not runner.is_alive(files):
        return as_lost(files, handle, status, runner)
    return _on_full_disk(files, status, runner) or status


def _told(files: Filesystem, handle: StageHandle, attempt: int, runner: RunnerFolder | None) -> StageStatus:
    """Return the status of an attempt as its runner has reported it, with who that is."""
    status = StageStatus(QUEUED, attempt)
    report = read_report(files, handle.folder.attempt(attempt, "status"), StatusRecord) if attempt else None
    if report is not None and report.state:
        status = replace(
            status,
            state=report.state,
            error=report.error,
            updated_at=report.at,
            progress=report.progress,
            ran=report.ran,
        )
    if runner is None:
        return status
    who = runner.who(files) or {}
    lender = f", warm runner {who['warm']}" if who.get("warm") else ""
    return replace(status, runner=f"{who.get('host')}, process {who.get('pid')}{lender}", log=runner.log)


def _on_full_disk(files: Filesystem, status: StageStatus, runner: RunnerFolder | None) -> StageStatus | None:
    """The state of a stage whose runner is silent because a disk is full; None where that is not why."""
    full = runner.full_disk(files) if runner is not None else None
    return None if full is None else replace(status, state=FAILED, error=full.to_dict())


def as_lost(files: Filesystem, handle: StageHandle, status: StageStatus, runner: RunnerFolder | None) -> StageStatus:
    """The state of a stage whose runner is dead, or gives no sign of life."""
    if can_finish(files, handle.folder):
        return replace(status, state=UNFINISHED)
    rejection = rejected_by(files, handle.folder)
    if rejection is not None:
        return replace(status, state=FAILED, error=dict(rejection.error))
    full = _on_full_disk(files, status, runner)
    if full is not None:
        return full
    silent = runner is not None and process_is_there(runner.who(files) or {}) is True
    return replace(status, state=LOST, silent_since=runner.heard_at(files) if runner is not None and silent else None)


def runner_of(files: Filesystem, handle: StageHandle, attempt: int) -> RunnerFolder | None:
    """The runner that an attempt was left to; None where no attempt was made, or none needs a runner."""
    path = handle.folder.attempt(attempt, "request")
    request = read_fixed(files, path, StageRequest) if attempt else None
    if request is None or request.runner is None:
        return None
    return RunnerFolder(handle.run, request.runner.key, request.runner.number)


def task_progress(files: Filesystem, folder: StageFolder) -> tuple[int, int]:
    """Return how many tasks a stage has, and how many have nothing left to do in its newest epoch."""
    intent = _newest(files, folder)
    if intent is None:
        return 0, 0
    manifests = set(files.list(folder.manifests(intent.epoch)))
    return intent.tasks, intent.tasks - sum(f"{task}.json" not in manifests for task in intent.running)


def is_committed(files: Filesystem, folder: StageFolder) -> bool:
    """Return whether the stage's last epoch is committed: its output counts, published or not yet."""
    if files.exists(folder.result):
        return True
    intent = _newest(files, folder)
    committed = read_commit(files, folder, intent.epoch) if intent is not None else None
    return committed is not None and committed.is_last


def can_finish(files: Filesystem, folder: StageFolder) -> bool:
    """Return whether anybody can bring the stage to its result from its records alone, without Spark."""
    return is_staged(files, folder) and not files.exists(folder.needs_runner)


def is_staged(files: Filesystem, folder: StageFolder) -> bool:
    """Return whether no task has to run any more: the stage's last epoch is committed, or every manifest is there."""
    intent = _newest(files, folder)
    if intent is None:
        return False
    epoch = intent.epoch
    committed = read_commit(files, folder, epoch)
    if committed is not None:
        return committed.is_last
    tasks, done = task_progress(files, folder)
    if done < tasks or rejection_of(files, folder, epoch, intent.running) is not None:
        return False
    if intent.whole:
        return True
    former = read_commit(files, folder, epoch - 1)
    ended = set(former.ended) if former is not None else set()
    for task in intent.running:
        manifest = read_unsynced(files, folder.manifest(epoch, task), Manifest)
        if manifest is None or not manifest.ended:
            return False
        ended.add(task)
    return len(ended) >= intent.tasks


def rejected_by(files: Filesystem, folder: StageFolder) -> Rejection | None:
    """Return the rejection of a stage's newest epoch by an expectation; None where that is not rejected."""
    intent = _newest(files, folder)
    if intent is None or read_commit(files, folder, intent.epoch) is not None:
        return None
    return rejection_of(files, folder, intent.epoch, intent.running)


def _newest(files: Filesystem, folder: StageFolder) -> EpochTasks | None:
    """Return the tasks of the newest epoch, of a stage or a push."""
    return newest(files, folder.epochs, lambda epoch: read_fixed(files, folder.intent(epoch), EpochTasks))


def ask_to_cancel(files: Filesystem, handle: StageHandle) -> None:
    """Leaves the request to cancel the newest attempt; its runner kills that stage's Spark jobs and no other's."""
    attempt = newest_attempt(files, handle.folder)
    if attempt:
        write_once(files, handle.folder.attempt(attempt, "cancel"), Cancellation(handle.stage_id, attempt))


def superseded_by(handle: StageHandle, newer: Generation) -> str:
    """Return the sentence for a generation of a stage that has a newer one."""
    return f"Generation {handle.generation} of the stage {handle.stage_id} is superseded by {newer}."


_AFTER_A_CANCEL = "Submit it again, or clear it."


def was_cancelled(stage_id: str) -> str:
    """Return the sentence for a stage that somebody has cancelled."""
    return f"The stage {stage_id} was cancelled."


def failure_of(status: StageStatus, stage_id: str) -> SamzaError | None:
    """Return the error with which a stage's newest attempt has ended; None where it has not failed."""
    if not status.attempt or status.state not in (FAILED, CANCELLED, LOST):
        return None
    if status.error:
        return SamzaError.from_dict(dict(status.error))
    if status.state == LOST:
        hint = f"Try again: another runner takes its place. {IF_IT_DIES_AGAIN}"
        return StageLost(f"{how_lost(stage_id, status)}.", hint=hint, stage=stage_id)
    return StageCancelled(was_cancelled(stage_id), hint=_AFTER_A_CANCEL, stage=stage_id)


IF_IT_DIES_AGAIN = "If it dies again, look at the memory of its host, or give it more (spark.driver.memory)."


def how_lost(stage_id: str, status: StageStatus, why: str = "") -> str:
    """Return a sentence, without its end, on the runner of a stage that is lost.

    ``why`` is the reason where somebody knows it, as the rest of a sentence.
    """
    if status.silent_since is not None:
        since = datetime.fromtimestamp(status.silent_since, timezone.utc)
        return (
            f"The runner of the stage {stage_id} ({status.runner}) has given no sign of life since "
            f"{since:%H:%M:%S} UTC: {why or 'it is frozen, or its storage is'}"
        )
    if not status.runner:
        return f"The runner of the stage {stage_id} died (it never started){f': {why}' if why else ''}"
    killed = "it was killed, by hand or out of memory, or its host is lost"
    return f"The runner of the stage {stage_id} died ({status.runner}): {why or killed}"


def cancelled(handle: StageHandle, **facts: object) -> StageCancelled:
    """Return the error of an attempt that was cancelled."""
    about = {"stage": handle.stage_id, "run": handle.run_id, **facts}
    return StageCancelled(was_cancelled(handle.stage_id), hint=_AFTER_A_CANCEL, **about)
