"""Lease on an application's state: only one run at a time carries it on, and no replaced run writes (decision 12).

A run claims lease n by ``put_if_absent`` of its record ``taken``; n is the lease's fence. Two more records decide what
becomes of it. Each is also written by ``put_if_absent``, so the first writer decides and the others read its decision:

- ``begun`` is written by the *holder* (true) before the first commit of any of its stages, or by a *successor* (false),
  another run that wants the state while the holder has committed nothing (a plan that fails gives its lease back so).
- ``ended`` is written by the holder (``finished``, with the version that it leaves), by a *new plan* of the same run
  (``superseded``), or by a *person* who gives the run up (``abandoned``).

The race is between the holder and a successor that takes it for dead:

1. The successor's ``begun`` comes first: the successor claims lease n + 1, and the holder, should it live, reads the
   decision in :func:`begin` and stops before it has committed anything.
2. The holder's ``begun`` comes first: the successor's :func:`take_away` returns False, and it waits until there is an
   ``ended``.

The holder asks for ``ended``, too, before each commit, so after ``superseded`` or ``abandoned`` it commits nothing
more. Nobody has to judge correctly whether a process is dead: the standing of a lease's run only says whom to wait for.
The plan step takes the lease, the end of a run gives it back, and people give it up by command. The plan step and
triggers wait by its standing; the command line and reports name it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import StateFenced
from airflow_samza.records import durable
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import RunFolder, adopt, must_read, newest, read, write_once
from airflow_samza.runs.records.liveness import STALE_AFTER_SECONDS, identity, process_is_there
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import finished_stage
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.systems.filesystems.filesystem import Filesystem

FINISHED = "finished"
SUPERSEDED = "superseded"
ABANDONED = "abandoned"


@durable("lease")
@dataclass(frozen=True)
class Lease:
    """One lease.

    ``start`` is the version that its run starts from (0: no state yet), ``head`` the newest one when it was taken. The
    two differ only when a run that had finished is planned anew. ``who`` is the process that planned the run.
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


def newest_lease(files: Filesystem, history: StateHistory) -> Lease | None:
    """The lease that was taken last."""
    return newest(files, history.leases, lambda fence: read(files, history.lease(fence, "taken"), Lease))


def load_lease(files: Filesystem, history: StateHistory, fence: int) -> Lease:
    """A lease by its number."""
    return must_read(files, history.lease(fence, "taken"), Lease)


def take(
    files: Filesystem,
    history: StateHistory,
    fence: int,
    run_id: str,
    plan_generation: int,
    *,
    start: int,
    head: int,
    begun: bool = False,
) -> Lease | None:
    """Claim a lease for a run; return None when another was quicker."""
    lease = Lease(fence, run_id, plan_generation, start, head, time.time(), identity(), begun)
    reach("state-before-lease")
    won = write_once(files, history.lease(fence, "taken"), lease)
    reach("state-after-lease")
    return lease if won else None


def is_free(files: Filesystem, history: StateHistory, lease: Lease) -> bool:
    """Return whether a lease binds nobody any more."""
    return files.exists(history.lease(lease.fence, "ended")) or has_begun(files, history, lease) is False


def has_begun(files: Filesystem, history: StateHistory, lease: Lease) -> bool | None:
    """Return True if its run has or may have committed something, False if it never will, None while undecided."""
    if lease.begun:
        return True
    decided = read(files, history.lease(lease.fence, "begun"), Begun)
    return None if decided is None else decided.begun


def begin(files: Filesystem, history: StateHistory, lease: Lease) -> None:
    """Decide that a lease's run may commit, before it does; raise :class:`StateFenced` if it may not."""
    path = history.lease(lease.fence, "begun")
    if read(files, path, Begun) is None:  # asked first, because a run may commit many times a second
        write_once(files, path, Begun(True, lease.run, time.time()))
    reject_ended(files, history, lease)


def reject_ended(files: Filesystem, history: StateHistory, lease: Lease) -> None:
    """Raise :class:`StateFenced` for a lease that was taken over, superseded or abandoned; not for a finished one."""
    decided = read(files, history.lease(lease.fence, "begun"), Begun)
    if decided is not None and not decided.begun:
        raise fenced(history, lease, f"{decided.by!r} has taken it over")
    ended = read(files, history.lease(lease.fence, "ended"), Ended)
    if ended is not None and ended.how != FINISHED:
        why = "the run was planned anew" if ended.how == SUPERSEDED else "the run was abandoned"
        raise fenced(history, lease, why)


def take_away(files: Filesystem, history: StateHistory, lease: Lease, by: str) -> bool:
    """Free a lease whose run has committed nothing; False when its run was quicker to begin."""
    if lease.begun:
        return False
    return not adopt(files, history.lease(lease.fence, "begun"), Begun(False, by, time.time())).begun


def end(
    files: Filesystem, history: StateHistory, lease: Lease, how: str, version: Mapping[str, Any] | None = None
) -> Ended:
    """End a lease, and return the end that stands: another one where somebody was quicker."""
    return adopt(files, history.lease(lease.fence, "ended"), Ended(how, time.time(), version))


def fenced(history: StateHistory, lease: Lease, why: str) -> StateFenced:
    """The error for a run that has lost its lease."""
    return StateFenced(
        f"The run {lease.run!r} may no longer write the state of {history.application!r} (fence {lease.fence}): {why}.",
        hint="Clear its plan task with its downstream tasks: the run is then planned anew, from "
        "the state as it is now.",
        application=history.application,
        run=lease.run,
        fence=lease.fence,
    )


FREE = "free"
DONE = "done"
"""Every stage has succeeded: what the run leaves can be made a version by anybody."""
HALF_DONE = "half done"
"""Something is committed, and the run does not go on by itself."""
AT_WORK = "at work"
GONE = "gone"
"""Nothing is committed, and nobody works on it."""

PLANNING_SECONDS = 600.0
"""For how long a process that plans a run, and writes no heartbeats, is taken for one that works.

After that it may be frozen.
"""

QUIET_SECONDS = 15.0
"""After how long without a sign of life that is worth a word.

A plan, or a stage before its first or next try, is quiet for a while.
"""


@dataclass(frozen=True)
class Standing:
    """The state of a lease's holder. ``done`` of ``stages`` stages have succeeded; ``why`` is a part of a sentence.

    ``silent_since`` (seconds since 1970): the last sign of life of a run that counts as at work and of which no process
    can be seen.
    """

    state: str
    why: str
    done: int = 0
    stages: int = 0
    silent_since: float | None = None


def standing_of(
    files: Filesystem, history: StateHistory, lease: Lease, grace_seconds: float, *, now: float | None = None
) -> Standing:
    """Return the standing of a lease's run."""
    if is_free(files, history, lease):
        return Standing(FREE, "has given it back")
    folder = RunFolder(history.application, lease.run)
    run = read(files, folder.plan(lease.plan_generation), RunPlan)
    if run is None:
        exists, age = process_is_there(lease.who), (time.time() if now is None else now) - lease.claimed_at
        if exists is not False and age < (PLANNING_SECONDS if exists else STALE_AFTER_SECONDS):
            return Standing(AT_WORK, "is being planned")
        if lease.begun:
            return Standing(HALF_DONE, "has committed a part of its work, and was not planned anew to the end")
        return Standing(GONE, "was never planned to the end")
    stages = [stage.stage_id for stage in run.plan.stages]
    done = sum(1 for stage_id in stages if finished_stage(files, run, stage_id) is not None)
    if done == len(stages):
        return Standing(DONE, "has finished", done, len(stages))
    progress = f"{done} of {len(stages)} stages done"
    if not files.exists(folder.closed):
        runners = all_runners(files, folder)
        if any(runner.is_alive(files) for runner in runners):
            return Standing(AT_WORK, f"is at work ({progress})", done, len(stages))
        heard = max([lease.claimed_at, *(runner.heard_at(files) for runner in runners)])
        # A stage between two tries, or waiting for its turn, has no process: the scheduler will start it again.
        silence = (time.time() if now is None else now) - heard
        if silence < grace_seconds:
            doing = f"is at work ({progress})" if runners else "is planned and about to start"
            if silence < QUIET_SECONDS:
                return Standing(AT_WORK, doing, done, len(stages))
            since, until = _utc(heard), _utc(heard + grace_seconds)
            doing += f"; nothing was heard of it since {since}, and unless that changes it counts as dead at {until}"
            return Standing(AT_WORK, doing, done, len(stages), heard)
    if has_begun(files, history, lease):
        return Standing(HALF_DONE, f"has committed a part of its work ({progress})", done, len(stages))
    return Standing(GONE, "ended before it committed anything", done, len(stages))


def _utc(at: float) -> str:
    return f"{datetime.fromtimestamp(at, timezone.utc):%H:%M:%S} UTC"


def holder_works(files: Filesystem, application: str, app_id: str, grace_seconds: float) -> bool:
    """Return whether a run that is at work, or about to be, holds the state of an application: then waiting helps."""
    history = StateHistory(application, app_id)
    lease = newest_lease(files, history)
    return lease is not None and standing_of(files, history, lease, grace_seconds).state == AT_WORK
