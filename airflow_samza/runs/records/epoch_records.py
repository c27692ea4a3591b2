"""What an epoch leaves on record: the intent before it runs, one manifest per task, and the commit made of them.

Epoch n + 1 starts where the manifests of epoch n left off. A task that has ended, or has nothing to do in an epoch, is
left out of it, and its earlier manifest stands. A commit sums up all epochs before it, so that the older ones need not
be kept.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.control.messages import ControlMessage, from_json, message_type, to_json
from airflow_samza.errors import StageError, StageLost
from airflow_samza.records import decoder
from airflow_samza.runs.records.folders import StageFolder, adopt, must_read, numbers, read
from airflow_samza.runs.records.totals import Totals
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(frozen=True)
class InputIntent:
    """What the epoch reads of one input.

    The physical stream, the slice, and the writer's generation if the run wrote it.

    The slice bounds an epoch from above; where it begins, the task's checkpoint says. ``end`` is how the input ends
    where the slice
    does: for good (True), for this run only (False, rule C9), or as its own messages say (None).
    """

    stream: str
    slice: Mapping[str, Any]
    writer: str | None = None
    end: bool | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> InputIntent:
        """The input that an intent described; offsets that are no ranges raise what unpacking them raises."""
        made = cls(**data)
        for begin, end in (made.slice or {}).get("offsets") or ():
            range(begin, end)
        return made


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
    decided_at: float = field(default_factory=time.time)
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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "stage": self.stage,
            "generation": self.generation,
            "epoch": self.epoch,
            "tasks": self.tasks,
            "inputs": {name: dict(vars(read)) for name, read in self.inputs.items()},
            "side_inputs": {name: dict(vars(read)) for name, read in self.side_inputs.items()},
            "outputs": dict(self.outputs),
            "decided_at": self.decided_at,
            "whole": self.whole,
            "active": self.active,
            "standing": {str(task): epoch for task, epoch in self.standing.items()},
            "limit": self.limit,
            "start": self.start,
            "keeps_state": self.keeps_state,
            "shut_down": self.shut_down,
        }

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> Intent:
        """The intent that :meth:`to_dict` described."""
        plain = dict(data)
        for kind in ("inputs", "side_inputs"):
            plain[kind] = {name: InputIntent.from_dict(found) for name, found in data[kind].items()}
        plain["active"] = tuple(data["active"]) if data["active"] is not None else None
        plain["standing"] = _by_task(data["standing"])
        return cls(**plain)


@dataclass(frozen=True)
class Staged:
    """One task's output to one stream: the system's description of what it staged, and the control messages it sent."""

    described: Mapping[str, Any]
    messages: int
    control: tuple[ControlMessage, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What one task read and staged.

    The first attempt that writes it wins; later ones adopt it and drop their own output.

    ``read`` are counts by stream id: ``messages``, ``control``, ``bytes``. ``checkpoint`` and ``state`` (a description
    of files) are what the task goes on from in its next epoch; None where it left nothing. ``ended``: there is no next
    epoch for it. ``follows_clock``: it wants an epoch now and then, also when no message has come. ``shuts_down_all``:
    it has asked that all tasks of the stage end.
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

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "task": self.task,
            "epoch": self.epoch,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "read": self.read,
            "staged": {
                name: {"described": staged.described, "messages": staged.messages, "control": _entries(staged.control)}
                for name, staged in self.staged.items()
            },
            "facts": self.facts,
            "checkpoint": self.checkpoint,
            "state": self.state,
            "ended": self.ended,
            "follows_clock": self.follows_clock,
            "shuts_down_all": self.shuts_down_all,
        }

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        """The manifest that :meth:`to_dict` described."""
        staged = {
            name: Staged(item["described"], item["messages"], _messages(item["control"], name))
            for name, item in data["staged"].items()
        }
        return cls(
            data["task"],
            data["epoch"],
            data["attempt"],
            data["seconds"],
            data["read"],
            staged,
            data["facts"],
            data["checkpoint"],
            data["state"],
            data["ended"],
            data["follows_clock"],
            data["shuts_down_all"],
        )


@dataclass(frozen=True)
class Commit:
    """The decision that an epoch counts: what of it is control messages, and the sums of the stage so far.

    ``standing`` is the epoch of each task's newest manifest, ``ended`` the tasks that have ended.
    """

    epoch: int
    tasks: int
    control: Mapping[str, tuple[ControlMessage, ...]]
    standing: Mapping[int, int]
    ended: frozenset[int]
    totals: Totals

    @property
    def is_last(self) -> bool:
        """Return whether every task has ended: the stage is over."""
        return len(self.ended) >= self.tasks

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> Commit:
        """The commit of a record."""
        return cls(
            epoch=data["epoch"],
            tasks=data["tasks"],
            control={name: _messages(entries, name) for name, entries in data["control"].items()},
            standing=_by_task(data["standing"]),
            ended=frozenset(data["ended"]),
            totals=Totals.from_dict(data["totals"]),
        )


def newest_intent(files: Filesystem, folder: StageFolder) -> Intent | None:
    """The intent of a stage's newest epoch, or None when nothing was decided yet."""
    for epoch in reversed(numbers(files, folder.epochs)):
        record = read(files, folder.intent(epoch))
        if record is not None:  # a process may have died between the folder and the intent
            return Intent.from_dict(record)
    return None


def read_manifest(files: Filesystem, folder: StageFolder, task: int, epoch: int) -> Manifest:
    """The manifest that a task left in an epoch."""
    return Manifest.from_dict(must_read(files, folder.manifest(epoch, task)))


def read_manifests(files: Filesystem, folder: StageFolder, intent: Intent) -> list[Manifest]:
    """All manifests of an epoch in task order; :class:`StageLost` when tasks have left none."""
    found: list[Manifest] = []
    missing: list[int] = []
    for task in intent.running:
        record = read(files, folder.manifest(intent.epoch, task))
        if record is None:
            missing.append(task)
        else:
            found.append(Manifest.from_dict(record))
    if missing:
        raise StageLost(
            f"The stage {intent.stage} (generation {intent.generation}) is not finished: "
            f"{len(missing)} of {len(intent.running)} tasks have left no manifest, the first is task {missing[0]}.",
            hint="Submit the stage again: it runs the missing tasks and keeps the others' output.",
            stage=intent.stage,
            generation=intent.generation,
        )
    return found


def read_commit(files: Filesystem, folder: StageFolder, epoch: int) -> Commit | None:
    """The commit of an epoch, or None when it was not decided."""
    record = read(files, folder.commit(epoch))
    return Commit.from_dict(record) if record is not None else None


def commit(
    files: Filesystem, folder: StageFolder, intent: Intent, manifests: Sequence[Manifest], former: Commit | None = None
) -> Commit:
    """The commit of an epoch.

    Made once, of intent, manifests and the former commit alone, and adopted by everybody who comes later.
    """
    if [manifest.task for manifest in manifests] != list(intent.running):
        raise StageError(
            f"The stage {intent.stage} has {len(manifests)} manifests for {len(intent.running)} tasks.",
            hint="This is a defect of airflow_samza; please report it with the run's folder.",
            stage=intent.stage,
        )
    if former is None and intent.epoch > 0:
        former = Commit.from_dict(must_read(files, folder.commit(intent.epoch - 1)))
    control = {
        name: [entry for manifest in manifests for entry in _staged_control(manifest, name)] for name in intent.outputs
    }
    standing = {**intent.standing, **dict.fromkeys(intent.running, intent.epoch)}
    ended = {manifest.task for manifest in manifests if manifest.ended} | (
        former.ended if former is not None else frozenset()
    )
    totals = former.totals if former is not None else Totals(began_at=intent.decided_at)
    record = adopt(
        files,
        folder.commit(intent.epoch),
        {
            "stage": intent.stage,
            "generation": intent.generation,
            "epoch": intent.epoch,
            "tasks": intent.tasks,
            "attempts": [manifest.attempt for manifest in manifests],
            "control": control,
            "standing": {str(task): epoch for task, epoch in standing.items()},
            "ended": sorted(ended),
            "totals": _added(totals, manifests).to_dict(),
            "committed_at": time.time(),
        },
    )
    return Commit.from_dict(record)


def _added(totals: Totals, manifests: Sequence[Manifest]) -> Totals:
    for manifest in manifests:
        written = {
            name: {
                "messages": staged.messages,
                "control": len(staged.control),
                "bytes": _number(staged.described.get("bytes")),
            }
            for name, staged in manifest.staged.items()
        }
        totals = totals.plus(manifest.read, written, manifest.facts, manifest.seconds)
    return totals.plus_epoch()


def _staged_control(manifest: Manifest, stream_id: str) -> list[dict[str, Any]]:
    staged = manifest.staged.get(stream_id)
    return _entries(staged.control) if staged is not None else []


def _entries(control: Sequence[ControlMessage]) -> list[dict[str, Any]]:
    return [{"type": int(message_type(message)), **to_json(message)} for message in control]


def _messages(entries: Sequence[Mapping[str, Any]], stream_id: str) -> tuple[ControlMessage, ...]:
    return tuple(
        from_json(int(body["type"]), dict(body), stream=stream_id, partition=-1, offset=None) for body in entries
    )


def _by_task(data: Mapping[str, int]) -> dict[int, int]:
    return {int(task): epoch for task, epoch in data.items()}


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
