"""The low-level API: a task that gets every message of its partitions and sends what it likes.

A task is made once per partition by the application's factory, and made again for each epoch of a run that has several.
It must have ``process``; ``init``, ``window``, ``on_timer``, ``on_end_of_stream`` and ``close`` are called where a task
defines them. Subclass the abstract classes, or just define the methods. Each call comes after the one before has
returned; only the calls of an :class:`AsyncStreamTask` overlap. Source: side-inputs ("one message at a time per task"),
control-messages (end of stream); rules C7, C9. Users subclass these; the operator of low-level tasks calls them.
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
    """A message and where it comes from.

    :param stream: The id of the stream.
    :param partition: The partition.
    :param offset: The offset in the partition.
    :param key: The values of the key columns (a tuple, if there are several); None where the stream declares no key.
    :param message: The message: an instance of the stream's dataclass, otherwise a :class:`Row`.
    :param system: The name of the system.
    :param event_time: The value of the event-time column; None where the stream declares none.
    """

    stream: str
    partition: int
    offset: int
    key: Any
    message: Any
    system: str | None = None
    event_time: Any = None


class RequestScope(str, Enum):
    """The tasks for which a request to the coordinator counts: the task itself, or all tasks of its stage."""

    CURRENT_TASK = "current_task"
    """The task that asks."""
    ALL_TASKS = "all_tasks"
    """All tasks of the stage."""


class MessageCollector(Protocol):
    """The sender of a task's messages."""

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Send a message to an output stream.

        ```python
        collector.send("visits", {"member_id": 7, "clicks": 3})
        ```

        :param stream: The stream's id.
        :param message: The message: a dataclass instance, a dict or a :class:`Row`.
        :param key: The key by which the partition is chosen, for a stream that declares no key. By default the stream's
            key columns choose it, or the task's own partition.
        """


class TaskCoordinator(Protocol):
    """The requests that a task can make between messages."""

    def commit(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Request a commit after this call, which ends the epoch.

        The task reads nothing more until the commit is done; the other tasks of the stage finish their part of the
        epoch, whatever the scope. A bounded run is one epoch, and commits at its end.

        :param scope: The tasks for which the request counts.
        """

    def shutdown(self, scope: RequestScope = RequestScope.CURRENT_TASK) -> None:
        """Request the end of the task after this call.

        The rest of its input stays unread, and ``on_end_of_stream`` is not called.

        :param scope: With :attr:`RequestScope.ALL_TASKS` the other tasks of the stage end, too, once their epoch is
            committed.
        """


class KeyValueStore(Protocol):
    """A store of one task, declared with ``app.store``: entries in the order of their keys.

    Reads see what was written before. A value that was read may be changed; only ``put`` writes it.

    ```python
    store.put(7, {"member_id": 7, "clicks": 1})
    first = store.get(7).clicks
    some = list(store.range(7, 100))
    ```
    """

    def get(self, key: Any) -> Any:
        """Return the value of a key; None if there is none."""

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of several keys, without those that are not there."""

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; the value None deletes the key."""

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Set several values, in the given order; the value None deletes a key."""

    def delete(self, key: Any) -> None:
        """Delete a key; nothing happens if it is not there."""

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """Return the entries from ``first`` up to, and without, ``last``, in the order of keys.

        They are those of the moment of the call: later writes change nothing.

        :param first: The first key; None begins with the least.
        :param last: The key before which to stop; None goes on to the greatest.
        """

    def all(self) -> Iterator[tuple[Any, Any]]:
        """Return all entries, in the order of keys."""


class ReadableTable(Protocol):
    """A table as a low-level task sees it; writing to a pushed one is an error."""

    def get(self, key: Any) -> Any:
        """Return the row of a key, or None."""

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """Return the rows of those keys that are there."""

    def put(self, key: Any, row: Any) -> None:
        """Write a row of a local table; None deletes."""


class Timers(Protocol):
    """Requests for calls of ``on_timer`` (:class:`TimerListenerTask`); kept from epoch to epoch, as stores are."""

    @property
    def ending(self) -> bool:
        """Return whether the input has ended for good, and the timers that are left are fired for that reason."""

    def set(self, key: Any, time: int | datetime, *, kind: str = "event") -> None:
        """Ask for a call at ``time`` (ms since the epoch, or a datetime with a zone).

        The same key again moves the timer.

        ``kind`` is ``"event"``: when the watermark reaches the time, or ``"processing"``: when the clock does. A time
        that is reached already is due after the present call. ``key`` is a text, an integer or a tuple of them.
        """

    def cancel(self, key: Any, *, kind: str = "event") -> bool:
        """Take a timer back; False when there was none."""


class TaskContext(Protocol):
    """The context of a task: partitions, tables, stores, timers, configuration, metrics."""

    @property
    def task_name(self) -> str:
        """Return the name of the task: ``task-<number>``."""

    @property
    def partitions(self) -> Mapping[str, Iterable[int]]:
        """Return the partitions that the task owns, by input stream."""

    @property
    def config(self) -> Mapping[str, str]:
        """Return the application's configuration."""

    @property
    def metrics(self) -> Any:
        """Return the task's metrics: ``count(name, by=1)`` adds to a counter, ``gauge(name, value)`` sets a gauge."""

    @property
    def watermark_ms(self) -> int:
        """Return the watermark of all inputs, in ms since 1970 (UTC); -1 while there is none."""

    @property
    def timers(self) -> Timers:
        """Return the timers of the task, for :class:`TimerListenerTask`.

        - ``set(key, time, kind="event")`` requests a call of ``on_timer`` at a time (ms since 1970, or a ``datetime``
        with a zone): ``"event"``: when the watermark reaches it, ``"processing"``: when the clock does. The same key
        again moves the timer. A key is a text, an integer or a tuple of them.
        - ``cancel(key, kind="event")`` removes a timer, and returns False if there was none.
        - ``ending`` is true while the timers that are left fire, because the input has ended for good.
        """

    def now_ms(self) -> int:
        """Return the task's clock, in ms since 1970 (UTC)."""

    def get_table(self, table_id: str) -> ReadableTable:
        """Return a table: ``get(key)``, ``get_all(keys)``, and for local and remote tables ``put(key, row)``.

        :param table_id: The table's id.
        """

    def get_store(self, name: str) -> KeyValueStore:
        """Return the task's part of a store.

        :param name: The store's name.
        """


class StreamTask(ABC):
    """A task that processes messages one at a time.

    ```python
    class CountViews(StreamTask):
        def init(self, context):
            self.counts = context.get_store("counts")

        def process(self, envelope, collector, coordinator):
            member = envelope.message.member_id
            count = (self.counts.get(member) or 0) + 1
            self.counts.put(member, count)
            collector.send("counts", {"member_id": member, "views": count})
    ```
    """

    @abstractmethod
    def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process a message.

        :param envelope: The message, with its stream, partition and offset.
        :param collector: The sender of messages.
        :param coordinator: The receiver of requests: a commit, the end of the task.
        """


class AsyncStreamTask(ABC):
    """A task that processes messages by a coroutine, several at a time.

    Up to ``task.max.concurrency`` messages (1 unless set) are in flight. They begin in the order of the messages and
    may end in any order; ``task.callback.timeout.ms`` limits each. Nothing is in flight when another method is called,
    when the watermark moves, and at a commit. The other methods may be coroutine functions, too. All run on one event
    loop, in one thread.

    ```python
    class AddCity(AsyncStreamTask):
        async def process(self, envelope, collector, coordinator):
            city = await city_of(envelope.message.country)
            collector.send("located", {"member_id": envelope.message.member_id, "city": city})
    ```
    """

    @abstractmethod
    async def process(
        self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Process a message.

        :param envelope: The message, with its stream, partition and offset.
        :param collector: The sender of messages.
        :param coordinator: The receiver of requests: a commit, the end of the task.
        """


class InitableTask(ABC):
    """A task with a call before its first message."""

    @abstractmethod
    def init(self, context: TaskContext) -> None:
        """Prepare the task; called once, before all other methods.

        Tables, stores and timers are as the epoch before left them.

        :param context: The context of the task.
        """


class WindowableTask(ABC):
    """A task with a call every ``task.window.ms``, by its clock; the key must be set."""

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Do what is due; called between messages, ``task.window.ms`` after the last call or the start.

        :param collector: The sender of messages.
        :param coordinator: The receiver of requests: a commit, the end of the task.
        """


class TimerListenerTask(ABC):
    """A task that sets timers, with ``context.timers``.

    ```python
    class Reminders(StreamTask, TimerListenerTask):
        def init(self, context):
            self.timers = context.timers

        def process(self, envelope, collector, coordinator):
            at = envelope.message.at.timestamp() * 1000
            self.timers.set(envelope.message.member_id, int(at) + 60_000)

        def on_timer(self, key, time, collector, coordinator):
            collector.send("reminders", {"member_id": key})
    ```
    """

    @abstractmethod
    def on_timer(self, key: Any, time: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Handle a timer that is due; called between messages.

        Timers that are due together come in the order of their times, then of their keys. When all inputs have ended
        for good, the event timers that are left fire before ``on_end_of_stream``; processing timers that are left never
        fire (rule C9).

        :param key: The key of the timer.
        :param time: The time for which it was set, in ms since 1970 (UTC).
        :param collector: The sender of messages.
        :param coordinator: The receiver of requests: a commit, the end of the task.
        """


class EndOfStreamListenerTask(ABC):
    """A task with a call when all its inputs have ended for good (rules C7, C9)."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Handle the end of all inputs; called once, after the last message. It may still send messages.

        :param collector: The sender of messages.
        :param coordinator: The receiver of requests: a commit, the end of the task.
        """


class ClosableTask(ABC):
    """A task that has something to give back: a connection, a file."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the task holds; called when the work of an epoch is done, also after a failure.

        The commit of the epoch comes after it.
        """
