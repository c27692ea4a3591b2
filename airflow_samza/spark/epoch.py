"""One epoch of a stage, on the driver: intent, one Spark job, commit, publish.

Whatever of it was done by an earlier attempt is adopted: the intent, the manifests of single tasks, the commit.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from airflow_samza.application.operator_specs import TransformSpec
from airflow_samza.errors import SamzaError, StageError
from airflow_samza.runs.epoch_records import InputIntent, Intent, newest_intent
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.finish import finish_stage, output_stream
from airflow_samza.runs.folders import RunFolder, adopt, must_read
from airflow_samza.runs.names import Generation
from airflow_samza.runs.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stage_result import describe_result
from airflow_samza.runs.stage_state import StageHandle, can_finish, is_committed
from airflow_samza.schema import Schema
from airflow_samza.spark.bindings_json import bindings_to_json
from airflow_samza.spark.bound_systems import bind_systems
from airflow_samza.spark.catalyst import analyse_sections, stage_frame
from airflow_samza.spark.driver_session import DriverSession, is_gone
from airflow_samza.spark.epoch_task import EpochTask
from airflow_samza.spark.stage_job import Attempt, lost, refuse_unwanted, run_job
from airflow_samza.spark.worker_errors import shown_as_written
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.system import System, SystemBinding
from airflow_samza.task.stage_program import ProgramSource, StageProgram

log = logging.getLogger("airflow_samza.runner")


def run_epoch(
    driver: DriverSession, files: Filesystem, bindings: Mapping[str, SystemBinding], attempt: Attempt, settings: Mapping[str, Any]
) -> None:
    """Runs an attempt at a stage to its result; every way to fail is a SamzaError."""
    handle = attempt.handle
    run = RunPlan.from_dict(must_read(files, handle.run.plan(handle.generation.plan)))
    systems = bind_systems(bindings, files.root)
    if not can_finish(files, handle.folder):
        origins = {files.location(path): origin for path, origin in settings.get("origins", {}).items()}
        try:
            _run_tasks(driver, files, bindings, systems, run, attempt, origins)
        except SamzaError as error:  # the runner, too, imported the application from what was shipped
            raise SamzaError.from_dict(shown_as_written(error.to_dict(), origins)) from error
        except Exception as error:
            if is_gone(error):
                raise lost(driver, handle) from error
            raise
    refuse_unwanted(files, attempt)
    result = finish_stage(files, systems, run, handle.stage_id, handle.generation, handle.folder)
    for line in describe_result(result):
        log.info("%s", line)


def _run_tasks(
    driver: DriverSession,
    files: Filesystem,
    bindings: Mapping[str, SystemBinding],
    systems: Mapping[str, System],
    run: RunPlan,
    attempt: Attempt,
    origins: Mapping[str, str],
) -> None:
    handle = attempt.handle
    inputs = bind_inputs(files, systems, run, handle)
    source = program_source(systems, run, handle.stage_id, inputs)
    program = source.load()
    registers_names = any(isinstance(operator.spec, TransformSpec) for operator in program.operators.values())
    with driver.stage_session(attempt.request.get("spark_conf", {}), own=registers_names) as spark:
        if len(program.sections) > 1:
            source, program = analyse_sections(spark, source)
        outputs = {stream_id: _output(run, program, stream_id, handle.generation) for stream_id in program.stage.outputs}
        for bound in outputs.values():
            systems[bound.system].admin.create([bound.spec])
        reach("before-intent")
        intent = _decide(files, run, handle, inputs, outputs)
        reach("after-intent")
        program_path = handle.folder.attempt(handle.attempt, "program")
        files.put_if_absent(program_path, source.to_json().encode())
        task = EpochTask(
            root=files.root,
            bindings=bindings_to_json(bindings),
            stage=handle.stage_id,
            stage_folder=handle.folder.path,
            program=program_path,
            epoch=0,
            inputs={stream_id: dataclasses.replace(bound, slice=None).to_dict() for stream_id, bound in inputs.items()},
            outputs={stream_id: bound.to_dict() for stream_id, bound in outputs.items()},
            own=tuple(stream_id for stream_id in (*inputs, *outputs) if run.is_own(stream_id)),
        )
        run_job(driver, spark, files, attempt, program, lambda: stage_frame(spark, program, task, intent.tasks), origins)


def bind_inputs(files: Filesystem, systems: Mapping[str, System], run: RunPlan, handle: StageHandle) -> dict[str, BoundStream]:
    """What the epoch reads: the slices that the plan fixed, and for the run's own topics the newest generation that was committed.

    An intent that stands already is followed to the letter.
    """
    intent = newest_intent(files, handle.folder)
    found: dict[str, BoundStream] = {}
    for stream_id in run.plan.stage(handle.stage_id).inputs:
        known = intent.inputs[stream_id] if intent is not None else None
        if not run.is_own(stream_id):
            found[stream_id] = run.stream(stream_id)
        elif known is not None and known.writer is not None:
            bound = run.intermediate(stream_id, Generation.parse(known.writer))
            found[stream_id] = dataclasses.replace(bound, slice=known.slice)
        else:
            bound = run.intermediate(stream_id, _newest_writer(files, systems, run, stream_id, handle.stage_id))
            found[stream_id] = dataclasses.replace(bound, slice=systems[bound.system].slice(bound.spec))
    return found


def program_source(systems: Mapping[str, System], run: RunPlan, stage_id: str, inputs: Mapping[str, BoundStream]) -> ProgramSource:
    """All from which a process makes the stage's program; columns that the application does not tell come from the systems."""
    schemas = dict(run.schemas)
    for stream_id, bound in inputs.items():
        if run.is_own(stream_id):
            metadata = systems[bound.system].admin.metadata([bound.spec])
            ddl = metadata[bound.spec.name].schema if bound.spec.name in metadata else None
            if ddl is not None:
                schemas[stream_id] = ddl
    return ProgramSource(run.reference, run.plan.to_json(), stage_id, schemas, dict(run.config), run.contents)


def _newest_writer(files: Filesystem, systems: Mapping[str, System], run: RunPlan, stream_id: str, reader: str) -> Generation:
    """The newest finished generation of the stage that writes a topic, of this plan."""
    writer = run.writer_stage(stream_id)
    folder = RunFolder(run.application, run.run_id)
    for generation in reversed(folder.generations(files, writer)):
        stage = folder.stage(writer, generation)
        if generation.plan == run.generation and is_committed(files, stage):
            finish_stage(files, systems, run, writer, generation, stage)  # committed and not yet published: rolled forward here
            return generation
    raise StageError(
        f"The stage {reader!r} reads {stream_id!r}, which the stage {writer!r} has not finished in this run.",
        hint=f"Run {writer!r} first: clear {reader!r} with its upstream.",
        stage=reader,
        upstream=writer,
        run=run.run_id,
    )


def _output(run: RunPlan, program: StageProgram, stream_id: str, generation: Generation) -> BoundStream:
    bound = output_stream(run, stream_id, generation)
    schema: Schema | None = program.streams.get(stream_id)
    return bound if schema is None else dataclasses.replace(bound, spec=dataclasses.replace(bound.spec, schema=schema.ddl()))


def _decide(
    files: Filesystem, run: RunPlan, handle: StageHandle, inputs: Mapping[str, BoundStream], outputs: Mapping[str, BoundStream]
) -> Intent:
    intent = Intent(
        stage=handle.stage_id,
        generation=str(handle.generation),
        epoch=0,
        tasks=run.plan.stage(handle.stage_id).task_count,
        inputs={
            stream_id: InputIntent(
                bound.spec.name, bound.slice or {}, bound.spec.name.rpartition("/")[2] if run.is_own(stream_id) else None
            )
            for stream_id, bound in inputs.items()
        },
        outputs={stream_id: bound.spec.name for stream_id, bound in outputs.items()},
    )
    return Intent.from_dict(adopt(files, handle.folder.intent(0), intent.to_dict()))
