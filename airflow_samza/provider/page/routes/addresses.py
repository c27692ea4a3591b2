"""The parts of addresses that several routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

OF_DAG_RUN = "/api/dags/{dag_id}/runs/{run_id}"
OF_PLAN = OF_DAG_RUN + "/plans/{plan_task}/{map_index}"

DagId = Annotated[str, Path(description="The Dag.")]
RunId = Annotated[str, Path(description="The Dag run.")]
PlanTask = Annotated[str, Path(description="The task that has planned the application.")]
MapIndex = Annotated[int, Path(ge=-1, description="Its map index; -1 where it is not mapped.")]
StageId = Annotated[str, Path(description="A stage of the plan.")]
StreamId = Annotated[str, Path(description="A stream of the plan.")]
Limit = Annotated[int, Query(ge=1, le=500, description="How many, at most.")]
Offset = Annotated[int, Query(ge=0, description="How many are left out.")]
