"""The facts that every operator of an application states, and families of operators that share more of them.

An attribute that is abstract here cannot be left out by a new kind of operator: it could not be made (decision 73). The
planner asks operators for these facts, and so do the kinds of operators that tasks compile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from airflow_samza.application.descriptors import ErrorPolicy, StreamDescriptor, TableDescriptor, TableKind
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import Schema

Names = tuple[str | None, ...]
"""Columns that an operator names; a None among them names none."""

Shown = tuple[str | tuple[str, str], ...]
"""Attributes that plans show, in this order; a pair is the name in the plan and that of the attribute."""


class Emits(Enum):
    """The time and the number of an operator's results."""

    ONE_FOR_ONE = "one message for each, at once: its offset in the input stays known"
    AT_ONCE = "any number, before it gets the next batch: its stream and partition stay known"
    LATER = "at any time"
    AT_THE_END = "when its inputs have ended for good: never in a run whose input range is not final"
    NOTHING = "nothing: the walk from an input stops here"


ARROW, PYTHON, CATALYST = "arrow", "python", "catalyst"
"""The engines: on whole batches in the task; a user's callable per message, in the task; Spark's engine."""


class Engine(NamedTuple):
    """The engine that runs an operator, and the reason as plans show it."""

    name: str
    reason: str


BATCHES = Engine(ARROW, "works on whole batches")
CALLABLE_ON_BATCHES = Engine(ARROW, "a callable takes whole batches")
SQL = Engine(ARROW, "SQL on whole batches")
READS = Engine(ARROW, "batches are read as they come")
PER_MESSAGE = Engine(PYTHON, "a Python callable is called per message")
DATAFRAME = Engine(CATALYST, "transform takes a DataFrame")


@dataclass(frozen=True)
class EventTime:
    """The event time of messages that an operator makes, in the column ``column``.

    ``max_delay_ms`` is how far it may lie before the event time of the message that it is made of, as declared; None:
    its times do not lie before the former ones, which had the same column; this is checked while it runs.
    """

    column: str
    max_delay_ms: int | None = None


@dataclass(frozen=True, eq=False)
class OperatorSpec(ABC):
    """One operator. ``op_id`` is ``<app>-<app id>-<op>-<name or number>``, ``name`` its last part.

    ``schema`` is the schema of what it emits where the application declares it (an input's, a return annotation,
    ``schema=``); None means: the input's, or derived when the stage is made ready to run. ``side_outputs`` are output
    streams that it writes beside its results, ``on_error`` decides about messages on which it fails (None: they fail
    the stage); its dead-letter stream is among the side outputs. ``renamed_from`` is the former ``id=`` of an operator
    whose state or topic hangs on it, of an input the former id of its stream. ``event_time`` is that of its results,
    where it is not the one of what arrives.
    """

    op_id: str
    name: str
    # Without the repr of its inputs, or the repr of a long chain would be the whole chain, nested.
    inputs: tuple[OperatorSpec, ...] = field(default=(), repr=False)
    schema: Schema | None = None
    location: SourceLocation | None = None
    side_outputs: tuple[StreamDescriptor, ...] = field(default=(), kw_only=True)
    on_error: ErrorPolicy | None = field(default=None, kw_only=True)
    renamed_from: str | None = field(default=None, kw_only=True)
    event_time: EventTime | None = field(default=None, kw_only=True)

    op: ClassVar[str]
    """The word for this kind of operator in ids, plans and errors."""

    @property
    @abstractmethod
    def emits(self) -> Emits:
        """The time and the number of its results."""

    @property
    @abstractmethod
    def engine(self) -> Engine:
        """The engine that runs it; SQL that Arrow cannot run, Spark does."""

    @property
    @abstractmethod
    def keeps_state(self) -> bool:
        """Return whether it keeps state from epoch to epoch that belongs to the partitions of its task."""

    @property
    @abstractmethod
    def grouped_by(self) -> tuple[str, ...] | None:
        """The columns whose equal values must come to one task (empty: all messages); None where none must.

        A join compares two sides, which the planner checks in pairs: None there, too.
        """

    @property
    @abstractmethod
    def columns_read(self) -> Names | None:
        """The columns of its inputs that it names itself, beside those of its SQL.

        None where it may look at every column, as callables do.
        """

    @property
    @abstractmethod
    def passes_columns(self) -> bool:
        """Return whether columns of its inputs are columns of its output, under their names."""

    @property
    @abstractmethod
    def shown(self) -> Shown:
        """The attributes that plans show: a plan in which one differs is another plan."""

    @property
    def is_terminal(self) -> bool:
        """Return whether the walk from an input stops here (rule P1)."""
        return self.emits is Emits.NOTHING

    @property
    def sql(self) -> tuple[str, ...]:
        """The SQL texts that it evaluates on every message."""
        return ()

    @property
    def tables(self) -> tuple[TableDescriptor, ...]:
        """The tables that it reads or writes."""
        return ()

    @property
    def input_keys(self) -> tuple[tuple[str, ...], ...]:
        """The columns of the key by which it sends or joins messages, of each input; of most kinds there are none."""
        return ()

    @property
    def written_streams(self) -> tuple[str, ...]:
        """The ids of the streams that it writes."""
        return tuple(stream.stream_id for stream in self.side_outputs)

    @property
    def title(self) -> str:
        """The operator in a sentence.

        ``where 'slow'``, and ``where-0`` as plans show it when the user gave it no id.
        """
        return f"{self.op}-{self.name}" if self.name.isdigit() else f"{self.op} {self.name!r}"


class StatelessSpec(OperatorSpec):
    """An operator that keeps nothing: any task can handle any message."""

    keeps_state = False
    grouped_by = None


@dataclass(frozen=True, eq=False)
class CallingSpec(StatelessSpec):
    """An operator that calls a Python callable with messages."""

    function: Callable[[Any], Any] = field(kw_only=True)
    engine = PER_MESSAGE
    columns_read = None
    passes_columns = False
    shown: ClassVar[Shown] = ("function",)


@dataclass(frozen=True, eq=False)
class SendingSpec(StatelessSpec):
    """An operator that sends every message to a stream."""

    stream: StreamDescriptor = field(kw_only=True)
    emits = Emits.NOTHING
    engine = BATCHES
    passes_columns = True
    shown: ClassVar[Shown] = ()

    @property
    def written_streams(self) -> tuple[str, ...]:
        """Its stream, and those beside it."""
        return (self.stream.stream_id, *super().written_streams)


class RepartitioningSpec(SendingSpec):
    """An operator that sends every message to an intermediate stream. The stage ends here."""


@dataclass(frozen=True, eq=False)
class KeyedSpec(OperatorSpec):
    """An operator that keeps state by key, each key in one task."""

    key: tuple[str, ...] = field(kw_only=True, default=())
    assume_partitioned_by: tuple[str, ...] = field(kw_only=True, default=())
    keeps_state = True

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns of the key."""
        return self.key


@dataclass(frozen=True, eq=False)
class KeyedResultSpec(KeyedSpec):
    """An operator that makes results by key."""

    aggregations: tuple[Aggregation, ...] = field(kw_only=True, default=())
    emits = Emits.LATER
    passes_columns = False

    @property
    def columns_named(self) -> Names:
        """The columns of the key, then those that are aggregated."""
        return (*self.key, *(aggregation.column for aggregation in self.aggregations))


@dataclass(frozen=True, eq=False)
class JoinSpec(OperatorSpec):
    """An operator that joins messages by key. ``function`` makes the result; None merges the columns."""

    function: Callable[[Any, Any], Any] | None = field(kw_only=True, default=None)
    how: str = field(kw_only=True, default="inner")
    assume_partitioned_by: tuple[str, ...] = field(kw_only=True, default=())
    op: ClassVar[str] = "join"
    grouped_by = None
    passes_columns = True

    @property
    def engine(self) -> Engine:
        """Whole batches, unless a callable makes the results."""
        return BATCHES if self.function is None else PER_MESSAGE


@dataclass(frozen=True, eq=False)
class TableUserSpec(OperatorSpec):
    """An operator that reads or writes one table.

    ``time_column`` holds the messages' event time, by which rows of a table with a ttl are kept and found; None where
    they have none.
    """

    table: TableDescriptor = field(kw_only=True)
    time_column: str | None = field(kw_only=True, default=None)
    grouped_by = None

    @property
    def keeps_state(self) -> bool:
        """Return whether the table's rows are kept here: those of a remote table are not."""
        return self.table.kind is not TableKind.REMOTE

    @property
    def tables(self) -> tuple[TableDescriptor, ...]:
        """Its table."""
        return (self.table,)
