"""Applications of the low-level API: streams, tables, stores and one task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, ClassVar, cast

from airflow_samza.application.app_descriptor import ApplicationDescriptor
from airflow_samza.application.application import DecoratedApplication, StreamApplication, decorator_of
from airflow_samza.application.bad_records import error_policy
from airflow_samza.application.callables import check_callable, name_of
from airflow_samza.application.declarations.side_inputs import reject_configured
from airflow_samza.application.descriptors import StoreDescriptor, StreamRole
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_checks import checked_id
from airflow_samza.application.operator_specs import InputOperatorSpec, TaskSpec
from airflow_samza.application.rejections import checked_call, checked_calls, located, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.times import duration_ms
from airflow_samza.config import STORE_BACKENDS
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import Field, Schema, declared_type

_SORTED = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
"""The types of keys. Floats are not among them: what comes out of arithmetic is hardly ever equal to what was put."""


@checked_calls
class TaskApplicationDescriptor(ApplicationDescriptor):
    """The ``app`` of a low-level application: it declares streams, tables, stores and the task.

    Streams and tables are declared as on :class:`StreamApplicationDescriptor`. Each input stream goes to the task,
    which sends to output streams by their ids.
    """

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str], default_system: str | None = None) -> None:
        super().__init__(graph, config, default_system)
        self._factory: Callable[[], Any] | None = None
        self._stores: dict[str, StoreDescriptor] = {}

    def store(
        self,
        name: str,
        *,
        key: object,
        value: object,
        backend: str = "memory",
        ttl: str | int | timedelta | None = None,
    ) -> str:
        """Declare a store, of which each task has its own part, and return its name.

        ```python
        app.store("visits", key="bigint", value="member_id bigint, clicks int", ttl="1 day")
        ```

        :param name: The name by which a task gets it: ``context.get_store(name)``.
        :param key: The type of keys (``"bigint"``, ``str``), or columns, of which a key is a tuple. Keys are kept in
            order, so floats, arrays, maps and structs are rejected.
        :param value: The type of values (``"string"``, ``"array<string>"``), or columns (a dataclass, a DDL string, a
            ``pyarrow.Schema``), of which a value is a message.
        :param backend: ``"memory"``, or ``"rocksdb"``, which keeps entries on the host's disk.
        :param ttl: The time for which an entry exists after ``put``, by the task's clock. By default for ever.
        """
        self._graph.check_open()
        store = _declared_store(name, key, value, backend, ttl)
        reject_configured(
            self._settings,
            store.name,
            f"The store {store.name!r} is declared by app.store, which the task itself writes",
            f'Declare it as app.table("{store.name}", key=…, schema=…): the task reads it by '
            f'context.get_table("{store.name}").',
        )
        changelog = self._settings.changelog(store.name)
        if changelog is not None:
            reject(
                f"stores.{store.name}.changelog is {changelog!r}, and the store {store.name!r} has no topic of "
                "changes: it is kept under the root, with the run's state",
                hint="Leave the key out: from there the store comes back on any host, and in the next run. What "
                "others should read, send to an output stream.",
                kind=ConfigError,
                key=f"stores.{store.name}.changelog",
                value=changelog,
            )
        if store.name in self._stores:
            former = self._stores[store.name].location
            self._graph.reject_duplicate(f"store {name!r}", former, "Declare each store once.", name)
        self._stores[store.name] = store
        return store.name

    def task(self, factory: Callable[[], Any], *, on_error: object = "fail") -> None:
        """Declare the task.

        ```python
        app.task(CountViews, on_error="drop")
        ```

        :param factory: The class of the task, or a callable without parameters that makes one. Each task and epoch
            makes its own.
        :param on_error: The treatment of messages on which ``process`` raises: ``"fail"`` (the stage fails),
            ``"drop"``, or ``dead_letter(app.output_stream("bad"))``. What was sent for such a message is discarded;
            what was put into stores stays.
        """
        where = f"task of application {self.name!r}"
        self._graph.check_open()
        if self._factory is not None:
            reject(f"The {where} is said twice", hint="A low-level application has one task; put both parts into it.")
        if not isinstance(factory, type) and hasattr(factory, "process"):
            reject(
                f"The {where} is made already",
                hint=f"Give its class: app.task({type(factory).__name__}); each partition makes its own.",
            )
        if isinstance(factory, type):
            self._check_class(factory, where)
        check_callable(factory, f"the {where}", 0, hint="Give the class of the task, or a callable that makes one.")
        self._factory = factory
        # its dead-letter stream is among the outputs
        self._graph.add(TaskSpec, "task", factory=factory, on_error=error_policy(on_error, self._graph, where))

    def _check_class(self, factory: type, where: str) -> None:
        if getattr(factory, "process", None) is None:
            reject(
                f"The {where}, {name_of(factory)}, has no method process",
                hint="Define process(self, envelope, collector, coordinator).",
            )
        missing = sorted(getattr(factory, "__abstractmethods__", ()))
        if missing:
            reject(
                f"The {where}, {name_of(factory)}, does not define {', '.join(missing)}",
                hint="Define it; it was promised by a base class.",
            )

    def check_complete(self) -> None:
        """Reject an application without a task; then give the task all that was declared, also after it was named."""
        if self._factory is None:
            reject(f"Low-level application {self.name!r} has no task", hint="Say app.task(MyTask).")
        operators = self._graph.operators
        task = next(operator for operator in operators if isinstance(operator, TaskSpec))
        operators.remove(task)
        streams = self._graph.streams.values()
        operators.append(
            replace(
                task,
                inputs=tuple(operator for operator in operators if isinstance(operator, InputOperatorSpec)),
                outputs=tuple(stream for stream in streams if stream.role is StreamRole.OUTPUT),
                tables=tuple(self._graph.tables.values()),
                stores=tuple(self._stores.values()),
            )
        )


class TaskApplication(StreamApplication):
    """The base class of low-level applications; subclass it, or decorate a function with :func:`task_application`.

    A subclass defines ``name`` and ``describe``, as of :class:`StreamApplication`.

    >>> from airflow_samza import StreamTask
    >>> class Count(StreamTask):
    ...     def process(self, envelope, collector, coordinator):
    ...         collector.send("counts", {"n": 1})
    >>> class Counting(TaskApplication):
    ...     name = "counting"
    ...
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


@checked_call
def task_application(
    name: str,
    *,
    app_id: str = "1",
    config: Mapping[str, str] | None = None,
    default_system: str | None = None,
    dropped: Sequence[str] = (),
) -> Callable[[Callable[[TaskApplicationDescriptor], None]], DecoratedTaskApplication]:
    """Make a low-level application of the function that it decorates.

    The function gets ``app`` (:class:`TaskApplicationDescriptor`), and declares streams, tables, stores and the task on
    it.

    :param name: The application's name. Topics, ids and state are named after it; the function's own name plays no
        part.
    :param app_id: The id of this copy, where an environment runs an application twice.
    :param config: Configuration keys, as texts; an environment may override them.
    :param default_system: The system of streams that name none.
    :param dropped: Former ids of operators, tables, stores and inputs whose state is given up.
    """
    return decorator_of(DecoratedTaskApplication, "task_application", name, app_id, config, default_system, dropped)


def _declared_store(
    name: object, key: object, value: object, backend: object = "memory", ttl: object = None
) -> StoreDescriptor:
    """Return the store that a user declares."""
    checked = checked_id(name, "store")
    with located():
        keys, _ = _columns("key", key)
        values, plain = _columns("value", value)
    for field in keys.fields:
        if field.type.name not in _SORTED:
            reject(
                f"The key of store {checked!r} has the type {field.type.ddl()}, which keys cannot have",
                hint=f"Use {', '.join(_SORTED[:-1])} or {_SORTED[-1]}; several columns make a tuple.",
                store=checked,
            )
    if backend not in STORE_BACKENDS:
        reject(
            f"The store {checked!r} has backend={backend!r}, which is not known",
            hint='Write "memory", or "rocksdb" for state that does not fit into memory, or is too large to load in '
            "each epoch.",
            store=checked,
        )
    ttl_ms = None if ttl is None else duration_ms(cast("str", ttl))
    never_null = Schema(tuple(replace(field, nullable=False) for field in keys.fields))
    return StoreDescriptor(checked, never_null, values, plain, str(backend), ttl_ms, SourceLocation.of_caller())


def _columns(word: str, declared: object) -> tuple[Schema, bool]:
    """Return the columns, and whether they are one plain value, which is so for a type."""
    if isinstance(declared, str) and len(declared.split()) > 1:
        try:
            return _plain(word, declared), True  # "map<string, int>"
        except SchemaError:
            return Schema.of(declared), False
    try:
        return (_plain(word, declared), True) if isinstance(declared, str) else (Schema.of(declared), False)
    except SchemaError:
        return _plain(word, declared), True


def _plain(word: str, declared: object) -> Schema:
    return Schema((Field(word, declared_type(declared, f"the {word}"), nullable=False),))
