"""The parts of addresses that routes have, and the rights that they ask for, by Airflow's own authentication.

A route of a run needs the right to read the runs of its Dag. A route that shows what user code or a runner printed
needs the right to read task logs, too; one that shows rows the right to read XComs, which is Airflow's for data that
goes from task to task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Path, Query, Request

may_read_run: Any = requires_access_dag("GET", DagAccessEntity.RUN)
may_read_logs: Any = requires_access_dag("GET", DagAccessEntity.TASK_LOGS)
may_read_rows: Any = requires_access_dag("GET", DagAccessEntity.XCOM)

OF_RUN = [Depends(may_read_run)]
OF_LOGS = [Depends(may_read_logs)]
OF_ROWS = [Depends(may_read_rows)]


def readable_dags(request: Request, user: GetUserDep) -> Callable[[str], bool]:
    """Return what tells whether the user may read the runs of a Dag; each Dag is asked for once."""
    return _asked_once(request, user, DagAccessEntity.RUN)


def readable_logs(request: Request, user: GetUserDep) -> Callable[[str], bool]:
    """Return what tells whether the user may read the task logs of a Dag; each Dag is asked for once."""
    return _asked_once(request, user, DagAccessEntity.TASK_LOGS)


def _asked_once(request: Request, user: Any, what: DagAccessEntity) -> Callable[[str], bool]:
    @cache
    def may_read(dag_id: str) -> bool:
        try:
            check: Any = requires_access_dag("GET", what, dag_id)
            check(request, user)
        except HTTPException:
            return False
        return bool(dag_id)

    return may_read


ReadableDags = Annotated[Callable[[str], bool], Depends(readable_dags)]
ReadableLogs = Annotated[Callable[[str], bool], Depends(readable_logs)]


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
