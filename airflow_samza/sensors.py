"""The sensors of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.end_of_stream_sensor import (
    SamzaEndOfStreamSensor,
)
from airflow_samza.provider.freshness_sensor import (
    SamzaTableFreshnessSensor,
    TableFreshnessSensor,
)
from airflow_samza.provider.kafka_lag_sensor import (
    SamzaKafkaLagSensor,
)

__all__ = ["SamzaEndOfStreamSensor", "SamzaKafkaLagSensor", "SamzaTableFreshnessSensor", "TableFreshnessSensor"]
