"""Publication of outputs: from which of them nothing can be taken back then, and of which no rows can be held back.

Plans carry its notes on them and are rejected by it, and the stage runner checks by it who may publish. A run whose id
was used before, and whose records are gone, is rejected, too: what it publishes under its former generation would be
taken for published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, Note, RunPlan
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import OutputClaim, PublishesForGood, RemembersWriters
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import MODE, UPSERT
from airflow_samza.systems.system import System


def output_claim(run: RunPlan, stage_id: str, generation: Generation, *, carries_state: bool) -> OutputClaim:
    """Return a stage's wish to publish.

    Runs that go on from each other's state publish different things, also where they have one data interval.
    """
    key = None if run.slot is None else run.slot.partition_key
    of = (*(run.interval or ()), *(() if key is None else (key,)))
    return OutputClaim(run.producer(stage_id), str(generation), None if carries_state else of or None)


def lasting_notes(
    run: RunPlan, spec: ApplicationSpec, systems: Mapping[str, System], *, carries_state: bool
) -> Iterator[Note]:
    """Yield what readers of such outputs will see; a rerun may be rejected."""
    for stage in run.plan.stages:
        for bound, system in run.outside(stage.outputs, systems, PublishesForGood):
            _reject_partitioner(run, spec, bound.stream_id)
            claim = output_claim(run, stage.stage_id, Generation(run.generation, 1), carries_state=carries_state)
            yield stage.stage_id, bound.stream_id, system.describe_output(bound.spec, claim)


def _reject_partitioner(run: RunPlan, spec: ApplicationSpec, stream_id: str) -> None:
    """Reject a partitioner that is not that of the output's system: keys are put where other writers put them."""
    declared, kind = spec.outputs[stream_id].partitioner, run.systems[run.stream(stream_id).system]["kind"]
    partitioner = traits_of(kind).partitioner
    if declared not in ("", partitioner):
        raise ConfigError(
            f"The output {stream_id!r} has partitioner={declared!r}, and messages are published to a system of kind "
            f"{kind} by the partitioner {partitioner!r}.",
            hint="Leave partitioner= out.",
            key="partitioner",
            value=declared,
            stream=stream_id,
        )


def reject_unheld(run: RunPlan, kinds: Mapping[str, str]) -> None:
    """Reject outputs that would be visible without an approval, and runs without an end after which one is given.

    ``kinds`` are those of the systems of the streams.
    """
    for stream_id in run.approvals:
        if run.mode == CONTINUOUS:
            raise ConfigError(
                f'The output {stream_id!r} has publish="after approval", and a continuous run does not end.',
                hint="Leave publish= out for continuous runs, or run it in another mode, such as a catch-up on a "
                'schedule (slice="checkpoint").',
                key="publish",
                value="after approval",
            )
        if traits_of(kinds.get(stream_id)).through_topics:
            raise ConfigError(
                f'The output {stream_id!r} has publish="after approval", and Spark writes it when the stage ends: its '
                f"system {run.streams[stream_id].system!r} is of kind {kinds[stream_id]}.",
                hint="Write it to files or to a table of kind iceberg or delta, or leave publish= out.",
                key="publish",
                value="after approval",
            )


def reject_uncompared(run: RunPlan, base: RunPlan, kinds: Mapping[str, str]) -> None:
    """Reject outputs whose rows cannot be held back, or read again: those of Spark, of brokers, and upserted ones."""
    for stream_id in run.approvals:
        if (MODE, UPSERT) in run.streams[stream_id].spec.options:
            raise ConfigError(
                f"The run {run.run_id!r} cannot be compared with the run {base.run_id!r}: the output {stream_id!r} is "
                "upserted, and which changes a run has merged into its table is not kept.",
                hint='Compare it in files: with mode="append" and a system of kind files (--system) in both runs.',
                key=MODE,
                value=UPSERT,
                stream=stream_id,
            )
        traits = traits_of(kinds.get(stream_id))
        if traits.through_topics or traits.stages_outputs:
            raise ConfigError(
                f"The run {run.run_id!r} cannot be compared with the run {base.run_id!r}: the output {stream_id!r} is "
                f"in the system {run.streams[stream_id].system!r} of kind {kinds[stream_id]}, whose rows cannot be "
                "read before they are published.",
                hint="Bind the system to files or a log for the comparison "
                f"(--system {run.streams[stream_id].system}=files:/path), and compare runs that both wrote there.",
                key="systems",
                value=kinds[stream_id],
                stream=stream_id,
            )


OR_CLEAR_IN_AIRFLOW = (
    "; or, in Airflow, clear its plan task with its downstream: the next generation replaces what it wrote"
)


def reject_forgotten(files: Filesystem, run: RunPlan, systems: Mapping[str, System]) -> None:
    """Reject a run without records that has written to an output before, in this generation of its plan or later."""
    if run.folder.plan_generations(files):
        return
    for stage in run.plan.stages:
        for stream, system in run.outside(stage.outputs, systems, RemembersWriters):
            standing = system.standing(stream.spec, run.producer(stage.stage_id))
            if standing is not None and Generation.parse(standing).plan >= run.generation:
                raise TopicError(
                    f"The run {run.run_id!r} of {run.application!r} has written to the output {stream.stream_id!r} "
                    f"before (generation {standing}), and its records are not kept any more.",
                    hint=f"Give the run another id (--run-id; a new Dag run){OR_CLEAR_IN_AIRFLOW}.",
                    stream=stream.stream_id,
                    run=run.run_id,
                    generation=standing,
                )
