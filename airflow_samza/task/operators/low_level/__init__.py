"""Low-level tasks as operators: the user's code gets every message with its place, and sends what it likes."""

from airflow_samza.task.operators.low_level.context import Context
from airflow_samza.task.operators.low_level.local_tables import TaskTable
from airflow_samza.task.operators.low_level.stores import TaskStore
from airflow_samza.task.operators.low_level.tables import RemoteTaskTable
from airflow_samza.task.operators.low_level.task import LowLevelTask

__all__ = ["Context", "LowLevelTask", "RemoteTaskTable", "TaskStore", "TaskTable"]
