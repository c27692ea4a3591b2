"""The lease on an application's state (decision 12).

At most one run at a time carries it on, and who was replaced cannot write any more.

Lease n is claimed by ``put_if_absent``, and n is its fence. Two more records of it are decided the same way, each by
whoever comes first:

begun    the holder, before the first commit of any of its stages; or who takes the state over, while nothing was
committed ended    finished (with the version that the holder leaves), superseded (the same run was planned anew), or
abandoned (by a person)

So nobody has to judge whether a process is dead: a holder that was judged wrongly finds out before it commits anything.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.errors import StateFenced
from airflow_samza.records import durable
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.lineage.folder import LineageFolder
from airflow_samza.runs.records.folders import adopt, must_read, newest, read, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.systems.filesystems.filesystem import Filesystem

FINISHED = "finished"
SUPERSEDED = "superseded"
ABANDONED = "abandoned"


@durable("lease")
@dataclass(frozen=True)
class Lease:
    """One lease.

    ``start`` is the version that its run starts from (0: no state yet), ``head`` the newest one when it was taken.

    The two differ only when a run that had finished is planned anew. ``who`` is the process that planned the run.
    ``begun``: an earlier plan of the run has committed a part, which only this run can take the place of.
    """

    fence: int
    run: str
    plan_generation: int
    start: int
    head: int
    claimed_at: float = 0.0
    who: Mapping[str, Any] = field(default_factory=dict)
    begun: bool = False


@durable("decision of a lease")
@dataclass(frozen=True)
class Begun:
    """The decision whether a lease's run may commit: True by its holder, False by the run that has taken it over."""

    begun: bool
    by: str
    at: float


@durable("end of a lease", later={"version": None})
@dataclass(frozen=True)
class Ended:
    """The end of a lease; ``version`` is the JSON form of the version that its run leaves, where it has finished."""

    how: str
    at: float
    version: Mapping[str, Any] | None = None


def newest_lease(files: Filesystem, lineage: LineageFolder) -> Lease | None:
    """The lease that was taken last."""
    return newest(files, lineage.leases, lambda fence: read(files, lineage.lease(fence, "taken"), Lease))


def load_lease(files: Filesystem, lineage: LineageFolder, fence: int) -> Lease:
    """A lease by its number."""
    return must_read(files, lineage.lease(fence, "taken"), Lease)


def take(
    files: Filesystem,
    lineage: LineageFolder,
    fence: int,
    run_id: str,
    plan_generation: int,
    *,
    start: int,
    head: int,
    begun: bool = False,
) -> Lease | None:
    """Claims a lease for a run; None when another was quicker."""
    lease = Lease(fence, run_id, plan_generation, start, head, time.time(), identity(), begun)
    reach("state-before-lease")
    won = write_once(files, lineage.lease(fence, "taken"), lease)
    reach("state-after-lease")
    return lease if won else None


def is_free(files: Filesystem, lineage: LineageFolder, lease: Lease) -> bool:
    """Return whether a lease binds nobody any more."""
    return files.exists(lineage.lease(lease.fence, "ended")) or has_begun(files, lineage, lease) is False


def has_begun(files: Filesystem, lineage: LineageFolder, lease: Lease) -> bool | None:
    """True: its run has or may have committed something. False: it never will. None: undecided."""
    if lease.begun:
        return True
    decided = read(files, lineage.lease(lease.fence, "begun"), Begun)
    return None if decided is None else decided.begun


def begin(files: Filesystem, lineage: LineageFolder, lease: Lease) -> None:
    """To be called before anything of the lease's run is committed; a :class:`StateFenced` says that it is too late."""
    path = lineage.lease(lease.fence, "begun")
    if read(files, path, Begun) is None:  # asked first, because a run may commit many times a second
        write_once(files, path, Begun(True, lease.run, time.time()))
    reject_ended(files, lineage, lease)


def reject_ended(files: Filesystem, lineage: LineageFolder, lease: Lease) -> None:
    """Raises :class:`StateFenced` for a lease that was taken over, superseded or abandoned.

    One that was finished is fine.
    """
    decided = read(files, lineage.lease(lease.fence, "begun"), Begun)
    if decided is not None and not decided.begun:
        raise fenced(lineage, lease, f"{decided.by!r} has taken it over")
    ended = read(files, lineage.lease(lease.fence, "ended"), Ended)
    if ended is not None and ended.how != FINISHED:
        why = "the run was planned anew" if ended.how == SUPERSEDED else "the run was abandoned"
        raise fenced(lineage, lease, why)


def take_away(files: Filesystem, lineage: LineageFolder, lease: Lease, by: str) -> bool:
    """Frees a lease whose run has committed nothing; False when its run was quicker to begin."""
    if lease.begun:
        return False
    return not adopt(files, lineage.lease(lease.fence, "begun"), Begun(False, by, time.time())).begun


def end(
    files: Filesystem, lineage: LineageFolder, lease: Lease, how: str, version: Mapping[str, Any] | None = None
) -> Ended:
    """Ends a lease, and returns the end that stands: another one where somebody was quicker."""
    return adopt(files, lineage.lease(lease.fence, "ended"), Ended(how, time.time(), version))


def fenced(lineage: LineageFolder, lease: Lease, why: str) -> StateFenced:
    """The error for a run that has lost its lease."""
    return StateFenced(
        f"The run {lease.run!r} may no longer write the state of {lineage.application!r} (fence {lease.fence}): {why}.",
        hint="Clear its plan task with its downstream tasks: the run is then planned anew, from the state as it is "
        "now.",
        application=lineage.application,
        run=lease.run,
        fence=lease.fence,
    )
