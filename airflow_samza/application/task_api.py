"""The low-level API: a task that gets every message of its partitions and sends what it likes.

A task is made once per partition by the application's factory. It must have ``process``; ``init``, ``window``,
``on_end_of_stream`` and ``close`` are called where a task defines them. Subclass the abstract classes, or just define the methods.
Source: side-inputs ("one message at a time per task"), control-messages (end of stream); SEMANTICS C7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from airflow_samza.application.app_descriptor import ApplicationDescriptor
from airflow_samza.application.application import DecoratedApplication, StreamApplication, decorator_of
from airflow_samza.application.callables import check_callable, name_of
from airflow_samza.application.descriptors import StreamRole
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_specs import InputOperatorSpec, TaskSpec
from airflow_samza.application.refusals import refuse


@dataclass(frozen=True)
class IncomingMessageEnvelope:
    """One message and where it comes from. ``stream`` is the stream's id in the application, ``key`` its key columns' values (or None)."""

    stream: str
    partition: int
    offset: int
    key: Any
    message: Any
    system: str | None = None
    event_time: Any = None


class MessageCollector(Protocol):
    """Takes what a task sends."""

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Sends a message (a row: dataclass, Row or dict) to an output stream, by its id.

        Its partition follows from the stream's key columns; ``key`` replaces them for a stream that declares none.
        """
        ...


class TaskCoordinator(Protocol):
    """Lets a task ask for things between messages."""

    def commit(self) -> None:
        """Asks for a commit after this call (one asked for in ``on_end_of_stream`` happens after it)."""
        ...

    def shutdown(self) -> None:
        """Asks the task to end after this call, leaving the rest of its input unread."""
        ...


class KeyValueStore(Protocol):
    """A task-local store, as tables and side inputs see it."""

    def get(self, key: Any) -> Any:
        """The value of a key, or None."""
        ...

    def put(self, key: Any, value: Any) -> None:
        """Sets a value; None deletes."""
        ...

    def delete(self, key: Any) -> None:
        """Removes a key; one that is not there is no error."""
        ...

    def range(self, first: Any, last: Any) -> Iterator[tuple[Any, Any]]:
        """The entries from ``first`` up to and without ``last``, in key order."""
        ...


class ReadableTable(Protocol):
    """A table as a low-level task sees it; writing to a pushed one is an error."""

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        ...

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        ...

    def put(self, key: Any, row: Any) -> None:
        """Writes a row of a local table; None deletes."""
        ...


class TaskContext(Protocol):
    """What a task may know: its name, its partitions, its tables and stores, the configuration, metrics."""

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

    def get_table(self, table_id: str) -> ReadableTable:
        """A table that the application declared."""
        ...

    def get_store(self, name: str) -> KeyValueStore:
        """A store of this task's own."""
        ...


class StreamTask(ABC):
    """Processes messages one at a time."""

    @abstractmethod
    def process(self, envelope: IncomingMessageEnvelope, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once for each message."""


class InitableTask(ABC):
    """A task that wants to be told its context before the first message."""

    @abstractmethod
    def init(self, context: TaskContext) -> None:
        """Called once, after the tables are filled and before the first message."""


class WindowableTask(ABC):
    """A task that is called from time to time (``task.window.ms``)."""

    @abstractmethod
    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called between messages."""


class EndOfStreamListenerTask(ABC):
    """A task that wants to know when all its inputs have ended for good (SEMANTICS C7, C9)."""

    @abstractmethod
    def on_end_of_stream(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Called once, after the last message; it may still send."""


class ClosableTask(ABC):
    """A task that holds something to give back."""

    @abstractmethod
    def close(self) -> None:
        """Called at the end, after a failure as well."""


class TaskApplicationDescriptor(ApplicationDescriptor):
    """``app`` of a low-level application: streams, tables and one task."""

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str], default_system: str | None = None) -> None:
        super().__init__(graph, config, default_system)
        self._factory: Callable[[], Any] | None = None

    def task(self, factory: Callable[[], Any]) -> None:
        """The factory of the tasks: a class with ``process``, or a callable without parameters that makes one."""
        where = f"task of application {self.name!r}"
        self._graph.check_open()
        if self._factory is not None:
            refuse(f"The {where} is said twice", hint="A low-level application has one task; put both parts into it.")
        if not isinstance(factory, type) and hasattr(factory, "process"):
            refuse(
                f"The {where} is made already", hint=f"Give its class: app.task({type(factory).__name__}); each partition makes its own."
            )
        if isinstance(factory, type):
            self._check_class(factory, where)
        check_callable(factory, f"the {where}", 0, hint="Give the class of the task, or a callable that makes one.")
        self._factory = factory
        self._graph.add(TaskSpec, "task", factory=factory)

    def _check_class(self, factory: type, where: str) -> None:
        process = getattr(factory, "process", None)
        if process is None:
            refuse(
                f"The {where}, {name_of(factory)}, has no method process",
                hint="Define process(self, envelope, collector, coordinator).",
            )
        missing = sorted(getattr(factory, "__abstractmethods__", ()))
        if missing:
            refuse(
                f"The {where}, {name_of(factory)}, does not define {', '.join(missing)}", hint="Define it; it was promised by a base class."
            )

    def check_complete(self) -> None:
        """Refuse an application without a task; then give the task all that was declared, also after it was named."""
        if self._factory is None:
            refuse(f"Low-level application {self.name!r} has no task", hint="Say app.task(MyTask).")
        operators = self._graph.operators
        place = next(place for place, operator in enumerate(operators) if isinstance(operator, TaskSpec))
        task = operators.pop(place)
        streams = self._graph.streams.values()
        operators.append(
            TaskSpec(
                op_id=task.op_id,
                name=task.name,
                inputs=tuple(operator for operator in operators if isinstance(operator, InputOperatorSpec)),
                location=task.location,
                factory=self._factory,
                outputs=tuple(stream for stream in streams if stream.role is StreamRole.OUTPUT),
                tables=tuple(self._graph.tables.values()),
            )
        )


class TaskApplication(StreamApplication):
    """A low-level application: subclass it with a ``name`` and a method ``describe``, or decorate a function.

    >>> class Count(StreamTask):
    ...     def process(self, envelope, collector, coordinator):
    ...         collector.send("counts", {"n": 1})
    >>> class Counting(TaskApplication):
    ...     name = "counting"
    ...     def describe(self, app):
    ...         app.input_stream("views", schema="id bigint")
    ...         app.output_stream("counts")
    ...         app.task(Count)
    >>> Counting().spec().operators[-1].op_id
    'counting-1-task-task'
    """

    _low_level: ClassVar[bool] = True

    def _descriptor(self, graph: GraphBuilder, config: Mapping[str, str]) -> ApplicationDescriptor:
        return TaskApplicationDescriptor(graph, config, self.default_system)


class DecoratedTaskApplication(DecoratedApplication, TaskApplication):
    """A function that describes a low-level application."""


def task_application(
    name: str, *, app_id: str = "1", config: Mapping[str, str] | None = None, default_system: str | None = None
) -> Callable[[Callable[[TaskApplicationDescriptor], None]], DecoratedTaskApplication]:
    """Makes a low-level application of a function that gets ``app`` and declares streams, tables and the task on it."""
    return decorator_of(DecoratedTaskApplication, "task_application", name, app_id, config, default_system)
