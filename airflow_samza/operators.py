"""The operators of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.operators.cleanup import SamzaCleanupOperator
from airflow_samza.provider.operators.compare import SamzaCompareOperator
from airflow_samza.provider.operators.drain import SamzaDrainOperator, SamzaStopOperator
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from airflow_samza.provider.operators.publish import SamzaPublishOperator
from airflow_samza.provider.operators.retention import SamzaRetentionOperator
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.operators.table_push import (
    SamzaTablePushOperator,
    SamzaTableRollbackOperator,
    TablePushOperator,
    TableRollbackOperator,
)

__all__ = [
    "SamzaCleanupOperator",
    "SamzaCompareOperator",
    "SamzaDrainOperator",
    "SamzaPlanOperator",
    "SamzaPublishOperator",
    "SamzaRetentionOperator",
    "SamzaStopOperator",
    "SamzaStreamOperator",
    "SamzaTablePushOperator",
    "SamzaTableRollbackOperator",
    "TablePushOperator",
    "TableRollbackOperator",
]
