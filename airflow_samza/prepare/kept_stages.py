"""The stages of a run that is planned anew which keep their results, as nothing has changed for them (rule P13).

A stage's fingerprint are digests of all that its result follows from: its declared operators, the configuration, what
it reads (input ranges, versions of tables), where it writes, and its callables. It is kept with the result. The plan
step asks it, and the runtime tells by it what a retry runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_samza import __version__
from airflow_samza.planner.plan import Stage
from airflow_samza.planner.stage_code import is_comparable
from airflow_samza.prepare.shared_sections import followed
from airflow_samza.records import plain
from airflow_samza.runs.kept_results import NOT_COMPARABLE, replaced, standing_result, why_never
from airflow_samza.runs.progress.later_writers import written_behind
from airflow_samza.runs.records.folders import adopt, read_fixed
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan, StageReuse
from airflow_samza.runs.records.stage_result import CODE, StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.capabilities import RemembersWriters
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System
from airflow_samza.systems.tables.output_target import OF_A_PLAN


def fingerprints(run: RunPlan, digests: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the fingerprint of each stage: digests by what they are of. ``digests`` are those of callables."""
    return {stage.stage_id: _fingerprint(run, stage, digests.get(stage.stage_id, "")) for stage in run.plan.stages}


def reuse(files: Filesystem, systems: Mapping[str, System], run: RunPlan, *, enabled: bool) -> dict[str, StageReuse]:
    """Return what becomes of each stage of a run that was planned before; empty for a first plan.

    A stage is kept if its fingerprint and those of all stages before it are the same, and what it wrote is there.
    """
    if not any(generation < run.generation for generation in run.folder.plan_generations(files)):
        return {}
    if not enabled:
        return {stage.stage_id: StageReuse("", "the run was asked to run all stages") for stage in run.plan.stages}
    decisions: dict[str, StageReuse] = {}
    standing: dict[str, StageResult] = {}
    for stage in run.plan.stages:
        result = standing_result(files, run.folder, stage.stage_id)
        why = _why_not(files, run, stage, result, decisions, standing) or replaced(systems, run, stage)
        why = why or written_behind(files, run, stage.stage_id, result)
        if result is not None:
            standing[stage.stage_id] = result
        kept = result.generation if result is not None and not why else ""
        decisions[stage.stage_id] = StageReuse(kept, why or "nothing has changed that its result follows from")
    for stage in reversed(run.plan.stages):
        result = standing.get(stage.stage_id)
        if result is not None and decisions[stage.stage_id].kept:
            missing = _missing_output(systems, run, stage, result, decisions)
            if missing:
                decisions[stage.stage_id] = StageReuse("", missing)
    return decisions


def _fingerprint(run: RunPlan, stage: Stage, code: str) -> dict[str, str]:
    of_stage = {f"operator {op_id}": run.declared.get(f"operator {op_id}", {}) for op_id in stage.operators}
    parts: dict[str, Any] = {
        "operators": [of_stage, stage.task_count, stage.several_epochs],
        "configuration": [run.declared.get("configuration", {}), run.mode, run.interval],
        "the version of airflow_samza": __version__,
    }
    for stream_id in stage.inputs:
        parts[f"input {stream_id}"] = _stream_facts(run, stream_id, run.streams[stream_id])
    for stream_id in stage.side_inputs:
        parts[f"side input {stream_id}"] = _stream_facts(run, stream_id, run.side_input(stream_id))
    for table_id in stage.tables:
        parts[f"table {table_id}"] = [run.declared.get(f"table {table_id}", {}), run.tables.get(table_id)]
    for stream_id in stage.outputs:
        slot, bound = run.slot_of(stream_id), run.streams[stream_id]
        if bound.slice is not None:  # of a table: what is fixed of it, but for what differs from plan to plan
            bound = replace(bound, slice={k: v for k, v in bound.slice.items() if k not in OF_A_PLAN})
        parts[f"output {stream_id}"] = [
            *_stream_facts(run, stream_id, bound),
            plain(slot) if slot is not None else None,
        ]
    return {**{name: facts_digest(facts) for name, facts in parts.items()}, CODE: code}


def _stream_facts(run: RunPlan, stream_id: str, bound: Any) -> list[Any]:
    planned = run.plan.stream(stream_id)
    content = run.contents.get(stream_id)
    return [
        plain(bound),
        planned.partitions,
        plain(planned.partitioning),
        run.declared.get(f"stream {stream_id}", {}),
        run.systems.get(bound.system, {}),
        run.schemas.get(stream_id),
        plain(content) if content is not None else None,
        # Partial results are those of an aggregation in the stage that reads them.
        run.declared.get(f"operator {content.combined_for}", {}) if content is not None else None,
    ]


def _why_not(
    files: Filesystem,
    run: RunPlan,
    stage: Stage,
    result: StageResult | None,
    decisions: Mapping[str, StageReuse],
    standing: Mapping[str, StageResult],
) -> str:
    """Return why a stage cannot keep its result; empty where it can, as far as its reasons go."""
    held = [output.stream_id for output in result.outputs if output.held] if result is not None else []
    if result is not None and held:
        folder = run.folder.stage(stage.stage_id, Generation.parse(result.generation))
        if not files.exists(folder.published):
            return f"what it wrote to {held[0]} was not approved, and is discarded"
    never = why_never(files, run, stage, result)
    if never or result is None:
        return never
    now = run.fingerprints[stage.stage_id]
    if not is_comparable(now[CODE]):
        return NOT_COMPARABLE
    differing = [name for name in (*now, *result.fingerprint) if now.get(name) != result.fingerprint.get(name)]
    if differing:
        named = list(dict.fromkeys("its callables" if name == CODE else name for name in differing))
        return f"{', '.join(named[:3])}{' and more' if len(named) > 3 else ''} changed"
    read = {one.stream_id: one.stream for one in result.inputs}
    for stream_id in stage.inputs:
        if not run.is_own(stream_id):
            if followed(run.stream(stream_id).slice) is not None:
                return f"{stream_id} is still written by another run"
            continue
        writer = run.writer_stage(stream_id)
        if writer == stage.stage_id:
            continue
        before = standing.get(writer)
        if before is None or not decisions[writer].kept:
            return f"the stage {writer}, which it reads, runs"
        if read.get(stream_id) != run.intermediate(stream_id, Generation.parse(before.generation)).spec.name:
            return f"it has read what {writer} wrote before"
    return ""


def _missing_output(
    systems: Mapping[str, System],
    run: RunPlan,
    stage: Stage,
    result: StageResult,
    decisions: Mapping[str, StageReuse],
) -> str:
    """Return what a kept stage wrote and somebody needs that is there no more; empty where all is."""
    generation, producer = result.generation, run.producer(stage.stage_id)
    sent = {output.stream_id for output in result.outputs if output.messages}
    for stream_id in stage.outputs:
        bound = run.stream(stream_id)
        if run.is_own(stream_id):
            readers = [other for other in run.plan.stages if stream_id in other.inputs and other is not stage]
            if all(decisions[reader.stage_id].kept for reader in readers):
                continue
            bound = run.intermediate(stream_id, Generation.parse(generation))
            if bound.spec.name not in systems[bound.system].metadata([bound.spec]):
                return f"its topic {stream_id} is deleted, and a stage that runs has to read it"
        system: object = systems.get(bound.system)
        if stream_id in sent and isinstance(system, RemembersWriters):
            lost = system.lost(bound.spec, producer, generation)
            if lost is not None:
                return f"what it wrote to {stream_id} is there no more: {lost}"
    return ""


def facts_digest(facts: Any, digits: int = 16) -> str:
    """Return a digest of values of which JSON can be made, others as their text."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:digits]


def keep_result(files: Filesystem, run: RunPlan, handle: StageHandle) -> bool:
    """Take over the result that the plan keeps of a stage; return whether the stage has it.

    A generation of the same plan that comes later was cleared, and runs.
    """
    generation = run.kept_generation(handle.stage_id)
    generations = run.generations(files, handle.stage_id)
    if generation is None or (generations and generations[0] != handle.generation):
        return False
    result = read_fixed(files, handle.run.stage(handle.stage_id, generation).result, StageResult)
    if result is None:
        return False
    adopt(files, handle.folder.result, replace(result, kept=True))
    return True
