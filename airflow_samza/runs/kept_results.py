"""The results that a new plan of a run may keep, as far as the records say (rule P13).

The plan step asks it, and so does the preview of a clear.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stage_code import is_comparable
from airflow_samza.runs.records.folders import RunFolder, read_report
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import CONTINUOUS, RunPlan
from airflow_samza.runs.records.stage_result import CODE, StageResult
from airflow_samza.system_kinds import traits_of
from airflow_samza.systems.capabilities import ReplacesSlots
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import run_id_of
from airflow_samza.systems.system import System

NOT_COMPARABLE = "its callables cannot be compared"


def standing_result(files: Filesystem, folder: RunFolder, stage_id: str) -> StageResult | None:
    """Return the result of the newest generation of a stage; None where that has none: its output may be half there."""
    generations = folder.generations(files, stage_id)
    return read_report(files, folder.stage(stage_id, generations[-1]).result, StageResult) if generations else None


def why_never(files: Filesystem, run: RunPlan, stage: Stage, result: StageResult | None) -> str:
    """Return why no plan can keep the result of a stage; "" where one may."""
    if result is None:
        return "it has not finished"
    if run.keeps_state or run.mode == CONTINUOUS:
        return "it goes on from state, which a new plan begins anew"
    if not result.fingerprint:
        return "its result has no fingerprint"
    if not is_comparable(result.fingerprint.get(CODE, "")):
        return NOT_COMPARABLE
    for table_id in stage.tables:
        if run.plan.table(table_id).kind == "remote":
            return f"it uses the remote table {table_id}, whose rows are unknown"
    for stream_id in (*stage.inputs, *stage.side_inputs):
        if traits_of(run.systems.get(run.streams[stream_id].system, {}).get("kind")).through_topics:
            return f"it reads {stream_id} through Spark, which does not say whether that has changed"
    folder, ended = run.folder, Generation.parse(result.generation).plan
    if files.exists(folder.stop(ended)) or files.exists(folder.drain(ended)):
        return "it was ended before its inputs were"
    return ""


def replaced(systems: Mapping[str, System], run: RunPlan, stage: Stage) -> str:
    """Return which run has replaced what a stage wrote to an output (rule O1); "" where none has."""
    for stream_id in stage.outputs:
        bound = run.stream(stream_id)
        if run.slot_of(stream_id) is None or bound.system not in systems:
            continue
        system = systems[bound.system]
        by = system.successor(bound.spec, run.producer(stage.stage_id)) if isinstance(system, ReplacesSlots) else None
        if by is not None:
            return f"the run {run_id_of(by)!r} has replaced what it wrote to {stream_id}"
    return ""
