"""Streams and batches in one Airflow Dag.

The public names are loaded when they are first used (PEP 562), so that a Dag file pays only for what it names. Editors
and type checkers read them from the block for type checkers; a test holds that it and the table of names agree.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from airflow_samza.application.app_descriptor import StreamApplicationDescriptor as StreamApplicationDescriptor
    from airflow_samza.application.application import (
        ApplicationSpec as ApplicationSpec,
        StreamApplication as StreamApplication,
        stream_application as stream_application,
    )
    from airflow_samza.application.bad_records import DEAD_LETTERS as DEAD_LETTERS, dead_letter as dead_letter
    from airflow_samza.application.declarations.change_events import (
        change_events as change_events,
        debezium as debezium,
    )
    from airflow_samza.application.declarations.side_inputs import SideInputsProcessor as SideInputsProcessor
    from airflow_samza.application.event_times import system_time as system_time
    from airflow_samza.application.expectations import (
        condition as condition,
        foreign_key as foreign_key,
        fresh as fresh,
        not_null as not_null,
        rows as rows,
        unique as unique,
    )
    from airflow_samza.application.loader import load_application as load_application
    from airflow_samza.application.message_stream import MessageStream as MessageStream
    from airflow_samza.application.task_api import (
        AsyncStreamTask as AsyncStreamTask,
        ClosableTask as ClosableTask,
        EndOfStreamListenerTask as EndOfStreamListenerTask,
        IncomingMessageEnvelope as IncomingMessageEnvelope,
        InitableTask as InitableTask,
        KeyValueStore as KeyValueStore,
        MessageCollector as MessageCollector,
        RequestScope as RequestScope,
        StreamTask as StreamTask,
        TaskContext as TaskContext,
        TaskCoordinator as TaskCoordinator,
        TimerListenerTask as TimerListenerTask,
        WindowableTask as WindowableTask,
    )
    from airflow_samza.application.task_application import (
        TaskApplication as TaskApplication,
        TaskApplicationDescriptor as TaskApplicationDescriptor,
        task_application as task_application,
    )
    from airflow_samza.application.watermarks import (
        WatermarkFunction as WatermarkFunction,
        bounded_delay as bounded_delay,
        punctuated as punctuated,
    )
    from airflow_samza.application.windows import (
        approx_count_distinct as approx_count_distinct,
        avg as avg,
        collect as collect,
        count as count,
        count_distinct as count_distinct,
        first as first,
        hopping as hopping,
        last as last,
        max_ as max_,
        min_ as min_,
        session as session,
        sum_ as sum_,
        tumbling as tumbling,
    )
    from airflow_samza.errors import SamzaError as SamzaError
    from airflow_samza.planner.planner import ExecutionPlanner as ExecutionPlanner, plan_shape as plan_shape
    from airflow_samza.provider.dag import SamzaDag as SamzaDag
    from airflow_samza.provider.hooks.samza import SamzaHook as SamzaHook
    from airflow_samza.provider.operators.drain import (
        SamzaDrainOperator as SamzaDrainOperator,
        SamzaStopOperator as SamzaStopOperator,
    )
    from airflow_samza.provider.operators.stream import SamzaStreamOperator as SamzaStreamOperator
    from airflow_samza.provider.operators.table_push import (
        SamzaTablePushOperator as SamzaTablePushOperator,
        SamzaTableRollbackOperator as SamzaTableRollbackOperator,
        TablePushOperator as TablePushOperator,
        TableRollbackOperator as TableRollbackOperator,
    )
    from airflow_samza.provider.sensors.table_freshness import (
        SamzaTableFreshnessSensor as SamzaTableFreshnessSensor,
        TableFreshnessSensor as TableFreshnessSensor,
    )
    from airflow_samza.provider.task_group import SamzaTaskGroup as SamzaTaskGroup
    from airflow_samza.row import Row as Row
    from airflow_samza.schema import Schema as Schema
    from airflow_samza.testing import TestDriver as TestDriver

_HOMES = {
    "application.app_descriptor": ("StreamApplicationDescriptor",),
    "application.application": ("ApplicationSpec", "StreamApplication", "stream_application"),
    "application.bad_records": ("DEAD_LETTERS", "dead_letter"),
    "application.expectations": ("condition", "foreign_key", "fresh", "not_null", "rows", "unique"),
    "application.loader": ("load_application",),
    "application.message_stream": ("MessageStream",),
    "application.declarations.change_events": ("change_events", "debezium"),
    "application.declarations.side_inputs": ("SideInputsProcessor",),
    "application.event_times": ("system_time",),
    "application.task_api": (
        "AsyncStreamTask",
        "ClosableTask",
        "EndOfStreamListenerTask",
        "IncomingMessageEnvelope",
        "InitableTask",
        "KeyValueStore",
        "MessageCollector",
        "RequestScope",
        "StreamTask",
        "TaskContext",
        "TaskCoordinator",
        "TimerListenerTask",
        "WindowableTask",
    ),
    "application.task_application": ("TaskApplication", "TaskApplicationDescriptor", "task_application"),
    "application.watermarks": ("WatermarkFunction", "bounded_delay", "punctuated"),
    "application.windows": (
        "approx_count_distinct",
        "avg",
        "collect",
        "count",
        "count_distinct",
        "first",
        "hopping",
        "last",
        "max_",
        "min_",
        "session",
        "sum_",
        "tumbling",
    ),
    "errors": ("SamzaError",),
    "planner.planner": ("ExecutionPlanner", "plan_shape"),
    "provider.dag": ("SamzaDag",),
    "provider.hooks.samza": ("SamzaHook",),
    "provider.operators.drain": ("SamzaDrainOperator", "SamzaStopOperator"),
    "provider.operators.stream": ("SamzaStreamOperator",),
    "provider.operators.table_push": (
        "SamzaTablePushOperator",
        "SamzaTableRollbackOperator",
        "TablePushOperator",
        "TableRollbackOperator",
    ),
    "provider.sensors.table_freshness": ("SamzaTableFreshnessSensor", "TableFreshnessSensor"),
    "provider.task_group": ("SamzaTaskGroup",),
    "row": ("Row",),
    "schema": ("Schema",),
    "testing": ("TestDriver",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


if not TYPE_CHECKING:  # to a type checker any name would exist, and be Any

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
