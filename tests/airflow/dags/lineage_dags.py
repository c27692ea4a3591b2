"""The demo's application with its lineage told, and Dags that its outputs start."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from airflow.providers.openlineage.utils.selective_enable import enable_lineage
from airflow.sdk import DAG, Asset, AssetAlias, task, task_group

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaStreamOperator
from airflow_samza.provider.airflow_versions import events_take_partitions
from tests.support.failing_trigger import FailingTrigger

sys.path.append(str(Path(__file__).resolve().parents[3] / "dags"))

APPLICATION = "pipelines.flights:flights_of_a_day"
SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}
REPORT = Asset(name="lineage-report", uri="x-report://flights/delays")
WAREHOUSE = Path(os.environ.get("SAMZA_TEST_SIGNALS", "/signals")).parent / "warehouse"
DELAYS = Asset(f"file://{WAREHOUSE}/delays-of-a-day")


@task
def told(**context: Any) -> list[dict[str, Any]]:
    """Return what the events say that started this run, with its partition key; each is there by its alias, too."""
    by_outlet = context["triggering_asset_events"].items()
    events = [event for outlet, found in by_outlet if isinstance(outlet, Asset) for event in found]
    key = getattr(context["dag_run"], "partition_key", None)
    return [{"source": event.source_dag_id, "key": key, **event.extra} for event in events]


with DAG("lineage_flights", schedule=None) as dag:
    SamzaTaskGroup(
        "delays",
        application=APPLICATION,
        systems=SYSTEMS,
        data_interval="2013-01-01/2013-01-02",
        deferrable=True,
        stages={"by-maker-and-hour": {"outlets": [REPORT]}},
    )
enable_lineage(dag)

# Other Dags write an output of this name, too.
with DAG(
    "lineage_consumer",
    schedule=[AssetAlias("samza-output:flights_warehouse/delays")],
    is_paused_upon_creation=True,
):
    told()

with DAG("lineage_mapped", schedule=None) as mapped:

    @task_group
    def each(interval: str) -> None:
        """Run the application for a data interval."""
        SamzaTaskGroup("makers", application="habits:planes_by_tail", systems=SYSTEMS, data_interval=interval)

    each.expand(interval=["2013-01-01/2013-01-02", "2013-01-02/2013-01-03"])
enable_lineage(mapped)


class MeetsAFailedTrigger(SamzaStreamOperator):
    """Runs an application, and defers to a trigger that fails."""

    def defer(self, *, trigger: Any, **more: Any) -> NoReturn:
        """Defer to the other trigger, with the same arguments."""
        super().defer(trigger=FailingTrigger(**trigger.serialize()[1]), **more)


with DAG("lineage_failed", schedule=None) as failed:
    MeetsAFailedTrigger(task_id="makers", application="habits:planes_by_tail", systems=SYSTEMS, deferrable=True)
enable_lineage(failed)

if events_take_partitions():
    from airflow.sdk import PartitionedAssetTimetable

    with DAG("lineage_keyed", schedule=None):
        SamzaStreamOperator(
            task_id="delays",
            application=APPLICATION,
            systems=SYSTEMS,
            data_interval="2013-01-02/2013-01-03",
            partition_key="data_interval",
            outlets=[DELAYS],
        )

    with DAG("lineage_partitions", schedule=PartitionedAssetTimetable(assets=DELAYS)):
        told()
