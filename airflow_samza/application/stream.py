"""Results of declaring calls, for use by operators: streams of messages, output streams, side inputs, tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, NoReturn, TypeVar

from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.rejections import reject
from airflow_samza.schema import Schema

T = TypeVar("T")


def placed(spec: OperatorSpec) -> str:
    """Return the title of an operator with its place in the user's code, for a half sentence about it."""
    return f"{spec.title} ({spec.location})" if spec.location is not None else spec.title


def declare_anew(column: str) -> str:
    """Return what helps where an operator gives a column of event times other values."""
    return (
        "Declare the new event time there, with how far it may lie before the former one: "
        f'timestamp="{column}", max_delay="1 day"; or keep the former column under its name.'
    )


class LostTime(NamedTuple):
    """The operator behind which messages have no event time, as a half sentence, and what helps there."""

    sentence: str = ""
    remedy: str = "Keep the column there under its name, or put the window before it"


NOT_LOST = LostTime()
"""No operator has left the event time out."""


class Stream(Generic[T]):
    """A stream of messages ``T`` inside an application, without the operators that a user calls on it.

    Those are :class:`~airflow_samza.application.message_stream.MessageStream`; the rules of the operators take this.
    """

    def __init__(
        self,
        graph: GraphBuilder,
        operator: OperatorSpec,
        *,
        key: tuple[str, ...] = (),
        event_time: str | None = None,
        time_change: str = "",
        time_lost: LostTime = NOT_LOST,
    ) -> None:
        self._graph = graph
        self._operator = operator
        # What joins take as key and windows as time when the user names none: columns that came through unchanged.
        # ``time_change`` is a half sentence about the operator that gave the event time's column other values,
        # ``time_lost`` is about the operator that has left the column out.
        schema = operator.schema
        self._key = key if schema is None or all(column in schema for column in key) else ()
        self._event_time = event_time if event_time is None or schema is None or event_time in schema else None
        self._time_change = time_change
        self._time_lost = time_lost
        if event_time is not None and self._event_time is None:
            self._time_lost = LostTime(f"{placed(operator)} leaves out its column {event_time!r}")

    def _time(self, where: str) -> str | None:
        """Return the column of the event time by which an operator goes; reject one that an expression has made."""
        if self._time_change:
            reject(
                f"{where} goes by event time, and {self._time_change}",
                hint=declare_anew("at"),
                operator=where,
            )
        return self._event_time

    def _required_time(self, where: str, else_: str) -> str:
        """Return the column of the event time; reject an operator whose messages have none. ``else_`` helps, too."""
        time = self._time(where)
        if time is None:
            lost = self._time_lost
            remedy = lost.remedy if lost.sentence else 'Declare it on the input, timestamp="at", and keep the column'
            reject(
                f"{where} uses event time, and {lost.sentence or 'its input declares no event-time column'}",
                hint=f"{remedy}; or {else_}.",
                operator=where,
            )
        return time

    @property
    def schema(self) -> Schema | None:
        """Return the columns of the messages; None where only a run can know them."""
        return self._operator.schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._operator.op_id!r})"

    def __iter__(self) -> NoReturn:
        reject(
            f"{self!r} cannot be looped over: the application is only being described, and has no messages yet",
            hint="Say what happens to each message with map, flat_map or filter.",
        )

    def __bool__(self) -> NoReturn:
        reject(
            f"{self!r} is neither true nor false: it has no messages yet",
            hint="Use where or filter to choose messages.",
        )

    def _check_stream(self, other: object, where: str) -> None:
        if not isinstance(other, Stream):
            reject(
                f"{where} takes message streams, not {other!r}",
                hint="Declare it first with app.input_stream(…).",
                operator=where,
            )
        self._graph.check_same_application(other, other._operator.name, where)


P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class _OnlyDeclared:
    """A stream without operators."""

    descriptor: StreamDescriptor
    _graph: GraphBuilder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.descriptor.stream_id!r})"


class OutputStream(_OnlyDeclared):
    """An output stream of one application; :meth:`MessageStream.send_to` takes it."""


class SideInput(_OnlyDeclared):
    """A stream that feeds tables and is never processed itself; the table form with ``side_inputs=`` takes it."""


@dataclass(frozen=True, eq=False)
class Table(Generic[P]):
    """A table of one application, of rows ``P``; joins take it, and :meth:`MessageStream.send_to` a writable one."""

    descriptor: TableDescriptor
    _graph: GraphBuilder

    def __repr__(self) -> str:
        return f"Table({self.descriptor.table_id!r})"
