"""Waiting of a stage's task for the stages that write what it reads, where stages run at the same time.

``task`` is the operator of the stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from airflow_samza.planner.titles import stage_names
from airflow_samza.prepare.shared_sections import followed
from airflow_samza.provider.deferral import interval_seconds
from airflow_samza.provider.producer_tasks import (
    ABORTED,
    STARTED,
    ProducerTasks,
    cleared,
    is_lost,
    producer_failed,
    producer_state,
)
from airflow_samza.provider.run_identity import generation_of
from airflow_samza.provider.run_tasks import run_tasks
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan

LOOK_AGAIN_SECONDS = 15.0
"""Seconds until a stage that waits for its producers asks Airflow for the states of their tasks."""


def wait_for_producers(task: Any, run: RunPlan, stage_id: str, context: Any, deadline: float | None) -> None:
    """Return when all stages that a task's stage reads from have started, in other runs, too; defer until then."""
    _wait_for_other_runs(task, run, stage_id, deadline)
    tasks, files = producer_tasks(task, run, context), task.hook.files
    upstream = [name for name in run.plan.stage(stage_id).upstream if name != stage_id]
    task_states = tasks.states() if tasks is not None else {}
    beyond = cleared(files, run, task_states)
    states = {name: producer_state(files, run, name, beyond.get(name)) for name in upstream}
    for name, state in states.items():
        if state == ABORTED or (name not in beyond and is_lost(files, run, name, task_states.get(name))):
            own = replace(
                task.hook.newest_handle(run, stage_id), generation=Generation(run.generation, generation_of(context))
            )
            task.hook.abort(own, f"{name} failed for good")  # its own readers stop, too
            raise producer_failed(stage_id, run, name)
    names = stage_names(run.plan)
    waited_for = [names[name] for name, state in states.items() if state != STARTED]
    if waited_for:
        have = "has" if len(waited_for) == 1 else "have"
        task.tell(f"Stage {names[stage_id]}: waiting, deferred, until {' and '.join(waited_for)} {have} started.")
        _defer_for(task, run, upstream, beyond, deadline)


def _wait_for_other_runs(task: Any, run: RunPlan, stage_id: str, deadline: float | None) -> None:
    """Defer until the stages of other runs have started whose sections the stage follows."""
    for stream_id in run.plan.stage(stage_id).inputs:
        writer = followed(run.stream(stream_id).slice)
        if writer is None:
            continue
        writer.reject_lost(task.hook.files, None, stream_id, stage_id, run.run_id)
        if writer.newest(task.hook.files) is None:
            name, other = stage_names(run.plan)[stage_id], writer.text(task.hook.files)
            task.tell(f"Stage {name}: waiting, deferred, until {other} writes {stream_id}.")
            _defer_for(task, task.hook.load_run(writer.application, writer.run_id), [writer.stage], {}, deadline)


def _defer_for(task: Any, run: RunPlan, upstream: list[str], beyond: Mapping[str, str], deadline: float | None) -> None:
    from airflow_samza.provider.triggers.runs import SamzaProducersTrigger  # a Dag file need not load it

    # Now and then the states are asked for again: a producer may fail before it has started anything.
    next_look = time.time() + LOOK_AGAIN_SECONDS
    task.defer(
        trigger=SamzaProducersTrigger(
            **task.hook.place_of_root,
            poll_interval=interval_seconds("poll_interval", task.poll_interval),
            deadline=next_look if deadline is None else min(next_look, deadline),
            application=run.application,
            run_id=run.run_id,
            generation=run.generation,
            upstream=upstream,
            beyond=beyond,
        ),
        method_name="execute_again",
        kwargs={"deadline": deadline},
    )


def producer_tasks(task: Any, run: RunPlan, context: Any) -> ProducerTasks | None:
    """Return the tasks of the stages that a task's stage reads from, where they run at the same time."""
    producers = task.producers
    if producers is None and run.stages_run_concurrently and task.stage is not None:
        tasks = run_tasks(task, context).by_stage(run.plan)
        upstream = [name for name in run.plan.stage(task.stage).upstream if name != task.stage]
        producers = {stage_id: tasks[stage_id] for stage_id in upstream if stage_id in tasks}
    return ProducerTasks.of(context["ti"], producers) if producers else None


def producers_guard(task: Any, run: RunPlan, context: Any) -> Callable[[], None] | None:
    """Return what raises the error of a producer that has failed for good; None where there is none to watch."""
    producers = producer_tasks(task, run, context)
    if producers is None or not run.stages_run_concurrently:
        return None

    def reject_lost() -> None:
        for upstream in producers.lost(task.hook.files, run):
            raise producer_failed(str(task.stage), run, upstream)

    return reject_lost
