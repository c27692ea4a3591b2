"""The operators: plan an application, run one stage or all of them, clean up after a run."""

from __future__ import annotations

from airflow_samza.provider.cleanup_operator import SamzaCleanupOperator
from airflow_samza.provider.plan_operator import PLAN_TEXT, SamzaPlanOperator
from airflow_samza.provider.samza_operator import SamzaOperator
from airflow_samza.provider.stream_operator import SamzaStreamOperator

__all__ = ["PLAN_TEXT", "SamzaCleanupOperator", "SamzaOperator", "SamzaPlanOperator", "SamzaStreamOperator"]
