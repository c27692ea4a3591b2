"""The calendar of the slots of an application's outputs: which are filled, by which run, and which are missing.

Storage that keeps records of slots says what stands there, whoever has written or deleted it; of other outputs the Dag
runs say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from fastapi import APIRouter

from airflow_samza.errors import SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.provider.page.airflow_records import AirflowRecords, Planned, Records
from airflow_samza.provider.page.answer import Answer, NotFound, sentence_on
from airflow_samza.provider.page.backfill import scheduled
from airflow_samza.provider.page.opened_run import Opened, OpenedRun
from airflow_samza.provider.page.rights import OF_PLAN, OF_RUN
from airflow_samza.runs.records.names import safe
from airflow_samza.systems.capabilities import ReplacesSlots
from airflow_samza.systems.output_slots import OutputSlot

router = APIRouter(tags=["map"])

RUNS_LOOKED_AT = 500
"""Runs of the plan task that a calendar knows, the newest."""

SLOTS_SHOWN = 120
"""Slots of a calendar, the newest; a record of the storage is read for each that is filled."""

FILLED, RUNNING, FAILED, MISSING = "filled", "running", "failed", "missing"

ELSEWHERE = "a run outside of this Dag"
"""The holder of a slot that another Dag or the command line has written; who looks may not be allowed to read it."""

OF_ITS_OWN = "Each interval has a place of its own, so the calendar follows the Dag runs."


class SlotRun(Answer):
    """A run of a slot."""

    dag_run_id: str
    state: str | None
    """The state of the Dag run."""
    planned_at: float


class CalendarSlot(Answer):
    """A slot of the outputs: a data interval, a partition key, or both."""

    start: str | None
    end: str | None
    partition_key: str | None
    state: str
    """``filled``: a run has written it; ``running``, ``failed``: the newest that tried; else ``missing``."""
    holder: str | None
    """The Dag run that holds it, or that a run outside of this Dag does; None: not known."""
    runs: list[SlotRun]
    """The Dag runs of it, newest first."""


class Calendar(Answer):
    """The slots of an application's outputs between the first and the last that a run has tried, oldest first."""

    outputs: list[str]
    """The outputs that have slots: the streams that a run replaces, and does not add to."""
    follows: list[str]
    """Those of them whose storage says what stands there; of the others the Dag runs do."""
    slots: list[CalendarSlot]
    note: str | None


class _Slot(NamedTuple):
    """An interval (in UTC) and a partition key; None for what a run has not."""

    interval: tuple[datetime, datetime] | None
    key: str | None

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        long_ago = datetime.min.replace(tzinfo=timezone.utc)
        return (*(self.interval or (long_ago, long_ago)), self.key or "")


Held = Mapping[_Slot, str]
"""The runs that hold the slots of an output, by their ids as names hold them."""


@router.get(f"{OF_PLAN}/calendar", operation_id="calendar", dependencies=OF_RUN)
def calendar(opened: Opened, records: Records) -> Calendar:
    """Return the slots of the application's outputs: filled, missing, and by which runs."""
    here = opened.planned
    run = opened.run
    outputs = [
        stream.stream_id for stream in run.plan.streams if stream.role == "output" and run.slot_of(stream.stream_id)
    ]
    plans = [
        planned
        for planned in records.planned_by(here.dag_id, here.task_id, RUNS_LOOKED_AT)
        if planned.map_index == here.map_index and (planned.note.interval or planned.note.partition_key)
    ]
    if not plans:
        none = "No run of this application has a data interval or a partition key, so its outputs have no slots."
        return Calendar(outputs=outputs, follows=[], slots=[], note=none)
    tried, notes = _tried(plans, records, here)
    shown = sorted(tried, key=lambda slot: slot.order)[-SLOTS_SHOWN:]
    held: dict[str, Held] = {}
    apart = outputs and _lies_apart(opened, outputs, plans)
    for stream_id in outputs if not apart else ():
        try:
            found = _held(opened, stream_id, shown)
        except (SamzaError, OSError) as error:
            notes.append(f"{stream_id}: {sentence_on(error)} So the calendar follows the Dag runs.")
        else:
            held |= {stream_id: found} if found is not None else {}
    if apart:
        notes.append(OF_ITS_OWN)
    names = {safe(planned.note.run_id): planned.run_id for planned in plans}
    return Calendar(
        outputs=outputs,
        follows=list(held),
        slots=[_answer(slot, tried[slot], list(held.values()), names) for slot in shown],
        note=" ".join(notes) or None,
    )


def _tried(
    plans: Sequence[Planned], records: AirflowRecords, here: Planned
) -> tuple[dict[_Slot, list[SlotRun]], list[str]]:
    """Return the runs of each slot, newest first; slots of the schedule between them have none, perhaps with a note."""
    states = records.run_states(here.dag_id, [planned.run_id for planned in plans])
    slots = grouped(
        (
            _Slot(_times(planned.note.interval), planned.note.partition_key),
            SlotRun(dag_run_id=planned.run_id, state=states.get(planned.run_id), planned_at=planned.note.planned_at),
        )
        for planned in plans
    )
    starts = [slot.interval[0] for slot in slots if slot.interval is not None and slot.key is None]
    if not starts:
        return slots, []
    expected, why = scheduled(records.schedule(here.dag_id), min(starts), max(starts))
    for slice_ in expected:
        if slice_.start is not None and slice_.end is not None:
            slots.setdefault(_Slot((slice_.start, slice_.end), None), [])
    return slots, [why] if why else []


def _times(interval: Sequence[str] | None) -> tuple[datetime, datetime] | None:
    if interval is None:
        return None
    start, end = (datetime.fromisoformat(text).astimezone(timezone.utc) for text in interval)
    return start, end


def _lies_apart(opened: OpenedRun, outputs: Sequence[str], plans: Sequence[Planned]) -> bool:
    """Return whether another slot's output lies elsewhere, because its interval is in its path."""
    mine = opened.note.interval, opened.note.partition_key
    other = next((one for one in plans if (one.note.interval, one.note.partition_key) != mine), None)
    if other is None:
        return False
    try:
        beside = OpenedRun(other)
        _ = beside.files
        specs = {
            stream_id: beside.run.streams[stream_id].spec for stream_id in outputs if stream_id in beside.run.streams
        }
    except (NotFound, SamzaError, OSError):
        return False
    return any(opened.run.stream(stream_id).spec.path != spec.path for stream_id, spec in specs.items())


def _held(opened: OpenedRun, stream_id: str, slots: Sequence[_Slot]) -> Held | None:
    """Return the runs that hold the slots of an output, as its storage has them; None of storage that keeps none."""
    bound, mine = opened.run.stream(stream_id), opened.run.slot_of(stream_id)
    system: object = opened.bound[0].get(bound.system)
    if mine is None or not isinstance(system, ReplacesSlots):
        return None
    asked: dict[str | None, tuple[str, str] | None] = {}
    for key in dict.fromkeys(slot.key for slot in slots):
        times = [slot.interval for slot in slots if slot.key == key and slot.interval is not None]
        asked[key] = (min(times)[0].isoformat(), max(end for _, end in times).isoformat()) if times else None
    held: dict[_Slot, str] = {}
    with opened.opening(), opened.asking(bound.system):
        for key, interval in asked.items():
            whole = OutputSlot(mine.application, mine.app_id, interval, key, mine.config)
            for writer in system.slot_writers(bound.spec, whole):
                slot = writer.slot
                if (slot.application, slot.app_id, slot.config) == (mine.application, mine.app_id, mine.config):
                    held[_Slot(_times(slot.interval), slot.partition_key)] = writer.run_id
    return held


def _answer(slot: _Slot, runs: list[SlotRun], held: Sequence[Held], names: Mapping[str, str]) -> CalendarSlot:
    start, end = slot.interval or (None, None)
    holder = None
    if held:
        holders = [one.get(slot) for one in held]
        state = FILLED if all(holders) else _of_runs([run for run in runs if run.state != "success"])
        holder = next((names.get(one, ELSEWHERE) for one in holders if one is not None), None) if all(holders) else None
    else:
        state = FILLED if any(run.state == "success" for run in runs) else _of_runs(runs)
        holder = next((run.dag_run_id for run in runs if run.state == "success"), None)
    return CalendarSlot(
        start=start.isoformat() if start is not None else None,
        end=end.isoformat() if end is not None else None,
        partition_key=slot.key,
        state=state,
        holder=holder,
        runs=runs,
    )


def _of_runs(runs: Iterable[SlotRun]) -> str:
    """Return the state of a slot that no run holds, by the newest that has tried."""
    newest = next(iter(runs), None)
    if newest is None:
        return MISSING
    return FAILED if newest.state == "failed" else RUNNING
