"""The last step of write, audit, publish: what a run has written and nobody sees yet is published, or given up.

That is output which waits for an approval (:mod:`airflow_samza.runs.held_outputs`), and branches of tables
(:mod:`airflow_samza.runs.branch_publication`). The publish operator and the command line call it, through the runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.errors import StageError
from airflow_samza.runs.branch_publication import (
    DroppedBranch,
    PublishedBranch,
    drop_branches,
    finished_generations,
    publish_branches,
)
from airflow_samza.runs.compared_runs import reject_unpromoted
from airflow_samza.runs.held_outputs import HeldOutput, discard_held, publish_held
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import reject_worked_on
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

Published = HeldOutput | PublishedBranch
"""Output of a run that readers see since it was published."""

GivenUp = HeldOutput | DroppedBranch
"""Output of a run that readers never see."""


def publish_run(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[Published]:
    """Publish what a run keeps back, as ``who`` has approved it; doing it again changes nothing.

    A run of which a stage has not succeeded, one that keeps nothing back, and one that was given up are rejected.
    """
    finished_generations(files, run)
    reject_unpromoted(systems, run)
    held, branches = publish_held(files, systems, run, who), publish_branches(files, systems, run)
    _reject_visible(run, [*held, *branches])
    return [*held, *branches]


def give_up_run(files: Filesystem, systems: Mapping[str, System], run: RunPlan, who: str) -> list[GivenUp]:
    """Discard what a run keeps back, as ``who`` has rejected it; one that a stage runner works on is rejected."""
    reject_worked_on(files, run, "may write what is rejected")
    discarded, dropped = discard_held(files, systems, run, who), drop_branches(systems, run)
    _reject_visible(run, [*discarded, *dropped])
    return [*discarded, *dropped]


def _reject_visible(run: RunPlan, outputs: Sequence[Published | GivenUp]) -> None:
    """Reject a run that keeps nothing back."""
    if not outputs and run.approvals:
        raise StageError(
            f"No stage of the run {run.run_id!r} of {run.application!r} that writes an output which waits for approval "
            "has succeeded.",
            hint="There is nothing to reject: clear the run, or have it finished.",
            run=run.run_id,
        )
    if not outputs:
        raise StageError(
            f"The run {run.run_id!r} of {run.application!r} keeps no output back: all of it is visible.",
            hint='Set publish="after approval" on an output to publish it later, or branch="audit/{run_id}" on one to '
            "a table of kind iceberg or delta.",
            run=run.run_id,
        )
