"""Runs that are compared with others: the rows that each has written, and which of them may take the other's place.

The runtime compares by it, and the plan step passes by runs that show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from airflow_samza.errors import StageError, TopicError
from airflow_samza.runs.finish import output_stream
from airflow_samza.runs.held_outputs import PUBLISHED, committed_epochs, held_outputs
from airflow_samza.runs.progress.run_list import newest_runs, plan_of
from airflow_samza.runs.records.epoch_records import read_manifests
from airflow_samza.runs.records.names import Generation, safe
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stages.newest_stages import finished_result, is_finished
from airflow_samza.systems.capabilities import ReadsWritten, ReplacesSlots, Written
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import MODE, REPLACE, reject_meeting
from airflow_samza.systems.system import System

if TYPE_CHECKING:
    import pyarrow as pa


def last_finished(files: Filesystem, application: str) -> RunPlan | None:
    """Return the newest run of an application (its name) that has succeeded; None: there is none.

    Of runs that were compared with others only those count that were published.
    """
    plans = (plan_of(files, entry) for entry in newest_runs(files, application))
    return next((plan for plan in plans if is_finished(files, plan) and is_seen(files, plan)), None)


def is_seen(files: Filesystem, run: RunPlan) -> bool:
    """Return whether readers see what a run writes: it was not compared with another one, or is published."""
    return run.compares is None or all(one.state == PUBLISHED for one in held_outputs(files, run))


def outputs_of(run: RunPlan) -> frozenset[str]:
    """Return the outputs of a run, without its own topics."""
    return frozenset(bound.stream_id for _, bound in run.written_outside())


def written_count(files: Filesystem, run: RunPlan, stream_id: str) -> int:
    """Return how many rows the finished stages of a run have written to an output."""
    results = (finished_result(files, run, stage.stage_id) for stage in run.plan.stages)
    outputs = (one for result in results if result is not None for one in result.outputs)
    return sum(one.messages for one in outputs if one.stream_id == stream_id)


def written_rows(
    files: Filesystem, systems: Mapping[str, System], run: RunPlan, stream_id: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that the stages of a run have written to an output, whether or not they are published.

    Raises:
        StageError: a stage has not succeeded, or the records of its older epochs are deleted.
        TopicError: the rows are not there any more.
    """
    for stage in run.plan.stages:
        if stream_id not in stage.outputs:
            continue
        result = finished_result(files, run, stage.stage_id)
        if result is None:
            raise StageError(
                f"The stage {stage.stage_id} of the run {run.run_id!r} of {run.application!r} has not succeeded, so "
                "its rows cannot be compared.",
                hint="Have the run finished, or compare with another one (--as-of).",
                run=run.run_id,
                stage=stage.stage_id,
            )
        generation = Generation.parse(result.generation)
        folder = run.folder.stage(stage.stage_id, generation)
        epochs = [intent for intent, _ in committed_epochs(files, folder)]
        if len(epochs) < result.epochs:
            raise StageError(
                f"The stage {stage.stage_id} of the run {run.run_id!r} of {run.application!r} had {result.epochs:,} "
                f"epochs, and the records of only the last {len(epochs)} are kept, so its rows cannot be compared.",
                hint="Compare with a staged run, such as one on a schedule; the run that is compared with it may be "
                "continuous (--mode continuous).",
                run=run.run_id,
                stage=stage.stage_id,
            )
        bound = output_stream(run, stream_id, generation)
        system = systems[bound.system]
        if not isinstance(system, ReadsWritten) or bound.spec.through is not None:
            raise TopicError(
                f"The rows that the run {run.run_id!r} has written to the output {stream_id!r} cannot be read again: "
                f"its system {bound.system!r} is of kind {run.systems[bound.system]['kind']}.",
                hint="Outputs in a log, in files and in tables of kind iceberg and delta can be compared.",
                stream=stream_id,
                run=run.run_id,
            )
        for intent in epochs:
            for manifest in read_manifests(files, folder, intent):
                if stream_id in manifest.staged:
                    described = manifest.staged[stream_id].described
                    yield from system.written_rows(
                        bound.spec,
                        Written(
                            described,
                            run.producer(stage.stage_id),
                            result.generation,
                            intent.epoch,
                            manifest.task,
                            bound.slice,
                        ),
                    )


def reject_unpromoted(systems: Mapping[str, System], run: RunPlan) -> None:
    """Reject to publish a run that was compared with another one, where its rows would not replace those of that.

    They would stand beside them where runs go on from each other's state, and where a run writes no slot. And where a
    third run has replaced them since, they would replace the rows of that, with which nobody has compared them.
    """
    if run.compares is None:
        return
    _, other = run.compares
    for stream_id in run.approvals:
        bound = run.stream(stream_id)
        system, slot = systems[bound.system], run.slot_of(stream_id)
        if slot is not None and isinstance(system, ReplacesSlots):
            written = system.slot_writers(bound.spec, slot)
            reject_meeting(slot, written, output=repr(bound.spec.path or bound.spec.name), stream=stream_id)
            same = [writer.run_id for writer in written if writer.slot.code == slot.code]
            third = next((run_id for run_id in same if run_id not in (safe(other), safe(run.run_id))), None)
            if third is not None:
                raise StageError(
                    f"The run {run.run_id!r} of {run.application!r} cannot take the place of the run {other!r} in the "
                    f"output {stream_id!r}: the run {third!r} has replaced what that wrote.",
                    hint=f"Compare with that one (--as-of {third}), and publish the new comparison.",
                    run=run.run_id,
                    stream=stream_id,
                )
            continue
        why, hint = _why_beside(run, bound)
        raise StageError(
            f"The run {run.run_id!r} of {run.application!r} cannot take the place of the run {other!r} in the output "
            f"{stream_id!r}: {why}.",
            hint=hint,
            run=run.run_id,
            stream=stream_id,
        )


def _why_beside(run: RunPlan, bound: BoundStream) -> tuple[str, str]:
    """Return why rows of a run would replace nothing, and what to do."""
    if run.keeps_state:
        return (
            "the application carries state from run to run, and later runs go on from what that run left",
            "Deploy the application, and run it: undo the runs to be replaced first (airflow-samza state reset).",
        )
    if run.slot is None:
        return (
            "it has neither a data interval nor a partition key, by which it would replace what that run wrote",
            "Deploy the application, and run it again; runs with --interval can be published.",
        )
    return (
        f"what is written there (mode={dict(bound.spec.options).get(MODE, REPLACE)!r}) adds to what that run wrote",
        "Deploy the application, and have the next runs write with it.",
    )
