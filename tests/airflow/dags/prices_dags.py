"""Dags over the application ``prices``: a run that goes on, pushes, and tasks that wait until the run reads them."""

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_samza import SamzaDrainOperator, SamzaTableFreshnessSensor, SamzaTablePushOperator, SamzaTaskGroup

PRICES = "prices:prices"
SYSTEMS = {"warehouse": "flights_warehouse"}

with DAG("prices_live", schedule=None):
    SamzaTaskGroup(
        "prices",
        application=PRICES,
        systems=SYSTEMS,
        mode="continuous",
        run_for="1 hour",
        poll_interval=0.2,
        deferrable=True,
    )

with DAG("prices_drain", schedule=None):
    SamzaDrainOperator(task_id="drain", application=PRICES, dag_id="prices_live", systems=SYSTEMS)

with DAG("prices_push", schedule=None, params={"source": Param("", type="string")}):
    push = SamzaTablePushOperator(
        task_id="push",
        application=PRICES,
        table="prices",
        source="{{ params.source }}",
        poll_interval=0.2,
        deferrable=True,
    )
    push >> SamzaTableFreshnessSensor(
        task_id="are_read", application=PRICES, table="prices", version="{{ ti.xcom_pull('push')['version'] }}", least=0, poke_interval=1,
        deferrable=True,
    )  # fmt: skip

with DAG("prices_wait", schedule=None):
    SamzaTableFreshnessSensor(task_id="deferred", application=PRICES, table="prices", poke_interval=1, deferrable=True)
    SamzaTableFreshnessSensor(task_id="on_a_worker", application=PRICES, table="prices", poke_interval=1)
    SamzaTableFreshnessSensor(
        task_id="too_long",
        application=PRICES,
        table="prices",
        least=2,
        poke_interval=1,
        timeout=10,
        soft_fail=True,
        deferrable=True,
    )

with DAG("prices_held", schedule=None, default_args={"retries": 1, "retry_delay": timedelta(seconds=1)}):
    SamzaTablePushOperator(
        task_id="push",
        application=PRICES,
        table="prices",
        source={"callable": "prices:held_prices"},
        poll_interval=0.2,
        deferrable=True,
    )
