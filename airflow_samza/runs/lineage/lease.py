"""The lease on an application's state.

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
from airflow_samza.records import decoder
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.lineage.folder import LineageFolder
from airflow_samza.runs.records.folders import adopt, must_read, numbers, read, write_once
from airflow_samza.runs.records.liveness import identity
from airflow_samza.systems.filesystems.filesystem import Filesystem

FINISHED = "finished"
SUPERSEDED = "superseded"
ABANDONED = "abandoned"


@dataclass(frozen=True)
class Lease:
    """One lease.

    ``start`` is the version that its run starts from (0: no state yet), ``head`` the newest one when it was taken.

    The two differ only when a run that had finished is planned anew. ``who`` is the process that planned the run.
    ``begun``: an earlier plan of the run has committed a part, which only this run can take the place of.
    """

    fence: int
    run_id: str
    plan_generation: int
    start: int
    head: int
    taken_at: float = 0.0
    who: Mapping[str, Any] = field(default_factory=dict)
    begun: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "fence": self.fence,
            "run": self.run_id,
            "plan_generation": self.plan_generation,
            "start": self.start,
            "head": self.head,
            "claimed_at": self.taken_at,
            "who": dict(self.who),
            "begun": self.begun,
        }

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> Lease:
        """The lease that :meth:`to_dict` described."""
        return cls(
            data["fence"],
            data["run"],
            data["plan_generation"],
            data["start"],
            data["head"],
            float(data["claimed_at"]),
            data["who"],
            data["begun"],
        )


def newest_lease(files: Filesystem, lineage: LineageFolder) -> Lease | None:
    """The lease that was taken last."""
    found = numbers(files, lineage.leases)
    while found:  # a folder without its first record belongs to nobody yet
        record = read(files, lineage.lease(found[-1], "taken"))
        if record is not None:
            return Lease.from_dict(record)
        found.pop()
    return None


def load_lease(files: Filesystem, lineage: LineageFolder, fence: int) -> Lease:
    """A lease by its number."""
    return Lease.from_dict(must_read(files, lineage.lease(fence, "taken")))


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
    won = write_once(files, lineage.lease(fence, "taken"), lease.to_dict())
    reach("state-after-lease")
    return lease if won else None


def is_free(files: Filesystem, lineage: LineageFolder, lease: Lease) -> bool:
    """Return whether a lease binds nobody any more."""
    return files.exists(lineage.lease(lease.fence, "ended")) or has_begun(files, lineage, lease) is False


def has_begun(files: Filesystem, lineage: LineageFolder, lease: Lease) -> bool | None:
    """True: its run has or may have committed something. False: it never will. None: undecided."""
    if lease.begun:
        return True
    record = read(files, lineage.lease(lease.fence, "begun"))
    return None if record is None else bool(record["begun"])


def begin(files: Filesystem, lineage: LineageFolder, lease: Lease) -> None:
    """To be called before anything of the lease's run is committed; a :class:`StateFenced` says that it is too late."""
    path = lineage.lease(lease.fence, "begun")
    if read(files, path) is None:  # asked first, because a run may commit many times a second
        write_once(files, path, {"begun": True, "by": lease.run_id, "at": time.time()})
    refuse_ended(files, lineage, lease)


def refuse_ended(files: Filesystem, lineage: LineageFolder, lease: Lease) -> None:
    """Raises :class:`StateFenced` for a lease that was taken over, superseded or abandoned.

    One that was finished is fine.
    """
    begun = read(files, lineage.lease(lease.fence, "begun"))
    if begun is not None and not begun["begun"]:
        raise fenced(lineage, lease, f"{begun['by']!r} has taken it over")
    ended = read(files, lineage.lease(lease.fence, "ended"))
    if ended is not None and ended["how"] != FINISHED:
        why = "the run was planned anew" if ended["how"] == SUPERSEDED else "the run was abandoned"
        raise fenced(lineage, lease, why)


def take_away(files: Filesystem, lineage: LineageFolder, lease: Lease, by: str) -> bool:
    """Frees a lease whose run has committed nothing; False when its run was quicker to begin."""
    if lease.begun:
        return False
    return not adopt(files, lineage.lease(lease.fence, "begun"), {"begun": False, "by": by, "at": time.time()})["begun"]


def end(files: Filesystem, lineage: LineageFolder, lease: Lease, how: str, **facts: object) -> dict[str, Any]:
    """Ends a lease, and returns the end that stands: another one where somebody was quicker."""
    return adopt(files, lineage.lease(lease.fence, "ended"), {"how": how, "at": time.time(), **facts})


def fenced(lineage: LineageFolder, lease: Lease, why: str) -> StateFenced:
    """The error for a run that has lost its lease."""
    return StateFenced(
        f"The run {lease.run_id!r} may no longer write the state of {lineage.application!r} (fence {lease.fence}): "
        f"{why}.",
        hint="Clear its plan task with its downstream tasks: the run is then planned anew, from the state as it is "
        "now.",
        application=lineage.application,
        run=lease.run_id,
        fence=lease.fence,
    )
