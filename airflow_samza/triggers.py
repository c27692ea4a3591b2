"""The triggers of this provider; they read records under a root, or ask brokers of Kafka, and need no Spark.

Decision 68.
"""

from __future__ import annotations

from airflow_samza.provider.triggers.kafka import (
    KafkaLagTrigger,
    KafkaMessagesTrigger,
)
from airflow_samza.provider.triggers.runs import (
    SamzaEndOfStreamTrigger,
    SamzaProducersTrigger,
    SamzaRunTrigger,
    SamzaSectionsTrigger,
    SamzaStageTrigger,
    SamzaStateTrigger,
)
from airflow_samza.provider.triggers.tables import (
    TableCommitTrigger,
    TableFreshnessTrigger,
    TablePushTrigger,
)

__all__ = [
    "KafkaLagTrigger",
    "KafkaMessagesTrigger",
    "SamzaEndOfStreamTrigger",
    "SamzaProducersTrigger",
    "SamzaRunTrigger",
    "SamzaSectionsTrigger",
    "SamzaStageTrigger",
    "SamzaStateTrigger",
    "TableCommitTrigger",
    "TableFreshnessTrigger",
    "TablePushTrigger",
]
