"""The context of a low-level task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.errors import UnknownName
from airflow_samza.task.operators.low_level.local_tables import TaskTable
from airflow_samza.task.operators.low_level.stores import TaskStore
from airflow_samza.task.operators.low_level.tables import RemoteTaskTable
from airflow_samza.task.operators.low_level.timers import TaskTimers

Found = TypeVar("Found")


class Metrics:
    """Counters and gauges of one task, by name; the task's report shows them.

    Counters are added up over tasks and epochs. Of a gauge each task has its last value, from epoch to epoch.
    """

    def __init__(self) -> None:
        self.counters: dict[str, float] = {}
        self.gauges: dict[str, float] = {}

    def count(self, name: str, by: float = 1) -> None:
        """Adds to a counter."""
        self.counters[name] = self.counters.get(name, 0) + by

    def gauge(self, name: str, value: float) -> None:
        """Sets a gauge."""
        self.gauges[name] = value


class Context:
    """The context of a task (``TaskContext``)."""

    def __init__(
        self,
        name: str,
        partitions: Mapping[str, Sequence[int]],
        config: Mapping[str, str],
        tables: Mapping[str, TaskTable | RemoteTaskTable],
        clock: Callable[[], int],
        stores: Mapping[str, TaskStore] | None = None,
    ) -> None:
        self.task_name = name
        self.partitions = partitions
        self.config = config
        self.metrics = Metrics()
        self.timers = TaskTimers()
        self.watermark_ms = NONE_YET
        self.now_ms = clock
        self.stores = stores or {}
        self._tables = tables

    def get_table(self, table_id: str) -> TaskTable | RemoteTaskTable:
        """A table that the application declared."""
        return _found("table", table_id, self._tables)

    @property
    def remote_tables(self) -> list[RemoteTaskTable]:
        """The tables that lie elsewhere."""
        return [table for table in self._tables.values() if isinstance(table, RemoteTaskTable)]

    @property
    def own_tables(self) -> list[TaskTable]:
        """The tables that lie here."""
        return [table for table in self._tables.values() if isinstance(table, TaskTable)]

    def get_store(self, name: str) -> TaskStore:
        """A store that the application declared, as this task's own."""
        return _found("store", name, self.stores)


def _found(word: str, name: str, known: Mapping[str, Found]) -> Found:
    if name in known:
        return known[name]
    declare = '; declare it with app.store("…", key=…, value=…)' if word == "store" and not known else ""
    raise UnknownName(
        f"The application has no {word} {name!r} ({SourceLocation.of_caller()}).",
        hint=f"{did_you_mean(str(name), known)}Its {word}s are {', '.join(sorted(known)) or 'none'}{declare}.",
        name=name,
    )
