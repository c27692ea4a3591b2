"""One epoch of a stage, on the driver: intent, one Spark job, commit, publish.

Whatever of it was done by an earlier attempt is adopted: the intent, the manifests of single tasks, the commit.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from airflow_samza.errors import SamzaError, StageCancelled, StageError, StageFailed
from airflow_samza.runs.epoch_records import InputIntent, Intent, read_intent
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.finish import finish_stage, output_stream
from airflow_samza.runs.folders import RunFolder, adopt, must_read
from airflow_samza.runs.names import Generation
from airflow_samza.runs.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stage_result import describe_result
from airflow_samza.runs.stage_state import StageHandle, can_finish
from airflow_samza.schema import Schema
from airflow_samza.spark.bindings_json import bindings_to_json
from airflow_samza.spark.bound_systems import bind_systems
from airflow_samza.spark.catalyst import analyse_sections, stage_frame
from airflow_samza.spark.epoch_task import EpochTask
from airflow_samza.spark.worker_errors import find_error, shown_as_written
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.system import System, SystemBinding
from airflow_samza.task.stage_program import ProgramSource, StageProgram

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("airflow_samza.runner")

# A worker that dies without a word (killed, out of memory) may succeed at once; a second silent death is reported.
JOB_TRIES = 2

_WORKER_DIED = ("Python worker exited unexpectedly", "Python worker process", "worker failed to connect back", "EOFException")


class Attempt(Protocol):
    """What an epoch needs to know of the attempt that it belongs to."""

    handle: StageHandle
    group: str
    request: Mapping[str, Any]

    def cancel_asked(self) -> bool:
        """Whether somebody asked to cancel it."""
        ...


def run_epoch(
    session: SparkSession, files: Filesystem, bindings: Mapping[str, SystemBinding], attempt: Attempt, settings: Mapping[str, Any]
) -> None:
    """Runs an attempt at a stage to its result; every way to fail is a SamzaError."""
    handle = attempt.handle
    run = RunPlan.from_dict(must_read(files, handle.run.plan(handle.generation.plan)))
    systems = bind_systems(bindings, files.root)
    if not can_finish(files, handle.folder):
        spark = session.newSession()
        for key, value in attempt.request.get("spark_conf", {}).items():
            spark.conf.set(key, value)
        origins = {files.location(path): origin for path, origin in settings.get("origins", {}).items()}
        try:
            _run_tasks(spark, files, bindings, systems, run, attempt, origins)
        except SamzaError as error:  # the runner, too, imported the application from what was shipped
            raise SamzaError.from_dict(shown_as_written(error.to_dict(), origins)) from error
    _still_wanted(files, attempt)
    result = finish_stage(files, systems, run, handle.stage_id, handle.generation, handle.folder)
    for line in describe_result(result):
        log.info("%s", line)


def _run_tasks(
    spark: SparkSession,
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
        inputs={stream_id: dataclasses.replace(bound, slice=None).to_dict() for stream_id, bound in inputs.items()},
        outputs={stream_id: bound.to_dict() for stream_id, bound in outputs.items()},
        own=tuple(stream_id for stream_id in (*inputs, *outputs) if run.is_own(stream_id)),
    )
    for tries in range(1, JOB_TRIES + 1):
        _still_wanted(files, attempt)
        spark.sparkContext.setJobGroup(attempt.group, f"stage {handle.stage_id} of {run.application}, run {run.run_id}", True)
        try:
            started = time.monotonic()
            stage_frame(spark, program, task, intent.tasks).collect()
            log.info("%s: the Spark job took %.2f s", attempt.group, time.monotonic() - started)
            return
        except Exception as error:
            text = str(error)
            if attempt.cancel_asked():
                raise _cancelled(handle) from error
            found = find_error(text, origins)
            if found is not None:
                raise found from error
            log.exception("%s: the Spark job failed without an error of ours", attempt.group)
            died = any(words in text for words in _WORKER_DIED)
            if tries == JOB_TRIES or not died:
                raise StageFailed(
                    f"The Spark job of the stage {handle.stage_id!r} failed{_suspects(program)}: {_first_line(text)}",
                    hint=(
                        "A Python worker that dies without a word was killed or ran out of memory; give it more, or read less per task."
                        if died
                        else "The runner's log has the whole story. When it is a value: "
                        "leave such rows out before, or use try_cast and its like."
                    ),
                    stage=handle.stage_id,
                    run=run.run_id,
                ) from error


def _suspects(program: StageProgram) -> str:
    """The operators of a stage that Catalyst runs, with their places: what fails without an error of ours fails in one of them."""
    run = [program.operators[op_id].spec for section in program.sections if section.kind == "catalyst" for op_id in section.operators]
    named = [f"{spec.title} ({spec.location})" if spec.location is not None else spec.title for spec in run]
    return f" in {' or '.join(named)}" if named else ""


def bind_inputs(files: Filesystem, systems: Mapping[str, System], run: RunPlan, handle: StageHandle) -> dict[str, BoundStream]:
    """What the epoch reads: the slices that the plan fixed, and for the run's own topics the newest generation that was committed.

    An intent that stands already is followed to the letter.
    """
    intent = read_intent(files, handle.folder)
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
        if generation.plan == run.generation and (files.exists(stage.result) or files.exists(stage.commit)):
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
    return Intent.from_dict(adopt(files, handle.folder.intent, intent.to_dict()))


def _still_wanted(files: Filesystem, attempt: Attempt) -> None:
    handle = attempt.handle
    if attempt.cancel_asked():
        raise _cancelled(handle)
    newest = handle.run.generations(files, handle.stage_id)[-1]
    if newest > handle.generation:
        raise StageCancelled(
            f"Generation {handle.generation} of the stage {handle.stage_id} is superseded by {newest}.",
            hint="Nothing is lost: the newer generation does the work.",
            stage=handle.stage_id,
            run=handle.run_id,
        )


def _cancelled(handle: StageHandle) -> StageCancelled:
    return StageCancelled(
        f"The stage {handle.stage_id} was cancelled.", hint="Submit it again, or clear it.", stage=handle.stage_id, run=handle.run_id
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:300] if text.strip() else "no reason given"
