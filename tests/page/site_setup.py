"""Fills the database of an Airflow: users of different rights, and Dag runs with a plan's note each.

``python -m tests.page.site_setup NOTES`` runs in the environment of that Airflow; ``NOTES`` is JSON, the note by Dag.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timezone
from typing import Any

READ = "can_read"

DAG_RUN, PLAN_TASK = "manual__1", "flow.plan"

OPERATOR, STRANGER = "operator", "stranger"
"""An administrator, and a user who may sign in and read no Dag."""

USERS: dict[str, list[str]] = {
    "ours": ["DAG:ours", "DAG Runs", "Task Logs", "XComs"],
    "theirs": ["DAG:theirs", "DAG Runs", "Task Logs", "XComs"],
    "limited": ["DAG:ours", "DAG Runs"],
    STRANGER: ["Website"],
}
"""The resources that each user may read."""


def make_users() -> None:
    """Make a role and a user of each name, and the administrator; passwords are the names."""
    from airflow.providers.fab.auth_manager.cli_commands.utils import get_application_builder

    with get_application_builder() as builder:
        manager: Any = builder.sm
        manager.sync_roles()
        roles = {OPERATOR: manager.find_role("Admin")}
        for name, resources in USERS.items():
            roles[name] = manager.add_role(f"role-{name}")
            for resource in resources:
                manager.add_permission_to_role(roles[name], manager.create_permission(READ, resource))
        for name, role in roles.items():
            assert manager.add_user(name, name, "Test", f"{name}@example.org", role, name)


def make_runs(notes: dict[str, dict[str, Any]]) -> None:
    """Make a Dag of each name with a run, whose plan task has left its note."""
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from airflow.utils.state import DagRunState
    from airflow.utils.types import DagRunType

    from airflow_samza.provider.xcoms import PLAN_NOTE

    now = datetime.now(timezone.utc)
    with create_session() as session:
        session.add(DagBundleModel(name="tests"))
        session.flush()
        for dag_id, note in notes.items():
            session.add(DagModel(dag_id=dag_id, bundle_name="tests", fileloc=f"/dags/{dag_id}.py", is_stale=False))
            session.flush()
            run = DagRun(
                dag_id=dag_id, run_id=DAG_RUN, run_type=DagRunType.MANUAL, run_after=now, state=DagRunState.SUCCESS
            )
            session.add(run)
            session.flush()
            of_task = {"task_id": PLAN_TASK, "dag_id": dag_id, "run_id": DAG_RUN, "map_index": -1}
            values = {**of_task, "state": "success", "try_number": 1, "max_tries": 0}
            values |= {"pool": "default_pool", "pool_slots": 1, "operator": "SamzaPlanOperator"}
            session.execute(TaskInstance.__table__.insert().values(**values))
            session.add(XComModel(dag_run_id=run.id, key=PLAN_NOTE, value=note, **of_task))


if __name__ == "__main__":
    make_users()
    make_runs(json.loads(sys.argv[1]))
