"""The history of an application's state: versions, each what one run left, and what every stage's tasks go on from.

A version is decided once, by the end of its run's lease, which holds the whole record; the file among the versions is a
copy of it that anybody may make. So a run has left its state wholly or not at all. The plan step and the end of a run
add to it; upkeep and the page read it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from airflow_samza.errors import StateError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.records import durable, from_plain, plain
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import newest, numbers, read, write_once
from airflow_samza.runs.records.stage_result import VERSIONS
from airflow_samza.runs.records.state_meaning import StateMeaning
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import FINISHED, Ended, Lease, begin, end, fenced
from airflow_samza.systems.filesystems.filesystem import Filesystem

_PINNED_SECONDS = 30 * 86400.0
"""A run apart from the history takes hours, and may be cleared for some days; after that it is given up."""

_RESET = "~reset-"
"""The beginning of the run of a version that a person made; no run of Airflow or the command line is named so."""

_LEASES_KEPT = 100
"""Old leases are small, and tell who ran when; more of them would only make listings longer."""


@durable("version of state", later={"meanings": {}, "read": {}, "arrived": {}})
@dataclass(frozen=True)
class Version:
    """The state that one run left.

    ``offsets`` are the next ones to read, by input and partition; ``interval`` the run's data interval.

    ``stages`` holds, by stage id and task, ``checkpoint`` and ``state`` (a description of files). ``sections`` are the
    runs of other applications that were read of shared streams, newest last. ``read`` says, by input with offsets, as
    of how many commits of its topic it was read (``commit``), from which offsets on anything ever was (``first``), and
    the identity of the ``topic``. ``plan`` is what later runs must not contradict (rule P10); ``copy_of`` the
    version that a reset has brought back. ``meanings`` tell by key what code made the state. ``arrived`` is, by input
    whose messages arrive in files, the system's record of what was read of it.
    """

    number: int
    parent: int
    run: str
    plan_generation: int
    plan: ExecutionPlan
    offsets: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stages: Mapping[str, Mapping[int, Mapping[str, Any]]] = field(default_factory=dict)
    interval: tuple[str, str] | None = None
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: str | None = None
    at: float = 0.0
    copy_of: int = 0
    meanings: Mapping[str, StateMeaning] = field(default_factory=dict)
    read: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arrived: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def read_up_to(self, stream_id: str) -> Any:
        """Return up to where an input was read or passed over, by the record of its kind; None: nothing was."""
        offsets = self.offsets.get(stream_id, ())
        arrived = self.arrived.get(stream_id, {})
        places = (self.sections.get(stream_id), arrived.get("names"), arrived.get("horizon"), any(offsets) and offsets)
        versions = (arrived.get(word) for word in VERSIONS)  # version 0 is one, too
        return next(filter(None, places), None) or next((one for one in versions if one is not None), None)


@durable("pin of a version of state")
@dataclass(frozen=True)
class VersionPin:
    """A run apart from the history reads a version, which therefore stays."""

    run: str
    at: float


def reset_run(fence: int) -> str:
    """Return the name of the run that stands for a reset under the lease of this fence."""
    return f"{_RESET}{fence}"


def is_reset(version: Version) -> bool:
    """Return True if a person made the version, by a reset."""
    return version.run.startswith(_RESET)


def state_bytes(stages: object) -> int:
    """Return the bytes of all files that the stages of a version describe."""
    if isinstance(stages, Mapping):
        own = stages.get("bytes") if isinstance(stages.get("path"), str) else None
        return int(own) if own is not None else sum(state_bytes(value) for value in stages.values())
    return 0


def newest_number(files: Filesystem, history: StateHistory) -> int:
    """The number of the newest version; 0 when there is none.

    A state that lies in its former folder is taken over first.
    """
    return max(numbers(files, history.versions), default=0) or _taken_over(files, history)


def _taken_over(files: Filesystem, history: StateHistory) -> int:
    """The newest version of a state that lies in the folder where earlier releases kept it, entered in today's.

    0: there is none.

    Its files stay where they are, as the record names them. The former folder may hold the state of another
    application, too.
    """
    former = history.former_path
    for number in reversed(numbers(files, f"{former}/versions")) if former != history.path else ():
        version = _in_folder(files, f"{former}/versions", number)
        if version is not None and _owner_of(version) == (history.application, history.app_id):
            write_once(files, history.version(number), version)
            return number
    return 0


def _owner_of(version: Version) -> tuple[str, str]:
    return version.plan.application, version.plan.app_id


def find_version(files: Filesystem, history: StateHistory, number: int) -> Version | None:
    """A version by its number; None for 0, where everything begins."""
    if number == 0:
        return None
    version = read(files, history.version(number), Version)
    if version is None:
        raise StateError(
            f"Version {number} of the state of {history.application!r} is not there any more.",
            hint="Versions are kept as job.state.versions.keep says; clear the plan task, so that the run starts from "
            "the newest one.",
            application=history.application,
            version=number,
        )
    if _owner_of(version) != (history.application, history.app_id):
        name, copy = _owner_of(version)
        raise StateError(
            f"Version {number} of the state of {history.application!r} (id {history.app_id!r}) belongs to {name!r} "
            f"(id {copy!r}).",
            hint=f"Was {files.location(history.path)} copied from elsewhere? Move it away: the next run then starts "
            "from nothing.",
            application=history.application,
            version=number,
        )
    return version


def all_versions(files: Filesystem, folder: str) -> Iterator[Version]:
    """Yield the versions in a folder of them, oldest first."""
    versions = (_in_folder(files, folder, number) for number in numbers(files, folder))
    yield from (version for version in versions if version is not None)


def newest_versions(files: Filesystem) -> Iterator[Version]:
    """Yield the newest version of each state under a root."""
    for history in files.list("state"):
        folder = f"state/{history}/versions"
        version = newest(files, folder, partial(_in_folder, files, folder))
        if version is not None:
            yield version


def _in_folder(files: Filesystem, folder: str, number: int) -> Version | None:
    return read(files, f"{folder}/{number:020}.json", Version)


def version_of_run(files: Filesystem, history: StateHistory, run_id: str) -> Version | None:
    """The newest version that a run left, in the history or apart from it; None when it left none, or it is expired."""
    for number in reversed(numbers(files, history.versions)):
        version = read(files, history.version(number), Version)
        if version is not None and version.run == run_id:
            return version
    return newest(
        files, history.own(run_id), lambda generation: read(files, history.own_state(run_id, generation), Version)
    )


def continued_from(files: Filesystem, history: StateHistory, number: int, head: int) -> list[Version]:
    """Return the versions from ``head`` back to one, which is the last; none of one that was undone."""
    versions: list[Version] = []
    while head >= number:
        version = find_version(files, history, head)
        assert version is not None
        versions.append(version)
        if number in (head, version.copy_of):
            return versions
        head = version.parent
    return []


def commit_version(files: Filesystem, history: StateHistory, lease: Lease, version: Version) -> Version:
    """Ends the lease with this version, once; whoever comes later gets the one that stands.

    A lost lease is a StateFenced.
    """
    begin(files, history, lease)
    reach("state-before-version")
    ended = end(files, history, lease, FINISHED, plain(version))
    reach("state-after-end")
    if ended.how != FINISHED:
        raise fenced(history, lease, f"it was {ended.how}")
    return _publish(files, history, ended)


def finished_version(files: Filesystem, history: StateHistory, lease: Lease) -> Version | None:
    """The version that a lease ended with, put among the versions if nobody did yet; None when it has not ended so."""
    ended = read(files, history.lease(lease.fence, "ended"), Ended)
    return _publish(files, history, ended) if ended is not None and ended.how == FINISHED else None


def _publish(files: Filesystem, history: StateHistory, ended: Ended) -> Version:
    version = from_plain(Version, ended.version, "of the end of a lease")
    write_once(files, history.version(version.number), version)
    reach("state-after-version")
    return version


def expire(files: Filesystem, history: StateHistory, keep: int) -> list[int]:
    """Delete versions but the newest ``keep`` of runs and those that a run apart reads; return their numbers.

    Resets go with the versions before them: going back a few times takes none of the versions away that one may go back
    to.
    """
    all_numbers = numbers(files, history.versions)
    versions = {number: read(files, history.version(number), Version) for number in all_numbers}
    left = [number for number, version in versions.items() if version is not None and not is_reset(version)]
    oldest = left[-keep] if len(left) >= keep else 0
    pinned = {number for number in numbers(files, history.pins) if _is_pinned(files, f"{history.pins}/{number:020}")}
    expired = [number for number in all_numbers if number < oldest and number not in pinned]
    needed = {version.files for number, version in versions.items() if version is not None and number not in expired}
    for number in expired:
        version = versions[number]
        files.delete(history.version(number))
        if version is not None and version.files is not None and version.files not in needed:
            files.delete_tree(version.files)
    for fence in numbers(files, history.leases)[:-_LEASES_KEPT]:
        files.delete_tree(f"{history.leases}/{fence:020}")
    return expired


def _is_pinned(files: Filesystem, folder: str) -> bool:
    """Return whether a run that may be at work reads a version; one that never ended releases it after a while."""
    pins = (read(files, f"{folder}/{name}", VersionPin) for name in files.list(folder))
    return any(pin.at > time.time() - _PINNED_SECONDS for pin in pins if pin is not None)


def expire_apart(files: Filesystem, history: StateHistory, keep: int) -> list[str]:
    """Deletes all states of runs apart from the history but the newest ``keep``; returns the folders' names."""
    ages = []
    for name in files.list(history.runs):
        folder = f"{history.runs}/{name}"
        left = (read(files, f"{folder}/{number}.json", Version) for number in numbers(files, folder))
        ages.append((max((version.at for version in left if version is not None), default=0.0), name))
    expired = [name for at, name in sorted(ages)[:-keep] if at]  # what has no record yet is being written
    for name in expired:
        files.delete_tree(f"{history.runs}/{name}")
    return expired
