"""Deliveries of all that a stage of a run reaches: its outputs, and what its tasks call or write beside them."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_samza.planner.wording import operator_title
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.delivery import Delivery, delivery_of
from airflow_samza.systems.system import System

CALLED_AGAIN = Delivery(False, "its function is called again with the messages of an epoch that is run again")
WRITTEN_AGAIN = Delivery(False, "the rows of an epoch that is run again are written again")


def stage_deliveries(run: RunPlan, systems: Mapping[str, System], stage_id: str) -> dict[str, Delivery]:
    """Return them by the words for what they are of; topics of the run itself are left out, which readers see once."""
    stage = run.plan.stage(stage_id)
    found = {}
    for stream_id in stage.outputs:
        if not run.is_own(stream_id):
            bound = run.stream(stream_id)
            found[f"the output {stream_id!r}"] = delivery_of(systems[bound.system], bound.spec)
    for op_id in stage.operators:
        operator = run.plan.operator(op_id)
        if operator.op == "sink":
            found[f"the calls of {operator_title(operator)}"] = CALLED_AGAIN
    for table in run.plan.tables:
        if table.kind == "remote" and set(table.writers) & set(stage.operators):
            found[f"the remote table {table.table_id!r}"] = WRITTEN_AGAIN
    return found
