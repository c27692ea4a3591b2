"""OperatorSpecs: the operator graph that the API builds and everything after it reads. Values only.

An OperatorSpec knows its inputs, never its outputs, so a graph is built by composition and stays immutable; the edges
forward are derived once, in :class:`~airflow_samza.application.application.ApplicationSpec`. ``renamed_from`` is the
former ``id=`` of an operator whose state or topic hangs on it. ``side_outputs`` are output streams that an operator
writes beside its results, ``on_error`` says what becomes of messages on which it fails (None: they fail the stage); its
dead-letter stream is among the side outputs.
Source: planner-with-tables, "OperatorSpec graph"; ids by rule P8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from airflow_samza.application.descriptors import ErrorPolicy, StoreDescriptor, StreamDescriptor, TableDescriptor
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.schema import Schema


@dataclass(frozen=True, eq=False)
class OperatorSpec:
    """One operator. ``op_id`` is ``<app>-<app id>-<op>-<name or number>``, ``name`` its last part.

    ``schema`` is the schema of what it emits where the application says so (an input's, a return annotation,
    ``schema=``); None
    means: the input's, or derived when the stage is made ready to run.
    """

    op_id: str
    name: str
    inputs: tuple[OperatorSpec, ...] = field(
        default=(), repr=False
    )  # or the repr of a long chain is the whole chain, nested
    schema: Schema | None = None
    location: SourceLocation | None = None
    side_outputs: tuple[StreamDescriptor, ...] = field(default=(), kw_only=True)
    on_error: ErrorPolicy | None = field(default=None, kw_only=True)

    op: ClassVar[str] = "operator"
    """The word for this kind of operator in ids, plans and errors."""

    is_terminal: ClassVar[bool] = False
    """Whether the walk from an input stops here (rule P1)."""

    @property
    def title(self) -> str:
        """The operator in a sentence.

        ``where 'slow'``, and ``where-0`` as plans show it when the user gave it no id.
        """
        return f"{self.op}-{self.name}" if self.name.isdigit() else f"{self.op} {self.name!r}"


@dataclass(frozen=True, eq=False)
class InputOperatorSpec(OperatorSpec):
    """Messages of an input or intermediate stream enter the graph."""

    stream: StreamDescriptor = field(kw_only=True)
    op: ClassVar[str] = "input"


@dataclass(frozen=True, eq=False)
class ReadTimeSpec(OperatorSpec):
    """Puts the time at which messages are read into a column: the system's time as event time."""

    column: str = field(kw_only=True)
    op: ClassVar[str] = "read_time"


@dataclass(frozen=True, eq=False)
class FilterSpec(OperatorSpec):
    """Keeps the messages for which a Python callable is true."""

    function: Callable[[Any], bool] = field(kw_only=True)
    op: ClassVar[str] = "filter"


@dataclass(frozen=True, eq=False)
class MapSpec(OperatorSpec):
    """One message out for each message in, by a Python callable."""

    function: Callable[[Any], Any] = field(kw_only=True)
    op: ClassVar[str] = "map"


@dataclass(frozen=True, eq=False)
class FlatMapSpec(OperatorSpec):
    """Any number of messages out for each message in, by a Python callable that returns an iterable."""

    function: Callable[[Any], Any] = field(kw_only=True)
    op: ClassVar[str] = "flat_map"


@dataclass(frozen=True, eq=False)
class MapAsyncSpec(OperatorSpec):
    """One message out for each message in, by a coroutine function of which ``concurrency`` calls may be in flight at a time.

    ``ordered``: results in the order of the messages, else as the calls end. ``timeout_ms`` bounds each call (None: any time).
    """

    function: Callable[[Any], Any] = field(kw_only=True)
    concurrency: int = field(kw_only=True)
    ordered: bool = field(kw_only=True, default=True)
    timeout_ms: int | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "map_async"


@dataclass(frozen=True, eq=False)
class MapBatchesSpec(OperatorSpec):
    """A callable from ``pyarrow.RecordBatch`` to ``pyarrow.RecordBatch`` (or an iterable of them)."""

    function: Callable[[Any], Any] = field(kw_only=True)
    op: ClassVar[str] = "map_batches"


@dataclass(frozen=True, eq=False)
class WhereSpec(OperatorSpec):
    """Keeps the messages for which a SQL condition is true (not null, not false)."""

    condition: str = field(kw_only=True)
    op: ClassVar[str] = "where"


@dataclass(frozen=True, eq=False)
class SelectSpec(OperatorSpec):
    """SQL expressions make the columns: ``"*"``, ``"a"``, ``"a + 1 AS b"``."""

    expressions: tuple[str, ...] = field(kw_only=True)
    op: ClassVar[str] = "select"


@dataclass(frozen=True, eq=False)
class TransformSpec(OperatorSpec):
    """A narrow function from DataFrame to DataFrame, run by Catalyst."""

    function: Callable[[Any], Any] = field(kw_only=True)
    op: ClassVar[str] = "transform"


@dataclass(frozen=True, eq=False)
class MergeSpec(OperatorSpec):
    """All messages of several streams of one schema."""

    op: ClassVar[str] = "merge"


@dataclass(frozen=True, eq=False)
class AggregateSpec(OperatorSpec):
    """A row for each key, emitted at end-of-stream: the key columns, then the aggregations in the order given."""

    key: tuple[str, ...] = field(kw_only=True)
    aggregations: tuple[Aggregation, ...] = field(kw_only=True)
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "aggregate"


@dataclass(frozen=True, eq=False)
class WindowOperatorSpec(OperatorSpec):
    """Windows over the messages, keyed or not, with aggregations or a fold (which makes messages of ``fold_schema``).

    ``time_column`` holds the event time; None: windows go by processing time.
    """

    window: WindowSpec = field(kw_only=True)
    time_column: str | None = field(kw_only=True, default=None)
    key: tuple[str, ...] = field(kw_only=True, default=())
    aggregations: tuple[Aggregation, ...] = field(kw_only=True, default=())
    fold: Callable[[Any, Any], Any] | None = field(kw_only=True, default=None)
    fold_schema: Schema | None = field(kw_only=True, default=None)
    initial: Any = field(kw_only=True, default=None)
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "window"


@dataclass(frozen=True, eq=False)
class StreamJoinSpec(OperatorSpec):
    """Joins two streams by key within a time to live. ``inputs`` are left and right.

    ``left_time`` and ``right_time`` are their event-time columns; None on both sides: messages have the time at which
    they arrive.
    """

    left_key: tuple[str, ...] = field(kw_only=True, default=())
    right_key: tuple[str, ...] = field(kw_only=True, default=())
    function: Callable[[Any, Any], Any] | None = field(kw_only=True, default=None)
    how: str = field(kw_only=True, default="inner")
    ttl_ms: int = field(kw_only=True)
    left_time: str | None = field(kw_only=True, default=None)
    right_time: str | None = field(kw_only=True, default=None)
    assume_partitioned_by: tuple[str, ...] = field(kw_only=True, default=())
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "join"


@dataclass(frozen=True, eq=False)
class TableJoinSpec(OperatorSpec):
    """Looks every message up in a table by key. ``function`` None merges the columns (the table's key column once).

    ``time_column`` holds the messages' event time, by which rows of a table with a ttl are found; None where they have
    none.
    """

    table: TableDescriptor = field(kw_only=True)
    key: tuple[str, ...] = field(kw_only=True, default=())
    function: Callable[[Any, Any], Any] | None = field(kw_only=True, default=None)
    how: str = field(kw_only=True, default="inner")
    time_column: str | None = field(kw_only=True, default=None)
    assume_partitioned_by: tuple[str, ...] = field(kw_only=True, default=())
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "join"


@dataclass(frozen=True, eq=False)
class PartitionBySpec(OperatorSpec):
    """Sends every message to an intermediate stream, to the partition of its key. The stage ends here."""

    stream: StreamDescriptor = field(kw_only=True)
    key: tuple[str, ...] = field(kw_only=True)
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "partition_by"
    is_terminal: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class BroadcastSpec(OperatorSpec):
    """Sends every message to a one-partition intermediate stream that every task reads whole. The stage ends here."""

    stream: StreamDescriptor = field(kw_only=True)
    renamed_from: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "broadcast"
    is_terminal: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class SendToSpec(OperatorSpec):
    """Sends every message to an output stream."""

    stream: StreamDescriptor = field(kw_only=True)
    op: ClassVar[str] = "send_to"
    is_terminal: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class SendToTableSpec(OperatorSpec):
    """Writes every message into a local table, by the table's key.

    ``time_column``: its event time, with which a ttl begins.
    """

    table: TableDescriptor = field(kw_only=True)
    time_column: str | None = field(kw_only=True, default=None)
    op: ClassVar[str] = "send_to_table"
    is_terminal: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class SinkSpec(OperatorSpec):
    """Hands every message to a Python callable, for its effect (at-least-once)."""

    function: Callable[[Any], None] = field(kw_only=True)
    op: ClassVar[str] = "sink"
    is_terminal: ClassVar[bool] = True


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
    is_terminal: ClassVar[bool] = True
