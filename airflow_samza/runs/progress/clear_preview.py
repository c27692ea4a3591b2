"""The preview of a clear: which stages of a run go again, which would have to, and who has read what they wrote.

It follows from the plan and the records; nothing is changed. The page shows it before somebody clears.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from airflow_samza.errors import SamzaError
from airflow_samza.planner.plan import Stage
from airflow_samza.runs.kept_results import replaced, why_never
from airflow_samza.runs.progress.later_writers import later_writers, named, written_behind
from airflow_samza.runs.progress.progress import NOT_STARTED
from airflow_samza.runs.progress.run_list import newest_runs, plan_of
from airflow_samza.runs.records.folders import read_report
from airflow_samza.runs.records.run_plan import CARRIED, FOLLOWS, RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.newest_stages import newest_handle
from airflow_samza.runs.stages.stage_state import FINAL, SUCCEEDED, stage_status, written_by
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.versions import (
    continued_from,
    is_reset,
    newest_number,
    newest_versions,
    version_of_run,
)
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import System

Effect = Literal["runs again", "stays", "must run again"]
RUNS_AGAIN: Effect = "runs again"
STAYS: Effect = "stays"
MUST: Effect = "must run again"


_LEFT = "It has not begun, and Airflow starts it only when it is cleared, too."
_KEPT = (
    "It keeps its result, unless the new plan finds that something has changed: its operators, callables, "
    "configuration or inputs, or a stage before it."
)


@dataclass(frozen=True)
class ClearedStage:
    """A stage, what becomes of it (:data:`RUNS_AGAIN`, :data:`STAYS`, :data:`MUST`), why, and its last figures."""

    stage_id: str
    effect: Effect
    why: str
    seconds: float | None = None
    messages: int | None = None


@dataclass(frozen=True)
class SectionReader:
    """A run of another application that has read what this run wrote to a shared stream, and keeps it in its state."""

    application: str
    run_id: str
    stream_id: str


@dataclass(frozen=True)
class ClearPreview:
    """The effects of a clear of some stages; ``sentences`` say what stands in its way, or comes with it."""

    stages: tuple[ClearedStage, ...]
    readers: tuple[SectionReader, ...]
    sentences: tuple[str, ...]


def clear_preview(
    files: Filesystem,
    systems: Mapping[str, System],
    run: RunPlan,
    cleared: Collection[str],
    *,
    plan: bool = False,
    downstream: bool = False,
) -> ClearPreview:
    """Return the effects of clearing stages, or the ``plan`` task; ``downstream`` clears what Airflow puts after them.

    A new plan keeps results of which nothing has changed: whether something has is known when it is made.
    """
    states = {stage.stage_id: _state(files, run, stage.stage_id) for stage in run.plan.stages}
    asked = set(cleared)
    if plan and downstream:
        asked = set(states)
    elif downstream and not run.stages_run_concurrently:
        asked |= {stage_id for stage_id in states if asked & {*_producers(run, stage_id)}}
    left = _left(run, states, asked, files.exists(run.folder.closed))
    rerun = asked - left
    deleted = {} if plan else dict(_deleted_topics(files, systems, run, rerun))
    cleared_stages = []
    for stage in run.plan.stages:
        result = _result(files, run, stage.stage_id)
        if plan and downstream:
            never = why_never(files, run, stage, result) or _replaced(systems, run, stage)
            never = never or written_behind(files, run, stage.stage_id, result)
            effect, why = (RUNS_AGAIN, f"It runs by the new plan: {never}.") if never else (STAYS, _KEPT)
        else:
            effect, why = _effect(run, stage.stage_id, states, asked, left, deleted, plan)
        messages = result.read if result is not None else None
        seconds = result.seconds if result is not None else None
        cleared_stages.append(ClearedStage(stage.stage_id, effect, why, seconds, messages))
    written = {bound.stream_id for stage, bound in run.written_outside() if stage.stage_id in rerun or plan}
    return ClearPreview(
        tuple(cleared_stages),
        tuple(_section_readers(files, run, written)),
        (
            *_sentences(files, run, written, downstream=downstream, plan=plan),
            *(_followers(files, run) if written else ()),
            *_replaces_in_turn(systems, run, rerun),
        ),
    )


def _left(run: RunPlan, states: Mapping[str, str], asked: Collection[str], closed: bool) -> set[str]:
    """Return the stages whose tasks Airflow does not start, as they are not cleared, or one before them has failed."""
    lost: set[str] = set()  # to Airflow, before the clear: what has failed, and what comes behind it
    left: set[str] = set()
    for stage in run.plan.stages:  # in an order in which each comes after those that it reads
        before = set() if run.stages_run_concurrently else {*stage.upstream} - {stage.stage_id}
        state = states[stage.stage_id]
        failed = state in FINAL and state != SUCCEEDED
        if failed or (state == NOT_STARTED and (closed or lost & before)):
            lost.add(stage.stage_id)
        if left & before if stage.stage_id in asked else stage.stage_id in lost:
            left.add(stage.stage_id)
    return left


def _effect(
    run: RunPlan,
    stage_id: str,
    states: Mapping[str, str],
    asked: set[str],
    left: set[str],
    deleted: Mapping[str, str],
    plan: bool,
) -> tuple[Effect, str]:
    begun = states[stage_id] != NOT_STARTED
    if stage_id in asked:
        if stage_id not in left:
            return RUNS_AGAIN, "It is cleared: a new generation writes its output anew, in place of the former one."
        before = ", ".join(name for name in run.plan.stage(stage_id).upstream if name in left)
        return STAYS, f"Airflow does not start it behind {before}, which has not succeeded, until that is cleared, too."
    if plan:
        if begun:
            return MUST, "It was run by the former plan, and its output would stay that of the former one."
        return (MUST, _LEFT) if stage_id in left else (STAYS, "It has not begun, and will run by the new plan.")
    if stage_id in deleted:
        return MUST, f"Its output {deleted[stage_id]!r} is deleted by now, and a cleared stage has to read it."
    rewritten = (asked - left) | deleted.keys()
    producers = [name for name in run.plan.stage(stage_id).upstream if name in rewritten]
    indirect = [name for name in _producers(run, stage_id) if name in rewritten]
    if not indirect:
        behind = {name for name in left if stage_id in _producers(run, name)}
        if stage_id in left and any(name in asked or rewritten & {*_producers(run, name)} for name in behind):
            return MUST, "It has not succeeded, and Airflow starts nothing behind it until it is cleared, too."
        return STAYS, "It reads nothing that is written anew."
    named = ", ".join(producers or indirect)
    if not begun:
        waits = f"It has not begun, and will read what {named} writes anew."
        return (MUST, _LEFT) if stage_id in left else (STAYS, waits)
    if states[stage_id] not in FINAL:
        return MUST, f"It is at work on what {named} writes, and stops with an error when that is cleared."
    return MUST, f"It has read what {named} wrote before, and keeps that until it is cleared, too."


def _state(files: Filesystem, run: RunPlan, stage_id: str) -> str:
    status = stage_status(files, newest_handle(files, run, stage_id))
    if not status.attempt and status.state != SUCCEEDED:
        return NOT_STARTED
    return status.state


def _result(files: Filesystem, run: RunPlan, stage_id: str) -> StageResult | None:
    return read_report(files, newest_handle(files, run, stage_id).folder.result, StageResult)


def _producers(run: RunPlan, stage_id: str) -> list[str]:
    """Return the stages before one, directly or not."""
    producers: list[str] = []
    left = list(run.plan.stage(stage_id).upstream)
    while left:
        name = left.pop()
        if name not in producers and name != stage_id:
            producers.append(name)
            left += run.plan.stage(name).upstream
    return producers


def _deleted_topics(
    files: Filesystem, systems: Mapping[str, System], run: RunPlan, rerun: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Yield the stages whose output a cleared stage reads and finds deleted, with the stream; and those before them."""
    left, seen = list(rerun), set(rerun)
    while left:
        for stream_id in run.plan.stage(left.pop()).inputs:
            if not run.is_own(stream_id):
                continue
            writer = run.writer_stage(stream_id)
            handle = newest_handle(files, run, writer)
            bound = run.intermediate(stream_id, written_by(files, handle))
            system = systems.get(bound.system)
            has_written = files.exists(handle.folder.result)
            if writer in seen or system is None or not has_written:
                continue
            if bound.spec.name not in system.metadata([bound.spec]):
                seen.add(writer)
                left.append(writer)
                yield writer, stream_id


def _section_readers(files: Filesystem, run: RunPlan, written: Collection[str]) -> Iterator[SectionReader]:
    """Yield the applications whose newest state holds messages of this run."""
    mark = f"{run.application}/{run.run_id}"
    names = {run.stream(stream_id).spec.name: stream_id for stream_id in written}
    for version in newest_versions(files) if names else ():
        for stream_id, sections in version.sections.items():
            if stream_id in names.values() and any(section.rpartition("@")[0] == mark for section in sections):
                yield SectionReader(version.plan.application, version.run, stream_id)


def _followers(files: Filesystem, run: RunPlan) -> Iterator[str]:
    """Yield which runs are at work on what this one writes of a shared stream (rule C10)."""
    for entry in newest_runs(files):
        if entry.closed or (entry.application, entry.run_id) == (run.application, run.run_id):
            continue
        reader = plan_of(files, entry)
        for stream_id, bound in reader.streams.items():
            writer = (bound.slice or {}).get(FOLLOWS) or {}
            if (writer.get("application"), writer.get("run_id")) != (run.application, run.run_id):
                continue
            stages = [stage.stage_id for stage in reader.plan.stages if stream_id in stage.inputs]
            left = [name for name in stages if _state(files, reader, name) not in FINAL]
            if left:
                yield (
                    f"The run {reader.run_id!r} of {reader.application!r} follows what this one writes of "
                    f"{stream_id!r}: {', '.join(left)} stops with an error when that is cleared before its end, and "
                    "is to be cleared, too."
                )


def _replaced(systems: Mapping[str, System], run: RunPlan, stage: Stage) -> str:
    """Return which run has replaced what a stage wrote, as far as its outputs can be looked at from here."""
    with suppress(SamzaError):
        return replaced(systems, run, stage)
    return ""


def _replaces_in_turn(systems: Mapping[str, System], run: RunPlan, rerun: Collection[str]) -> Iterator[str]:
    """Yield what a clear does to the output of a run that has replaced this one (rule O1)."""
    for stage in run.plan.stages:
        why = _replaced(systems, run, stage) if stage.stage_id in rerun else ""
        if why:
            yield f"In the stage {stage.stage_id}, {why}: the clear replaces that in turn."


def _sentences(
    files: Filesystem, run: RunPlan, written: Collection[str], *, downstream: bool, plan: bool
) -> Iterator[str]:
    if downstream and run.stages_run_concurrently and not plan:
        yield (
            "There are no arrows between stages that run at the same time: Airflow's downstream of a stage does not "
            "hold its readers. Clear the whole group, or the stages that have to run again by name."
        )
    if files.exists(run.folder.closed):
        behind = "cleanup runs again behind it" if downstream else "clear cleanup, too: Airflow does not run it again"
        yield f"The run is over, and is opened again; {behind}."
    undo = list(_to_undo(files, run)) if plan else []
    yield from undo or later_writers(files, run, written).sentences


def _to_undo(files: Filesystem, run: RunPlan) -> Iterator[str]:
    """Yield which later runs go on from the state that a run left, which is planned anew only when they are undone."""
    history = StateHistory(run.application, run.app_id)
    left = version_of_run(files, history, run.run_id) if run.state is not None and run.state.kind == CARRIED else None
    if left is None:
        return
    *later, found = continued_from(files, history, left.number, newest_number(files, history)) or [left]
    runs = [version.run for version in reversed(later) if not is_reset(version)]
    if later:
        yield (
            f"Later runs ({named(runs)}) have continued from the state that this run left (version {left.number}): "
            f"undo them first ({history.reset_command(found.parent)}), and clear them behind it, too, in their order."
        )
