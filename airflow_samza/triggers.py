"""The triggers of this provider; they read records under a root, and need no Spark."""

from __future__ import annotations

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
    "SamzaProducersTrigger",
    "SamzaRunTrigger",
    "SamzaStageTrigger",
    "SamzaStateTrigger",
    "TableFreshnessTrigger",
    "TablePushTrigger",
]
