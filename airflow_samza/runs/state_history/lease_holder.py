"""The standing of the run that holds a lease, from its records: whether the state can go on to another run.

Nothing here has to be right about who lives, because the lease's own records decide
(:mod:`airflow_samza.runs.state_history.lease`). It says whom to wait for. The plan step and triggers wait by it; the
command line and reports name it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.records.liveness import is_alive
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import Lease, has_begun, is_free, newest_lease
from airflow_samza.systems.filesystems.filesystem import Filesystem

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
        lives = is_alive({**lease.who, "claimed_at": lease.claimed_at}, None)
        if lives and (time.time() if now is None else now) - lease.claimed_at < PLANNING_SECONDS:
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


def finished_stage(files: Filesystem, run: RunPlan, stage_id: str) -> StageHandle | None:
    """The newest generation of a stage under this plan, if it has succeeded."""
    folder = RunFolder(run.application, run.run_id)
    planned = [generation for generation in folder.generations(files, stage_id) if generation.plan == run.generation]
    if not planned:
        return None
    handle = StageHandle(run.application, run.run_id, stage_id, planned[-1])
    return handle if files.exists(handle.folder.result) else None
