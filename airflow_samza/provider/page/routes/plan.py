"""The plan of a run, and its difference from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Query

from airflow_samza.planner.difference import changes, difference
from airflow_samza.provider.page.airflow_records import AirflowRecords, Records
from airflow_samza.provider.page.answer import NotFound
from airflow_samza.provider.page.opened_run import Opened, OpenedRun
from airflow_samza.provider.page.plan_graph import Change, Difference, OtherPlan, OtherPlans, Plan, plan_answer
from airflow_samza.provider.page.rights import OF_PLAN, OF_RUN, Limit
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan

router = APIRouter(tags=["plan"], dependencies=OF_RUN)


@router.get(f"{OF_PLAN}/plan", operation_id="plan")
def plan(opened: Opened) -> Plan:
    """Return the plan as a graph."""
    return plan_answer(opened.run, opened.note.tasks, opened.note.mode)


@router.get(f"{OF_PLAN}/other-plans", operation_id="otherPlans")
def other_plans(opened: Opened, records: Records, limit: Limit = 50) -> OtherPlans:
    """Return the plans with which this one can be compared: of the same task in other runs of the Dag."""
    return OtherPlans(plans=[other for other, _ in _others(opened, records, limit)])


@router.get(f"{OF_PLAN}/difference", operation_id="difference")
def plan_difference(
    opened: Opened,
    records: Records,
    other_run_id: Annotated[str, Query(description="The other Dag run, of the same Dag.")],
    other_generation: Annotated[int | None, Query(ge=1, description="Its plan; the newest without.")] = None,
) -> Difference:
    """Return the changes since another plan."""
    for other, run in _others(opened, records, None):
        if other.dag_run_id == other_run_id and other_generation in (None, other.generation):
            former = read(run.files, run.folder.plan(other.generation), RunPlan)
            if former is None:
                break
            return Difference(
                fingerprint=opened.run.plan.fingerprint,
                other=other.model_copy(update={"fingerprint": former.plan.fingerprint}),
                same=former.plan.fingerprint == opened.run.plan.fingerprint,
                sentences=list(difference(former.plan, opened.run.plan)),
                changes=[
                    Change(
                        kind=changed.kind,
                        id=changed.item_id,
                        node=f"{changed.kind}:{changed.item_id}",
                        change=changed.change,
                        former=changed.former,
                    )
                    for changed in changes(former.plan, opened.run.plan)
                ],
            )
    raise NotFound(f"There is no plan of this task in the Dag run {other_run_id!r} to compare with.")


def _others(opened: OpenedRun, records: AirflowRecords, most: int | None) -> Iterator[tuple[OtherPlan, OpenedRun]]:
    """Yield the former generations of this plan, then the plans of the task's other runs, newest first."""
    here = opened.planned
    for generation in reversed(opened.folder.plan_generations(opened.files)):
        if generation < here.note.generation:
            yield _other(opened, generation, ""), opened  # its record is not read for a list
    for planned in records.planned_by(here.dag_id, here.task_id, most or 1000):
        same_use = (planned.map_index, planned.note.application) == (here.map_index, here.note.application)
        if same_use and planned.run_id != here.run_id:
            other = OpenedRun(planned)
            yield _other(other, planned.note.generation, planned.note.fingerprint), other


def _other(opened: OpenedRun, generation: int, fingerprint: str) -> OtherPlan:
    return OtherPlan(
        dag_run_id=opened.planned.run_id,
        run=opened.note.run_id,
        generation=generation,
        planned_at=opened.note.planned_at,
        fingerprint=fingerprint,
    )
