"""Looks of a continuous run at an input whose messages arrive in files: what each found, decided once for all stages.

The plan is look 0. Every stage that reads the input reads the looks in their order, each to its end before the next
one, so all of them read the same; the last look is the end. What was read by then is on record beside the newest looks
only, and goes into the version of the state that the run leaves. The stage runner looks by it, and checks of a root
read it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.records import durable
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import adopt, must_read, numbers, read, write_once
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.systems.capabilities import TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem


@durable("look at an input")
@dataclass(frozen=True)
class Look:
    """A look that found something, or the end: then ``slice`` is None, and ``end`` says whether it is for good.

    ``known`` is the path of the record of all that was read up to it.
    """

    number: int
    slice: Mapping[str, Any] | None
    known: str
    end: bool | None = None


@durable("record of what was read of an input")
@dataclass(frozen=True)
class Intake:
    """The system's record of what was read."""

    known: Mapping[str, Any]


@dataclass(frozen=True)
class Looks:
    """The looks of a run at one input."""

    files: Filesystem
    run: RunPlan
    stream: BoundStream

    @property
    def path(self) -> str:
        """The folder of the looks."""
        return f"{self.run.folder.arrivals(self.run.generation)}/{safe(self.stream.stream_id)}"

    def at(self, number: int) -> str:
        """Return the path of a look."""
        return f"{self.path}/{number}.json"

    def find(self, number: int) -> Look | None:
        """Return a look; None while nobody has decided it."""
        return read(self.files, self.at(number), Look)

    def intake(self, number: int) -> Mapping[str, Any] | None:
        """Return the record of what was read up to a look; None when a later look has replaced it."""
        if number == 0:
            planned: Mapping[str, Any] = (self.stream.slice or {})["known"]
            return planned
        look = self.find(number)
        record = read(self.files, look.known, Intake) if look is not None else None
        return record.known if record is not None else None

    def decide(
        self, number: int, intake: Mapping[str, Any], slice_: Mapping[str, Any] | None = None, end: bool | None = None
    ) -> Look:
        """Decide a look; return the one that stands, which another stage may have decided before."""
        place = f"{self.path}/known/{number}-{uuid.uuid4().hex}.json"
        write_once(self.files, place, Intake(intake))
        reach("look-before-decision")
        standing = adopt(self.files, self.at(number), Look(number, slice_, place, end))
        reach("look-after-decision")
        if standing.known != place:
            self.files.delete(place)
        before = self.find(number - 1) if number > 1 else None
        if before is not None:
            self.files.delete(before.known)
        return standing

    def newest(self) -> int:
        """Return the number of the newest look; 0: the plan's is the only one."""
        return max(numbers(self.files, self.path), default=0)


def read_range(slice_: Mapping[str, Any], look: int = 0) -> dict[str, Any]:
    """Return the range of files for an intent: without the record, which only those need who look for new ones."""
    left = {name: value for name, value in slice_.items() if name not in ("known", "final")}
    return {"look": look, **left}


class FollowedArrivals:
    """The looks of one stage at one input, from the one that its newest intent names."""

    def __init__(
        self,
        files: Filesystem,
        run: RunPlan,
        stream: BoundStream,
        system: TakesArrivals,
        former: Mapping[str, Any] | None,
    ) -> None:
        self._looks = Looks(files, run, stream)
        self._stream = stream
        self._system = system
        self._pause = system.look_seconds(stream.spec)
        self._looked: float | None = None
        self._drained = False
        self.slice: Mapping[str, Any] = former if former is not None else read_range(stream.slice or {})
        """The range that is read now."""
        self.end: bool | None = None
        """The end of the input behind it, when the last look has been taken: for good (True) or for this run."""

    def advance(self, final: bool | None) -> None:
        """Go on to the next look, for when the range has been read; ``final``: the run is to end, and how.

        A drain still reads what has arrived by its first look, a stop only what was decided before.
        """
        if self.end is not None:
            return
        now = time.monotonic()
        if final is None and self._looked is not None and now - self._looked < self._pause:
            return
        number = int(self.slice["look"]) + 1
        look = self._looks.find(number) or self._decided(number, final)
        self._looked = now
        if look is None:
            return
        if look.slice is None:
            self.end = look.end
        else:
            self.slice = read_range(look.slice, number)
            self._looked = None  # there may be more

    def _decided(self, number: int, final: bool | None) -> Look | None:
        arrived = self._looks.intake(number - 1)
        if arrived is None:  # another stage has just decided the look
            return self._looks.find(number)
        if final is None or (final and not self._drained):
            self._drained = final is not None
            news = self._system.arrived(
                self._stream.spec,
                arrived,
                first_chunk=int(self.slice["first_chunk"]) + len(self.slice["chunks"]),
                all_of_it=final is not None,
            )
            if news["files"] or news["known"] != arrived:  # what of a table was only rewritten moves its record on
                return self._looks.decide(number, news["known"], {k: v for k, v in news.items() if k != "known"})
        return self._looks.decide(number, arrived, end=final) if final is not None else None


def intake_at_end(files: Filesystem, run: RunPlan, stream: BoundStream, reached: Sequence[int]) -> Mapping[str, Any]:
    """Return the record of what a run has read of an input; ``reached`` is by partition where its tasks have stopped.

    A task that ends the whole run may have left files unread: these, and the one in which it stopped, are no part of
    the record, so the next run reads them.
    """
    looks = Looks(files, run, stream)
    newest = looks.newest()
    intake = looks.intake(newest)
    if intake is None:
        raise AssertionError(f"the newest look at {stream.stream_id!r} has no record of what was read")
    unread: dict[str, int] = {}
    for number in range(newest, -1, -1):
        slice_ = (stream.slice or {}) if number == 0 else must_read(files, looks.at(number), Look).slice
        if slice_ is None:
            continue
        for file in _unread_of(slice_, reached):
            unread[str(file.get("name", file["path"]))] = int(file["size"])
        if all(at >= int(first) for at, (first, _) in zip(reached, slice_["offsets"], strict=True)):
            break
    if not unread:
        return intake
    counts = {"files": intake["files"] - len(unread), "bytes": intake["bytes"] - sum(unread.values())}
    if "unread" in intake:  # a table, whose files are known by its snapshots
        return {**intake, **counts, "unread": unread}
    return {
        **intake,
        **counts,
        "names": {name: entry for name, entry in intake["names"].items() if name not in unread},
    }


def _unread_of(slice_: Mapping[str, Any], reached: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """Yield the files of a range of which tasks that have stopped there have not read all."""
    count = len(slice_["chunks"])
    for partition, (at, (first, end)) in enumerate(zip(reached, slice_["offsets"], strict=True)):
        if at >= end:
            continue
        begin = max(at - first, 0) * count // (end - first)  # all chunks have as many offsets
        for chunk in slice_["chunks"][begin:]:
            for file, _, _ in chunk[partition]:
                yield slice_["files"][file]
