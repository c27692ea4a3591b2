"""Records of an epoch: the intent before it runs, one manifest per task, and the commit made of them.

Epoch n + 1 starts where the manifests of epoch n left off. A task that has ended, or has nothing to do in an epoch, is
left out of it, and its earlier manifest stands. A commit sums up all epochs before it, so that the older ones need not
be kept. Further records are written before the first epoch of a stage. The stage runner and its tasks write them;
progress, state and upkeep read them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_samza.control.messages import ControlMessage, from_json, message_type, to_json
from airflow_samza.errors import StageLost
from airflow_samza.records import durable, from_plain, understood, unreadable
from airflow_samza.runs.records.expectations import Checked, Rejection, Results, with_epoch
from airflow_samza.runs.records.folders import (
    KEPT,
    StageFolder,
    adopt,
    must_read,
    newest,
    read_fixed,
    read_report,
    read_unsynced,
)
from airflow_samza.runs.records.totals import Totals
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(frozen=True)
class TaskLeft:
    """The checkpoint of a task of an earlier run, and the description of its state's files; None: it left nothing."""

    checkpoint: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None


@durable("start of a stage")
@dataclass(frozen=True)
class StageStart:
    """The state of ``version`` by the tasks of a stage of this run; a task that is missing starts empty."""

    stage: str
    version: int
    tasks: Mapping[int, TaskLeft]


@durable("topics of a stage", 2, upgrades={1: lambda topics: {"topics": topics}})
@dataclass(frozen=True)
class StageTopics:
    """The identities of the run's own topics that a stage writes, by stream; None: the topic had none."""

    topics: Mapping[str, str | None]


@durable("note that a stage needs a runner", reports=True)
@dataclass(frozen=True)
class NeedsRunner:
    """A stage writes ``outputs`` that only a stage runner (the driver process) can publish."""

    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class InputIntent:
    """The part of one input that an epoch reads: stream, slice, and the writer's generation if the run wrote it.

    The slice bounds an epoch from above; where it begins, the task's checkpoint says. ``end`` is how the input ends
    where the slice does: for good (True), for this run only (False, rule C9), or as its own messages say (None).
    """

    stream: str
    slice: Mapping[str, Any]
    writer: str | None = None
    end: bool | None = None

    def __post_init__(self) -> None:
        """Reject offsets that are no ranges."""
        for begin, end in (self.slice or {}).get("offsets") or ():
            range(begin, end)


@durable("intent")
@dataclass(frozen=True)
class Intent:
    """An epoch as it was decided before it ran; every attempt reads exactly this.

    ``inputs`` and ``outputs`` are by stream id; an output names the physical stream it goes to. ``whole``: the epoch is
    all there is, so every input must end in it. ``active`` are the tasks that run (None: all), ``standing`` the epoch
    of the manifest from which each task starts, and ``limit`` after about how many messages a task leaves the rest to
    the next epoch. ``start`` is the path of the record that says what the first epoch starts from, where that is not
    nothing; ``keeps_state`` keeps state also of what has ended for good. ``shut_down``: a task has asked that all end,
    so they read nothing more. ``side_inputs`` are, by stream id, what the tables hold: always from the oldest offset
    on, whatever the epoch before had read.
    """

    stage: str
    generation: str
    epoch: int
    tasks: int
    inputs: Mapping[str, InputIntent]
    outputs: Mapping[str, str]
    decided_at: float = field(default_factory=lambda: time.time())  # the clock of a test, too
    whole: bool = True
    active: tuple[int, ...] | None = None
    standing: Mapping[int, int] = field(default_factory=dict)
    limit: int | None = None
    start: str | None = None
    keeps_state: bool = False
    shut_down: bool = False
    side_inputs: Mapping[str, InputIntent] = field(default_factory=dict)

    @property
    def running(self) -> Sequence[int]:
        """The tasks that run in this epoch."""
        return range(self.tasks) if self.active is None else self.active


Entry = Mapping[str, Any]
"""A control message as a record holds it: its JSON object, and its ``type``."""


@dataclass(frozen=True)
class Staged:
    """One task's output to one stream: the system's description of it, and the control messages that the task sent."""

    described: Mapping[str, Any]
    messages: int
    control: tuple[Entry, ...] = ()


@durable("manifest", later={"report": {}, "code": ""})
@dataclass(frozen=True)
class Manifest:
    """The record of what one task read and staged.

    The first attempt that writes it wins; later ones adopt it and drop their own output.

    ``read`` are counts by input: ``messages``, ``control``, ``bytes`` (of the columns that were read, in memory); those
    of side inputs are :attr:`read_aside`. ``checkpoint`` and ``state`` (a description
    of files) are what the task goes on from in its next epoch; None where it left nothing. ``ended``: there is no next
    epoch for it. ``follows_clock``: it wants an epoch now and then, also when no message has come. ``shuts_down_all``:
    it has asked that all tasks of the stage end. ``report`` are more counts of the task, for people and for progress.
    ``code`` is the digest of the callables that it ran; "": it is not known.
    """

    task: int
    epoch: int
    attempt: str
    seconds: float
    read: Mapping[str, Mapping[str, int]]
    staged: Mapping[str, Staged]
    facts: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: Mapping[str, Any] | None = None
    state: Mapping[str, Any] | None = None
    ended: bool = True
    follows_clock: bool = False
    shuts_down_all: bool = False
    report: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""

    @property
    def read_aside(self) -> Mapping[str, Mapping[str, int]]:
        """Counts of what was read of side inputs, into tables: ``messages``, ``control_messages``, ``bytes``."""
        counts: Mapping[str, Mapping[str, int]] = self.report.get("side_inputs", {})
        return counts

    @cached_property
    def checked(self) -> dict[str, list[Checked]]:
        """The findings of the task about expectations of streams, by stream id."""
        reports = {**self.report.get("inputs", {}), **self.report.get("outputs", {})}
        return {
            stream_id: [from_plain(Checked, one, "of a task's manifest") for one in report["expectations"]]
            for stream_id, report in reports.items()
            if report.get("expectations")
        }

    @cached_property
    @understood("of a task's manifest")
    def next_offsets(self) -> dict[str, dict[int, int]]:
        """The offsets that the task would read next, by input and partition."""
        if self.checkpoint is not None:
            by_stream = self.checkpoint["offsets"]
        else:
            by_stream = {
                stream_id: report["next_offsets"] for stream_id, report in self.report.get("inputs", {}).items()
            }
        return {s: {int(part): int(offset) for part, offset in offsets.items()} for s, offsets in by_stream.items()}


@durable("commit", later={"expectations": {}})
@dataclass(frozen=True)
class Commit:
    """The decision that an epoch counts: what of it is control messages, and the sums of the stage so far.

    ``attempts`` are those of the tasks whose output counts, ``standing`` is the epoch of each task's newest manifest,
    ``ended`` the tasks that have ended; ``committed_at`` in seconds since 1970. ``expectations`` are the results of the
    stage so far.
    """

    stage: str
    generation: str
    epoch: int
    tasks: int
    attempts: tuple[str, ...]
    control: Mapping[str, tuple[Entry, ...]]
    standing: Mapping[int, int]
    ended: frozenset[int]
    totals: Totals
    committed_at: float
    expectations: Results = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        """Return whether every task has ended: the stage is over."""
        return len(self.ended) >= self.tasks

    def control_messages(self, stream_id: str) -> tuple[ControlMessage, ...]:
        """The control messages that the tasks sent to a stream, in the order of the tasks."""
        return tuple(
            from_json(entry.get("type", -1), dict(entry), stream=stream_id, partition=-1, offset=None)
            for entry in self.control.get(stream_id, ())
        )


def newest_intent(files: Filesystem, folder: StageFolder) -> Intent | None:
    """The intent of a stage's newest epoch, or None when nothing was decided yet."""
    return newest(files, folder.epochs, lambda epoch: read_fixed(files, folder.intent(epoch), Intent))


def drop_what_cannot_count(files: Filesystem, folder: StageFolder, code: str) -> None:
    """Delete the manifests of an epoch that is not committed which a power failure tore, or which other code left.

    Those of an epoch that was rejected by an expectation go as well: its tasks run again.

    With other bodies of callables, the output of a stage of one epoch would be half of the one and half of the other. A
    stage of several epochs goes on from its last commit, whatever code made that.
    """
    intent = newest_intent(files, folder)
    if intent is None or read_commit(files, folder, intent.epoch) is not None:
        return
    manifests = set(files.list(folder.manifests(intent.epoch)))  # one listing, instead of a failed read for each task
    rejected = bool(manifests) and files.exists(folder.rejection(intent.epoch))
    for path in (folder.manifest(intent.epoch, task) for task in intent.running if f"{task}.json" in manifests):
        manifest = read_unsynced(files, path, Manifest)
        if manifest is None or rejected or (code and intent.whole and manifest.code not in ("", code)):
            KEPT.forget(files, path)
            files.delete(path)
    if rejected:
        files.delete_tree(folder.keys(intent.epoch))
        files.delete(folder.rejection(intent.epoch))


def read_manifest(files: Filesystem, folder: StageFolder, task: int, epoch: int) -> Manifest:
    """The manifest that a task left in an epoch."""
    return must_read(files, folder.manifest(epoch, task), Manifest)


def read_manifests(files: Filesystem, folder: StageFolder, intent: Intent) -> list[Manifest]:
    """All manifests of an epoch in task order; :class:`StageLost` when tasks have left none."""
    left = {task: read_unsynced(files, folder.manifest(intent.epoch, task), Manifest) for task in intent.running}
    missing = [task for task, manifest in left.items() if manifest is None]
    if missing:
        raise StageLost(
            f"The stage {intent.stage} (generation {intent.generation}) is not finished: "
            f"{len(missing)} of {len(intent.running)} tasks have left no manifest, the first is task {missing[0]}.",
            hint="Submit the stage again: it runs the missing tasks and keeps the others' output.",
            stage=intent.stage,
            generation=intent.generation,
        )
    manifests = [manifest for manifest in left.values() if manifest is not None]
    for task, one in zip(left, manifests, strict=True):
        if (one.task, one.epoch) != (task, intent.epoch):
            path = files.location(folder.manifest(intent.epoch, task))
            raise unreadable(path, f"it is the one of task {one.task} in epoch {one.epoch}")
    if intent.whole and len({manifest.code for manifest in manifests} - {""}) > 1:
        raise StageLost(
            f"Tasks of the stage {intent.stage} (generation {intent.generation}) have run different bodies of its "
            "callables: a runner of the former code was still at work.",
            hint="Submit the stage again: it runs the tasks of the former code anew.",
            stage=intent.stage,
            generation=intent.generation,
        )
    return manifests


def read_commit(files: Filesystem, folder: StageFolder, epoch: int) -> Commit | None:
    """The commit of an epoch, or None when it was not decided."""
    return read_fixed(files, folder.commit(epoch), Commit)


def newest_commit(files: Filesystem, folder: StageFolder, intent: Intent) -> Commit | None:
    """Return the newest commit of a stage whose newest epoch is that of the intent; None: there is none."""
    committed = read_commit(files, folder, intent.epoch)
    return read_commit(files, folder, intent.epoch - 1) if committed is None and intent.epoch > 0 else committed


def commit(
    files: Filesystem,
    folder: StageFolder,
    intent: Intent,
    manifests: Sequence[Manifest],
    former: Commit | None = None,
    seconds: float | None = None,
    expectations: Results | None = None,
) -> Commit:
    """The commit of an epoch, whose ``expectations`` have these results.

    Made once, of intent, manifests and the former commit alone, and adopted by everybody who comes later. ``seconds``
    is the time for which attempts have run the stage by now, where that is known.
    """
    if former is None and intent.epoch > 0:
        former = must_read(files, folder.commit(intent.epoch - 1), Commit)
    control = {
        name: tuple(
            entry for manifest in manifests if name in manifest.staged for entry in manifest.staged[name].control
        )
        for name in intent.outputs
    }
    standing = {**intent.standing, **dict.fromkeys(intent.running, intent.epoch)}
    ended = ended_tasks(manifests, former)
    totals = former.totals if former is not None else Totals(began_at=intent.decided_at)
    did = ((one.read, _written(one), one.facts, one.seconds) for one in manifests)
    return adopt(
        files,
        folder.commit(intent.epoch),
        Commit(
            stage=intent.stage,
            generation=intent.generation,
            epoch=intent.epoch,
            tasks=intent.tasks,
            attempts=tuple(manifest.attempt for manifest in manifests),
            control=control,
            standing=standing,
            ended=ended,
            totals=totals.plus(did).plus_epoch(seconds),
            committed_at=time.time(),
            expectations=with_epoch(former.expectations if former is not None else {}, expectations or {}),
        ),
    )


def ended_tasks(manifests: Sequence[Manifest], former: Commit | None) -> frozenset[int]:
    """Return the tasks that have ended when these manifests count behind the former commit."""
    before = former.ended if former is not None else frozenset()
    return frozenset(manifest.task for manifest in manifests if manifest.ended) | before


def rejection_of(files: Filesystem, folder: StageFolder, epoch: int, running: Sequence[int]) -> Rejection | None:
    """Return the rejection of what the tasks of an epoch have staged; None where none is about the present tries."""
    rejection = read_report(files, folder.rejection(epoch), Rejection)
    if rejection is None:
        return None
    manifests = [read_unsynced(files, folder.manifest(epoch, task), Manifest) for task in running]
    return rejection if tuple(m.attempt if m is not None else "" for m in manifests) == rejection.attempts else None


def _written(manifest: Manifest) -> dict[str, dict[str, int]]:
    return {
        name: {
            "messages": staged.messages,
            "control": len(staged.control),
            "bytes": _number(staged.described.get("bytes")),
        }
        for name, staged in manifest.staged.items()
    }


def control_entries(control: Sequence[ControlMessage]) -> tuple[Entry, ...]:
    """Return control messages as a record holds them."""
    return tuple({"type": int(message_type(message)), **to_json(message)} for message in control)


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
