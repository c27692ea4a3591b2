"""Acts of people on an application's state: show it, abandon a run that is half done, reset to an earlier version.

The command ``state`` acts by it, and the page shows it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from airflow_samza.errors import StateBusy, StateError
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import (
    ABANDONED,
    AT_WORK,
    DONE,
    FINISHED,
    Lease,
    Standing,
    end,
    is_free,
    newest_lease,
    standing_of,
)
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.state_at_start import Patience, take_lease
from airflow_samza.runs.state_history.versions import (
    Version,
    all_versions,
    commit_version,
    find_version,
    finished_version,
    reset_run,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem

_GRACE_SECONDS = 600.0


@dataclass(frozen=True)
class StateReport:
    """An application's state: versions (oldest first), the holder of the lease if any, and the runs apart from it."""

    versions: tuple[Version, ...]
    holder: Lease | None
    standing: Standing | None
    apart: tuple[str, ...]


def report_state(files: Filesystem, history: StateHistory) -> StateReport:
    """Reads what is there; nothing is changed."""
    versions = tuple(all_versions(files, history.versions))
    lease = newest_lease(files, history)
    if lease is not None and is_free(files, history, lease):
        lease = None
    standing = standing_of(files, history, lease, _GRACE_SECONDS) if lease is not None else None
    return StateReport(versions, lease, standing, tuple(files.list(history.runs)))


def abandon(files: Filesystem, history: StateHistory, run_id: str, *, force: bool = False) -> Version | None:
    """Frees the state of a run that will not finish; its output stays as it is, and the next run reads its slice again.

    A run that has finished after all is not given up: the version that it leaves is returned. One that is at work is
    rejected, unless ``force`` says that it is known to be dead.
    """
    lease = newest_lease(files, history)
    if lease is None or is_free(files, history, lease) or lease.run != run_id:
        held = "nobody holds it" if lease is None or is_free(files, history, lease) else f"it is held by {lease.run!r}"
        raise StateError(
            f"The run {run_id!r} does not hold the state of {history.application!r}: {held}.",
            hint=f"See which run does: airflow-samza state show {history.application}",
            application=history.application,
            run=run_id,
        )
    standing = standing_of(files, history, lease, _GRACE_SECONDS)
    if standing.state == DONE:
        run = read(files, RunFolder(history.application, run_id).plan(lease.plan_generation), RunPlan)
        return leave_state(files, run) if run is not None else None
    if standing.state == AT_WORK and not force:
        raise StateBusy(
            f"The run {run_id!r} of {history.application!r} {standing.why}.",
            hint="Stop it first; or say --force, if you know that it is dead.",
            application=history.application,
            holder=run_id,
        )
    ended = end(files, history, lease, ABANDONED)
    return finished_version(files, history, lease) if ended.how == FINISHED else None


def reset(files: Filesystem, history: StateHistory, to: int) -> Version:
    """Goes back to a version, or to nothing (0), by a new version that is like it.

    Rejected while a run holds the state.
    """
    former = find_version(files, history, to)
    newest = newest_lease(files, history)
    fence = newest.fence + 1 if newest is not None else 1
    try:
        lease = take_lease(files, history, reset_run(fence), 1, Patience(grace_seconds=_GRACE_SECONDS))
    except StateBusy as error:
        holder = error.facts["holder"]
        raise StateBusy(
            error.sentence,
            hint="Wait until it has ended, and try again; if it will not end: airflow-samza state abandon "
            f"{history.application} {holder}",
            **error.facts,
        ) from None
    if former is None:
        former = Version(0, 0, lease.run, 1, ExecutionPlan(history.application, history.app_id, (), (), (), (), ()))
    copy = replace(former, number=lease.head + 1, run=lease.run, at=time.time(), copy_of=former.copy_of or to)
    return commit_version(files, history, lease, copy)
