"""The rights that routes ask for, by Airflow's own authentication and auth manager.

A route of a run needs the right to read the runs of its Dag. A route that shows what user code or a runner printed
needs the right to read task logs, too; one that shows rows the right to read XComs, which is Airflow's for data that
goes from task to task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends, HTTPException, Request

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
    answers: dict[str, bool] = {}

    def may_read(dag_id: str) -> bool:
        if dag_id not in answers:
            try:
                check: Any = requires_access_dag("GET", what, dag_id)
                check(request, user)
                answers[dag_id] = bool(dag_id)
            except HTTPException:
                answers[dag_id] = False
        return answers[dag_id]

    return may_read


ReadableDags = Annotated[Callable[[str], bool], Depends(readable_dags)]
ReadableLogs = Annotated[Callable[[str], bool], Depends(readable_logs)]
