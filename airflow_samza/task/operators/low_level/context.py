"""Objects that a low-level task is given: its context, the collector of what it sends, and its coordinator.

Its progress in time is beside them. The operator of low-level tasks and processors of side inputs get a context.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.operator_specs import TaskSpec
from airflow_samza.application.rejections import did_you_mean, listed, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.task_api import RequestScope
from airflow_samza.control.watermarks import END_OF_TIME, NONE_YET
from airflow_samza.errors import InvalidApplication, SchemaError, StageError, UnknownName
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import CHUNK, MessageWriter
from airflow_samza.task.messages.output_writers import OutputWriter
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.operators.calls import batch_of
from airflow_samza.task.operators.low_level.stores import TaskStore
from airflow_samza.task.operators.low_level.tables import RemoteTaskTable, TaskTable
from airflow_samza.task.operators.low_level.timers import TaskTimers

Declared = TypeVar("Declared")


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
        return _declared("table", table_id, self._tables)

    @property
    def own_tables(self) -> list[TaskTable]:
        """The tables that lie here."""
        return [table for table in self._tables.values() if isinstance(table, TaskTable)]

    def get_store(self, name: str) -> TaskStore:
        """A store that the application declared, as this task's own."""
        return _declared("store", name, self.stores)


def _declared(word: str, name: str, declared: Mapping[str, Declared]) -> Declared:
    if name in declared:
        return declared[name]
    declare = '; declare it with app.store("…", key=…, value=…)' if word == "store" and not declared else ""
    raise UnknownName(
        f"The application has no {word} {name!r} ({SourceLocation.of_caller()}).",
        hint=f"{did_you_mean(str(name), declared)}Its {word}s are {listed(sorted(declared))}{declare}.",
        name=name,
    )


_TIMERS, _TIMES = "timers", "times"
_WATERMARK, _WINDOW = "watermark", "window"


class TaskProgress:
    """A task's place in event time and processing time. ``window_ms`` None: ``window`` is never called."""

    def __init__(self, context: Context) -> None:
        self.window_ms: int | None = None
        self._context = context
        self._next_window = END_OF_TIME

    def begin(self) -> None:
        """Begin: without a former epoch, ``window`` is due a period from now."""
        if self.window_ms is not None and self._next_window == END_OF_TIME:
            self._next_window = self._context.now_ms() + self.window_ms

    @property
    def waits_for_time(self) -> bool:
        """Return whether a processing timer or ``window`` waits, or an event timer is due that a stop has put off."""
        timers = self._context.timers
        return min(timers.processing, self._next_window) < END_OF_TIME or timers.event <= self._context.watermark_ms

    def is_due(self) -> bool:
        """Return whether a timer or ``window`` is due. Looks at the clock only when something waits for it."""
        timers = self._context.timers
        if timers.event <= self._context.watermark_ms:
            return True
        following = min(timers.processing, self._next_window)
        return following < END_OF_TIME and following <= self._context.now_ms()

    def window_is_due(self) -> bool:
        """Return whether ``window`` is due; the next call is then due a period from now, however many were missed."""
        now = self._context.now_ms()
        if self.window_ms is None or now < self._next_window:
            return False
        self._next_window = now + self.window_ms
        return True

    def snapshot(self) -> dict[str, pa.Table]:
        """Timers, and the times that decide what is due; nothing for a task that has neither timers nor ``window``."""
        times = {}
        if self._context.timers.listener and self._context.watermark_ms >= 0:
            times[_WATERMARK] = self._context.watermark_ms
        if self.window_ms is not None and self._next_window < END_OF_TIME:
            times[_WINDOW] = self._next_window
        columns = {"name": pa.array(list(times), pa.string()), "ms": pa.array(list(times.values()), pa.int64())}
        return {_TIMERS: self._context.timers.snapshot(), _TIMES: pa.table(columns)}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        if _TIMERS in tables:
            self._context.timers.restore(tables[_TIMERS])
        if _TIMES in tables:
            times = {row["name"]: row["ms"] for row in tables[_TIMES].to_pylist()}
            self._context.watermark_ms = times.get(_WATERMARK, self._context.watermark_ms)
            self._next_window = times.get(_WINDOW, self._next_window)


class Output:
    """Messages on their way to one output stream.

    They are written when :meth:`flush` is called, or enough have come (``as_they_come``).
    """

    def __init__(self, spec: TaskSpec, stream: StreamDescriptor, writer: OutputWriter) -> None:
        self.writes_when_full = True
        self._spec = spec
        self.stream = stream
        self._out = writer
        self._writer: MessageWriter | None = None
        self._copies: OwnCopies | None = None
        if stream.schema is not None:
            self._takes(stream.schema)
        self._messages: list[Any] = []
        self._kept = 0

    def add(self, message: Any) -> None:
        """Takes a message, as it is now: the task may use the object again."""
        if self._writer is None:
            if not dataclasses.is_dataclass(message) or isinstance(message, type):
                raise SchemaError(
                    f"The task sends {type(message).__name__} messages to {self.stream.stream_id!r}, whose columns "
                    "are not declared.",
                    hint="Declare app.output_stream(…, schema=…), or send dataclass instances.",
                    stream=self.stream.stream_id,
                )
            self._takes(Schema.of(type(message)))
        assert self._copies is not None
        self._messages.append(self._copies.of(message))
        if self.writes_when_full and len(self._messages) >= CHUNK:
            self.flush()

    def _takes(self, schema: Schema) -> None:
        self._writer, self._copies = MessageWriter(schema), OwnCopies(schema)

    def keep(self) -> None:
        """Keep what was added so far; write it when it is enough."""
        if len(self._messages) >= CHUNK:
            self.flush()
        self._kept = len(self._messages)

    def take_back(self) -> None:
        """Forget the messages that came since :meth:`keep`."""
        del self._messages[self._kept :]

    def flush(self) -> None:
        """Write what it has; coroutines of the task may add more meanwhile."""
        messages = self._messages[:]
        if not messages:
            return
        del self._messages[: len(messages)]
        assert self._writer is not None
        expected = f"for {self.stream.stream_id!r} {self._writer.expected}"
        self._out.write(batch_of(self._spec, self._spec.factory, self._writer, messages, expected=expected))


class Collector:
    """Takes what the task sends (``MessageCollector``)."""

    def __init__(self, outputs: Mapping[str, Output]) -> None:
        self._outputs = outputs

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Sends a message to an output stream, by its id."""
        if stream not in self._outputs:
            raise UnknownName(
                f"The task sends to {stream!r}, which is no output stream of the application "
                f"({SourceLocation.of_caller()}).",
                hint=f"{did_you_mean(stream, self._outputs)}Its outputs are {listed(sorted(self._outputs))}.",
                name=stream,
            )
        if key is not None and not self._outputs[stream].stream.key:
            raise InvalidApplication(
                f"The task sends to {stream!r} with a key of its own, and the stream has no key columns "
                f"({SourceLocation.of_caller()}).",
                hint=f'Declare the key columns: app.output_stream("{stream}", key=…).',
                stream=stream,
            )
        self._outputs[stream].add(message)


class Coordinator:
    """The requests of a task (``TaskCoordinator``); the run loop reads them after each call."""

    def __init__(self) -> None:
        self.commit_requested = False
        """True when the epoch shall end as soon as possible."""
        self.shut_down = False
        self.shuts_down_all = False

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask for a commit after this call; an epoch's commit covers all tasks, whatever the scope."""
        _checked(scope, "commit")
        self.commit_requested = True

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask the task to end after this call, or all tasks when the epoch is committed."""
        self.shuts_down_all = _checked(scope, "shutdown") is RequestScope.ALL_TASKS or self.shuts_down_all
        self.shut_down = True


def _checked(scope: object, word: str) -> RequestScope:
    if not isinstance(scope, RequestScope):
        reject(
            f"The task calls {word} with the scope {scope!r}",
            hint="It is RequestScope.CURRENT_TASK (as without one) or RequestScope.ALL_TASKS.",
            kind=StageError,
            value=repr(scope),
        )
    return scope
