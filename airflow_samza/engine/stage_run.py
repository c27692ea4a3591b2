"""An attempt at a stage, from its plan to its result; a stage of one epoch: intent, tasks, commit, publish.

Stages of several epochs are run by :mod:`.stage_loop`. Whatever an earlier attempt has done is adopted: the intent, the
manifests of single tasks, the commit.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.engine.available_inputs import TaskPosition, most_messages
from airflow_samza.engine.producers import Producers
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_context import StageContext, origins_of, reject_stopped
from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.engine.stage_loop import StageLoop
from airflow_samza.planner.titles import stage_names
from airflow_samza.prepare.bound_systems import bind_systems
from airflow_samza.prepare.side_inputs import planned_side_inputs
from airflow_samza.prepare.unchanged import reject_changed
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.finish import finish_stage
from airflow_samza.runs.records.epoch_records import (
    InputIntent,
    Intent,
    NeedsRunner,
    drop_what_cannot_count,
    newest_intent,
)
from airflow_samza.runs.records.folders import adopt, must_read, write_once
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.stage_result import describe_result
from airflow_samza.runs.stages.stage_state import StageHandle, is_staged
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.system import System, SystemBinding

log = logging.getLogger("airflow_samza.runner")


def run_stage(
    engine: StageEngine,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    attempt: AttemptState,
    settings: Mapping[str, Any],
) -> None:
    """Run an attempt at a stage to its result; every way to fail is a SamzaError."""
    handle = attempt.handle
    run = must_read(files, handle.run.plan(handle.generation.plan), RunPlan)
    # The application may have moved since it was planned: what the runner imports is where it was submitted from.
    run = dataclasses.replace(run, reference=attempt.request.reference or run.reference)
    reject_changed(run, load_application(run.reference).spec(run.config))
    systems = bind_systems(bindings, files.root)
    context = StageContext(files, bindings, attempt, origins_of(files, settings), systems, run)
    engine.connect(context)
    drop_what_cannot_count(files, handle.folder, attempt.request.code)
    intent = None
    if not is_staged(files, handle.folder):
        with context.errors_as_written():
            _note_who_finishes(context)
            context = dataclasses.replace(context, run=engine.read_inputs(context))
            if run.runs_epochs(handle.stage_id):
                StageLoop(engine, context).run()
            else:
                intent = _run_epoch(engine, context)
    reject_stopped(files, attempt)
    attempt.watch.start()  # where everything was staged before
    result = finish_stage(
        files, systems, run, handle.stage_id, handle.generation, handle.folder, intent, watch=attempt.watch
    )
    for line in describe_result(result, stage_names(run.plan)[result.stage_id]):
        log.info("%s", line)


def _note_who_finishes(context: StageContext) -> None:
    """Note, before there is an intent, that only a runner can publish what this stage writes to Spark."""
    outputs = context.run.plan.stage(context.handle.stage_id).outputs
    if any(isinstance(context.systems[context.run.stream(stream_id).system], CarriedByDriver) for stream_id in outputs):
        write_once(context.files, context.handle.folder.needs_runner, NeedsRunner(outputs))


def _run_epoch(engine: StageEngine, context: StageContext) -> Intent:
    inputs = bind_inputs(context.files, context.systems, context.run, context.handle)
    with engine.start_stage(context, inputs) as stage:
        reach("before-intent")
        intent = decide(context.files, context.run, context.handle, inputs, stage.setup.outputs)
        context.attempt.watch.start()
        reach("after-intent")
        tasks = range(intent.tasks)
        positions = (TaskPosition(context.run.plan, intent.stage, task, None) for task in tasks)
        stage.run_epoch(intent, most_messages(positions, intent.inputs))
        return intent


def bind_inputs(
    files: Filesystem, systems: Mapping[str, System], run: RunPlan, handle: StageHandle
) -> dict[str, BoundStream]:
    """Return the inputs that the epoch reads.

    They have the input ranges that the plan fixed, and for the run's own topics the newest committed generation. An
    intent that an earlier attempt wrote has fixed both, and is followed to the letter.
    """
    intent = newest_intent(files, handle.folder)
    producers = Producers(files, systems, run, handle, intent)
    producers.bind()
    inputs: dict[str, BoundStream] = {
        stream_id: run.stream(stream_id) for stream_id in run.plan.stage(handle.stage_id).inputs
    }
    for stream_id, bound in producers.streams().items():
        slice_ = intent.inputs[stream_id].slice if intent is not None else systems[bound.system].slice(bound.spec)
        inputs[stream_id] = dataclasses.replace(bound, slice=slice_)
    return inputs


def decide(
    files: Filesystem,
    run: RunPlan,
    handle: StageHandle,
    inputs: Mapping[str, BoundStream],
    outputs: Mapping[str, BoundStream],
) -> Intent:
    """Return the intent of a stage of one epoch: everything."""
    intent = Intent(
        stage=handle.stage_id,
        generation=str(handle.generation),
        epoch=0,
        tasks=run.plan.stage(handle.stage_id).task_count,
        inputs={
            stream_id: InputIntent(
                bound.spec.name,
                bound.slice or {},
                bound.spec.name.rpartition("/")[2] if run.is_own(stream_id) else None,
            )
            for stream_id, bound in inputs.items()
        },
        outputs={stream_id: bound.spec.name for stream_id, bound in outputs.items()},
        side_inputs=planned_side_inputs(run, handle.stage_id),
    )
    return adopt(files, handle.folder.intent(0), intent)
