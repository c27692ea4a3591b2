"""Facts of a task's manifest that progress is made of: few small values, which a page keeps of thousands of tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.records import understood
from airflow_samza.runs.records.epoch_records import Manifest
from airflow_samza.runs.records.folders import read_unsynced
from airflow_samza.systems.filesystems.filesystem import Filesystem


class Reached(NamedTuple):
    """The place to which a task has read a partition: the next offset, its end, its watermark (ms since 1970)."""

    stream_id: str
    partition: int
    offset: int
    ended: bool
    ends: int
    """End-of-stream messages received."""
    watermark: int | None


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The facts; ``ended``: the task has nothing more to do."""

    seconds: float
    read: Mapping[str, Mapping[str, int]]
    written: Mapping[str, Mapping[str, int]]
    facts: Mapping[str, Any]
    ended: bool
    reached: tuple[Reached, ...]


@understood("of a task's manifest")
def facts_of_manifest(manifest: Manifest) -> TaskFacts:
    """Return what a manifest tells."""
    return TaskFacts(
        manifest.seconds,
        manifest.read,
        {name: {"messages": staged.messages} for name, staged in manifest.staged.items()},
        manifest.facts,
        manifest.ended,
        tuple(_reached(manifest)),
    )


def read_task_facts(files: Filesystem, paths: Sequence[str]) -> list[TaskFacts | None]:
    """Return the facts of the manifests at these paths; None where there is none."""
    manifests = (read_unsynced(files, path, Manifest) for path in paths)
    return [facts_of_manifest(manifest) if manifest is not None else None for manifest in manifests]


def _reached(manifest: Manifest) -> Iterator[Reached]:
    control: Mapping[str, Any] = {} if manifest.checkpoint is None else manifest.checkpoint["control"]
    ends, marks = (
        {(entry["stream"], entry["partition"]): entry for entry in control.get(kind, ())}
        for kind in ("end_of_stream", "watermarks")
    )
    whole = manifest.checkpoint is None  # what this task read, it has read to the end
    for stream_id, offsets in manifest.next_offsets.items():
        for partition, offset in offsets.items():
            end = ends.get((stream_id, partition), {})
            mark = int(marks.get((stream_id, partition), {}).get("timestamp_of_last_emission", NONE_YET))
            yield Reached(
                stream_id,
                partition,
                offset,
                whole or bool(end.get("ended", False)),
                len(end.get("tasks", ())),
                None if mark in (NONE_YET, END_OF_TIME) else mark,
            )
