"""The sensors of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.sensors.end_of_stream import SamzaEndOfStreamSensor
from airflow_samza.provider.sensors.kafka_lag import SamzaKafkaLagSensor
from airflow_samza.provider.sensors.table_commits import SamzaTableSensor
from airflow_samza.provider.sensors.table_freshness import (
    SamzaTableFreshnessSensor,
    TableFreshnessSensor,
)

__all__ = [
    "SamzaEndOfStreamSensor",
    "SamzaKafkaLagSensor",
    "SamzaTableFreshnessSensor",
    "SamzaTableSensor",
    "TableFreshnessSensor",
]
