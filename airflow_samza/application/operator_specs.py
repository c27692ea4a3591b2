"""OperatorSpecs: the operator graph that the API builds and everything after it reads. Values only.

An OperatorSpec knows its inputs, never its outputs, so a graph is built by composition and stays immutable; the edges
forward are derived once, in :class:`~airflow_samza.application.application.ApplicationSpec`. What holds of a kind of
operator stands in its class. What needs more than this layer may load has a table by kind: ``planner/partitioning.py``
(how its messages lie) and ``task/program/kinds/`` (its columns and their sources, the meaning of its state, what runs
it); ``tests/unit/test_operator_tables.py`` names the rows that are missing.
Source: planner-with-tables, "OperatorSpec graph"; ids by rule P8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_samza.application.descriptors import StoreDescriptor, StreamDescriptor, TableDescriptor, TableKind
from airflow_samza.application.operator_spec import (
    BATCHES,
    CALLABLE_ON_BATCHES,
    DATAFRAME,
    PER_MESSAGE,
    READS,
    SQL,
    CallingSpec,
    Emits,
    Engine,
    JoinSpec,
    KeyedResultSpec,
    KeyedSpec,
    Names,
    OperatorSpec,
    RepartitioningSpec,
    SendingSpec,
    Shown,
    StatelessSpec,
    TableUserSpec,
)
from airflow_samza.application.times import duration_text
from airflow_samza.application.windows import WindowSpec
from airflow_samza.schema import Schema


@dataclass(frozen=True, eq=False)
class InputOperatorSpec(StatelessSpec):
    """Messages of an input or intermediate stream enter the graph."""

    stream: StreamDescriptor = field(kw_only=True)
    op: ClassVar[str] = "input"
    emits = Emits.ONE_FOR_ONE
    engine = READS
    columns_read = ()
    passes_columns = True
    shown = ()


@dataclass(frozen=True, eq=False)
class ReadTimeSpec(StatelessSpec):
    """Puts the time at which messages are read into a column: the system's time as event time.

    It keeps the time that it has reached, which is as good in any other task.
    """

    column: str = field(kw_only=True)
    op: ClassVar[str] = "read_time"
    emits = Emits.ONE_FOR_ONE
    engine = BATCHES
    columns_read = ()
    passes_columns = True
    shown = ("column",)


@dataclass(frozen=True, eq=False)
class FilterSpec(CallingSpec):
    """Keeps the messages for which a Python callable is true."""

    op: ClassVar[str] = "filter"
    emits = Emits.AT_ONCE


@dataclass(frozen=True, eq=False)
class MapSpec(CallingSpec):
    """One message out for each message in, by a Python callable."""

    op: ClassVar[str] = "map"
    emits = Emits.ONE_FOR_ONE


@dataclass(frozen=True, eq=False)
class FlatMapSpec(CallingSpec):
    """Any number of messages out for each message in, by a Python callable that returns an iterable."""

    op: ClassVar[str] = "flat_map"
    emits = Emits.AT_ONCE


@dataclass(frozen=True, eq=False)
class MapAsyncSpec(CallingSpec):
    """One message out for each message in, by a coroutine function; ``concurrency`` calls may be in flight.

    ``ordered``: results in the order of the messages, else as the calls end. ``timeout_ms`` bounds each call (None: any
    time).
    """

    concurrency: int = field(kw_only=True)
    ordered: bool = field(kw_only=True, default=True)
    timeout_ms: int | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "map_async"
    emits = Emits.LATER
    shown = ("calls", "timeout_ms", "function")

    @property
    def calls(self) -> str:
        """The number of calls in flight, and the order of their results, in words."""
        return f"up to {self.concurrency} at a time, {'in order' if self.ordered else 'as they end'}"


@dataclass(frozen=True, eq=False)
class MapBatchesSpec(CallingSpec):
    """A callable from ``pyarrow.RecordBatch`` to ``pyarrow.RecordBatch`` (or an iterable of them)."""

    op: ClassVar[str] = "map_batches"
    emits = Emits.AT_ONCE
    engine = CALLABLE_ON_BATCHES


@dataclass(frozen=True, eq=False)
class WhereSpec(StatelessSpec):
    """Keeps the messages for which a SQL condition is true (not null, not false)."""

    condition: str = field(kw_only=True)
    op: ClassVar[str] = "where"
    emits = Emits.AT_ONCE
    engine = SQL
    columns_read = ()
    passes_columns = True
    shown = ("condition",)

    @property
    def sql(self) -> tuple[str, ...]:
        """The condition."""
        return (self.condition,)


@dataclass(frozen=True, eq=False)
class SelectSpec(StatelessSpec):
    """SQL expressions make the columns: ``"*"``, ``"a"``, ``"a + 1 AS b"``."""

    expressions: tuple[str, ...] = field(kw_only=True)
    op: ClassVar[str] = "select"
    emits = Emits.ONE_FOR_ONE
    engine = SQL
    columns_read = ()
    shown = ("expressions",)

    @property
    def passes_columns(self) -> bool:
        """Return whether all columns are among those selected; the others stand in the SQL."""
        return any(text.strip() == "*" for text in self.expressions)

    @property
    def sql(self) -> tuple[str, ...]:
        """The expressions."""
        return self.expressions


@dataclass(frozen=True, eq=False)
class TransformSpec(CallingSpec):
    """A narrow function from DataFrame to DataFrame, run by Catalyst."""

    op: ClassVar[str] = "transform"
    emits = Emits.LATER
    engine = DATAFRAME


@dataclass(frozen=True, eq=False)
class MergeSpec(StatelessSpec):
    """All messages of several streams of one schema."""

    op: ClassVar[str] = "merge"
    emits = Emits.AT_ONCE
    engine = BATCHES
    columns_read = ()
    passes_columns = True
    shown = ()


@dataclass(frozen=True, eq=False)
class AggregateSpec(KeyedResultSpec):
    """A row for each key, emitted at end-of-stream: the key columns, then the aggregations in the order given."""

    op: ClassVar[str] = "aggregate"
    emits = Emits.AT_THE_END
    engine = BATCHES
    shown = ("key", "aggregations", "assume_partitioned_by")

    @property
    def columns_read(self) -> Names:
        """Those that it names."""
        return self.columns_named


@dataclass(frozen=True, eq=False)
class WindowOperatorSpec(KeyedResultSpec):
    """Windows over the messages, keyed or not, with aggregations or a fold (which makes messages of ``fold_schema``).

    ``time_column`` holds the event time; None: windows go by processing time.
    """

    window: WindowSpec = field(kw_only=True)
    time_column: str | None = field(kw_only=True, default=None)
    fold: Callable[[Any, Any], Any] | None = field(kw_only=True, default=None)
    fold_schema: Schema | None = field(kw_only=True, default=None)
    initial: Any = field(kw_only=True, default=None)
    op: ClassVar[str] = "window"
    shown = ("window", "key", "aggregations", "fold", ("initial", "initial_type"), "assume_partitioned_by")

    @property
    def engine(self) -> Engine:
        """Whole batches, unless a callable folds the messages."""
        return BATCHES if self.fold is None else PER_MESSAGE

    @property
    def columns_named(self) -> Names:
        """The column of the event time, too."""
        return (self.time_column, *super().columns_named)

    @property
    def columns_read(self) -> Names | None:
        """The columns that it names; all where a callable folds messages, or late ones are written."""
        return self.columns_named if self.fold is None and not self.side_outputs else None

    @property
    def initial_type(self) -> str | None:
        """The type of the value with which a fold begins, which is all that a plan shows of it."""
        return None if self.initial is None else type(self.initial).__name__


@dataclass(frozen=True, eq=False)
class DistinctSpec(KeyedSpec):
    """Keeps one message of those that have one key and lie within a length of time; None: of all with the key.

    ``keep`` is ``first`` or ``last``, by the event time in ``time_column``; None: by the order of arrival.
    """

    within_ms: int | None = field(kw_only=True, default=None)
    keep: str = field(kw_only=True, default="first")
    time_column: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "distinct"
    emits = Emits.LATER
    engine = BATCHES
    passes_columns = True
    shown = ("key", "within", "keep", "assume_partitioned_by")

    @property
    def within(self) -> str | None:
        """The length of time, in words."""
        return None if self.within_ms is None else duration_text(self.within_ms)

    @property
    def columns_named(self) -> Names:
        """The columns of the key and the event time."""
        return (*self.key, self.time_column)

    @property
    def columns_read(self) -> Names | None:
        """The columns that it names; all where late messages are written."""
        return None if self.side_outputs else self.columns_named


@dataclass(frozen=True, eq=False)
class ApplyChangesSpec(KeyedSpec):
    """Brings the changes of each key into the order of the columns ``sequence_by``.

    With ``scd_type`` 1 late and repeated ones are left out; with 2 each is a row with the time for which it was valid.
    """

    sequence_by: tuple[str, ...] = field(kw_only=True)
    scd_type: int = field(kw_only=True, default=1)
    op: ClassVar[str] = "apply_changes"
    emits = Emits.AT_ONCE
    engine = BATCHES
    shown = ("key", "sequence_by", ("stored as", "stored_as"), "assume_partitioned_by")

    @property
    def stored_as(self) -> str:
        """The type of a slowly changing dimension that comes of it, in words."""
        return f"SCD type {self.scd_type}"

    @property
    def passes_columns(self) -> bool:
        """Return whether the changes themselves go on."""
        return self.scd_type == 1

    @property
    def columns_read(self) -> Names | None:
        """The columns of key and sequence; all where rows are kept."""
        return (*self.key, *self.sequence_by) if self.scd_type == 1 else None


@dataclass(frozen=True, eq=False)
class StreamJoinSpec(JoinSpec):
    """Joins two streams by key within a time to live. ``inputs`` are left and right.

    ``left_time`` and ``right_time`` are their event-time columns; None on both sides: messages have the time at which
    they arrive.
    """

    left_key: tuple[str, ...] = field(kw_only=True, default=())
    right_key: tuple[str, ...] = field(kw_only=True, default=())
    ttl_ms: int = field(kw_only=True)
    left_time: str | None = field(kw_only=True, default=None)
    right_time: str | None = field(kw_only=True, default=None)
    emits = Emits.LATER
    keeps_state = True
    shown = (("key", "keys"), "how", "ttl_ms", "assume_partitioned_by", "function")

    @property
    def input_keys(self) -> tuple[tuple[str, ...], ...]:
        """The keys of both sides."""
        return self.left_key, self.right_key

    @property
    def keys(self) -> str:
        """The keys of both sides, once where they are the same."""
        return " = ".join(dict.fromkeys((", ".join(self.left_key), ", ".join(self.right_key))))

    @property
    def columns_read(self) -> Names | None:
        """The columns of both keys and event times; all where a callable makes the results."""
        named = (*self.left_key, *self.right_key, self.left_time, self.right_time)
        return named if self.function is None else None


@dataclass(frozen=True, eq=False)
class TableJoinSpec(JoinSpec, TableUserSpec):
    """Looks every message up in a table by key; where columns are merged, the table's key column comes once.

    ``as_of`` names the time whose version of the row a message finds, its event time; None: one version for all.
    ``wait_ms`` is how long the watermark lets a message wait for rows that come late.
    """

    key: tuple[str, ...] = field(kw_only=True, default=())
    as_of: str | None = field(kw_only=True, default=None)
    wait_ms: int | None = field(kw_only=True, default=None)
    shown: ClassVar[Shown] = ("key", "how", "as_of", "wait", "assume_partitioned_by", "function")

    @property
    def emits(self) -> Emits:
        """At once, unless messages wait for late rows."""
        return Emits.AT_ONCE if self.wait_ms is None else Emits.LATER

    @property
    def input_keys(self) -> tuple[tuple[str, ...], ...]:
        """The key by which messages are looked up."""
        return (self.key,)

    @property
    def wait(self) -> str | None:
        """The time that messages wait for late rows, in words."""
        return None if self.wait_ms is None else duration_text(self.wait_ms)

    @property
    def columns_read(self) -> Names | None:
        """The columns of the key and the event time; all where a callable makes the results."""
        return (*self.key, self.time_column) if self.function is None else None


@dataclass(frozen=True, eq=False)
class ForeignKeySpec(TableJoinSpec):
    """Passes messages on to, or from, where an expectation looks their key up in a table.

    As a join it has the planner see to it that the table's rows of these keys are in the same task.
    """

    op: ClassVar[str] = "foreign_key"
    emits = Emits.ONE_FOR_ONE
    shown = ("key",)


@dataclass(frozen=True, eq=False)
class PartitionBySpec(RepartitioningSpec):
    """Sends every message to an intermediate stream, to the partition of its key."""

    key: tuple[str, ...] = field(kw_only=True)
    op: ClassVar[str] = "partition_by"
    shown = ("key",)

    @property
    def input_keys(self) -> tuple[tuple[str, ...], ...]:
        """The key whose partition a message goes to."""
        return (self.key,)

    @property
    def columns_read(self) -> Names:
        """The key."""
        return self.key


@dataclass(frozen=True, eq=False)
class BroadcastSpec(RepartitioningSpec):
    """Sends every message to a one-partition intermediate stream that every task reads whole."""

    op: ClassVar[str] = "broadcast"
    columns_read = ()


@dataclass(frozen=True, eq=False)
class SendToSpec(SendingSpec):
    """Sends every message to an output stream."""

    op: ClassVar[str] = "send_to"
    columns_read = None

    @property
    def grouped_by(self) -> tuple[str, ...] | None:  # type: ignore[override]  # others keep nothing by key
        """The key of an output that is upserted: one task sends the changes of a row, in their order."""
        return self.stream.key if ("mode", "upsert") in self.stream.options else None


@dataclass(frozen=True, eq=False)
class SendToTableSpec(TableUserSpec):
    """Writes every message into a local or remote table, by the table's key."""

    op: ClassVar[str] = "send_to_table"
    emits = Emits.NOTHING
    engine = BATCHES
    columns_read = None
    passes_columns = False
    shown = ("delivery",)

    @property
    def delivery(self) -> str | None:
        """The number of times that a remote table may get a row, in words."""
        return "at least once" if self.table.kind is TableKind.REMOTE else None


@dataclass(frozen=True, eq=False)
class SinkSpec(CallingSpec):
    """Hands every message to a Python callable, for its effect."""

    op: ClassVar[str] = "sink"
    emits = Emits.NOTHING
    delivery: ClassVar[str] = "at least once"
    shown = ("delivery", "function")


@dataclass(frozen=True, eq=False)
class TaskSpec(OperatorSpec):
    """The whole of a low-level application: a factory of StreamTasks over all its inputs.

    ``outputs``, ``tables`` and ``stores`` are all that it may send to and use.
    """

    factory: Callable[[], Any] = field(kw_only=True)
    outputs: tuple[StreamDescriptor, ...] = field(kw_only=True, default=())
    tables: tuple[TableDescriptor, ...] = field(kw_only=True, default=())
    stores: tuple[StoreDescriptor, ...] = field(kw_only=True, default=())
    op: ClassVar[str] = "task"
    emits = Emits.NOTHING
    engine = PER_MESSAGE
    grouped_by = None
    columns_read = None
    passes_columns = False
    shown = (("task", "factory"), "outputs", "tables", "stores")

    @property
    def keeps_state(self) -> bool:
        """Return whether it has stores, tables or timers; a factory that is no class may make a task with timers."""
        if self.stores or any(table.kind is not TableKind.REMOTE for table in self.tables):
            return True
        factory = self.factory
        while isinstance(factory, functools.partial):
            factory = factory.func
        return not isinstance(factory, type) or hasattr(factory, "on_timer")

    @property
    def written_streams(self) -> tuple[str, ...]:
        """Its outputs, and the streams beside them."""
        return (*(stream.stream_id for stream in self.outputs), *super().written_streams)
