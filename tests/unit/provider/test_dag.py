"""A Dag that is one application."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, BaseOperator

from airflow_samza import SamzaDag, SamzaTaskGroup
from airflow_samza.errors import ConfigError
from tests.support.airflow_names import DagBag, DagSerialization

VIEWS = "provider_applications:views"


def dags_of(folder: Path, source: str) -> dict[str, Any]:
    """Return the Dags that Airflow finds in a file."""
    file = folder / "dag_file.py"
    file.write_text(source)
    bag = DagBag(dag_folder=str(file))
    assert not bag.import_errors
    return dict(bag.dags)


def test_a_samza_dag_has_the_tasks_of_its_application_under_their_own_names() -> None:
    dag = SamzaDag("views", application=VIEWS)
    assert [task.task_id for task in dag.tasks] == ["plan", "page-views", "by-member", "by-country", "cleanup"]
    assert {task.task_id for task in dag.tasks if task.is_teardown} == {"cleanup"}


def test_a_samza_dag_gives_its_group_what_a_group_takes_and_the_dag_all_else() -> None:
    started = datetime(2026, 1, 1, tzinfo=timezone.utc)
    dag = SamzaDag(
        "views",
        application=VIEWS,
        schedule="@daily",
        start_date=started,
        catchup=False,
        tags=["samza"],
        default_args={"retries": 4},
        samza_conn_id="samza_eu",
        mode="pipelined",
        systems={"logs": "views_logs"},
        stages={"by-member": {"pool": "io"}},
    )
    assert (dag.start_date, dag.catchup, set(dag.tags)) == (started, False, {"samza"})
    assert {(task.retries, getattr(task, "conn_id", None)) for task in dag.tasks} == {(4, "samza_eu")}
    assert (dag.group.plan_task.mode, dag.group.plan_task.systems) == ("pipelined", {"logs": "views_logs"})
    assert dag.get_task("by-member").pool == "io"


def test_tasks_are_added_to_a_samza_dag_as_to_any_other() -> None:
    with SamzaDag("views", application=VIEWS) as dag:
        report = BaseOperator(task_id="report")
        dag.group >> report
    assert report.upstream_task_ids == {"by-country"}


def test_a_samza_dag_is_found_by_airflow_though_no_name_of_the_module_holds_it(tmp_path: Path) -> None:
    found = dags_of(tmp_path, f'from airflow_samza import SamzaDag\nSamzaDag("views", application="{VIEWS}")\n')
    assert list(found) == ["views"]
    assert found["views"].fileloc == str(tmp_path / "dag_file.py")


def test_the_scheduler_reads_a_samza_dag_as_it_reads_a_dag_with_a_group(tmp_path: Path) -> None:
    with DAG("views", schedule="@daily") as plain:
        SamzaTaskGroup("application", application=VIEWS, prefix_group_id=False)
    given = DagSerialization.to_dict(SamzaDag("views", application=VIEWS, schedule="@daily"))["dag"]
    assert given.pop("fileloc") == __file__
    wanted = DagSerialization.to_dict(plain)["dag"]
    wanted.pop("fileloc")
    assert given == wanted


def test_rejects_a_mistake_in_a_samza_dag_as_its_group_does() -> None:
    with pytest.raises(ConfigError, match="mode='streaming'"):
        SamzaDag("views", application=VIEWS, mode="streaming")
    with pytest.raises(TypeError, match="shedule"):
        SamzaDag("views", application=VIEWS, shedule="@daily")
