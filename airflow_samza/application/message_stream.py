"""MessageStream: the operators of a stream application, each call checked when it is made.

A message stream never changes: every call returns a new one. One method never takes both SQL and Python: ``where`` and
``select`` are SQL, ``filter``, ``map`` and ``flat_map`` Python callables that get one message (an instance of the
declared dataclass, else a :class:`~airflow_samza.row.Row`), ``map_batches`` gets a ``pyarrow.RecordBatch``,
``transform`` a DataFrame. ``on_error`` sets what becomes of messages on which an operator fails: ``"fail"`` (the stage
fails), ``"drop"``, ``dead_letter(stream)``.
Source: planner-with-tables; rule P8 (ids), rule P11 (keys), rule S6 (read-only tables).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from airflow_samza.application import keyed_results, repartitions
from airflow_samza.application.async_options import async_options, check_coroutine_function
from airflow_samza.application.bad_records import DeadLetter, on_error_fields
from airflow_samza.application.callables import check_callable, check_predicate, declared_schema
from airflow_samza.application.columns import Columns
from airflow_samza.application.handles import OutputStream, Table
from airflow_samza.application.joins import JoinOptions, event_time_of, join_stream, join_table
from airflow_samza.application.merging import merge
from airflow_samza.application.operator_checks import check_sql, named
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    MapAsyncSpec,
    MapBatchesSpec,
    MapSpec,
    SelectSpec,
    SinkSpec,
    TransformSpec,
    WhereSpec,
)
from airflow_samza.application.output_schemas import WINDOW_COLUMNS, renamed_columns, selected_schema
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.sending import send
from airflow_samza.application.stream import Stream
from airflow_samza.application.watermark_functions import check_watermark_function
from airflow_samza.application.windows import Aggregation, WindowSpec
from airflow_samza.row import Row
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

OnError = Literal["fail", "drop"] | DeadLetter
"""Treatment of messages that fail."""

T = TypeVar("T")
U = TypeVar("U")
P = TypeVar("P")


class MessageStream(Stream[T]):
    """A stream of messages ``T`` inside an application.

    Parameters of several operators: ``id`` names the operator in plans and errors, and its topic or state where it
    has one; there it has to be given, elsewhere operators are numbered (rule P8). ``renamed_from`` is its former
    id, under which its state is found again. ``schema`` (a dataclass, a DDL string or a ``pyarrow.Schema``) holds the
    columns of the result. ``key`` is a column, or several. Lengths of time are ms, a ``timedelta`` or a text (``"5
    minutes"``). ``system`` is where an intermediate stream lies.

    A call that cannot be right raises an :class:`~airflow_samza.errors.InvalidApplication` (``BadId`` for ids,
    ``DuplicateId``), or a :class:`~airflow_samza.errors.SchemaError` for columns; each names the line of the call.
    """

    # -- message by message ------------------------------------------------------------------------------------------

    def filter(
        self, function: Callable[[T], object], *, id: str | None = None, on_error: OnError = "fail"
    ) -> MessageStream[T]:
        """Keep the messages for which ``function``, a Python callable that gets one message, is true."""
        check_callable(
            function, "filter", 1, hint='SQL conditions go to where("…"); filter takes a callable: lambda message: …'
        )
        check_predicate(function, "filter")
        check_watermark_function(function, "filter")
        return self._add(FilterSpec, id, on_error, schema=self.schema, function=function)

    def map(
        self, function: Callable[[T], U], *, schema: object = None, id: str | None = None, on_error: OnError = "fail"
    ) -> MessageStream[U]:
        """Turn each message into another one by ``function``, a Python callable.

        A callable that changes the columns declares them by its return annotation (a dataclass) or by ``schema=``; else
        they stay the same.
        """
        check_callable(
            function, "map", 1, hint='SQL expressions go to select("…"); map takes a callable: lambda message: …'
        )
        check_watermark_function(function, "map")
        shape = declared_schema(function, schema, "map") or self.schema
        return self._add(MapSpec, id, on_error, schema=shape, function=function)

    def flat_map(
        self,
        function: Callable[[T], Iterable[U]],
        *,
        schema: object = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[U]:
        """Turn each message into any number of messages by ``function``, a callable that returns an iterable or yields.

        The columns are declared as for :meth:`map`, of one of the messages (``-> Iterator[View]``).
        """
        check_callable(
            function, "flat_map", 1, hint="flat_map takes a callable: lambda message: [message, …]", generator=True
        )
        check_watermark_function(function, "flat_map")
        shape = declared_schema(function, schema, "flat_map", many=True) or self.schema
        return self._add(FlatMapSpec, id, on_error, schema=shape, function=function)

    def map_async(
        self,
        function: Callable[[T], Awaitable[U]],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        timeout: str | int | timedelta | None = None,
        schema: object = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[U]:
        """Turn each message into another one by a coroutine function (``async def``), ``concurrency`` calls at a time.

        Results keep the order of the messages (``ordered``) or come as the calls end. A call that takes longer than
        ``timeout`` fails, and a failure fails the stage: retries belong into the function. No watermark and no
        end-of-stream overtakes a message in flight. The columns are declared as for :meth:`map`.
        """
        check_coroutine_function(function, "map_async", 1)
        options = async_options(concurrency, ordered, timeout)
        shape = declared_schema(function, schema, "map_async") or self.schema
        return self._add(MapAsyncSpec, id, on_error, schema=shape, function=function, **options)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        schema: object = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[Any]:
        """Turn each ``pyarrow.RecordBatch`` into another one or several; ``schema=`` declares other columns.

        To find the rows on which it fails, ``on_error`` calls it again with parts of the batch.
        """
        hint = "map_batches takes a callable: lambda batch: batch.slice(…)"
        check_callable(function, "map_batches", 1, hint=hint, generator=True)
        with located():
            shape = self.schema if schema is None else Schema.of(schema)
        return self._add(MapBatchesSpec, id, on_error, schema=shape, function=function)

    # -- SQL and DataFrames ------------------------------------------------------------------------------------------

    def where(self, condition: str, *, id: str | None = None, on_error: OnError = "fail") -> MessageStream[T]:
        """Keep the messages for which a SQL ``condition`` is true (neither false nor null)."""
        check_sql(condition, "where", 'Python callables go to filter; where takes SQL: where("dwell_ms > 1000").')
        return self._add(WhereSpec, id, on_error, schema=self.schema, condition=condition)

    def select(self, *expressions: str, id: str | None = None, on_error: OnError = "fail") -> MessageStream[Any]:
        """Compute the columns by SQL ``expressions``: ``"*"``, ``"a"``, ``"a + 1 AS b"``."""
        hint = 'Name columns or SQL expressions one by one: select("*", "a + 1 AS b"); Python callables go to map.'
        if not expressions:
            reject("select names no columns", hint=hint, operator="select")
        for expression in expressions:
            check_sql(expression, "select", hint)
        shape = selected_schema(self.schema, expressions)
        more = on_error_fields(on_error, self._graph, named("select", id))
        spec = self._graph.add(SelectSpec, id, inputs=(self._operator,), schema=shape, expressions=expressions, **more)
        renamed = renamed_columns(expressions)
        time = self._event_time and renamed.get(self._event_time, self._event_time)
        return MessageStream(
            self._graph, spec, key=tuple(renamed.get(column, column) for column in self._key), event_time=time
        )

    def transform(
        self, function: Callable[[DataFrame], DataFrame], *, schema: object = None, id: str | None = None
    ) -> MessageStream[Any]:
        """Turn the DataFrame into another one by a narrow ``function``: an exchange in the stage's plan is rejected.

        Without ``schema`` the columns are known when the stage is made ready to run.
        """
        check_callable(function, "transform", 1, hint="transform takes a callable: lambda df: df.withColumn(…)")
        with located():
            shape = None if schema is None else Schema.of(schema)
        return self._then(self._graph.add(TransformSpec, id, inputs=(self._operator,), schema=shape, function=function))

    # -- several streams ---------------------------------------------------------------------------------------------

    def merge(self, *others: MessageStream[T], id: str | None = None) -> MessageStream[T]:
        """Merge all messages of this stream and the others, which have one schema."""
        streams = (self, *others)
        spec = merge(streams, id)
        same_key = all(stream._key == self._key for stream in streams)
        same_time = all(stream._event_time == self._event_time for stream in streams)
        return MessageStream(
            self._graph, spec, key=self._key if same_key else (), event_time=self._event_time if same_time else None
        )

    @overload
    def join(
        self,
        other: Table[P],
        function: Callable[[T, Any], U],
        *,
        id: str,
        how: str = ...,
        key: Columns | None = ...,
        schema: object = ...,
        assume_partitioned_by: Columns | None = ...,
        renamed_from: str | None = ...,
        on_error: OnError = ...,
    ) -> MessageStream[U]: ...

    @overload
    def join(
        self,
        other: MessageStream[P],
        function: Callable[[T, Any], U] | Callable[[Any, P], U],
        *,
        id: str,
        ttl: str | int | timedelta,
        how: str = ...,
        key: Columns | None = ...,
        left_key: Columns | None = ...,
        right_key: Columns | None = ...,
        schema: object = ...,
        assume_partitioned_by: Columns | None = ...,
        renamed_from: str | None = ...,
        on_error: OnError = ...,
    ) -> MessageStream[U]: ...

    @overload
    def join(
        self,
        other: Table[Any] | MessageStream[Any],
        function: None = ...,
        *,
        id: str,
        ttl: str | int | timedelta | None = ...,
        how: str = ...,
        key: Columns | None = ...,
        left_key: Columns | None = ...,
        right_key: Columns | None = ...,
        schema: object = ...,
        assume_partitioned_by: Columns | None = ...,
        renamed_from: str | None = ...,
        on_error: OnError = ...,
    ) -> MessageStream[Row]: ...

    def join(
        self,
        other: Table[Any] | MessageStream[Any],
        function: Callable[[Any, Any], Any] | None = None,
        *,
        id: str | None = None,
        how: str = "inner",
        key: Columns | None = None,
        left_key: Columns | None = None,
        right_key: Columns | None = None,
        ttl: str | int | timedelta | None = None,
        schema: object = None,
        assume_partitioned_by: Columns | None = None,
        renamed_from: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[Any]:
        """Join with a table, or with another stream within ``ttl``.

        ``function`` gets both messages (None for the missing side of an outer join) and returns the result; without one
        the columns are put together, the other side's key left out. ``how`` is ``inner`` or ``left``, for streams
        ``right`` and ``full``, too. ``key`` names the columns of this stream that are looked up in a table, or the key
        of both streams (``left_key`` and ``right_key`` where the names differ); without it the table's key columns, or
        the key by which the streams are partitioned. ``assume_partitioned_by`` settles how a stream of unknown
        partitioning lies. The columns are declared as for :meth:`map`; ``on_error`` is for joins with a function.
        """
        options = JoinOptions(
            function,
            id,
            how=how,
            key=key,
            left_key=left_key,
            right_key=right_key,
            ttl=ttl,
            schema=schema,
            assume_partitioned_by=assume_partitioned_by,
            renamed_from=renamed_from,
            on_error=on_error,
        )
        if isinstance(other, Table):
            return self._then(join_table(self, other, options))
        spec = join_stream(self, other, options)
        return MessageStream(self._graph, spec, key=spec.left_key, event_time=event_time_of(spec))

    # -- re-partitions -----------------------------------------------------------------------------------------------

    def partition_by(
        self, key: Columns, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None
    ) -> MessageStream[T]:
        """Send every message to the partition of its key in an intermediate stream named ``id``.

        The stage ends here.
        """
        entry = repartitions.partition_by(self, key, id, system, renamed_from)
        return MessageStream(self._graph, entry, key=entry.stream.key, event_time=self._event_time)

    def broadcast(
        self, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None
    ) -> MessageStream[T]:
        """Send every message to a one-partition intermediate stream that every task reads whole. The stage ends here.

        Local tables that it fills are whole in every task; whatever else follows, task 0 alone handles its messages
        (docs/how-to/broadcasts.md).
        """
        entry = repartitions.broadcast(self, id, system, renamed_from)
        return MessageStream(self._graph, entry, event_time=self._event_time)

    # -- keyed results -----------------------------------------------------------------------------------------------

    def aggregate(
        self, key: Columns, *, id: str | None = None, renamed_from: str | None = None, **aggregations: Aggregation
    ) -> MessageStream[Row]:
        """Return a row for each key, emitted at end-of-stream.

        The ``key`` columns, then the ``aggregations`` (``delay=avg("dep_delay")``).
        """
        return MessageStream(
            self._graph, keyed_results.aggregate(self, key, id, renamed_from, aggregations), key=self._key
        )

    def window(
        self,
        window: WindowSpec,
        *,
        id: str | None = None,
        key: Columns | None = None,
        fold: Callable[[Any, T], Any] | None = None,
        initial: Any = None,
        schema: object = None,
        renamed_from: str | None = None,
        late_to: OutputStream | None = None,
        on_error: OnError = "fail",
        **aggregations: Aggregation,
    ) -> MessageStream[Row]:
        """Return a row for each ``window`` and ``key``: key columns, ``window_start``, ``window_end``, the results.

        ``window`` is what :func:`tumbling`, :func:`hopping` or :func:`session` made. The results are ``aggregations``
        by name (``views=count()``), or the columns of the message that ``fold`` makes: ``fold(former, message)`` starts
        from ``initial`` (called, if it is a callable) in every window; it declares the columns by its return annotation
        or ``schema``, and ``on_error`` is for it alone. A message whose windows are all closed is late: it is counted
        and left out, and goes to ``late_to`` as it came, if given.
        """
        spec = keyed_results.window(
            self, window, id, key, fold, initial, schema, renamed_from, late_to, on_error, aggregations
        )
        # A window's result happened in its window: its start says so, its end would already be the next window.
        kept = self._key if set(self._key) <= set(spec.key) else ()
        return MessageStream(self._graph, spec, key=kept, event_time=WINDOW_COLUMNS[0].name)

    # -- ends --------------------------------------------------------------------------------------------------------

    def send_to(self, target: OutputStream | Table[Any], *, id: str | None = None, on_error: OnError = "fail") -> None:
        """Send every message to ``target``.

        An output stream, or a local (or writable remote) table, by the table's key.

        ``on_error`` is for remote tables: what becomes of messages that cannot be written.
        """
        send(self, target, id, on_error)

    def sink(self, function: Callable[[T], object], *, id: str | None = None, on_error: OnError = "fail") -> None:
        """Call ``function`` with every message, at least once, so that repeating it must be harmless."""
        check_callable(
            function, "sink", 1, hint="sink takes a callable: lambda message: …; streams and tables go to send_to."
        )
        self._graph.add(
            SinkSpec,
            id,
            inputs=(self._operator,),
            function=function,
            **on_error_fields(on_error, self._graph, named("sink", id)),
        )

    # -- checks ------------------------------------------------------------------------------------------------------

    def _add(self, kind: type[OperatorSpec], id: str | None, on_error: object, **fields: Any) -> MessageStream[Any]:
        more = on_error_fields(on_error, self._graph, named(kind.op, id))
        return self._then(self._graph.add(kind, id, inputs=(self._operator,), **fields, **more))

    def _then(self, operator: OperatorSpec) -> MessageStream[Any]:
        return MessageStream(self._graph, operator, key=self._key, event_time=self._event_time)
