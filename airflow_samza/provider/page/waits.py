"""The reason for which a stage has not begun, and the stage for which a run waits longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from airflow_samza.application.rejections import listed
from airflow_samza.provider.page.airflow_records import TaskMark
from airflow_samza.provider.page.stage_answers import Stage
from airflow_samza.runs.progress.progress import NOT_STARTED
from airflow_samza.runs.stages.stage_state import QUEUED, RUNNING, SUCCEEDED

_NAMED = 3
"""Stages that a sentence names; the others are counted."""


def why_not_begun(
    answer: Stage, mark: TaskMark | None, upstream: Sequence[str], stages: Mapping[str, Stage]
) -> str | None:
    """Return a sentence on a stage that has not begun, after those ``upstream`` of it; None of any other.

    ``stages`` are all of the run, by id.
    """
    if answer.waiting_for:
        return f"The stage {answer.waiting_for} has to start first."
    if answer.state == QUEUED:
        return "Its stage runner starts Spark, or works on another stage."
    if answer.state != NOT_STARTED or mark is None:
        return None
    if mark.state == "upstream_failed":
        failed = [stage_id for stage_id in upstream if stages[stage_id].state not in (SUCCEEDED, NOT_STARTED)]
        return f"The {_named(failed)} failed." if failed else "A task before its own failed."
    if mark.state is None:
        before = [stage_id for stage_id in upstream if stages[stage_id].state != SUCCEEDED]
        return f"Waits for the {_named(before)}." if before else _BY_STATE[None]
    if mark.state == "scheduled" and mark.pool:
        return f"Waits for a slot (pool {mark.pool})."
    return _BY_STATE.get(mark.state)


_BY_STATE: Mapping[str | None, str] = {
    None: "Waits for Airflow to schedule its task.",
    "scheduled": "Waits for a slot.",
    "queued": "Waits for a worker of Airflow's executor.",
    "restarting": "Its task is being started again.",
    "running": "A stage runner and its Spark start.",
    "deferred": "A stage runner and its Spark start.",
    "up_for_retry": "Its task has failed before the stage began, and waits for its next try.",
    "up_for_reschedule": "Its task waits for its next look.",
    "failed": "Its task failed before the stage began: its log says why.",
    "skipped": "Its task was skipped.",
    "removed": "Its task is not in the Dag any more.",
    "success": "Its task was marked as successful without running the stage.",
}


def _named(stage_ids: Sequence[str]) -> str:
    """Return stages for a sentence, without an article.

    >>> _named(["a"]), _named(["a", "b"]), _named(["a", "b", "c", "d", "e"])
    ('stage a', 'stages a, b', 'stages a, b, c and 2 more')
    """
    return f"stage{'' if len(stage_ids) == 1 else 's'} {listed(stage_ids, _NAMED)}"


def bottleneck_of(stages: Sequence[Stage]) -> str | None:
    """Return the stage that takes longest to read what lies before it; None unless several run, one of them behind."""
    if sum(stage.state == RUNNING for stage in stages) < 2:
        return None
    behind = [(stage.seconds_left, stage.stage_id) for stage in stages if stage.seconds_left is not None]
    return max(behind)[1] if behind else None
