"""Outputs from which nothing can be taken back once it is published.

Plans carry its notes on them and are rejected by it, and the stage runner checks by it who may publish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import Note, RunPlan
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import OutputClaim, PublishesForGood
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
