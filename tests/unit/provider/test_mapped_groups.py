"""Applications in mapped task groups: a run of the application for each region, or each date."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, task_group
from airflow.sdk.definitions.taskgroup import MappedTaskGroup

from airflow_samza import SamzaTaskGroup
from airflow_samza.errors import ConfigError
from airflow_samza.provider.run_identity import run_id_of
from tests.support.airflow_names import DagSerialization

VIEWS = "provider_applications:views"
SHARING = "provider_applications:sharing"


def mapped(application: str = VIEWS, **given: Any) -> DAG:
    """Return a Dag with the application in a group that is mapped over two regions; ``given`` are names or values."""
    with DAG("regions", schedule=None) as dag:

        @task_group
        def each(region: str) -> None:
            SamzaTaskGroup("views", application=application, **{**{"config": {"region": region}}, **given})

        each.expand(region=["eu", "us"])
    return dag


class OfIndex:
    """A task instance as far as the resolution of a mapped group's arguments looks at it."""

    def __init__(self, operator: Any, map_index: int) -> None:
        self.dag_id, self.task_id, self.run_id, self.map_index = "regions", operator.task_id, "manual", map_index
        self.task = operator
        self.is_mapped = True


def rendered(dag: DAG, task_id: str, map_index: int, name: str) -> Any:
    operator: Any = dag.get_task(task_id)
    ti = OfIndex(operator, map_index)
    context = {"ti": ti, "task_instance": ti, "expanded_ti_count": 2, "map_index": map_index}
    return operator.render_template(getattr(operator, name), context, dag.get_template_env())


def test_a_group_in_a_mapped_group_has_the_tasks_of_its_application() -> None:
    dag = mapped()
    assert isinstance(dag.task_group.children["each"], MappedTaskGroup)
    assert [task.task_id for task in dag.tasks] == [
        f"each.views.{name}" for name in ("plan", "page-views", "by-member", "by-country", "cleanup")
    ]
    DagSerialization.to_dict(dag)


@pytest.mark.parametrize(("map_index", "region"), [(0, "eu"), (1, "us")])
def test_each_index_runs_with_its_own_configuration(map_index: int, region: str) -> None:
    dag = mapped()
    for name in ("plan", "page-views", "cleanup"):
        assert rendered(dag, f"each.views.{name}", map_index, "config") == {"region": region}


def test_each_index_is_a_run_of_its_own() -> None:
    operator: Any = mapped().get_task("each.views.plan")
    runs = {run_id_of({"ti": OfIndex(operator, index), "run_id": "manual"}, operator.scope) for index in (0, 1)}
    assert len(runs) == 2


@pytest.mark.parametrize("name", ["conn_id", "samza_conn_id", "data_interval", "state_from"])
def test_what_a_run_may_differ_in_may_come_from_the_mapping(name: str) -> None:
    with DAG("regions", schedule=None) as dag:

        @task_group
        def each(value: str) -> None:
            SamzaTaskGroup("views", application=SHARING, **{name: value})  # type: ignore[arg-type]

        each.expand(value=["a", "b"])
    field = "conn_id" if name == "samza_conn_id" else name
    assert rendered(dag, "each.views.plan", 1, field) == "b"


def test_the_whole_of_systems_and_config_may_come_from_the_mapping() -> None:
    with DAG("regions", schedule=None) as dag:

        @task_group
        def each(systems: Any, config: Any) -> None:
            SamzaTaskGroup("views", application=SHARING, systems=systems, config=config)

        each.expand_kwargs([{"systems": {"logs": f"logs_{name}"}, "config": {"region": name}} for name in ("eu", "us")])
    assert rendered(dag, "each.views.plan", 1, "systems") == {"logs": "logs_us"}
    assert rendered(dag, "each.views.by-member", 0, "config") == {"region": "eu"}


@pytest.mark.parametrize("name", ["application", "mode", "stages"])
def test_rejects_what_decides_on_tasks_when_it_comes_from_the_mapping(name: str) -> None:
    @task_group
    def each(value: Any) -> None:
        SamzaTaskGroup("views", **{"application": VIEWS, name: value})

    with DAG("regions", schedule=None), pytest.raises(ConfigError, match=f"'views' has {name} from its mapping"):
        each.expand(value=["a", "b"])


@pytest.mark.parametrize("method", ["partial", "expand"])
def test_rejects_a_group_that_is_mapped_as_an_operator_is(method: str) -> None:
    with pytest.raises(ConfigError, match="Airflow maps only the groups of @task_group functions"):
        getattr(SamzaTaskGroup, method)(application=[VIEWS])
