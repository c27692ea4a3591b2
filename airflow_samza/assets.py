"""The assets that runs and pushes of this provider announce, for schedules of Dags and for outlets."""

from __future__ import annotations

from airflow_samza.provider.assets import (
    pushed_table,
    shared_stream,
)
from airflow_samza.provider.kafka_assets import kafka_topic

__all__ = ["kafka_topic", "pushed_table", "shared_stream"]
