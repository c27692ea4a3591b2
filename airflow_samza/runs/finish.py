"""Rolls an epoch forward: commit, publish to every output, result. Whoever calls it, and however often, the outcome is one.

Each step is decided or idempotent by itself, so a process may die between any two of them and another goes on.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from airflow_samza.errors import StageLost
from airflow_samza.runs.epoch_records import Intent, Manifest, commit, committed_control, read_intent, read_manifests
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.folders import StageFolder, adopt, read
from airflow_samza.runs.names import Generation
from airflow_samza.runs.run_plan import BoundStream, RunPlan
from airflow_samza.runs.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, System


def finish_stage(
    files: Filesystem, systems: Mapping[str, System], run_plan: RunPlan, stage_id: str, generation: Generation, folder: StageFolder
) -> StageResult:
    """The result of a stage whose tasks are done; commits and publishes whatever is not yet committed and published."""
    known = read(files, folder.result)
    if known is not None:
        return StageResult.from_dict(known)
    intent = read_intent(files, folder)
    if intent is None:
        raise StageLost(
            f"The stage {stage_id} (generation {generation}) has not started.",
            hint="Submit it first.",
            stage=stage_id,
            generation=str(generation),
        )
    manifests = read_manifests(files, folder, intent)
    reach("before-commit")
    committed = commit(files, folder, intent, manifests)
    reach("after-commit")
    outputs: list[OutputResult] = []
    for stream_id in intent.outputs:
        outputs.append(_publish(systems, run_plan, intent, generation, stream_id, manifests, committed))
        reach("after-first-publish")
    result = _result(run_plan, intent, generation, manifests, outputs)
    reach("before-result")
    standing = StageResult.from_dict(adopt(files, folder.result, result.to_dict()))
    reach("after-result")
    return standing


def output_stream(run_plan: RunPlan, stream_id: str, generation: Generation) -> BoundStream:
    """An output of a stage as this generation of the stage writes it."""
    return run_plan.intermediate(stream_id, generation) if run_plan.is_own(stream_id) else run_plan.stream(stream_id)


def _publish(
    systems: Mapping[str, System],
    run_plan: RunPlan,
    intent: Intent,
    generation: Generation,
    stream_id: str,
    manifests: list[Manifest],
    committed: Mapping[str, Any],
) -> OutputResult:
    bound = output_stream(run_plan, stream_id, generation)
    control = committed_control(committed, stream_id)
    staged = {manifest.task: manifest.staged[stream_id] for manifest in manifests if stream_id in manifest.staged}
    facts = systems[bound.system].publish(
        bound.spec,
        Publication(
            producer=run_plan.producer(intent.stage),
            generation=str(generation),
            epoch=intent.epoch,
            staged={task: item.described for task, item in staged.items()},
            control=control,
        ),
    )
    partitions = run_plan.plan.stream(stream_id).partitions
    described_bytes = sum(_number(item.described.get("bytes")) for item in staged.values())
    return OutputResult(
        stream_id=stream_id,
        system=bound.system,
        stream=bound.spec.name,
        partitions=partitions,
        messages=sum(item.messages for item in staged.values()),
        control=len(control) * partitions,
        bytes=described_bytes or _number(facts.get("bytes")),
        own=run_plan.is_own(stream_id),
        facts=facts,
        unit=run_plan.unit(stream_id),
    )


def _result(
    run_plan: RunPlan, intent: Intent, generation: Generation, manifests: list[Manifest], outputs: list[OutputResult]
) -> StageResult:
    inputs = []
    for stream_id, read_intent_ in intent.inputs.items():
        counts = [manifest.read.get(stream_id, {}) for manifest in manifests]
        inputs.append(
            InputResult(
                stream_id=stream_id,
                system=run_plan.stream(stream_id).system,
                stream=read_intent_.stream,
                partitions=run_plan.plan.stream(stream_id).partitions,
                messages=sum(count.get("messages", 0) for count in counts),
                control=sum(count.get("control", 0) for count in counts),
                bytes=sum(count.get("bytes", 0) for count in counts),
                unit=run_plan.unit(stream_id),
            )
        )
    facts: dict[str, Any] = {}
    for manifest in manifests:
        for name, value in manifest.facts.items():
            facts[name] = facts.get(name, 0) + value if isinstance(value, int | float) else value
    return StageResult(
        application=run_plan.application,
        run_id=run_plan.run_id,
        stage_id=intent.stage,
        generation=str(generation),
        tasks=intent.tasks,
        seconds=time.time() - intent.decided_at,
        task_seconds=sum(manifest.seconds for manifest in manifests),
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        task_facts=facts,
    )


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
