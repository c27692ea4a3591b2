"""Rows of systems of kind spark: what the plan says before Spark is asked."""

from __future__ import annotations

from unittest.mock import MagicMock

from airflow_samza.spark.table_writer import _provider
from airflow_samza.systems.spark.tables import SparkTable
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_plan import PLAN
from tests.e2e.bad_input.scene import OUT, VIEWS, Scene, raised

ENDLESS = VIEWS.replace("schema=View", "schema=View, bounded=False")


def _warehouse(scene: Scene, options: str, *, views: str = VIEWS, mode: str = "staged") -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        f'{views}.send_to(app.output_stream("per-day", system="warehouse", options={options}))',
    )
    return scene.prepare(mode=mode)


@row("plan", "An unknown mode of writing a Spark table", PLAN)
def _(scene: Scene) -> str:
    return _warehouse(scene, '{"table": "per_day", "mode": "overwrite_partition"}')


@row("plan", "Partitions to replace, without partition columns", PLAN)
def _(scene: Scene) -> str:
    return _warehouse(scene, '{"table": "per_day", "mode": "overwrite_partitions"}')


@row("plan", "A query as an output", PLAN)
def _(scene: Scene) -> str:
    return _warehouse(scene, '{"query": "SELECT 1"}')


@row("plan", "An output that overwrites a table, in a continuous run", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    return _warehouse(scene, '{"table": "per_day", "mode": "overwrite"}', views=ENDLESS, mode="continuous")


@row("plan", "A side input in a system of kind spark", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        'tiers = app.side_input("tiers", system="warehouse", schema="member_id bigint, tier string", key="member_id", '
        "partitions=2)",
        'table = app.table("tiers-table", key="member_id", side_inputs=[tiers])',
        f'views = {VIEWS}.partition_by("member_id", id="by-member")',
        'views.join(table, id="with-tier").send_to(app.output_stream("a"))',
    )
    return scene.prepare()


@row("plan", "An unbounded input in a system of kind spark", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        f'app.input_stream("views", system="warehouse", schema=View, bounded=False).send_to({OUT})',
    )
    return scene.prepare()


@row("plan", "on_error= of an input in a system of kind spark", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'app.system("warehouse", kind="spark")',
        f'app.input_stream("views", system="warehouse", schema=View, on_error="drop").send_to({OUT})',
    )
    return scene.prepare()


@row(
    "launch",
    "A table of another format than the output's, which the plan takes for Delta's",
    "by the stage, before its tasks",
)
def _(scene: Scene) -> str:
    spark = MagicMock()
    spark.sql.return_value.collect.return_value = [("Provider", "string", None), ("Provider", "parquet", "")]
    return raised(lambda: _provider(spark, SparkTable("copy", "warehouse", format="delta", table="sales.copies")))
