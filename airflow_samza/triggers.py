"""The triggers of this provider; they read records under a root, or ask brokers of Kafka, and need no Spark."""

from __future__ import annotations

from airflow_samza.provider.kafka_triggers import (
    KafkaLagTrigger,
    KafkaMessagesTrigger,
)
from airflow_samza.provider.stream_triggers import (
    SamzaEndOfStreamTrigger,
)
from airflow_samza.provider.table_triggers import (
    TableFreshnessTrigger,
    TablePushTrigger,
)
from airflow_samza.provider.triggers import (
    SamzaProducersTrigger,
    SamzaRunTrigger,
    SamzaStageTrigger,
    SamzaStateTrigger,
)

__all__ = [
    "KafkaLagTrigger",
    "KafkaMessagesTrigger",
    "SamzaEndOfStreamTrigger",
    "SamzaProducersTrigger",
    "SamzaRunTrigger",
    "SamzaStageTrigger",
    "SamzaStateTrigger",
    "TableFreshnessTrigger",
    "TablePushTrigger",
]
