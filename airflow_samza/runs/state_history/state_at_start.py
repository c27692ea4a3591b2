"""State that a run starts from: the history, on which it takes the lease, or a version that it reads apart from it.

Runs carry the state on one after the other. Of the run that holds it: one that has finished is rolled forward; one that
committed nothing and is gone is passed by, and cannot commit any more; one that is at work, or half done, is waited for
or named in the rejection. The plan step goes on from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import StateBusy, StateError, StateFenced
from airflow_samza.runs.records.folders import RunFolder, read, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import (
    AT_WORK,
    DONE,
    GONE,
    HALF_DONE,
    SUPERSEDED,
    Ended,
    Lease,
    Standing,
    end,
    fenced,
    has_begun,
    is_free,
    newest_lease,
    standing_of,
    take,
    take_away,
)
from airflow_samza.runs.state_history.state_at_end import leave_state
from airflow_samza.runs.state_history.versions import (
    Version,
    VersionPin,
    all_versions,
    continued_from,
    find_version,
    finished_version,
    newest_number,
    version_of_run,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.pace import Looks

_POLL_SECONDS = 0.5
"""Between two looks at a run that is waited for; a look reads a few small files, and runs take minutes."""


@dataclass(frozen=True)
class Patience:
    """The patience of a run that waits for the one before.

    ``grace_seconds``: how long a run without a sign of life keeps the state to itself, unless it is closed. ``on_wait``
    is told for whom it waits, and why, each time that this changes.
    """

    wait_seconds: float = 0.0
    grace_seconds: float = 600.0
    on_wait: Callable[[str], None] | None = None


def take_lease(
    files: Filesystem, history: StateHistory, run_id: str, plan_generation: int, patience: Patience
) -> Lease:
    """The lease for a run, which is the same one when the same plan is made again."""
    deadline, looks = time.monotonic() + patience.wait_seconds, Looks(files.pace)
    said = ""
    while True:
        newest = newest_lease(files, history)
        if newest is not None and not is_free(files, history, newest):
            if (newest.run, newest.plan_generation) == (run_id, plan_generation):
                return newest
            standing = standing_of(files, history, newest, patience.grace_seconds)
            if not _freed(files, history, newest, standing, run_id, plan_generation):
                if time.monotonic() >= deadline:
                    raise _busy(history, newest, standing)
                why = _held(history, newest, standing)
                if patience.on_wait is not None and why != said:
                    said = why
                    patience.on_wait(why)
                time.sleep(min(looks.pause(_POLL_SECONDS), max(deadline - time.monotonic(), 0.0)))
            continue
        if newest is not None:
            finished_version(files, history, newest)
        head = newest_number(files, history)
        start = _start(files, history, run_id, plan_generation, head)
        fence = newest.fence + 1 if newest is not None else 1
        begun = newest is not None and newest.run == run_id and _left_half_done(files, history, newest)
        lease = take(files, history, fence, run_id, plan_generation, start=start, head=head, begun=begun)
        if lease is not None:
            return lease


def source_version(files: Filesystem, history: StateHistory, run_id: str, source: str) -> Version:
    """Return the state that a named run left, for a run with a state of its own, and pin it against deletion."""
    holder = newest_lease(files, history)
    if holder is not None and holder.run == source and not is_free(files, history, holder):
        run = _plan_of(files, history, holder)
        if run is not None:
            leave_state(files, run)
    start = version_of_run(files, history, source)
    if start is None:
        runs = [version.run for version in all_versions(files, history.versions)]
        raise StateError(
            f"The run {run_id!r} is to start from the state of the run {source!r}, which left no state, or whose "
            "state has expired.",
            hint=f"{did_you_mean(source, runs)}Runs with a state are: {listed(runs)}; or start fresh.",
            application=history.application,
            run=source,
        )
    if start.number:
        write_once(files, history.pin(start.number, run_id), VersionPin(run_id, time.time()))
    return start


def pinned_version(files: Filesystem, history: StateHistory, run_id: str, number: int) -> Version | None:
    """Return a version of the state, for a run with a state of its own, and pin it against deletion."""
    version = find_version(files, history, number)
    write_once(files, history.pin(number, run_id), VersionPin(run_id, time.time()))
    return version


def give_back(files: Filesystem, history: StateHistory, lease: Lease) -> None:
    """Frees the lease of a run that could not be planned."""
    take_away(files, history, lease, lease.run)


def _freed(
    files: Filesystem, history: StateHistory, lease: Lease, standing: Standing, run_id: str, plan_generation: int
) -> bool:
    """Return whether the lease has become free, or was found to be something else than it was; then look again."""
    if standing.state == DONE:
        run = _plan_of(files, history, lease)
        assert run is not None
        with suppress(StateFenced):  # it was given up at this moment: the next look says so
            leave_state(files, run)
        return True
    if lease.run == run_id:
        if lease.plan_generation > plan_generation:
            raise fenced(history, lease, f"plan {lease.plan_generation} of it is newer than plan {plan_generation}")
        end(files, history, lease, SUPERSEDED)
        return True
    if standing.state == GONE:
        take_away(files, history, lease, run_id)  # if the run began at this moment, the next look says so
        return True
    return standing.state not in (AT_WORK, HALF_DONE)


def _left_half_done(files: Filesystem, history: StateHistory, lease: Lease) -> bool:
    """Return whether the former plan of a run has committed a part, and was planned anew then."""
    ended = read(files, history.lease(lease.fence, "ended"), Ended)
    return ended is not None and ended.how == SUPERSEDED and has_begun(files, history, lease) is True


def _start(files: Filesystem, history: StateHistory, run_id: str, plan_generation: int, head: int) -> int:
    """The version that a run starts from: the newest one, or the one before its own when it is planned anew."""
    own = max((number for g in range(1, plan_generation) if (number := _left(files, history, run_id, g))), default=0)
    if own == 0:
        return head
    versions = continued_from(files, history, own, head)
    if not versions:
        return head  # what the run left was undone
    *later, left = versions
    if not later:
        return left.parent
    raise StateError(
        f"The run {run_id!r} is planned anew, and "
        f"{'a later run has' if len(later) == 1 else f'{len(later)} later runs have'} continued from "
        "the state that it left.",
        hint=f"Undo the later runs first: {history.reset_command(left.parent)}, then clear them with it; "
        'or run it with a state of its own: state_from="fresh".',
        application=history.application,
        run=run_id,
        version=own,
    )


def _left(files: Filesystem, history: StateHistory, run_id: str, plan_generation: int) -> int:
    """The number of the version that an earlier plan of a run left; 0 when it left none."""
    plan = read(files, RunFolder(history.application, run_id).plan(plan_generation), RunPlan)
    state = plan.state if plan is not None else None
    if state is None or state.fence is None:
        return 0
    ended = read(files, history.lease(state.fence, "ended"), Ended)
    return int(ended.version["number"]) if ended is not None and ended.version is not None else 0


def _plan_of(files: Filesystem, history: StateHistory, lease: Lease) -> RunPlan | None:
    return read(files, RunFolder(history.application, lease.run).plan(lease.plan_generation), RunPlan)


def _busy(history: StateHistory, lease: Lease, standing: Standing) -> StateBusy:
    if standing.silent_since is not None:
        hint = (
            "Try again when it is over. If it was killed, run it again under the same name, or clear it in Airflow: "
            "it continues where it stopped; "
            f"to give it up now: airflow-samza state abandon {history.application} {lease.run} --force"
        )
    elif standing.state == AT_WORK:
        hint = (
            "Try again when it is over, or wait for it: in Airflow with wait_for_state=True (the default), on the "
            "command line with --config job.state.lease.wait.ms=600000 (ten minutes)."
        )
    else:
        hint = (
            f"Clear its failed tasks, so that it finishes; or, if its output may stay as it is, give it up: "
            f"airflow-samza state abandon {history.application} {lease.run}"
        )
    return StateBusy(
        _held(history, lease, standing),
        hint=hint,
        application=history.application,
        holder=lease.run,
        fence=lease.fence,
    )


def _held(history: StateHistory, lease: Lease, standing: Standing) -> str:
    return f"The state of {history.application!r} is held by the run {lease.run!r}, which {standing.why}."
