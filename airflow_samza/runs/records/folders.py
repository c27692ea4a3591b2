"""Paths of a run's records, and reading and writing them: once, or replaced whole.

A file that decides something (plan, attempt, intent, manifest, commit, result) is written by ``put_if_absent``: the
first writer wins and everybody adopts it. A file that only tells (status, heartbeat) is replaced whole. Used wherever
records are read or written: by the plan step, runners, upkeep, the page and the command line.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from airflow_samza.errors import RecordUnreadable, TopicError
from airflow_samza.records import HINT, decode, encode
from airflow_samza.runs.records.names import Generation, run_folder, safe
from airflow_samza.systems.filesystems.filesystem import Filesystem

KEPT_SECONDS = 60.0
_KEPT_AT_MOST = 256
_LARGEST_KEPT = 1 << 20


class KeptRecords:
    """Bytes of records that never change, by their whole path, kept for a while where reading one is charged.

    A run's folder may be deleted, and made again under the same name. Nobody deletes a run within the minute in which
    it is read, so a record is kept no longer than that. On a disk nothing is kept: reading costs less than being wrong.
    Looks at the state of a stage go through it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def read(self, files: Filesystem, path: str) -> bytes | None:
        """Return the bytes of a record that never changes; None when there is none yet."""
        if files.pace.is_free:
            return _found(files, path)
        with self._lock:
            since, data = self._kept.get(files.location(path), (0.0, b""))
        if data and time.monotonic() - since < KEPT_SECONDS:
            return data
        found = _found(files, path)
        if found is not None:
            self.keep(files, path, found)
        return found

    def keep(self, files: Filesystem, path: str, data: bytes) -> None:
        """Remember a record that this process has just read or written."""
        if files.pace.is_free or len(data) > _LARGEST_KEPT:
            return
        where = files.location(path)
        with self._lock:
            self._kept.pop(where, None)
            self._kept[where] = (time.monotonic(), data)
            if len(self._kept) > _KEPT_AT_MOST:
                self._kept.popitem(last=False)

    def forget(self, files: Filesystem, path: str) -> None:
        """Read a record anew the next time: it is deleted."""
        with self._lock:
            self._kept.pop(files.location(path), None)


KEPT = KeptRecords()
"""The records that this process keeps."""


T = TypeVar("T")


def _found(files: Filesystem, path: str) -> bytes | None:
    try:
        return files.read(path)
    except FileNotFoundError:
        return None


def write_once(files: Filesystem, path: str, record: object, *, durable: bool = True) -> bool:
    """Write a record unless there is one; return whether this call wrote it.

    One that is not ``durable`` does not wait for the disk, and is read by :func:`read_unsynced`.
    """
    return files.put_if_absent(path, encode(record), durable=durable)


def adopt(files: Filesystem, path: str, record: T) -> T:
    """Write a record unless there is one, and return the one that stands."""
    data = encode(record)
    if files.put_if_absent(path, data):
        KEPT.keep(files, path, data)
        return decode(type(record), data, files.location(path))
    return must_read(files, path, type(record))


def replace(files: Filesystem, path: str, record: object) -> None:
    """Write a record that only reports, in place of the one before."""
    files.put(path, encode(record))


def read(files: Filesystem, path: str, kind: type[T]) -> T | None:
    """Return the record at a path, or None when there is none."""
    data = _found(files, path)
    return None if data is None else decode(kind, data, files.location(path))


def read_fixed(files: Filesystem, path: str, kind: type[T]) -> T | None:
    """Return a record that is written once and deleted only with its run; None when there is none."""
    data = KEPT.read(files, path)
    return None if data is None else decode(kind, data, files.location(path))


def read_unsynced(files: Filesystem, path: str, kind: type[T]) -> T | None:
    """Return a record that is written once and did not wait for the disk; None also for one that a power failure tore.

    Such a file is empty, shorter, or has zeros, which no JSON has.
    """
    data = _found(files, path)
    if data is None or b"\0" in data or not data.rstrip().endswith(b"}"):
        return None
    return decode(kind, data, files.location(path))


def read_report(files: Filesystem, path: str, kind: type[T]) -> T | None:
    """Return a record that only reports; None for a damaged one, whose place the next one takes."""
    try:
        return read(files, path, kind)
    except RecordUnreadable:
        return None


def must_read(files: Filesystem, path: str, kind: type[T]) -> T:
    """Return a record that is written once; that it is missing is an error."""
    record = read_fixed(files, path, kind)
    if record is None:
        raise missing_record(files, path)
    return record


def missing_record(files: Filesystem, path: str) -> TopicError:
    """Return the error for a record that has to be there."""
    where = files.location(path)
    return TopicError(f"The run record {where} is missing.", hint=f"Was the run's folder deleted? {HINT}", path=where)


def numbers(files: Filesystem, folder: str) -> list[int]:
    """The numbers of the records or folders in a folder, ascending."""
    names = (name.removesuffix(".json") for name in files.list(folder))
    return sorted(int(name) for name in names if name.isdigit())


def newest(files: Filesystem, folder: str, record: Callable[[int], T | None]) -> T | None:
    """Return what ``record`` gives for the highest number in a folder for which it gives anything; else None.

    A numbered folder without its first record belongs to nobody yet: a process is about to write that, or has died.
    """
    records = (record(number) for number in reversed(numbers(files, folder)))
    return next((one for one in records if one is not None), None)


@dataclass(frozen=True)
class StageFolder:
    """The records of one generation of a stage."""

    path: str

    @property
    def epochs(self) -> str:
        """The folder of epochs, numbered from 0; a staged run has one."""
        return f"{self.path}/epochs"

    def intent(self, epoch: int) -> str:
        """Return the path of what an epoch reads, which is written before anything runs."""
        return f"{self.path}/epochs/{epoch}/intent.json"

    def commit(self, epoch: int) -> str:
        """The decision: from here on the epoch's output counts."""
        return f"{self.path}/epochs/{epoch}/commit.json"

    def rejection(self, epoch: int) -> str:
        """The decision that what the tasks of an epoch have staged does not meet an expectation; others may follow."""
        return f"{self.path}/epochs/{epoch}/rejected.json"

    def keys(self, epoch: int) -> str:
        """The folder of the keys of what an epoch wrote, until it is committed: by them repeated keys are found."""
        return f"{self.path}/keys/{epoch}"

    @property
    def result(self) -> str:
        """Written when the stage is over and every output has been published."""
        return f"{self.path}/result.json"

    @property
    def decision(self) -> str:
        """Written when somebody has approved or rejected outputs of the stage that wait for that."""
        return f"{self.path}/decision.json"

    @property
    def published(self) -> str:
        """Written when approved outputs of the stage have been published."""
        return f"{self.path}/published.json"

    @property
    def needs_runner(self) -> str:
        """Written before the first intent of a stage whose output only its runner can publish (tables of Spark)."""
        return f"{self.path}/needs-runner.json"

    @property
    def topics(self) -> str:
        """The identities of the run's own topics that the stage writes, noted before its first epoch.

        Another one is not written to.
        """
        return f"{self.path}/topics.json"

    @property
    def abort(self) -> str:
        """Written when the stage failed and nobody will try again: those who read what it writes stop."""
        return f"{self.path}/abort.json"

    @property
    def states(self) -> str:
        """The folder of state files, by epoch."""
        return f"{self.path}/state"

    def state(self, epoch: int, writer: str) -> str:
        """The folder for the state files of one try at one task."""
        return f"{self.path}/state/{epoch}/{writer}"

    @property
    def attempts(self) -> str:
        """The folder of attempts, numbered from 1."""
        return f"{self.path}/attempts"

    def attempt(self, number: int, record: str) -> str:
        """A record of one attempt: ``request``, ``status``, ``cancel``, or the ``program`` that its tasks run."""
        return f"{self.path}/attempts/{number}/{record}.json"

    def manifests(self, epoch: int) -> str:
        """The folder of an epoch's manifests."""
        return f"{self.path}/manifests/{epoch}"

    def manifest(self, epoch: int, task: int) -> str:
        """Return the path of what one task read and staged."""
        return f"{self.path}/manifests/{epoch}/{task}.json"

    def note(self, name: str) -> str:
        """A file that one try at a task leaves for its own later section."""
        return f"{self.path}/notes/{name}"


def rows_published(application: str, stream_id: str) -> str:
    """Return the path of the note of how many rows runs have published to an output, where that is compared."""
    return f"rows/{safe(application)}/{safe(stream_id)}.json"


@dataclass(frozen=True)
class RunFolder:
    """The records of one run of an application."""

    application: str
    run_id: str

    @property
    def path(self) -> str:
        """The folder, from the root."""
        return run_folder(self.application, self.run_id)

    def plan(self, generation: int) -> str:
        """A plan of the run; a cleared ``plan`` task writes another generation."""
        return f"{self.path}/plan/{generation}.json"

    @property
    def plans(self) -> str:
        """The folder of plans."""
        return f"{self.path}/plan"

    @property
    def closed(self) -> str:
        """Written when the run is over: stage runners end."""
        return f"{self.path}/closed.json"

    @property
    def slimmed(self) -> str:
        """Written when nothing is left that the closed run needs no more."""
        return f"{self.path}/slimmed.json"

    @property
    def removing(self) -> str:
        """Written before anything of the run is deleted.

        From here on it cannot be opened again, and whoever sweeps finishes.
        """
        return f"{self.path}/removing.json"

    @property
    def not_planned(self) -> str:
        """Replaced whole: why the newest attempt to plan the run has failed; void once that plan is there."""
        return f"{self.path}/not-planned.json"

    @property
    def comparison(self) -> str:
        """Replaced whole: how the outputs of the run differ from those of the run with which it is compared."""
        return f"{self.path}/comparison.json"

    @property
    def slimming(self) -> str:
        """Written while a sweep deletes in place what the closed run needs no more.

        A process that opens the run again waits until it is gone.
        """
        return f"{self.path}/slimming.json"

    def drain(self, generation: int) -> str:
        """Written when the run, as planned in this generation, was asked to drain: to end every stream for good."""
        return f"{self.path}/ends/{generation}/drain.json"

    def stop(self, generation: int) -> str:
        """Written when it was asked to stop where it is; its streams have not ended (rule C9)."""
        return f"{self.path}/ends/{generation}/stop.json"

    def deadline(self, generation: int) -> str:
        """The time at which it stops by itself, where one was given."""
        return f"{self.path}/ends/{generation}/deadline.json"

    def arrivals(self, generation: int) -> str:
        """The folder of what a continuous run of this plan found of inputs whose messages arrive in files."""
        return f"{self.path}/arrivals/{generation}"

    @property
    def code(self) -> str:
        """The folder of shipped code, by content hash."""
        return f"{self.path}/code"

    @property
    def code_in_use(self) -> str:
        """Replaced whole: the code with which stages run that are submitted for the first time."""
        return f"{self.path}/code.json"

    @property
    def servers(self) -> str:
        """The folder of stage runners."""
        return f"{self.path}/servers"

    def stage(self, stage_id: str, generation: Generation) -> StageFolder:
        """The folder of one generation of a stage."""
        return StageFolder(f"{self.path}/stages/{safe(stage_id)}/{generation}")

    def generations(self, files: Filesystem, stage_id: str) -> list[Generation]:
        """The generations of a stage that were ever submitted, oldest first."""
        return sorted(Generation.parse(name) for name in files.list(f"{self.path}/stages/{safe(stage_id)}"))

    def plan_generations(self, files: Filesystem) -> list[int]:
        """The generations of the plan, oldest first."""
        return numbers(files, self.plans)


def run_folders(files: Filesystem, application: str | None = None) -> list[RunFolder]:
    """Return the folders of the runs of an application (its name), or of all, also of those that have no plan."""
    names = files.list("runs") if application is None else [safe(application)]
    return [RunFolder(name, run_id) for name in names for run_id in files.list(f"runs/{name}")]
