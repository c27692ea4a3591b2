"""The low-level API: a task that gets every message of its partitions and sends what it likes.

A task is made once per partition by the application's factory, and made again for each epoch of a run that has several.
It must have ``process``; ``init``, ``window``, ``on_timer``, ``on_end_of_stream`` and ``close`` are called where a task
defines them. Subclass the abstract classes, or just define the methods. Each call comes after the one before has
returned; only the calls of an :class:`AsyncStreamTask` overlap. Source: side-inputs ("one message at a time per task"),
control-messages (end of stream); rules C7, C9.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Protocol


@dataclass(frozen=True)
class IncomingMessageEnvelope:
    """One message and where it comes from.

    ``stream`` is the stream's id in the application, ``key`` its key columns' values (or None).
    """

    stream: str
    partition: int
    offset: int
    key: Any
    message: Any
    system: str | None = None
    event_time: Any = None


class RequestScope(str, Enum):
    """For whom a task asks its coordinator: for itself, or for all tasks of its stage."""

    CURRENT_TASK = "current_task"
    ALL_TASKS = "all_tasks"


class MessageCollector(Protocol):
    """Takes what a task sends."""

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Send a message (a row: dataclass, Row or dict) to an output stream, by its id.

        Its partition follows from the stream's key columns; ``key`` replaces them for a stream that declares none.
        """
        ...


class TaskCoordinator(Protocol):
    """Lets a task ask for things between messages."""

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask for a commit after this call (one asked for in ``on_end_of_stream`` happens after it).

        A commit is an epoch's end, and takes in all tasks of the stage: this task reads nothing more until it is done,
        the others end their part of the epoch as they would have, whatever the ``scope``. A bounded run is one epoch,
        and commits at its end.
        """
        ...

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Ask the task to end after this call, leaving the rest of its input unread and ``on_end_of_stream`` uncalled.

        With :attr:`RequestScope.ALL_TASKS` the other tasks of the stage end as well, when the epoch that they are in is
        committed.
        """
        ...


class KeyValueStore(Protocol):
    """A store of one task, declared with ``app.store``: entries in the order of their keys.

    It reads what it has written.

    What it gives may be changed freely: only ``put`` writes.
    """

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        ...

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of those keys that are there."""
        ...

    def put(self, key: Any, value: Any) -> None:
        """Set a value; None deletes."""
        ...

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set several values, in the order given; None deletes."""
        ...

    def delete(self, key: Any) -> None:
        """Remove a key; one that is not there is no error."""
        ...

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The entries from ``first`` up to and without ``last``, in key order; None leaves that end open.

        They are those of now: writing while they are iterated changes nothing of what comes.
        """
        ...

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All entries, in key order."""
        ...


class ReadableTable(Protocol):
    """A table as a low-level task sees it; writing to a pushed one is an error."""

    def get(self, key: Any) -> Any:
        """Return the row of a key, or None."""
        ...

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """Return the rows of those keys that are there."""
        ...

    def put(self, key: Any, row: Any) -> None:
        """Write a row of a local table; None deletes."""
        ...


class Timers(Protocol):
    """Asks for calls of ``on_timer`` (:class:`TimerListenerTask`).

    Timers are kept from epoch to epoch, as stores are.
    """

    @property
    def ending(self) -> bool:
        """Return whether the input has ended for good, and the timers that are left are fired for that reason."""
        ...

    def set(self, key: Any, time: int | datetime, *, kind: str = "event") -> None:
        """Ask for a call at ``time`` (ms since the epoch, or a datetime with a zone).

        The same key again moves the timer.

        ``kind`` is ``"event"``: when the watermark reaches the time, or ``"processing"``: when the clock does. A time
        that is reached already is due after the present call. ``key`` is a text, an integer or a tuple of them.
        """
        ...

    def cancel(self, key: Any, *, kind: str = "event") -> bool:
        """Take a timer back; False when there was none."""
        ...


class TaskContext(Protocol):
    """The context of a task: its name, partitions, tables, stores, timers, configuration and metrics."""

    @property
    def task_name(self) -> str:
        """``task-<k>``."""
        ...

    @property
    def partitions(self) -> Mapping[str, Iterable[int]]:
        """The partitions of each input stream that this task owns."""
        ...

    @property
    def config(self) -> Mapping[str, str]:
        """The application's configuration."""
        ...

    @property
    def metrics(self) -> Any:
        """Counters and gauges of this task."""
        ...

    @property
    def watermark_ms(self) -> int:
        """Return how far event time has come on all inputs, in ms since the epoch; -1: nothing is known yet."""
        ...

    @property
    def timers(self) -> Timers:
        """The task's timers."""
        ...

    def now_ms(self) -> int:
        """Return the clock, in ms since the epoch."""
        ...

    def get_table(self, table_id: str) -> ReadableTable:
        """Return a table that the application declared."""
        ...

    def get_store(self, name: str) -> KeyValueStore:
        """Return a store that the application declared, as this task's own."""
        ...


class StreamTask(ABC):
    """Processes messages one at a time."""

    @abstractmethod
    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Called once for each message."""


class AsyncStreamTask(ABC):
    """Processes messages by a coroutine: up to ``task.max.concurrency`` of them (1 unless set) are in flight at a time.

    They begin in the order of the messages and end as they may; ``task.callback.timeout.ms`` bounds each. Nothing is in
    flight when any other method is called, when the watermark moves on, and when an epoch is committed. The other
    methods may be coroutines, too; all run on one event loop, on one thread.
    """

    @abstractmethod
    async def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Called once for each message."""


class InitableTask(ABC):
    """A task with a call before the first message."""

    @abstractmethod
    def init(self, context: TaskContext) -> None:
        """Get the context, once, before any other call; tables, stores and timers are as the epoch before left them."""


class WindowableTask(ABC):
    """A task that is called from time to time: every ``task.window.ms``, by the task's clock."""

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called between messages, when that much time has passed since the last call (or the start)."""


class TimerListenerTask(ABC):
    """A task that sets timers (:class:`Timers`)."""

    @abstractmethod
    def on_timer(self, key: Any, time: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called when a timer is due, with its key and the time (ms) for which it was set, between messages.

        Those that are due together come in the order of their times, then of their keys. At the final end of all inputs
        every event timer that is left fires, before ``on_end_of_stream``; processing timers that are left never fire
        (rule C9).
        """


class EndOfStreamListenerTask(ABC):
    """A task that wants to know when all its inputs have ended for good (rules C7, C9)."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once, after the last message; it may still send."""


class ClosableTask(ABC):
    """A task that holds something to give back."""

    @abstractmethod
    def close(self) -> None:
        """Called when the epoch's work is done, after a failure as well; its commit comes after it."""
