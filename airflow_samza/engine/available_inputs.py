"""The next epoch of a stage: inputs that it may read, with a bound for each, and tasks that have something to do in it.

Some inputs have ends that are not in their data. The loop of a stage asks before each epoch where its tasks stand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.control.end_of_stream import task_partitions
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.prepare.input_positions import replaced_while_running
from airflow_samza.prepare.shared_sections import followed, section_offsets
from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, BoundStream, RunPlan, counts_messages, of_size, range_end
from airflow_samza.runs.state_history.arrivals import FollowedArrivals, read_range
from airflow_samza.systems.capabilities import (
    HasSections,
    RemembersWriters,
    ReplacesSlots,
    ReportsNews,
    Superseded,
    TakesArrivals,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.sections import described
from airflow_samza.systems.system import System

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


class AvailableInputs:
    """The inputs of a stage as they are now.

    ``external`` inputs have the slice that the plan fixed, unless they go on and the run is continuous; ``own`` are
    topics of the run, read as far as their writers have published. An input that an intent has ended stays as it was
    ended. ``positions`` are the tasks',
    kept up to date by the caller: what they have read may not be written anew.
    """

    def __init__(
        self,
        files: Filesystem,
        systems: Mapping[str, System],
        run: RunPlan,
        spec: ApplicationSpec,
        inputs: Mapping[str, BoundStream],
        intent: Intent | None,
        positions: Mapping[int, TaskPosition],
    ) -> None:
        self._systems = systems
        self._positions = positions
        self._run = run
        self._streams = inputs
        self._live = {stream_id for stream_id in inputs if not run.is_own(stream_id) and _goes_on(run, spec, stream_id)}
        self._arriving = {
            stream_id: FollowedArrivals(
                files,
                run,
                inputs[stream_id],
                system,
                intent.inputs[stream_id].slice if intent is not None else None,
            )
            for stream_id in sorted(self._live)
            if "chunks" in (inputs[stream_id].slice or {})
            and isinstance(system := systems[inputs[stream_id].system], TakesArrivals)
        }
        self._ready: dict[str, InputIntent] = {
            stream_id: self._first(stream_id) for stream_id in inputs if not self._grows(stream_id)
        }
        self._ended: dict[str, InputIntent] = {}
        self._looked: dict[str, Mapping[str, Any]] = {
            stream_id: inputs[stream_id].slice or {} for stream_id in self._live
        }
        """The slices as of which the inputs that go on were looked at last, by an earlier attempt, too."""
        if intent is not None:
            self._looked.update({stream_id: intent.inputs[stream_id].slice for stream_id in self._live})
            self._ended = {
                stream_id: read
                for stream_id, read in intent.inputs.items()
                if read.end is not None and (self._ready.get(stream_id) != read)
            }

    @property
    def unended(self) -> bool:
        """Return whether there are external inputs whose end is not decided."""
        return any(not self._run.is_own(stream_id) and stream_id not in self._ended for stream_id in self._streams)

    @property
    def live(self) -> frozenset[str]:
        """The external inputs that are unbounded."""
        return frozenset(self._live - set(self._ended))

    def _grows(self, stream_id: str) -> bool:
        return self._run.is_own(stream_id) or stream_id in self._live or self._follows(stream_id)

    def _follows(self, stream_id: str) -> bool:
        return followed(self._streams[stream_id].slice) is not None

    def look(self) -> dict[str, InputIntent]:
        """Return every input as it is now; a topic is asked again only when it has news."""
        for stream_id, bound in self._streams.items():
            if stream_id in self._arriving:
                self._ready[stream_id] = self._arrived(stream_id, None)
            elif self._grows(stream_id) and stream_id not in self._ended:
                available = self._ready.get(stream_id)
                system = self._systems[bound.system]
                # a system without a cheap answer is asked for all
                if (
                    available is None
                    or not isinstance(system, ReportsNews)
                    or system.has_news(bound.spec, available.slice)
                ):
                    self._ready[stream_id] = self._now(stream_id, bound)
        return {stream_id: self._ended.get(stream_id) or self._ready[stream_id] for stream_id in self._streams}

    def end(self, final: bool, positions: Iterable[TaskPosition]) -> None:
        """End the external inputs: a drain ends unbounded ones after the messages that have arrived by now.

        Else where they have been read to.
        """
        for stream_id in self._arriving.keys() - self._ended.keys():
            read = self._arrived(stream_id, final)
            if read.end is not None:
                self._ended[stream_id] = read
        available = self.look()
        for stream_id, read in available.items():
            if self._run.is_own(stream_id) or stream_id in self._ended or stream_id in self._arriving:
                continue
            offsets = read.slice.get("offsets")
            if offsets is not None and not (final and stream_id in self._live):
                reached = _reached(stream_id, offsets, positions)
                read = dataclasses.replace(read, slice={**read.slice, "offsets": reached})
            self._ended[stream_id] = dataclasses.replace(read, end=final)

    def _arrived(self, stream_id: str, final: bool | None) -> InputIntent:
        """Return what is read now of an input whose messages arrive in files; the next look follows its last one."""
        arriving = self._arriving[stream_id]
        if stream_id not in self._ended and self._is_read(stream_id, arriving.slice["offsets"]):
            arriving.advance(final)
        return InputIntent(self._streams[stream_id].spec.name, arriving.slice, None, arriving.end)

    def _is_read(self, stream_id: str, offsets: list[list[int]]) -> bool:
        """Return whether all tasks have read a range to its end."""
        return all(
            position.ended or position.offset(stream_id, partition, int(first)) >= int(end)
            for partition, (first, end) in enumerate(offsets)
            for position in self._positions.values()
            if (stream_id, partition) in position.owned
        )

    def _first(self, stream_id: str) -> InputIntent:
        bound = self._streams[stream_id]
        slice_ = bound.slice or {}
        if "chunks" in slice_:
            slice_ = read_range(slice_)
        end = None  # an input whose offsets are counted while it is read ends by itself
        if slice_.get("offsets") is not None:
            end = range_end(bound.slice or {})
            if end is None and "sections" not in slice_:
                end = True  # all that there is: no message of a bounded topic marks its end
        return InputIntent(bound.spec.name, slice_, None, end)

    def _now(self, stream_id: str, bound: BoundStream) -> InputIntent:
        system = self._systems[bound.system]
        slice_ = system.slice(bound.spec)
        if self._run.is_own(stream_id):
            return InputIntent(bound.spec.name, slice_, bound.spec.name.rpartition("/")[2])
        if self._follows(stream_id):
            return self._section_now(stream_id, bound, system, slice_)
        self._reject_superseded(stream_id, bound, system)
        self._looked[stream_id] = slice_
        planned = (bound.slice or {}).get("offsets")
        if planned is not None:  # it begins at the plan's offset
            heads = [int(head) for _, head in slice_["offsets"]]
            slice_["offsets"] = [
                [int(first), max(int(first), head)] for (first, _), head in zip(planned, heads, strict=True)
            ]
        return InputIntent(bound.spec.name, slice_)

    def _section_now(
        self, stream_id: str, bound: BoundStream, system: System, slice_: Mapping[str, Any]
    ) -> InputIntent:
        """Return what the writer of a section has written by now; what another one writes is no news."""
        assert bound.slice is not None
        assert isinstance(system, HasSections)
        named = bound.slice["sections"][0]
        producer, generation = named["producer"], named["generation"]
        by = system.successor(bound.spec, producer) if isinstance(system, ReplacesSlots) else None
        newer = system.standing(bound.spec, by or producer) if isinstance(system, RemembersWriters) else None
        if newer is not None and (by is not None or Generation.parse(newer) > Generation.parse(generation)):
            what = Superseded(producer, generation, newer, 0, 0, by or producer)
            raise replaced_while_running(self._run, stream_id, what)
        own = [one for one in system.sections(bound.spec, slice_) if described(one) == named]
        parts = {name: bound.slice[name] for name in ("sections", "sections_final")}
        return InputIntent(
            bound.spec.name, {**slice_, "offsets": section_offsets(slice_, own), **parts}, named["generation"]
        )

    def _reject_superseded(self, stream_id: str, bound: BoundStream, system: System) -> None:
        """Reject an input of which a writer has replaced what tasks of this run, or a run before, have read."""
        former = self._looked[stream_id]
        planned = (bound.slice or {}).get("offsets")
        if planned is None or "commit" not in former or not isinstance(system, HasSections):
            return
        began = (bound.slice or {}).get("first") or [int(first) for first, _ in planned]
        heads = [[int(first), int(end)] for (first, _), (_, end) in zip(planned, former["offsets"], strict=True)]
        reached = [end for _, end in _reached(stream_id, heads, self._positions.values())]
        successor = system.superseded(bound.spec, former, began, reached)
        if successor:
            raise replaced_while_running(self._run, stream_id, successor[0])


def _goes_on(run: RunPlan, spec: ApplicationSpec, stream_id: str) -> bool:
    stream = spec.inputs[stream_id]
    # A run that is compared with another one reads what that read, and nothing that comes later.
    return run.mode == CONTINUOUS and run.compares is None and not stream.bounded and not stream.shared


def _reached(stream_id: str, offsets: list[list[int]], positions: Iterable[TaskPosition]) -> list[list[int]]:
    """Return the input range, cut off where the tasks have read to.

    What one task of several has read of a broadcast, the others read, too.
    """
    range_ = []
    standing = list(positions)
    for partition, (first, bound) in enumerate(offsets):
        read = [p.offset(stream_id, partition, int(first)) for p in standing if (stream_id, partition) in p.owned]
        range_.append([int(first), min(int(bound), max(read, default=int(first)))])
    return range_
