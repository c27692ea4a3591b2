"""Later runs whose rows a run replaces by older ones: its outputs know rows by key, or hold the rows of one run.

A clear or a backfill of an older run is one: it writes again behind runs that were later than it. The plan step warns
by it, and so do previews of backfills.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_samza.application.rejections import listed
from airflow_samza.runs.progress.run_list import origin_of
from airflow_samza.runs.records.folders import RunFolder, numbers, read_report
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.records.run_plan import CARRIED, BoundStream, RunPlan, newest_plan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.output_slots import MODE, UPSERT

_REPLACING = (UPSERT, "replace table", "overwrite")
"""The modes in which the run that writes last has its rows in an output, whichever data it has read."""

_SHOWN = 5
"""Runs that a sentence names."""

_MOST = 100
"""Runs on one side of a run, and runs without a date in their name, whose plans are read: each is a request."""

_DATED = re.compile(r"(?:scheduled|backfill)__(\d{4}-\d\d-\d\dT[\d-]+)")
"""The names of runs of a schedule or a backfill, which Airflow makes of their data interval."""


@dataclass(frozen=True)
class LaterWriters:
    """The outputs of a run to which later runs have written, and those runs, in their order."""

    outputs: tuple[str, ...] = ()
    run_ids: tuple[str, ...] = ()

    def without(self, run_ids: Collection[str]) -> LaterWriters:
        """Return the same without runs that run again anyway, behind this one."""
        return replace(self, run_ids=tuple(one for one in self.run_ids if one not in run_ids))

    def renamed(self, name: Callable[[str], str]) -> LaterWriters:
        """Return the same with other names for the runs."""
        return replace(self, run_ids=tuple(dict.fromkeys(name(one) for one in self.run_ids)))

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentence that names the runs and the remedy; nothing where there is no later run."""
        if not self.run_ids:
            return ()
        outputs = ", ".join(repr(one) for one in self.outputs)
        has, them = ("The later run {} has", "it") if len(self.run_ids) == 1 else ("The later runs {} have", "them")
        return (
            f"{has.format(named(self.run_ids))} written to {outputs}, and this run replaces newer rows there by older "
            f"ones: clear {them} behind it, too{', in their order' if them == 'them' else ''}.",
        )


def named(run_ids: Collection[str]) -> str:
    """Return the first runs by name, and the number of the others.

    >>> named(["a", "b"]), named("abcdefg")
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    return listed(map(repr, run_ids), _SHOWN)


def merged(*each: LaterWriters) -> LaterWriters:
    """Return the later runs of several runs, oldest first, as one."""
    outputs = dict.fromkeys(name for one in each if one.run_ids for name in one.outputs)
    return LaterWriters(tuple(outputs), tuple(dict.fromkeys(run_id for one in each for run_id in one.run_ids)))


def later_writers(files: Filesystem, run: RunPlan, streams: Collection[str] | None = None) -> LaterWriters:
    """Return the later runs that have written to outputs of a run whose rows the last writer replaces.

    ``streams`` are the outputs that are written; None: those of all stages whose result the plan does not keep. Later
    is, of runs that go on from each other's state, who came behind; else who has a later data interval; else who was
    planned later.
    """
    if streams is None:
        streams = {
            name for stage in run.plan.stages if run.kept_generation(stage.stage_id) is None for name in stage.outputs
        }
    places = {_place(bound): name for name, bound in _replacing(run) if name in streams}
    if not places or run.compares is not None:
        return LaterWriters()
    first = _first_plan(files, run)
    if first is None and (run.interval is None or _is_carried(run)):
        return LaterWriters()  # it has never run before, and so is the last one
    outputs: dict[str, None] = {}
    later: list[tuple[float, str]] = []
    for other in _others(files, run, later=True):
        met = [places[_place(bound)] for name, bound in _replacing(other) if _place(bound) in places]
        order = _behind(files, run, first, other) if met else None
        if order is not None and _has_written(files, other, places):
            outputs.update(dict.fromkeys(met))
            later.append((order, other.run_id))
    return LaterWriters(tuple(outputs), tuple(run_id for _, run_id in sorted(later)))


def written_behind(files: Filesystem, run: RunPlan, stage_id: str, result: StageResult | None) -> str:
    """Return which older run has replaced newer rows that a stage has written; "" where none has, as far as is known.

    So a run that is cleared behind an older one writes its rows again, though nothing has changed for it.
    """
    outputs = {_place(bound): name for name, bound in _replacing(run) if name in run.plan.stage(stage_id).outputs}
    if not outputs or result is None or not result.ran:
        return ""
    for other in _others(files, run, later=False):
        met = next((outputs[_place(bound)] for _, bound in _replacing(other) if _place(bound) in outputs), None)
        if met is None or _behind(files, other, _first_plan(files, other), run) is None:
            continue
        if any(end > _end_of(result) for end in _ends(files, other, outputs)):
            return f"the older run {other.run_id!r} has written to {met} behind it"
    return ""


def _ends(files: Filesystem, run: RunPlan, places: Mapping[tuple[str, ...], str]) -> Iterator[float]:
    """Yield when the stages of a run that write one of the places have ended for the last time."""
    for stage_id in _writers(run, places):
        for generation in reversed(run.folder.generations(files, stage_id)):
            result = read_report(files, run.folder.stage(stage_id, generation).result, StageResult)
            if result is not None and result.ran:
                yield _end_of(result)
                break


def _end_of(result: StageResult) -> float:
    return max(span.began_at + span.seconds for span in result.ran)


def with_later_writers(files: Filesystem, run: RunPlan) -> RunPlan:
    """Return a plan that warns of the later runs whose rows its run replaces."""
    warnings = later_writers(files, run).sentences
    if not warnings:
        return run
    return replace(run, plan=replace(run.plan, warnings=(*run.plan.warnings, *warnings)))


def _replacing(run: RunPlan) -> Iterator[tuple[str, BoundStream]]:
    for _, bound in run.written_outside():
        if dict(bound.spec.options).get(MODE) in _REPLACING:
            yield bound.stream_id, bound


def _place(bound: BoundStream) -> tuple[str, ...]:
    """Return where an output lies, whatever its id is."""
    options = dict(bound.spec.options)
    table = (bound.slice or {}).get("table") or options.get("table") or options.get("dbtable") or ""
    return (bound.system, str(table)) if table else (bound.system, "", bound.spec.path or bound.spec.name)


def near(names: Collection[str], own: str, *, later: bool) -> list[str]:
    """Return the runs that may be later than a run, or earlier, by their names; all where there are few.

    Of many those are left out whose name says that they are on the other side, or far away.
    """
    others = [name for name in names if name != own]
    mine = _DATED.search(own)
    if len(others) <= _MOST:
        return others
    dates = {name: found[1] for name in others if (found := _DATED.search(name)) is not None}
    dated = sorted(dates, key=lambda name: dates[name], reverse=mine is None or not later)
    if mine is not None:
        dated = [name for name in dated if (dates[name] > mine[1]) == later]
    return [*dated[:_MOST], *sorted((name for name in others if name not in dates), reverse=True)[:_MOST]]


def _others(files: Filesystem, run: RunPlan, *, later: bool) -> Iterator[RunPlan]:
    for run_id in near(files.list(f"runs/{safe(run.application)}"), safe(run.run_id), later=later):
        other = newest_plan(files, RunFolder(run.application, run_id))
        if other is not None and other.app_id == run.app_id and other.compares is None:
            yield other


def _first_plan(files: Filesystem, run: RunPlan) -> RunPlan | None:
    generations = run.folder.plan_generations(files)
    return read_report(files, run.folder.plan(generations[0]), RunPlan) if generations else None


def _is_carried(run: RunPlan) -> bool:
    return run.state is not None and run.state.kind == CARRIED


def _behind(files: Filesystem, run: RunPlan, first: RunPlan | None, other: RunPlan) -> float | None:
    """Return a number by which a later run stands among the later ones; None of a run that is not later."""
    if first is not None and _is_carried(first) and _is_carried(other):
        mine, place = _version(first), _version(_first_plan(files, other) or other)
    elif run.interval is not None and other.interval is not None:
        mine, place = (datetime.fromisoformat(one.interval[1]).timestamp() for one in (run, other) if one.interval)
    elif first is not None:
        mine, place = _planned_at(files, run), _planned_at(files, other)
    else:
        return None
    return place if place > mine else None


def _version(run: RunPlan) -> float:
    return float(run.state.version) if run.state is not None else 0.0


def _planned_at(files: Filesystem, run: RunPlan) -> float:
    return origin_of(files, run.application, run.run_id).at or 0.0


def _writers(run: RunPlan, places: Mapping[tuple[str, ...], str]) -> set[str]:
    """Return the stages of a run that write one of the places."""
    replacing = dict(_replacing(run))
    return {
        stage.stage_id
        for stage, bound in run.written_outside()
        if bound.stream_id in replacing and _place(bound) in places
    }


def _has_written(files: Filesystem, run: RunPlan, places: Mapping[tuple[str, ...], str]) -> bool:
    """Return whether a run has committed an epoch of a stage that writes one of the places."""
    return any(
        files.exists(records.commit(epoch))
        for stage_id in _writers(run, places)
        for generation in run.folder.generations(files, stage_id)
        for records in [run.folder.stage(stage_id, generation)]
        for epoch in numbers(files, records.epochs)
    )
