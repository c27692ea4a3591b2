from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, BaseOperator

from airflow_samza.errors import ConfigError, SamzaError, UnknownName
from airflow_samza.provider.airflow_versions import AirflowException
from airflow_samza.provider.assets import shared_stream
from airflow_samza.provider.lineage.outlets import output_alias
from airflow_samza.provider.operators.planning import PlanningOperator, SamzaPlanOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.task_group import SamzaTaskGroup
from tests.support.airflow_names import DagSerialization

VIEWS = "provider_applications:views"
HERE = Path(__file__).parent


@pytest.fixture
def dag() -> Iterator[DAG]:
    with DAG("d", schedule=None) as dag:
        yield dag


def edges(dag: Any) -> set[tuple[str, str]]:
    return {(task.task_id, after) for task in dag.tasks for after in task.downstream_task_ids}


def test_staged_renders_plan_a_task_per_stage_and_cleanup(dag: DAG) -> None:
    SamzaTaskGroup("views", application=VIEWS)
    assert [task.task_id for task in dag.tasks] == [
        "views.plan",
        "views.page-views",
        "views.by-member",
        "views.by-country",
        "views.cleanup",
    ]
    stages = ("views.page-views", "views.by-member", "views.by-country")
    assert edges(dag) == {
        *(("views.plan", task) for task in (*stages, "views.cleanup")),
        *((stage, "views.cleanup") for stage in stages),
        ("views.page-views", "views.by-member"),
        ("views.by-member", "views.by-country"),
    }


@pytest.mark.parametrize("mode", ["pipelined", "continuous"])
def test_stages_that_run_at_the_same_time_all_start_behind_plan(dag: DAG, mode: str) -> None:
    group = SamzaTaskGroup("views", application=VIEWS, mode=mode)
    stages = ("views.page-views", "views.by-member", "views.by-country")
    assert edges(dag) == {
        *(("views.plan", task) for task in (*stages, "views.cleanup")),
        *((stage, "views.cleanup") for stage in stages),
    }
    assert group.plan_task.mode == mode
    assert (
        group.stage_tasks["by-member"].doc_md == "Reads by-member (written by the stage page-views). Writes by-country."
    )


def test_tasks_show_what_their_stages_do_and_keep_their_ids(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS)
    assert {task.task_id: task.task_display_name for task in group.stage_tasks.values()} == {
        "views.page-views": "partition-by-member",
        "views.by-member": "partition-by-country",
        "views.by-country": "count-per-country",
    }


def test_a_name_that_the_user_gives_a_stages_task_is_shown(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS, stages={"by-country": {"task_display_name": "Countries"}})
    assert group.stage_tasks["by-country"].task_display_name == "Countries"


def test_settings_of_a_stage_are_found_by_its_title(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS, stages={"count-per-country": {"retries": 7}})
    assert group.stage_tasks["by-country"].retries == 7


def test_settings_by_id_and_by_title_of_one_stage_are_rejected(dag: DAG) -> None:
    with pytest.raises(ConfigError, match=r"'by-country' twice"):
        SamzaTaskGroup("views", application=VIEWS, stages={"by-country": {}, "count-per-country": {}})


def test_what_follows_a_pipelined_group_waits_for_all_its_stages(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS, mode="pipelined")
    after = BaseOperator(task_id="after")
    group >> after
    assert after.upstream_task_ids == {"views.page-views", "views.by-member", "views.by-country"}


def test_a_stage_that_writes_a_shared_stream_has_its_asset_as_outlet(dag: DAG) -> None:
    group = SamzaTaskGroup("sharing", application="provider_applications:sharing", systems={"logs": "raw"})
    outlets = {stage: [outlet.name for outlet in task.outlets] for stage, task in group.stage_tasks.items()}
    assert outlets == {
        "page-views": [],
        "by-member": ["samza://samza_default/members", "samza-output:samza_default/members"],
    }
    assert shared_stream("members") == group.stage_tasks["by-member"].outlets[0]


def test_outlets_that_the_user_gives_a_stage_stand_beside_those_of_its_shared_streams(dag: DAG) -> None:
    own, shared = Asset("s3://lake/report"), shared_stream("members")
    settings = {"by-member": {"outlets": [own, shared]}}
    group = SamzaTaskGroup(
        "sharing", application="provider_applications:sharing", systems={"logs": "raw"}, stages=settings
    )
    assert group.stage_tasks["by-member"].outlets == [shared, output_alias("samza_default", "members"), own]


def test_fused_renders_one_task_that_runs_all_stages(dag: DAG) -> None:
    SamzaTaskGroup("views", application=VIEWS, mode="fused")
    assert edges(dag) == {("views.plan", "views.run"), ("views.plan", "views.cleanup"), ("views.run", "views.cleanup")}
    run = dag.get_task("views.run")
    assert isinstance(run, SamzaStreamOperator)
    assert run.stage is None


def test_cleanup_is_a_teardown_that_plays_no_part_in_the_runs_state(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS)
    assert group.cleanup_task.is_teardown
    assert not group.cleanup_task.on_failure_fail_dagrun
    # Clearing one stage must not plan anew, as clearing a task clears its setups; so plan is an ordinary task.
    assert not group.plan_task.is_setup


def test_what_follows_the_group_waits_for_its_last_stage_and_not_for_cleanup(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS)
    before, after = BaseOperator(task_id="before"), BaseOperator(task_id="after")
    before >> group >> after
    assert before.downstream_task_ids == {"views.plan"}
    assert after.upstream_task_ids == {"views.by-country"}


def test_settings_by_stage_reach_that_stage_only(dag: DAG) -> None:
    group = SamzaTaskGroup(
        "views",
        application=VIEWS,
        spark_conf={"spark.a": "1"},
        stages={
            "by-member": {"pool": "big", "retries": 3, "executor_config": {"x": 1}, "spark_conf": {"spark.b": "2"}}
        },
        default_args={"retries": 1},
    )
    by_member, by_country = group.stage_tasks["by-member"], group.stage_tasks["by-country"]
    assert (by_member.pool, by_member.retries, by_member.executor_config) == ("big", 3, {"x": 1})
    assert by_member.spark_conf == {"spark.a": "1", "spark.b": "2"}
    assert (by_country.pool, by_country.retries, by_country.executor_config) == ("default_pool", 1, {})
    assert by_country.spark_conf == {"spark.a": "1"}


def test_settings_for_a_stage_that_is_not_there_name_the_nearest(dag: DAG) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'by-member'"):
        SamzaTaskGroup("views", application=VIEWS, stages={"by-membr": {"pool": "big"}})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"mode": "stagd"}, "The modes are staged, fused, pipelined, continuous"),
        ({"mode": "pipelined", "run_for": "1 hour"}, "whose runs end by themselves"),
        ({"mode": "fused", "stages": {"by-member": {"pool": "x"}}}, "have no effect"),
        ({"progress_interval": 0}, "is not above 0"),
        ({"application": "provider_applications:nothing"}, "has no 'nothing'"),
        ({"application": "no_such_module:nothing"}, "There is no module"),
        ({"config": 7}, "config is not a mapping"),
        ({"deferable": True}, r"(?s)The task group 'views' has no parameter 'deferable'.*Did you mean 'deferrable'\?"),
        ({"tooltp": "x"}, r"(?s)has no parameter 'tooltp'.*Did you mean 'tooltip'\?"),
        ({"mode": "stagd"}, r"(?s)Did you mean 'staged'\?"),
    ],
)
def test_wrong_settings_are_rejected_when_the_dag_is_read(dag: DAG, given: dict[str, Any], told: str) -> None:
    with pytest.raises(SamzaError, match=told):
        SamzaTaskGroup("views", **{"application": VIEWS, **given})


def test_an_unknown_setting_of_a_stage_is_rejected(dag: DAG) -> None:
    with pytest.raises((TypeError, AirflowException), match="pol"):
        SamzaTaskGroup("views", application=VIEWS, stages={"by-member": {"pol": "big"}})


def test_a_mode_is_rejected_before_the_application_is_loaded(dag: DAG) -> None:
    with pytest.raises(ConfigError):
        SamzaTaskGroup("views", application="no_such_module:nothing", mode="x")


def test_stages_named_like_the_groups_own_tasks_get_a_name_of_their_own(dag: DAG) -> None:
    SamzaTaskGroup("r", application="provider_applications:reserved")
    assert [task.task_id for task in dag.tasks] == ["r.plan", "r.plan-stage", "r.cleanup-stage", "r.cleanup"]


def test_one_application_can_be_there_twice(dag: DAG) -> None:
    first, second = SamzaTaskGroup("a", application=VIEWS), SamzaTaskGroup("b", application=VIEWS)
    assert (first.plan_task.scope, second.plan_task.scope) == ("a", "b")


def test_a_nested_group_knows_its_whole_name(dag: DAG) -> None:
    from airflow.sdk import TaskGroup

    with TaskGroup("outer"):
        inner = SamzaTaskGroup("views", application=VIEWS)
    assert inner.plan_task.scope == "outer.views"
    assert inner.plan_task.task_id == "outer.views.plan"


def test_the_dag_can_be_stored(dag: DAG) -> None:
    SamzaTaskGroup("views", application=VIEWS, stages={"by-member": {"spark_conf": {"spark.b": "2"}}})
    stored = DagSerialization.to_dict(dag)
    assert {task["__var"]["task_id"] for task in stored["dag"]["tasks"]} == {task.task_id for task in dag.tasks}


@pytest.mark.extended
def test_reading_a_dag_of_fifty_stages_loads_nothing_heavy() -> None:
    heavy = ("pyarrow", "pyspark", "sqlglot", "pandas", "numpy", "fsspec", "cloudpickle")
    script = f"""
import sys
import airflow.sdk
before = {{name for name in {heavy!r} if name in sys.modules}}
from airflow_samza import SamzaTaskGroup
with airflow.sdk.DAG("fifty", schedule=None) as dag:
    SamzaTaskGroup("g", application="provider_applications:fifty")
assert len(dag.tasks) == 52, len(dag.tasks)
print(sorted({{name for name in {heavy!r} if name in sys.modules}} - before))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=HERE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip().splitlines()[-1:]) == (0, ["[]"]), done.stderr


def test_a_group_offers_what_its_plan_task_can_be_given() -> None:
    of_plan = set(inspect.signature(PlanningOperator.__init__).parameters) - {"self", "kwargs"}
    assert of_plan <= set(inspect.signature(SamzaTaskGroup.__init__).parameters)


OF_PLAN: dict[str, Any] = {
    "run_for": "10 minutes",
    "data_interval": "2013-01-01/2013-01-02",
    "state_from": "fresh",
    "table_versions": {"profiles": "current"},
    "input_versions": {"page-views": "4"},
    "wait_for_state": False,
    "reuse": False,
}
OF_STAGES: dict[str, Any] = {"poll_interval": 2.0, "progress_interval": 7.0, "partition_key": "eu", "deferrable": True}
OF_ALL: dict[str, Any] = {
    "conn_id": "elsewhere",
    "systems": {"logs": "store"},
    "config": {"task.window.ms": "100"},
    "py_modules": ["/code/more.py"],
    "archives": ["/code/env.zip#env"],
    "runner_python": "/env/bin/python",
}


def test_a_group_hands_on_what_it_is_given(dag: DAG) -> None:
    group = SamzaTaskGroup("views", application=VIEWS, mode="continuous", **OF_PLAN, **OF_STAGES, **OF_ALL)
    stages = group.stage_tasks.values()
    for tasks, given in (
        ([group.plan_task], OF_PLAN),
        (stages, OF_STAGES),
        ([group.plan_task, group.cleanup_task, *stages], OF_ALL),
    ):
        assert [{name: getattr(task, name) for name in given} for task in tasks] == [given] * len(tasks)


def test_what_a_group_is_not_given_is_as_in_a_plan_operator_by_itself(dag: DAG) -> None:
    group, alone = SamzaTaskGroup("views", application=VIEWS), SamzaPlanOperator(task_id="plan", application=VIEWS)
    assert [(getattr(group.plan_task, name) or None) for name in OF_PLAN] == [
        (getattr(alone, name) or None) for name in OF_PLAN
    ]
