"""Runs whose id was used before, and whose records are gone.

What such a run publishes under its former generation would be taken for published. The plan step rejects them, and
hints of the command line name the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.errors import TopicError
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.capabilities import RemembersWriters
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

OR_CLEAR_IN_AIRFLOW = (
    "; or, in Airflow, clear its plan task with its downstream: the next generation replaces what it wrote"
)


def reject_forgotten(files: Filesystem, run: RunPlan, systems: Mapping[str, System]) -> None:
    """Reject a run without records that has written to an output before, in this generation of its plan or later."""
    if RunFolder(run.application, run.run_id).plan_generations(files):
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
