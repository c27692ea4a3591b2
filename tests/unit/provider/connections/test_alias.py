"""conn_id and samza_conn_id: two names of one value, on everything that takes a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_samza.errors import ConfigError
from airflow_samza.provider.assets import pushed_table, shared_stream
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.outlets import output_alias
from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.drain import SamzaDrainOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.retention import SamzaRetentionOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator, SamzaTableRollbackOperator
from airflow_samza.provider.sensors.table_freshness import SamzaTableFreshnessSensor
from airflow_samza.provider.task_group import SamzaTaskGroup

VIEWS = "provider_applications:views"
OF_APPLICATIONS = (SamzaPlanOperator, SamzaStreamOperator, SamzaDrainOperator, SamzaCleanupOperator)
TAKERS: dict[str, Callable[..., Any]] = {
    **{
        operator.__name__: lambda operator=operator, **given: operator(task_id="t", application=VIEWS, **given)
        for operator in OF_APPLICATIONS
    },
    "SamzaTablePushOperator": lambda **given: SamzaTablePushOperator(
        task_id="t", application=VIEWS, table="t", source="/data", **given
    ),
    "SamzaTableRollbackOperator": lambda **given: SamzaTableRollbackOperator(
        task_id="t", application=VIEWS, table="t", **given
    ),
    "SamzaTableFreshnessSensor": lambda **given: SamzaTableFreshnessSensor(
        task_id="t", application=VIEWS, table="t", **given
    ),
    "SamzaRetentionOperator": lambda **given: SamzaRetentionOperator(task_id="t", **given),
    "SamzaHook": SamzaHook,
    "SamzaTaskGroup": lambda **given: SamzaTaskGroup("views", application=VIEWS, **given).plan_task,
}


@pytest.mark.parametrize("taker", TAKERS)
def test_samza_conn_id_is_another_name_of_conn_id_on(taker: str) -> None:
    with DAG("d", schedule=None):
        assert TAKERS[taker](samza_conn_id="samza_eu").conn_id == "samza_eu"
    with DAG("d", schedule=None):
        assert TAKERS[taker](samza_conn_id="samza_eu", conn_id="samza_eu").conn_id == "samza_eu"
    with DAG("d", schedule=None):
        assert TAKERS[taker]().conn_id == "samza_default"


@pytest.mark.parametrize("taker", TAKERS)
def test_rejects_two_connections_under_the_two_names_on(taker: str) -> None:
    with DAG("d", schedule=None), pytest.raises(ConfigError, match="conn_id='samza_us' and samza_conn_id='samza_eu'"):
        TAKERS[taker](conn_id="samza_us", samza_conn_id="samza_eu")


@pytest.mark.parametrize("name", ["conn_id", "samza_conn_id"])
def test_a_group_takes_the_connection_of_the_dags_default_args_as_an_operator_does(name: str) -> None:
    with DAG("d", schedule=None, default_args={name: "samza_eu"}):
        group = SamzaTaskGroup("views", application="provider_applications:sharing")
        operator = SamzaStreamOperator(task_id="t", application=VIEWS)
    assert operator.conn_id == group.plan_task.conn_id == group.cleanup_task.conn_id == "samza_eu"
    expected = [shared_stream("members", "samza_eu"), output_alias("samza_eu", "members")]
    assert group.stage_tasks["by-member"].outlets == expected


def test_a_group_prefers_its_own_default_args_to_those_of_the_dag() -> None:
    with DAG("d", schedule=None, default_args={"conn_id": "samza_us"}):
        group = SamzaTaskGroup("views", application=VIEWS, default_args={"conn_id": "samza_eu"})
    assert group.plan_task.conn_id == "samza_eu"


def test_a_mapped_task_takes_either_name() -> None:
    with DAG("d", schedule=None):
        mapped = SamzaStreamOperator.partial(task_id="t", application=VIEWS).expand(samza_conn_id=["a", "b"])
    assert mapped.is_mapped


def test_the_assets_of_a_connection_take_either_name() -> None:
    assert shared_stream("members", samza_conn_id="samza_eu") == shared_stream("members", "samza_eu")
    assert pushed_table("profiles", samza_conn_id="samza_eu") == pushed_table("profiles", "samza_eu")
