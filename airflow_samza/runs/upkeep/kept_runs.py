"""The runs that stay on record: by number and age, and all that others still need.

A run is over when it is closed, or when nothing was heard of it for a month. Of those that are over the newest are
kept; an older one stays as long as its topics do, as long as the application's state holds what it left (a run that is
cleared undoes that), and as long as another application has not read what it wrote. Sweeps of a root ask it, and the
command ``fsck``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from airflow_samza.errors import SamzaError
from airflow_samza.runs.held_outputs import has_open_outputs
from airflow_samza.runs.records.folders import RunFolder, read, read_report, run_folders
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import is_free, newest_lease
from airflow_samza.runs.state_history.versions import all_versions, newest_versions
from airflow_samza.runs.upkeep.topic_expiry import Slimmed, expiry, topics_there
from airflow_samza.runs.upkeep.waiting_output import waiting_output
from airflow_samza.systems.capabilities import HasSections
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System


@dataclass(frozen=True)
class _Reader:
    """The position of an application in a topic: the sections (``<application>/<run>``), or else the next offsets."""

    application: str
    sections: frozenset[str] | None
    offsets: tuple[int, ...]


class UnreadOutputs:
    """The positions of all applications that carry state, as of their newest versions."""

    def __init__(self, files: Filesystem) -> None:
        self._readers: dict[str, list[_Reader]] = {}
        self._written: dict[str, Mapping[str, tuple[int, ...]]] = {}
        for version in newest_versions(files):
            application = version.plan.application
            plan = read(files, RunFolder(application, version.run).plan(version.plan_generation), RunPlan)
            for stream_id, stream in plan.streams.items() if plan is not None else ():
                if stream.role != "input" or stream_id not in version.offsets:
                    continue
                marks = version.sections.get(stream_id) if "sections" in (stream.slice or {}) else None
                read_ = frozenset(mark.rpartition("@")[0] for mark in marks) if marks is not None else None
                reader = _Reader(application, read_, version.offsets[stream_id])
                self._readers.setdefault(stream.spec.name, []).append(reader)

    def reader(self, run: RunPlan, systems: Mapping[str, System]) -> str | None:
        """Return an application that has not read all that a run wrote to a topic of which it reads, if any."""
        for stage in run.plan.stages:
            for stream, system in run.outside(stage.outputs, systems, HasSections):
                if stream.spec.name not in self._readers:
                    continue
                producer = run.producer(stage.stage_id)
                end = self._ends(system, stream.spec).get(producer)
                for reader in self._readers[stream.spec.name] if end is not None else ():
                    assert end is not None
                    if reader.sections is not None:
                        is_unread = producer.rpartition("/")[0] not in reader.sections
                    else:
                        is_unread = any(written > done for written, done in zip(end, reader.offsets, strict=False))
                    if is_unread:
                        return reader.application
        return None

    def _ends(self, system: HasSections, stream: StreamSpec) -> Mapping[str, tuple[int, ...]]:
        place = system.location(stream)
        if place not in self._written:
            self._written[place] = system.written_ends(stream)
        return self._written[place]


SILENT_SECONDS = 30 * 86400.0
"""A run that was never closed counts as over after that: its process was killed, or nobody cleans up after it."""

SystemsOf = Callable[[RunPlan], Mapping[str, System]]
"""Binds the systems of a run."""


@dataclass(frozen=True)
class OverRun:
    """A run that is over, since ``at`` (seconds since 1970); ``plans`` are its plans, newest last (none: a push).

    ``slim``: the note that nothing is left of it that it needs no more, with the places of its tables; None: something
    may be.
    """

    folder: RunFolder
    at: float
    slim: Slimmed | None = None
    plans: tuple[RunPlan, ...] = field(default=(), repr=False)


def over_since(files: Filesystem, folder: RunFolder, now: float) -> float | None:
    """Return when a run was over; None while it is open, or a process of it lives."""
    closed = _closed_at(files, folder)
    runners = all_runners(files, folder)
    if any(runner.is_alive(files) for runner in runners):
        return None
    if closed is not None:
        return closed
    seen = [runner.heard_at(files) for runner in runners]
    paths = [folder.plan(number) for number in folder.plan_generations(files)] + [
        f"{folder.path}/push.json",
        f"{folder.path}/origin.json",
        folder.not_planned,
    ]
    seen += [files.modified(path) for path in paths if files.exists(path)]
    last = max(seen, default=now)  # a folder in which nothing is known is being made
    return last if last < now - SILENT_SECONDS else None


def _closed_at(files: Filesystem, folder: RunFolder) -> float | None:
    closed = read(files, folder.closed, RunEnd)
    if closed is None:
        return None
    return closed.at if isinstance(closed.at, float) else files.modified(folder.closed)


def _slim(files: Filesystem, folder: RunFolder) -> OverRun | None:
    """Return a run of which nothing is left that it needs no more; None: something may be, or it is open again.

    Two records tell it. No process of it lived when that was noted, and none is started for a run that is closed.
    """
    slimmed = read_report(files, folder.slimmed, Slimmed)
    if slimmed is None or slimmed.places is None or _closed_at(files, folder) != slimmed.over:
        return None
    return OverRun(folder, slimmed.over, slimmed)


def over_runs(files: Filesystem, application: str, now: float | None = None) -> list[OverRun]:
    """The runs of an application (its folder's name) that are over, newest first; their plans are not loaded."""
    now = time.time() if now is None else now
    over = []
    for folder in run_folders(files, application):
        with suppress(SamzaError):  # what is damaged stays for fsck
            slim = _slim(files, folder)
            if slim is not None:  # most are
                over.append(slim)
                continue
            at = over_since(files, folder, now)
            if at is None and is_half_removed(files, folder):
                at = 0.0
            if at is not None:
                over.append(OverRun(folder, at))
    return sorted(over, key=lambda run: (-run.at, run.folder.run_id))


def is_half_removed(files: Filesystem, folder: RunFolder) -> bool:
    """Return whether a run's removal was interrupted after its plans went: nobody can open it any more."""
    if files.renames_folders or not files.exists(folder.removing):
        return False
    return not folder.plan_generations(files) and not files.exists(f"{folder.path}/push.json")


def load_plans(files: Filesystem, folder: RunFolder) -> tuple[RunPlan, ...]:
    """All plans of a run, oldest first."""
    plans = (read(files, folder.plan(number), RunPlan) for number in folder.plan_generations(files))
    return tuple(plan for plan in plans if plan is not None)


class Reasons:
    """Reasons for which runs that are beyond number and age stay all the same."""

    def __init__(self, files: Filesystem, systems_of: SystemsOf, now: float) -> None:
        self._files = files
        self._systems_of = systems_of
        self._now = now
        self._states: dict[str, Mapping[str, str]] = {}
        self._unread: UnreadOutputs | None = None

    def of(self, run: OverRun) -> Iterator[str]:
        """Yield why a run stays, as ends of "it stays because …"; nothing when it may go."""
        if not run.plans:
            return
        for plan in run.plans:
            if plan.state is not None:
                held = self._state(StateHistory(plan.application, plan.app_id)).get(plan.run_id)
                if held is not None:
                    yield held
        try:
            yield from self._waiting(run)
            yield from self._topics(run)
            self._unread = self._unread or UnreadOutputs(self._files)
            for plan in run.plans:
                reader = self._unread.reader(plan, self._systems_of(plan))
                if reader is not None:
                    yield f"{reader!r} has not read what it wrote"
        except SamzaError as error:
            yield f"it cannot be looked at: {error.sentence.removesuffix('.')}"

    def _waiting(self, run: OverRun) -> Iterator[str]:
        if has_open_outputs(self._files, run.plans[-1], self._now):
            yield "its output waits for approval (airflow-samza publish)"
        for plan in run.plans:
            for waiting in waiting_output(self._files, self._systems_of(plan), plan):
                yield f"{waiting} are committed and not published (airflow-samza runs finish publishes them)"

    def _topics(self, run: OverRun) -> Iterator[str]:
        newest = run.plans[-1]
        for name, topic in topics_there(self._files, self._systems_of(newest), newest):
            if expiry(topic, run.at) > self._now:
                yield f"its topic {name!r} is kept"
                return

    def _state(self, history: StateHistory) -> Mapping[str, str]:
        """The runs that an application's state needs, by id, and why."""
        if history.path not in self._states:
            held: dict[str, str] = dict.fromkeys(self._files.list(history.runs), "it has a state of its own")
            for version in all_versions(self._files, history.versions):
                held[version.run] = f"it left version {version.number} of the state"
            lease = newest_lease(self._files, history)
            if lease is not None and not is_free(self._files, history, lease):
                held[lease.run] = "it holds the state"
            self._states[history.path] = held
        return self._states[history.path]
