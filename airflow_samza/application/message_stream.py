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

from airflow_samza.application.bad_records import DeadLetter, on_error_fields
from airflow_samza.application.callables import (
    async_options,
    check_callable,
    check_coroutine_function,
    check_predicate,
    declared_schema,
)
from airflow_samza.application.columns import Columns, declared_columns
from airflow_samza.application.event_times import declared_time, kept_time, time_behind
from airflow_samza.application.operator_checks import check_sql, checked_doc, named
from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import (
    FilterSpec,
    FlatMapSpec,
    MapAsyncSpec,
    MapBatchesSpec,
    MapSpec,
    SelectSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TransformSpec,
    WhereSpec,
)
from airflow_samza.application.operators import keyed_results, sending
from airflow_samza.application.operators.joins import event_time_of, join_stream, join_table, merge
from airflow_samza.application.output_schemas import WINDOW_COLUMNS, passed_on, selected_schema
from airflow_samza.application.rejections import checked_calls, reject
from airflow_samza.application.stream import NOT_LOST, LostTime, OutputStream, Stream, Table, placed
from airflow_samza.application.watermarks import check_watermark_function
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


@checked_calls
class MessageStream(Stream[T]):
    """A stream of messages ``T`` inside an application; its methods are the operators.

    A stream never changes: each operator returns a new one. ``app.input_stream(…)`` returns the first. A stream may be
    used more than once, and each use gets all messages. Callables get one message: an instance of the declared
    dataclass, otherwise a :class:`Row`.

    Parameters that several operators have:

    - ``id``: the operator's name in plans, topics and state. Operators with a topic or state need one; others are
    numbered (rule P8).
    - ``renamed_from``: the operator's former id, under which its state is found.
    - ``schema``: the columns of the result, as a dataclass, a DDL string or a ``pyarrow.Schema``. A return annotation
    with a dataclass says the same. Without either the columns stay as they are.
    - ``on_error``: the treatment of messages on which the operator fails: ``"fail"`` (the stage fails), ``"drop"``, or
    ``dead_letter(app.output_stream("bad"))``.
    - ``timestamp``: the event-time column of the result, where the operator gives event times other values.
    - ``max_delay``: how far these may lie before the event times of the messages that they are made of, as a length of
    time. Watermarks wait that long.
    - ``key``: a column, or a list of columns.
    - ``assume_partitioned_by``: the columns by which you know the messages to be partitioned: nothing checks them then.
    - ``system``: the system of an intermediate stream. By default the default system if it can hold a run's topics (a
    log, Kafka), otherwise the log under the root.
    - Lengths of time (``ttl``, ``timeout``): ms, a ``timedelta``, or a text such as ``"5 minutes"``.

    A call that cannot be right raises :class:`~airflow_samza.errors.InvalidApplication` (``BadId``, ``DuplicateId``),
    or :class:`~airflow_samza.errors.SchemaError` for columns. The error names file and line of the call.
    """

    def doc(self, text: str) -> MessageStream[T]:
        """Describe the last operator for people: the page in Airflow shows it. Return the same stream.

        Of an operator with a Python callable the page shows the callable's docstring where there is no description.

        ```python
        long_views = views.where("dwell_ms > 1000").doc("Views that were read, not only opened.")
        ```

        :param text: A sentence or two.
        """
        self._graph.docs[self._operator.op_id] = checked_doc(text, f"{self._operator.op} {self._operator.name!r}")
        return self

    # -- message by message ------------------------------------------------------------------------------------------

    def filter(
        self, function: Callable[[T], object], *, id: str | None = None, on_error: OnError = "fail"
    ) -> MessageStream[T]:
        """Keep the messages for which a Python function returns true.

        ```python
        long_views = views.filter(lambda view: view.dwell_ms > 1000)
        ```

        :param function: A callable that gets one message.
        """
        check_callable(
            function, "filter", 1, hint='SQL conditions go to where("…"); filter takes a callable: lambda message: …'
        )
        check_predicate(function, "filter")
        check_watermark_function(function, "filter")
        return self._then(self._made(FilterSpec, id, on_error, schema=self.schema, function=function))

    def map(
        self,
        function: Callable[[T], U],
        *,
        schema: object = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[U]:
        """Turn each message into another one by a Python function.

        ```python
        pages = views.map(lambda view: {"page": view.page.lower()}, schema="page string")
        ```

        :param function: A callable that gets one message and returns one: a dataclass instance, a dict or a
            :class:`Row`.
        """
        check_callable(
            function, "map", 1, hint='SQL expressions go to select("…"); map takes a callable: lambda message: …'
        )
        check_watermark_function(function, "map")
        shape = declared_schema(function, schema, "map") or self.schema
        return self._call(MapSpec, id, on_error, timestamp, max_delay, shape, function)

    def flat_map(
        self,
        function: Callable[[T], Iterable[U]],
        *,
        schema: object = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[U]:
        """Turn each message into any number of messages by a Python function.

        ```python
        words = views.flat_map(lambda view: [{"word": word} for word in view.page.split("-")], schema="word string")
        ```

        :param function: A callable that gets one message, and returns an iterable of messages or yields them. Its
            return annotation names the class of one message: ``-> Iterator[View]``.
        """
        check_callable(
            function, "flat_map", 1, hint="flat_map takes a callable: lambda message: [message, …]", generator=True
        )
        check_watermark_function(function, "flat_map")
        shape = declared_schema(function, schema, "flat_map", many=True) or self.schema
        return self._call(FlatMapSpec, id, on_error, timestamp, max_delay, shape, function)

    def map_async(
        self,
        function: Callable[[T], Awaitable[U]],
        *,
        concurrency: int = 16,
        ordered: bool = True,
        timeout: str | int | timedelta | None = None,
        schema: object = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[U]:
        """Turn each message into another one by a coroutine function, several calls at a time.

        No watermark and no end-of-stream overtakes a message in flight. A call that fails, or takes longer than
        ``timeout``, fails the stage unless ``on_error`` says otherwise; repeat calls to a service inside of the
        function.

        ```python
        async def with_city(view):
            return {"member_id": view.member_id, "city": await city_of(view.country)}


        located = views.map_async(with_city, schema="member_id bigint, city string", timeout="5 seconds")
        ```

        :param function: A coroutine function (``async def``) that gets one message and returns one.
        :param concurrency: The number of calls that may be in flight at a time, in each task.
        :param ordered: If true, results keep the order of the messages; if false, they come as the calls end.
        :param timeout: The longest time that a call may take. By default there is no limit.
        """
        check_coroutine_function(function, "map_async", 1)
        options = async_options(concurrency, ordered, timeout)
        shape = declared_schema(function, schema, "map_async") or self.schema
        return self._call(MapAsyncSpec, id, on_error, timestamp, max_delay, shape, function, **options)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        schema: object = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[Any]:
        """Turn each Arrow batch into another one, or several, by a Python function.

        ```python
        first_rows = views.map_batches(lambda batch: batch.slice(0, 100))
        ```

        :param function: A callable that gets a ``pyarrow.RecordBatch``, and returns one, a list of them, or yields
            them. To find the rows on which it fails, ``on_error`` calls it again with parts of the batch.
        """
        hint = "map_batches takes a callable: lambda batch: batch.slice(…)"
        check_callable(function, "map_batches", 1, hint=hint, generator=True)
        shape = self.schema if schema is None else declared_columns(schema)
        return self._call(MapBatchesSpec, id, on_error, timestamp, max_delay, shape, function)

    # -- SQL and DataFrames ------------------------------------------------------------------------------------------

    def where(self, condition: str, *, id: str | None = None, on_error: OnError = "fail") -> MessageStream[T]:
        """Keep the messages for which a SQL condition is true (neither false nor null).

        ```python
        long_views = views.where("dwell_ms > 1000 AND country = 'NL'")
        ```

        :param condition: A SQL expression of type boolean.
        """
        check_sql(condition, "where", 'Python callables go to filter; where takes SQL: where("dwell_ms > 1000").')
        return self._then(self._made(WhereSpec, id, on_error, schema=self.schema, condition=condition))

    def select(
        self,
        *expressions: str,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[Any]:
        """Compute the columns by SQL expressions.

        ```python
        seconds = views.select("member_id", "dwell_ms / 1000 AS seconds")
        everything = views.select("*", "upper(country) AS code")
        ```

        :param expressions: A column, ``"*"``, or an expression with a name: ``"a + 1 AS b"``.
        """
        hint = 'Name columns or SQL expressions one by one: select("*", "a + 1 AS b"); Python callables go to map.'
        if not expressions:
            reject("select names no columns", hint=hint, operator="select")
        for expression in expressions:
            check_sql(expression, "select", hint)
        shape = selected_schema(self.schema, expressions)
        time = declared_time(self, timestamp, max_delay, shape, named("select", id))
        spec = self._made(SelectSpec, id, on_error, schema=shape, expressions=expressions, event_time=time)
        names = passed_on(expressions)
        key = tuple(name for name in map(names.name, self._key) if name is not None)
        column, time_change = time_behind(self, spec, names)
        kept = key if len(key) == len(self._key) else ()
        lost = self._lost(spec, "leaves out its column {!r}") if column is None else NOT_LOST
        return MessageStream(self._graph, spec, key=kept, event_time=column, time_change=time_change, time_lost=lost)

    def transform(
        self,
        function: Callable[[DataFrame], DataFrame],
        *,
        schema: object = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
        id: str | None = None,
    ) -> MessageStream[Any]:
        """Turn the DataFrame of the messages into another one by a PySpark function.

        The function must not move rows between partitions: a plan with an exchange is rejected. Put a
        :meth:`partition_by` before it instead.

        ```python
        first_views = views.transform(lambda frame: frame.withColumn("day", frame["at"].cast("date")))
        ```

        :param function: A callable that gets a DataFrame and returns one.
        :param schema: The columns of the result. Without a schema they are known when the stage is prepared.
        """
        check_callable(function, "transform", 1, hint="transform takes a callable: lambda df: df.withColumn(…)")
        shape = declared_columns(schema)
        time = declared_time(self, timestamp, max_delay, shape, named("transform", id))
        spec = self._made(TransformSpec, id, "fail", schema=shape, function=function, event_time=time)
        return self._then(spec)  # of unbounded inputs the plan warns

    # -- several streams ---------------------------------------------------------------------------------------------

    def merge(self, *others: MessageStream[T], id: str | None = None) -> MessageStream[T]:
        """Merge this stream with others that have the same columns.

        ```python
        both = views.merge(clicks.select("member_id", "country", "page", "dwell_ms", "at"))
        ```

        :param others: The other streams.
        """
        streams = (self, *others)
        spec = merge(streams, id)
        same_key = all(stream._key == self._key for stream in streams)
        same_time = all(stream._event_time == self._event_time for stream in streams)
        lost = NOT_LOST if same_time else LostTime(f"{placed(spec)} has streams with different event times")
        return MessageStream(
            self._graph,
            spec,
            key=self._key if same_key else (),
            event_time=self._event_time if same_time else None,
            time_change=next((stream._time_change for stream in streams if stream._time_change), ""),
            time_lost=next((stream._time_lost for stream in streams if stream._time_lost.sentence), lost),
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
        as_of: str | None = ...,
        wait: str | int | timedelta | None = ...,
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
        as_of: str | None = ...,
        wait: str | int | timedelta | None = ...,
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
        as_of: str | None = None,
        wait: str | int | timedelta | None = None,
        schema: object = None,
        assume_partitioned_by: Columns | None = None,
        renamed_from: str | None = None,
        on_error: OnError = "fail",
    ) -> MessageStream[Any]:
        """Look each message up in a table, or join two streams.

        Both sides must be partitioned by the key, except a remote table and a table that a broadcast fills. The plan
        rejects other joins, and names the ``partition_by`` to add.

        ```python
        with_tier = views.join(members, id="with-tier", how="left")
        clicked = views.join(clicks, lambda view, click: click, id="clicked", key="member_id", ttl="10 minutes")
        ```

        :param other: A table, or another stream.
        :param function: A callable that gets both messages (None for the missing side of an outer join) and returns the
            result. Without it the columns of both are put together, without the key of the other side.
        :param id: The join's id; its state is kept under it.
        :param how: ``inner`` or ``left``; for two streams also ``right`` or ``full``.
        :param key: The columns of this stream that are looked up, or the key of both streams. By default the key
            columns of the table, or the key by which the streams are partitioned.
        :param left_key: The key of this stream, where the names differ; for two streams.
        :param right_key: The key of the other stream, where the names differ; for two streams.
        :param ttl: The longest time for which a message waits for its partner; required for two streams.
        :param as_of: ``"event time"``: each message finds the row that was valid at its event time. A pushed table goes
            by the versions' times, one that side inputs fill by the times of their messages. By default all find the
            row of the version that the plan fixes, or the last one that was read.
        :param wait: The time by which the watermark has to pass a message before it is looked up, so that it finds rows
            that come late. With ``as_of``; messages of bounded inputs do not wait.
        :param schema: The columns of the result of ``function``.
        :param assume_partitioned_by: The key by which a stream is partitioned whose partitioning is not known (after
            ``map``, for instance). It is not checked.
        :param on_error: The treatment of messages on which ``function`` fails.
        """
        joined: Callable[..., TableJoinSpec | StreamJoinSpec] = join_table if isinstance(other, Table) else join_stream
        spec = joined(
            self,
            other,
            function,
            id,
            how,
            key,
            left_key,
            right_key,
            ttl,
            as_of,
            wait,
            schema,
            assume_partitioned_by,
            renamed_from,
            on_error,
        )
        if isinstance(spec, TableJoinSpec):
            return self._then(spec)
        return MessageStream(self._graph, spec, key=spec.left_key, event_time=event_time_of(spec))

    # -- re-partitions -----------------------------------------------------------------------------------------------

    def partition_by(
        self, key: Columns, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None
    ) -> MessageStream[T]:
        """Send each message to the partition of its key, in an intermediate stream.

        The stage ends here: messages with equal keys meet in one task of the next stage.

        ```python
        by_country = views.partition_by("country", id="by-country")
        ```

        :param key: The columns of the key.
        :param id: The id of the operator and of its intermediate stream.
        """
        entry = sending.partition_by(self, key, id, system, renamed_from)
        return self._sent_through(entry, entry.stream.key)

    def broadcast(
        self, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None
    ) -> MessageStream[T]:
        """Send each message to every task of the next stage. The stage ends here.

        A table that a broadcast fills is whole in every task. Any other operator on it runs in task 0 alone. The
        intermediate stream has one partition.

        ```python
        rates.broadcast(id="rates-everywhere").send_to(rate_table)
        ```

        :param id: The id of the operator and of its intermediate stream.
        """
        return self._sent_through(sending.broadcast(self, id, system, renamed_from), ())

    # -- keyed results -----------------------------------------------------------------------------------------------

    def aggregate(
        self,
        key: Columns,
        *,
        id: str | None = None,
        timestamp: str | None = None,
        renamed_from: str | None = None,
        assume_partitioned_by: Columns | None = None,
        **aggregations: Aggregation,
    ) -> MessageStream[Row]:
        """Compute one row per key, when the input has ended.

        The columns of the result are those of the key, then one for each aggregation. They have no event time, unless
        ``timestamp`` names the column that holds it: ``newest=max_("at"), timestamp="newest"``. A window or a join can
        then follow.

        ```python
        per_country = views.partition_by("country", id="by-country").aggregate(
            "country", id="per-country", views=count(), mean_dwell_ms=avg("dwell_ms")
        )
        ```

        :param key: The columns of the key.
        :param id: The operator's id; its state is kept under it.
        :param aggregations: The aggregations, by the names of the result's columns: :func:`count`, :func:`sum_`, …
        """
        spec = keyed_results.aggregate(self, key, id, timestamp, renamed_from, assume_partitioned_by, aggregations)
        time = None if spec.event_time is None else spec.event_time.column
        remedy = 'Give its rows a time there, at=max_("at"), timestamp="at"'
        lost = self._lost(spec, "makes one row of many messages, without their event time {!r}", remedy)
        return MessageStream(self._graph, spec, key=self._key, event_time=time, time_lost=lost)

    def distinct(
        self,
        key: Columns,
        *,
        id: str | None = None,
        within: str | int | timedelta | None = None,
        keep: Literal["first", "last"] = "first",
        late_to: OutputStream | None = None,
        renamed_from: str | None = None,
        assume_partitioned_by: Columns | None = None,
    ) -> MessageStream[T]:
        """Keep one message of several copies, which have equal keys; a null equals a null.

        A message is a copy if its event time is less than ``within`` after that of the first message of its key. The
        next one begins anew. Messages go by their event time. Those of equal times, or of a stream without event time,
        go by the order in which the task reads them. The first copy goes on when the watermark has passed it, the last
        one when the watermark has passed the time ``within``. In a bounded input both do at its end.

        ```python
        once = views.partition_by("page", id="by-page").distinct("page", within="1 day", id="once")
        ```

        :param key: The columns in which copies are equal.
        :param id: The operator's id; its state is kept under it.
        :param within: The length of time in which copies come: required for unbounded inputs, as it bounds the state.
            By default all messages of a key are copies.
        :param keep: The copy to keep: ``"first"`` or ``"last"``.
        :param late_to: An output stream that gets late messages, as they came; otherwise they are counted alone.
        """
        spec = keyed_results.distinct(self, key, id, within, keep, late_to, renamed_from, assume_partitioned_by)
        return self._then(spec)

    def apply_changes(
        self,
        key: Columns,
        *,
        sequence_by: Columns,
        stored_as_scd_type: Literal[1, 2] = 1,
        id: str | None = None,
        renamed_from: str | None = None,
        assume_partitioned_by: Columns | None = None,
    ) -> MessageStream[Any]:
        """Bring the changes of each key into order; late and repeated ones are left out, and counted.

        A message with ``_deleted`` true deletes its row. As type 1 of a slowly changing dimension (SCD) the changes go
        on. As type 2 the rows go on, with the columns ``valid_from``, ``valid_to`` and ``is_current``: a row that was
        current comes again when it has ended. Send either to an output with ``mode="upsert"``.

        ```python
        changes.apply_changes("member_id", sequence_by="lsn", id="in-order").send_to(
            app.output_stream("members", mode="upsert", key="member_id")
        )
        ```

        :param key: The columns by which rows are known.
        :param sequence_by: The column that grows from change to change of a key, or several, of which further ones
            order equal values of the first. ``valid_from`` and ``valid_to`` have the values of the first one.
        :param stored_as_scd_type: 1: the newest row of each key. 2: each row, with the time for which it was valid.
        :param id: The operator's id; its state is kept under it.
        """
        spec = keyed_results.apply_changes(
            self, key, sequence_by, stored_as_scd_type, id, renamed_from, assume_partitioned_by
        )
        if stored_as_scd_type == 1:
            return self._then(spec)
        lost = self._lost(spec, "gives out rows again when they have ended, at times {!r} of before")
        return MessageStream(self._graph, spec, key=self._key, time_lost=lost)

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
        assume_partitioned_by: Columns | None = None,
        **aggregations: Aggregation,
    ) -> MessageStream[Row]:
        """Compute one row per key and window of time.

        The columns of the result are those of the key, ``window_start``, ``window_end``, then one for each aggregation.
        A message whose windows are all closed is late: it is counted and left out.

        ```python
        per_hour = views.window(tumbling("1 hour"), key="member_id", id="per-hour", views=count())
        longest = views.window(
            session("30 minutes"),
            key="member_id",
            id="longest",
            fold=lambda best, view: {"dwell_ms": max(best["dwell_ms"], view.dwell_ms)},
            initial={"dwell_ms": 0},
            schema="dwell_ms bigint",
        )
        ```

        :param window: The windows: :func:`tumbling`, :func:`hopping` or :func:`session`.
        :param id: The operator's id; its state is kept under it.
        :param key: The columns of the key. Without a key each task has windows of its own.
        :param fold: A callable ``fold(former, message)`` that makes the row of a window, in place of aggregations.
        :param initial: The first ``former`` of every window: a value, or a callable that makes one.
        :param schema: The columns of the row that ``fold`` makes.
        :param late_to: An output stream that gets late messages, as they came.
        :param on_error: The treatment of messages on which ``fold`` fails.
        :param aggregations: The aggregations, by the names of the result's columns: :func:`count`, :func:`sum_`, …
        """
        spec = keyed_results.window(
            self,
            window,
            id,
            key,
            fold,
            initial,
            schema,
            renamed_from,
            late_to,
            on_error,
            assume_partitioned_by,
            aggregations,
        )
        # A window's result happened in its window: its start says so, its end would already be the next window.
        kept = self._key if set(self._key) <= set(spec.key) else ()
        return MessageStream(self._graph, spec, key=kept, event_time=WINDOW_COLUMNS[0].name)

    # -- ends --------------------------------------------------------------------------------------------------------

    def send_to(self, target: OutputStream | Table[Any], *, id: str | None = None, on_error: OnError = "fail") -> None:
        """Write each message to an output stream or a table.

        ```python
        views.send_to(app.output_stream("copy"))
        ```

        :param target: An output stream, a local table, or a remote table with a writer. A table is written under its
            key.
        :param on_error: The treatment of messages that cannot be written; for remote tables.
        """
        sending.send(self, target, id, on_error)

    def sink(self, function: Callable[[T], object], *, id: str | None = None, on_error: OnError = "fail") -> None:
        """Call a Python function with each message, at least once.

        An epoch that is repeated after a failure calls it again, so repeating a call must be harmless.

        ```python
        views.sink(lambda view: print(view.page))
        ```

        :param function: A callable that gets one message.
        """
        check_callable(
            function, "sink", 1, hint="sink takes a callable: lambda message: …; streams and tables go to send_to."
        )
        self._made(SinkSpec, id, on_error, function=function)

    # -- checks ------------------------------------------------------------------------------------------------------

    def _made(self, kind: type[OperatorSpec], id: str | None, on_error: object, **fields: Any) -> OperatorSpec:
        more = on_error_fields(on_error, self._graph, named(kind.op, id))
        return self._graph.add(kind, id, inputs=(self._operator,), **fields, **more)

    def _call(
        self,
        kind: type[OperatorSpec],
        id: str | None,
        on_error: object,
        timestamp: str | None,
        max_delay: str | int | timedelta | None,
        shape: Schema | None,
        function: object,
        **fields: Any,
    ) -> MessageStream[Any]:
        where = named(kind.op, id)
        time = declared_time(self, timestamp, max_delay, shape, where) or kept_time(self, shape, function)
        spec = self._made(kind, id, on_error, schema=shape, function=function, event_time=time, **fields)
        return self._then(spec)

    def _then(self, operator: OperatorSpec) -> MessageStream[Any]:
        if operator.event_time is not None:
            return MessageStream(self._graph, operator, key=self._key, event_time=operator.event_time.column)
        return self._sent_through(operator, self._key)

    def _sent_through(self, operator: OperatorSpec, key: tuple[str, ...]) -> MessageStream[Any]:
        return MessageStream(
            self._graph,
            operator,
            key=key,
            event_time=self._event_time,
            time_change=self._time_change,
            time_lost=self._time_lost,
        )

    def _lost(self, operator: OperatorSpec, does: str, remedy: str = NOT_LOST.remedy) -> LostTime:
        """Return the operator behind which there is no event time: this one, or one before it."""
        if self._event_time is None:
            return self._time_lost
        return LostTime(f"{placed(operator)} {does.format(self._event_time)}", remedy)
