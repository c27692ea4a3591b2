"""The operators of this provider, under the import path that Dag files use."""

from __future__ import annotations

from airflow_samza.provider.operators import (
    SamzaCleanupOperator,
    SamzaDrainOperator,
    SamzaPlanOperator,
    SamzaRetentionOperator,
    SamzaStopOperator,
    SamzaStreamOperator,
    SamzaTablePushOperator,
    SamzaTableRollbackOperator,
    TablePushOperator,
    TableRollbackOperator,
)

__all__ = [
    "SamzaCleanupOperator",
    "SamzaDrainOperator",
    "SamzaPlanOperator",
    "SamzaRetentionOperator",
    "SamzaStopOperator",
    "SamzaStreamOperator",
    "SamzaTablePushOperator",
    "SamzaTableRollbackOperator",
    "TablePushOperator",
    "TableRollbackOperator",
]
