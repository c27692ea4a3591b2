"""Positions of the tasks of a stage between two epochs, and the tasks that have something to do in the next one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.control.end_of_stream import task_partitions
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.progress.run_costs import counts_messages, of_size
from airflow_samza.runs.records.epoch_records import InputIntent, Manifest

Place = tuple[str, int]


class TaskPosition:
    """One task: its checkpoint, as its newest manifest has it (None: it has not run), and whether it has ended."""

    def __init__(self, plan: ExecutionPlan, stage_id: str, task: int, checkpoint: Mapping[str, Any] | None) -> None:
        self.owned: list[Place] = task_partitions(plan, stage_id, task)
        self.ended = False
        self.follows_clock = False
        self._checkpoint: Mapping[str, Any] = checkpoint or {}
        self._tried: object = None

    def take(self, manifest: Manifest) -> None:
        """Move on to where an epoch has left the task."""
        self._checkpoint = manifest.checkpoint or {}
        self.ended = manifest.ended
        self.follows_clock = manifest.follows_clock

    def offset(self, stream_id: str, partition: int, first: int = 0) -> int:
        """Return the next offset to read; ``first`` where nothing was read yet."""
        offset = self._checkpoint.get("offsets", {}).get(stream_id, {}).get(str(partition))
        return first if offset is None else int(offset)

    def left(self, inputs: Mapping[str, InputIntent]) -> list[Place]:
        """Return the partitions of which something is available: messages, or the end."""
        over = self._over()
        return [place for place in self.owned if place not in over and self._is_left(place, inputs[place[0]])]

    def _over(self) -> set[Place]:
        """Return the partitions that have ended."""
        ends = self._checkpoint.get("control", {}).get("end_of_stream", ())
        return {(entry["stream"], entry["partition"]) for entry in ends if entry["ended"]}

    def _is_left(self, place: Place, read: InputIntent) -> bool:
        offsets = read.slice.get("offsets")
        if offsets is None or read.end is not None:
            return True
        first, bound = offsets[place[1]]
        return self.offset(*place, first) < int(bound)

    def has_work(self, inputs: Mapping[str, InputIntent]) -> bool:
        """Return True if the next epoch can read something that the last one could not."""
        return not self.ended and bool(self.left(inputs)) and self._now(inputs) != self._tried

    def tries(self, inputs: Mapping[str, InputIntent]) -> None:
        """Note that the task is part of an epoch with these bounds.

        If it comes no further, only other bounds are worth another one.
        """
        self._tried = self._now(inputs)

    def _now(self, inputs: Mapping[str, InputIntent]) -> object:
        now = []
        over = self._over()  # an end may be all that an epoch has taken, and has no offset of its own
        for stream_id, partition in self.owned:
            read = inputs[stream_id]
            offsets = read.slice.get("offsets")
            bound = offsets[partition][1] if offsets is not None else None
            now.append((self.offset(stream_id, partition), bound, read.end, (stream_id, partition) in over))
        return now


def lag(positions: Iterable[TaskPosition], inputs: Mapping[str, InputIntent]) -> int:
    """Return how many offsets are available and not read, where they are known."""
    behind = 0
    for position in positions:
        for stream_id, partition in position.left(inputs) if not position.ended else ():
            if counts_messages(inputs[stream_id].slice):
                first, bound = inputs[stream_id].slice["offsets"][partition]
                behind += max(int(bound) - position.offset(stream_id, partition, int(first)), 0)
    return behind


def most_messages(positions: Iterable[TaskPosition], inputs: Mapping[str, InputIntent]) -> int | None:
    """Return the number of messages that tasks read at most, of files by their size; None where nobody knows."""
    positions = list(positions)
    read = {stream_id for position in positions for stream_id, _ in position.owned}
    slices = [inputs[stream_id].slice for stream_id in read]
    uncounted = [of_size(slice_) for slice_ in slices if not counts_messages(slice_)]
    if None in uncounted:
        return None
    return lag(positions, inputs) + sum(count for count in uncounted if count is not None)
