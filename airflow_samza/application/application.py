"""The application as a value, and the two forms in which a user writes one: a decorated function, a class."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow_samza.application.callables import check_callable, name_of
from airflow_samza.application.declarations.side_inputs import check_declared
from airflow_samza.application.declarations.streams import check_bounded
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole, SystemDescriptor, TableDescriptor
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_checks import checked_id
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.application.rejections import (
    USER_ERRORS,
    checked_call,
    did_you_mean,
    listed,
    raised_in_user_code,
    reject,
)
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError, UnknownName
from airflow_samza.grouping import grouped

if TYPE_CHECKING:
    from airflow_samza.application.app_descriptor import ApplicationDescriptor

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ApplicationSpec:
    """A described application as a value: its systems, streams, tables and operators, in the order of declaration.

    The same code and configuration give an equal value. Operators come after their inputs. An input stream that also
    feeds a table is in ``inputs`` and in ``side_inputs``. ``docs`` are descriptions of operators, by id.
    ``StreamApplication.spec()`` makes it.
    """

    name: str
    app_id: str = "1"
    config: Mapping[str, str] = field(default_factory=dict)
    default_system: str | None = None
    systems: Mapping[str, SystemDescriptor] = field(default_factory=dict)
    inputs: Mapping[str, StreamDescriptor] = field(default_factory=dict)
    outputs: Mapping[str, StreamDescriptor] = field(default_factory=dict)
    intermediates: Mapping[str, StreamDescriptor] = field(default_factory=dict)
    side_inputs: Mapping[str, StreamDescriptor] = field(default_factory=dict)
    tables: Mapping[str, TableDescriptor] = field(default_factory=dict)
    operators: tuple[OperatorSpec, ...] = field(default=(), repr=False)
    docs: Mapping[str, str] = field(default_factory=dict, repr=False)
    dropped: tuple[str, ...] = ()
    location: SourceLocation | None = None

    def next_operators(self, operator: OperatorSpec) -> tuple[OperatorSpec, ...]:
        """Return the operators that read the results of an operator, in the order of declaration."""
        return self._forward.get(operator.op_id, ())

    def operator(self, op_id: str) -> OperatorSpec:
        """Return the operator with an id; raise :class:`~airflow_samza.errors.UnknownName` when there is none."""
        return self.operators[self._found(op_id, self._places, "operator", "Its operators are")]

    def operators_of(self, op_ids: Iterable[str]) -> list[OperatorSpec]:
        """Return the operators with these ids, in the order of declaration; ids of none are left out."""
        places = sorted(self._places[op_id] for op_id in op_ids if op_id in self._places)
        return [self.operators[place] for place in places]

    def input_operator(self, stream_id: str) -> InputOperatorSpec:
        """Return the operator that reads an input stream or an intermediate stream."""
        return self._found(stream_id, self._inputs_by_stream, "input or intermediate stream", "They are")

    def stream(self, stream_id: str) -> StreamDescriptor:
        """Return the stream with an id: an input, an output, an intermediate stream or a side input."""
        return self._found(stream_id, self._streams, "stream", "Its streams are")

    def table(self, table_id: str) -> TableDescriptor:
        """Return the table with an id."""
        return self._found(table_id, self.tables, "table", "Its tables are")

    def _found(self, name: str, items: Mapping[str, T], word: str, its: str) -> T:
        if name in items:
            return items[name]
        raise UnknownName(
            f"Application {self.name!r} has no {word} {name!r}.",
            hint=f"{did_you_mean(name, items)}{its} {listed(sorted(items))}.",
            name=name,
        )

    @cached_property
    def _forward(self) -> dict[str, tuple[OperatorSpec, ...]]:
        forward = grouped((source.op_id, operator) for operator in self.operators for source in operator.inputs)
        return {op_id: tuple(following) for op_id, following in forward.items()}

    @cached_property
    def _places(self) -> dict[str, int]:
        return {operator.op_id: place for place, operator in enumerate(self.operators)}

    @cached_property
    def _streams(self) -> dict[str, StreamDescriptor]:
        return {**self.side_inputs, **self.intermediates, **self.outputs, **self.inputs}

    @cached_property
    def _inputs_by_stream(self) -> dict[str, InputOperatorSpec]:
        return {
            operator.stream.stream_id: operator
            for operator in self.operators
            if isinstance(operator, InputOperatorSpec)
        }

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}


class StreamApplication:
    """The base class of stream applications; subclass it, or decorate a function with :func:`stream_application`.

    A subclass defines ``name`` and ``describe``, and may define ``app_id``, ``config``, ``default_system`` and
    ``dropped``, which mean the same as the parameters of the decorator.

    >>> class PageViews(StreamApplication):
    ...     name = "page-views"
    ...
    ...     def describe(self, app):
    ...         views = app.input_stream("page-views", schema="member_id bigint, dwell_ms int")
    ...         views.where("dwell_ms > 1000").send_to(app.output_stream("long-views"))
    >>> [operator.op_id for operator in PageViews().spec().operators]
    ['page-views-1-input-page-views', 'page-views-1-where-0', 'page-views-1-send_to-1']
    """

    name: str = ""
    app_id: str = "1"
    config: Mapping[str, str] = {}
    default_system: str | None = None
    dropped: Sequence[str] = ()
    location: SourceLocation | None = None
    _low_level: ClassVar[bool] = False

    def describe(self, app: Any) -> None:
        """Declare the streams, tables and operators of the application, and do nothing else.

        :param app: The descriptor on which they are declared.
        """
        raise NotImplementedError

    def spec(self, config: Mapping[str, str] | None = None) -> ApplicationSpec:
        """Return the described application.

        :param config: Configuration keys that are added to the application's own, and override them.
        """
        kind = type(self)
        if kind.describe is StreamApplication.describe:
            reject(f"{kind.__name__} says nothing", hint="Define a method describe(self, app).")
        name = checked_id(self.name, "application")
        merged = {**_checked_config(self.config), **_checked_config(config or {})}
        graph = GraphBuilder(name, checked_id(self.app_id, "application copy (app_id)"), low_level=self._low_level)
        app = self._descriptor(graph, merged)
        check_callable(self.describe, f"application {name!r}", 1, hint="Define describe(self, app).")
        try:
            self.describe(app)
        except SamzaError:
            raise
        except USER_ERRORS as error:
            raise InvalidApplication(
                f"The description of application {name!r} raised {raised_in_user_code(error)}.",
                hint="It runs whenever the Dag file is parsed: declare streams, tables and operators in it, and do "
                "nothing else.",
                name=name,
            ) from error
        graph.finish()
        app.check_complete()
        check_declared(Config(merged), name, graph.tables)
        streams = graph.streams.values()
        inputs = {s.stream_id: s for s in streams if s.role is StreamRole.INPUT}
        check_bounded(Config(merged), name, inputs)
        return ApplicationSpec(
            name=name,
            app_id=graph.app_id,
            config=merged,
            default_system=app.default_system_name,
            systems=dict(graph.systems),
            inputs=inputs,
            outputs={s.stream_id: s for s in streams if s.role is StreamRole.OUTPUT},
            intermediates={s.stream_id: s for s in streams if s.role is StreamRole.INTERMEDIATE},
            side_inputs=dict(graph.side_inputs),
            tables=dict(graph.tables),
            operators=tuple(graph.operators),
            docs=dict(graph.docs),
            dropped=_checked_dropped(self.dropped),
            location=self.location or SourceLocation.of_callable(self.describe),
        )

    def _descriptor(self, graph: GraphBuilder, config: Mapping[str, str]) -> ApplicationDescriptor:
        from airflow_samza.application.app_descriptor import StreamApplicationDescriptor

        return StreamApplicationDescriptor(graph, config, self.default_system)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class DecoratedApplication(StreamApplication):
    """A function that describes an application, under the name that the decorator gave it."""

    def __init__(
        self,
        function: Callable[[Any], None],
        name: str,
        app_id: str,
        config: Mapping[str, str] | None,
        default_system: str | None,
        dropped: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.name = name
        self.app_id = app_id
        self.config = dict(config or {})
        self.default_system = default_system
        self.dropped = dropped
        self.location = SourceLocation.of_callable(function)
        self.__doc__ = getattr(function, "__doc__", None)
        self.__name__ = name_of(function)
        self.__module__ = getattr(function, "__module__", __name__)

    def describe(self, app: Any) -> None:
        """Calls the decorated function."""
        self.function(app)

    def __call__(self, app: Any) -> None:
        """Describes into ``app``, so that applications can be tested as the functions they are."""
        self.function(app)


@checked_call
def stream_application(
    name: str,
    *,
    app_id: str = "1",
    config: Mapping[str, str] | None = None,
    default_system: str | None = None,
    dropped: Sequence[str] = (),
) -> Callable[[Callable[[Any], None]], DecoratedApplication]:
    """Make an application of the function that it decorates.

    The function gets ``app`` (:class:`StreamApplicationDescriptor`), and declares streams, tables and operators on it.
    It runs whenever the Dag file is parsed, so it must do nothing else.

    >>> @stream_application("page-views")
    ... def page_views(app):
    ...     app.input_stream("page-views", schema="id bigint").send_to(app.output_stream("copy"))
    >>> page_views.spec().name
    'page-views'

    :param name: The application's name. Topics, ids and state are named after it; the function's own name plays no
        part.
    :param app_id: The id of this copy, where an environment runs an application twice.
    :param config: Configuration keys, as texts; an environment may override them.
    :param default_system: The system of streams that name none.
    :param dropped: Former ids of operators, tables, stores and inputs whose state is given up. Without it, state that
        nothing continues with is an error.
    """
    return decorator_of(DecoratedApplication, "stream_application", name, app_id, config, default_system, dropped)


Decorated = TypeVar("Decorated", bound=DecoratedApplication)


def decorator_of(
    kind: type[Decorated],
    word: str,
    name: object,
    app_id: str,
    config: Mapping[str, str] | None,
    default_system: str | None,
    dropped: Sequence[str],
) -> Callable[[Callable[[Any], None]], Decorated]:
    """Return the decorator of one kind of application, after checking what it was called with."""
    if callable(name):
        reject(
            f"@{word} was used without a name for {name_of(name)}",
            hint=f'Write @{word}("{name_of(name).rpartition(".")[2].replace("_", "-")}"); the name goes into topics '
            "and state.",
        )
    checked = checked_id(name, "application")
    checked_id(app_id, "application copy (app_id)")
    dropped_ids = _checked_dropped(dropped)

    def decorate(function: Callable[[Any], None]) -> Decorated:
        check_callable(function, f"@{word}", 1, hint="Decorate a function with one parameter: app.")
        return kind(function, checked, app_id, _checked_config(config or {}), default_system, dropped_ids)

    return decorate


def _checked_dropped(dropped: Sequence[str]) -> tuple[str, ...]:
    if (
        isinstance(dropped, str)
        or not isinstance(dropped, Iterable)
        or not all(isinstance(name, str) for name in dropped)
    ):
        reject(f"dropped is {dropped!r}", hint='Give a list of former ids: dropped=["per-minute"].')
    return tuple(checked_id(name, "dropped state") for name in dropped)


def _checked_config(config: Mapping[Any, Any]) -> dict[str, str]:
    if not isinstance(config, Mapping):
        reject(
            f"config is {config!r}", hint='Give a dict of Samza\'s keys: {"job.intermediate.stream.partitions": "16"}.'
        )
    for key, value in config.items():
        if not isinstance(key, str) or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ConfigError(
                f"Configuration key {key!r} has the value {value!r}, which is not a text.",
                hint="Keys and values are texts, as in Samza's properties files.",
                key=key,
                value=repr(value),
            )
    return {key: str(value) for key, value in config.items()}
