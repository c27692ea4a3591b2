"""An attempt at a stage, from its plan to its result, or at a push, from its source to a version of the table.

A stage of one epoch is run here: intent, tasks, commit, publish; stages of several epochs are run by
:mod:`.stage_loop`. Whatever an earlier attempt has done is adopted: the intent, the manifests of single tasks, the
commit. A push is a stage, whose source is read and checked, and whose rows are staged; an attempt that finds everything
staged, or published, reads nothing (decision 47).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from airflow_samza.application.loader import load_application
from airflow_samza.engine.available_inputs import TaskPosition, most_messages
from airflow_samza.engine.producers import Producers
from airflow_samza.engine.push_task import empty_manifest, expectations_of
from airflow_samza.engine.runner_records import AttemptState
from airflow_samza.engine.stage_context import PushContext, StageContext, origins_of, reject_stopped
from airflow_samza.engine.stage_engine import StageEngine
from airflow_samza.engine.stage_loop import StageLoop
from airflow_samza.engine.tables.table_compaction import compact_if_due
from airflow_samza.errors import PushError
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
from airflow_samza.runs.stages.stage_state import StageHandle, can_finish, is_staged
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_checks import totals_of
from airflow_samza.runs.tables.push_finish import begin_staging, finish_push
from airflow_samza.runs.tables.push_request import PushRequest, request_path, standing_request
from airflow_samza.runs.tables.table_version import DELETED, INCREMENTAL, describe_push
from airflow_samza.schema import Field, Schema, parse_type
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.spark.system import CarriedByDriver
from airflow_samza.systems.system import StreamSpec, System, SystemBinding

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


def is_push(files: Filesystem, handle: StageHandle) -> bool:
    """Return whether an attempt is one at a push."""
    return files.exists(request_path(handle))


def run_push(
    engine: StageEngine,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    attempt: AttemptState,
    settings: Mapping[str, Any],
) -> None:
    """Run an attempt at a push to its version; every way to fail is a SamzaError."""
    request = standing_request(files, attempt.handle)
    system = bind_system(request.system, bindings[request.system], files.root)
    push = PushContext(files, bindings, attempt, origins_of(files, settings), system, request)
    standing = versions.by_push_id(files, request.system, request.topic, request.push_id)
    if standing is None and not can_finish(files, attempt.handle.folder):
        with push.errors_as_written():
            _stage_push(engine, push)
    reject_stopped(files, attempt)
    attempt.watch.start()  # where everything was staged before
    version = finish_push(files, system, request, partial(compact_if_due, push, partial(engine.compact, push)))
    log.info("%s", describe_push(version, request.push_id))


def _stage_push(engine: StageEngine, push: PushContext) -> None:
    """Write the rows of the source as segments, which nobody sees."""
    request, files, attempt = push.request, push.files, push.attempt
    if request.mode == INCREMENTAL and versions.newest(files, request.system, request.topic) is None:
        raise versions.needs_base(request.table, request.push_id)
    with engine.open_source(push) as source:
        if request.expect:
            from airflow_samza.task.messages.expectations import check_expectations

            check_expectations(None, expectations_of(request.expect), source.schema, f"table {request.table!r}")
        stream = push_stream(request, source.schema)
        make_topic(push.system, request, stream)
        epoch = begin_staging(files, request, source.schema)
        attempt.watch.start()
        reach("push-after-staging-began")
        source.stage(stream, epoch)
    paths = (attempt.handle.folder.manifest(epoch, number) for number in range(request.partitions))
    totals = totals_of(request, [adopt(files, path, empty_manifest()) for path in paths])
    staged = f"{totals.rows:,} rows and {totals.deletes:,} deletes"
    log.info("%s: %s staged in %.1f s", attempt.group, staged, attempt.watch.spans[-1].seconds)


def push_stream(request: PushRequest, schema: Schema) -> StreamSpec:
    """Return the push stream: the table's columns, and the mark of deletes.

    All columns but the key may be null, as in a row that deletes.
    """
    fields = [field if field.name in request.key else Field(field.name, field.type) for field in schema.fields]
    columns = Schema((*fields, Field(DELETED, parse_type("boolean"))))
    return StreamSpec(request.topic, request.partitions, columns.ddl(), request.key)


def make_topic(system: System, request: PushRequest, stream: StreamSpec) -> None:
    """Make the push stream; reject one that is there with other columns or partitions than the table has."""
    topic = system.metadata([stream]).get(stream.name)
    columns = Schema.of(str(stream.schema))
    if topic is not None and topic.schema is not None:
        existing = Schema.of(topic.schema)
        if [(f.name, f.type) for f in existing.fields] != [(f.name, f.type) for f in columns.fields]:
            ours, theirs = _columns_text(columns), _columns_text(existing)
            raise PushError(
                f"The push stream {stream.name!r} has the columns ({theirs}), and table {request.table!r} is declared "
                f"with ({ours}).",
                hint="A stream keeps its columns: push to a table of another name, or take the columns that it has."
                if DELETED in existing
                else "Something else has written to this stream; give the table another name, or delete the topic.",
                table=request.table,
                stream=topic.schema,
                declared=str(stream.schema),
            )
    if topic is not None and topic.partitions != request.partitions:
        raise PushError(
            f"The push stream {stream.name!r} has {topic.partitions} partitions, and table {request.table!r} is "
            f"declared with {request.partitions}.",
            hint=f"Declare partitions={topic.partitions}, or push to a table of another name: a stream's "
            "count never changes.",
            table=request.table,
        )
    if topic is None:
        system.create([stream])


def _columns_text(schema: Schema) -> str:
    return ", ".join(f"{field.name} {field.type.ddl()}" for field in schema.fields if field.name != DELETED)
