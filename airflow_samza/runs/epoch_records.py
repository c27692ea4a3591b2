"""What an epoch leaves on record: the intent before it runs, one manifest per task, and the commit made of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.control.messages import ControlMessage, from_json, message_type, to_json
from airflow_samza.errors import StageError, StageLost
from airflow_samza.runs.folders import StageFolder, adopt, read
from airflow_samza.systems.filesystem import Filesystem


@dataclass(frozen=True)
class InputIntent:
    """What the epoch reads of one input: the physical stream, the slice, and the writer's generation if the run wrote it."""

    stream: str
    slice: Mapping[str, Any]
    writer: str | None = None


@dataclass(frozen=True)
class Intent:
    """An epoch as it was decided before it ran; every attempt reads exactly this.

    ``inputs`` and ``outputs`` are by stream id; an output names the physical stream it goes to.
    """

    stage: str
    generation: str
    epoch: int
    tasks: int
    inputs: Mapping[str, InputIntent]
    outputs: Mapping[str, str]
    decided_at: float = field(default_factory=time.time)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "stage": self.stage,
            "generation": self.generation,
            "epoch": self.epoch,
            "tasks": self.tasks,
            "inputs": {name: {"stream": i.stream, "slice": i.slice, "writer": i.writer} for name, i in self.inputs.items()},
            "outputs": dict(self.outputs),
            "decided_at": self.decided_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Intent:
        """The intent that :meth:`to_dict` described."""
        inputs = {name: InputIntent(i["stream"], i["slice"], i["writer"]) for name, i in data["inputs"].items()}
        return cls(data["stage"], data["generation"], data["epoch"], data["tasks"], inputs, data["outputs"], data["decided_at"])


@dataclass(frozen=True)
class Staged:
    """One task's output to one stream: the system's description of what it staged, and the control messages it sent."""

    described: Mapping[str, Any]
    messages: int
    control: tuple[ControlMessage, ...] = ()


@dataclass(frozen=True)
class Manifest:
    """What one task read and staged. The first attempt that writes it wins; later ones adopt it and drop their own output.

    ``read`` are counts by stream id: ``messages``, ``control``, ``bytes``.
    """

    task: int
    epoch: int
    attempt: str
    seconds: float
    read: Mapping[str, Mapping[str, int]]
    staged: Mapping[str, Staged]
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "task": self.task,
            "epoch": self.epoch,
            "attempt": self.attempt,
            "seconds": self.seconds,
            "read": self.read,
            "staged": {
                name: {
                    "described": staged.described,
                    "messages": staged.messages,
                    "control": [{"type": int(message_type(message)), **to_json(message)} for message in staged.control],
                }
                for name, staged in self.staged.items()
            },
            "facts": self.facts,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Manifest:
        """The manifest that :meth:`to_dict` described."""
        staged = {
            name: Staged(
                item["described"],
                item["messages"],
                tuple(from_json(body["type"], body, stream=name, partition=-1, offset=None) for body in item["control"]),
            )
            for name, item in data["staged"].items()
        }
        return cls(data["task"], data["epoch"], data["attempt"], data["seconds"], data["read"], staged, data["facts"])


def read_intent(files: Filesystem, folder: StageFolder) -> Intent | None:
    """The intent of a stage's epoch, or None when nothing was decided yet."""
    record = read(files, folder.intent)
    return Intent.from_dict(record) if record is not None else None


def read_manifests(files: Filesystem, folder: StageFolder, intent: Intent) -> list[Manifest]:
    """All manifests of an epoch in task order; :class:`StageLost` when tasks have left none."""
    found: list[Manifest] = []
    missing: list[int] = []
    for task in range(intent.tasks):
        record = read(files, folder.manifest(intent.epoch, task))
        if record is None:
            missing.append(task)
        else:
            found.append(Manifest.from_dict(record))
    if missing:
        raise StageLost(
            f"The stage {intent.stage} (generation {intent.generation}) is not finished: "
            f"{len(missing)} of {intent.tasks} tasks have left no manifest, the first is task {missing[0]}.",
            hint="Submit the stage again: it runs the missing tasks and keeps the others' output.",
            stage=intent.stage,
            generation=intent.generation,
        )
    return found


def commit(files: Filesystem, folder: StageFolder, intent: Intent, manifests: list[Manifest]) -> dict[str, Any]:
    """The commit of an epoch: made once, of intent and manifests alone, and adopted by everybody who comes later."""
    if len(manifests) != intent.tasks:
        raise StageError(
            f"The stage {intent.stage} has {len(manifests)} manifests for {intent.tasks} tasks.",
            hint="This is a defect of airflow_samza; please report it with the run's folder.",
            stage=intent.stage,
        )
    control = {name: [message for manifest in manifests for message in _staged_control(manifest, name)] for name in intent.outputs}
    return adopt(
        files,
        folder.commit,
        {
            "stage": intent.stage,
            "generation": intent.generation,
            "epoch": intent.epoch,
            "attempts": [manifest.attempt for manifest in manifests],
            "control": control,
            "committed_at": time.time(),
        },
    )


def committed_control(commit_record: Mapping[str, Any], stream_id: str) -> tuple[ControlMessage, ...]:
    """The control entries of a commit for one output, in task order."""
    return tuple(
        from_json(body["type"], body, stream=stream_id, partition=-1, offset=None) for body in commit_record["control"].get(stream_id, ())
    )


def _staged_control(manifest: Manifest, stream_id: str) -> list[dict[str, Any]]:
    staged = manifest.staged.get(stream_id)
    if staged is None:
        return []
    return [{"type": int(message_type(message)), **to_json(message)} for message in staged.control]
