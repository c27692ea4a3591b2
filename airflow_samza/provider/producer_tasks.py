"""The Airflow tasks of the stages that write what a stage reads, where stages run at the same time (decision 67).

Records tell when a stage has started, and when it gave up. Whether a task that died, or was marked, will be tried
again, Airflow alone knows: so consumers ask it now and then, and triggers that were cancelled ask it why. Stage
operators and their triggers ask it, and cleanup does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import StageError
from airflow_samza.provider.airflow_versions import triggers_hear_of_kills
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.run_ends import is_aborted
from airflow_samza.runs.stages.stage_state import is_committed, newest_attempt, stage_status
from airflow_samza.systems.filesystems.filesystem import Filesystem

log = logging.getLogger(__name__)

FAILED_STATES = frozenset({"failed", "upstream_failed", "skipped", "removed"})
"""States of a task that Airflow does not try again unless it is cleared."""

ASK_SECONDS = 10.0
"""Seconds between two questions to Airflow for the states of producers' tasks."""

STARTED = "started"
WAITED_FOR = "waited for"
ABORTED = "aborted"


@dataclass(frozen=True)
class ProducerTasks:
    """The tasks of one Dag run, by the stage that each runs."""

    dag_id: str
    run_id: str
    tasks: Mapping[str, str]
    map_index: int = -1

    @classmethod
    def of(cls, ti: Any, tasks: Mapping[str, str]) -> ProducerTasks:
        """Return the producers of a task instance's stage."""
        return cls(ti.dag_id, ti.run_id, dict(tasks), getattr(ti, "map_index", -1))

    def states(self) -> dict[str, str | None]:
        """Return Airflow's state of each producer's task, by stage; None when it has not been scheduled."""
        return task_states(self, self.tasks)

    def lost(self, files: Filesystem, run: RunPlan) -> list[str]:
        """Return the stages whose tasks have ended although the stages have not."""
        return [stage for stage, state in self.states().items() if is_lost(files, run, stage, state)]


def task_states(of_run: Any, tasks: Iterable[str] | Mapping[str, str]) -> dict[str, str | None]:
    """Return Airflow's states of tasks of one Dag run, by id, or by what a mapping calls them.

    ``of_run`` is a task instance of the run, or what has its ids. A task that has not been scheduled has no state.
    """
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    names = tasks if isinstance(tasks, Mapping) else {task_id: task_id for task_id in tasks}
    index = getattr(of_run, "map_index", -1)
    of_index: dict[str, Any] = {"map_index": index} if index is not None and index >= 0 else {}
    task_states = RuntimeTaskInstance.get_task_states(
        dag_id=of_run.dag_id, task_ids=list(names.values()), run_ids=[of_run.run_id], **of_index
    ).get(of_run.run_id, {})
    suffix = f"_{index}" if of_index else ""
    states = {name: task_states.get(f"{task_id}{suffix}", task_states.get(task_id)) for name, task_id in names.items()}
    return {name: None if state is None else str(getattr(state, "value", state)) for name, state in states.items()}


def is_lost(files: Filesystem, run: RunPlan, stage_id: str, state: str | None) -> bool:
    """Return whether a stage will not write on.

    Its task has failed for good, or was marked a success while the stage had not finished.
    """
    if state not in FAILED_STATES and state != "success":
        return False
    handle = newest_handle(files, run, stage_id)
    if is_committed(files, handle.folder):
        return False
    return state != "success" or stage_status(files, handle).is_final


def producer_state(files: Filesystem, run: RunPlan, stage_id: str, beyond: str | None = None) -> str:
    """Return whether a stage has started, was aborted (it failed for good), or neither.

    ``beyond`` is a generation that does not count any more: its task was cleared.
    """
    handle = newest_handle(files, run, stage_id)
    if beyond is not None and handle.generation <= Generation.parse(beyond):
        return WAITED_FOR
    if is_aborted(files, handle.folder):
        return ABORTED
    has_begun = newest_attempt(files, handle.folder) or is_committed(files, handle.folder)  # or keeps a former result
    return STARTED if has_begun else WAITED_FOR


def cleared(files: Filesystem, run: RunPlan, states: Mapping[str, str | None]) -> dict[str, str]:
    """Return generations of producers that have ended although their tasks run.

    They were cleared, and are about to start anew.
    """
    generations = {}
    for stage_id, state in states.items():
        handle = newest_handle(files, run, stage_id)
        over = is_committed(files, handle.folder) or is_aborted(files, handle.folder)
        if over and state != "success" and state not in FAILED_STATES:
            generations[stage_id] = str(handle.generation)
    return generations


def producer_failed(stage_id: str, run: RunPlan, upstream: str) -> StageError:
    """Return the error of a consumer whose producer will not write on."""
    return StageError(
        f"The stage {stage_id!r} reads what {upstream!r} writes, and the task of that stage failed for good.",
        hint="Fix the failure there, then clear both tasks, and all others that read their output.",
        stage=stage_id,
        run=run.run_id,
        upstream=upstream,
    )


async def ended_by_a_user(task_instance: Any) -> bool:
    """Return whether a user has ended the task of a trigger that was cancelled, and nobody tells the trigger so.

    False, too, where Airflow cannot be asked any more: the triggerer stops.
    """
    if task_instance is None or triggers_hear_of_kills():
        return False
    from asgiref.sync import sync_to_async  # comes with Airflow, whose triggerers ask through it

    own_task = ProducerTasks.of(task_instance, {"": task_instance.task_id})
    try:
        state = (await sync_to_async(own_task.states, thread_sensitive=False)())[""]
    except Exception as error:
        log.warning(
            "The trigger of %s was cancelled, and Airflow does not answer why; its stages go on: %s",
            task_instance.task_id,
            error,
        )
        return False
    # A task that was cleared has no state, or is about to be tried again, which cancels what ran before.
    return state is None or state == "success" or state in FAILED_STATES
