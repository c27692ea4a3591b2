"""The operators: plan an application, run one stage or all of them, drain or stop a run, clean up after one.

Push a table, and roll it back.
"""

from __future__ import annotations

from airflow_samza.provider.cleanup_operator import SamzaCleanupOperator
from airflow_samza.provider.drain_operator import SamzaDrainOperator, SamzaStopOperator
from airflow_samza.provider.plan_operator import SamzaPlanOperator
from airflow_samza.provider.planning import PLAN_TEXT
from airflow_samza.provider.push_operators import (
    SamzaTablePushOperator,
    SamzaTableRollbackOperator,
    TablePushOperator,
    TableRollbackOperator,
)
from airflow_samza.provider.retention_operator import SamzaRetentionOperator
from airflow_samza.provider.samza_operator import SamzaOperator
from airflow_samza.provider.stream_operator import SamzaStreamOperator

__all__ = [
    "PLAN_TEXT",
    "SamzaCleanupOperator",
    "SamzaDrainOperator",
    "SamzaOperator",
    "SamzaPlanOperator",
    "SamzaRetentionOperator",
    "SamzaStopOperator",
    "SamzaStreamOperator",
    "SamzaTablePushOperator",
    "SamzaTableRollbackOperator",
    "TablePushOperator",
    "TableRollbackOperator",
]
