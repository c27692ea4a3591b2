"""MessageStream: the operators of a stream application, each call checked when it is made.

A message stream never changes: every call returns a new one. One method never takes both SQL and Python: ``where`` and
``select`` are SQL, ``filter``, ``map`` and ``flat_map`` Python callables that get one message (an instance of the declared
dataclass, else a :class:`~airflow_samza.schema.Row`), ``map_batches`` gets a ``pyarrow.RecordBatch``, ``transform`` a DataFrame.
Source: planner-with-tables; SEMANTICS P8 (ids), P11 (keys), S6 (read-only tables).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from airflow_samza.application.callables import check_callable, check_predicate, declared_schema
from airflow_samza.application.columns import Columns, check_column, key_columns, optional_columns
from airflow_samza.application.descriptors import StreamDescriptor, StreamRole, TableDescriptor, TableKind
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.handles import OutputStream, SideInput, Table
from airflow_samza.application.identifiers import checked_id, is_blank
from airflow_samza.application.operator_specs import (
    AggregateSpec,
    BroadcastSpec,
    FilterSpec,
    FlatMapSpec,
    InputOperatorSpec,
    MapBatchesSpec,
    MapSpec,
    MergeSpec,
    OperatorSpec,
    PartitionBySpec,
    SelectSpec,
    SendToSpec,
    SendToTableSpec,
    SinkSpec,
    StreamJoinSpec,
    TableJoinSpec,
    TransformSpec,
    WhereSpec,
    WindowOperatorSpec,
)
from airflow_samza.application.output_schemas import (
    WINDOW_COLUMNS,
    aggregated_schema,
    joined_schema,
    merged_schema,
    named_aggregations,
    selected_schema,
    unwritable,
)
from airflow_samza.application.refusals import listed, located, refuse
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.windows import Aggregation, WindowSpec, duration_ms
from airflow_samza.errors import BadId
from airflow_samza.schema import Field, Row, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

T = TypeVar("T")
U = TypeVar("U")
P = TypeVar("P")

_STREAM_JOINS = ("inner", "left", "right", "full")
_TABLE_JOINS = ("inner", "left")
_ID_REASON = "Its topic or state hangs on the id, and must not be renamed when another operator is added"


class MessageStream(Generic[T]):
    """A stream of messages ``T`` inside an application."""

    def __init__(self, graph: GraphBuilder, operator: OperatorSpec, *, key: tuple[str, ...] = (), event_time: str | None = None) -> None:
        self._graph = graph
        self._operator = operator
        # What joins take as key and windows as time when the user names none: columns that came through unchanged.
        schema = operator.schema
        self._key = key if schema is None or all(column in schema for column in key) else ()
        self._event_time = event_time if event_time is None or schema is None or event_time in schema else None

    @property
    def schema(self) -> Schema | None:
        """The columns of the messages, where the application alone tells them."""
        return self._operator.schema

    def __repr__(self) -> str:
        return f"MessageStream({self._operator.op_id!r})"

    def __iter__(self) -> NoReturn:
        refuse(
            f"{self!r} cannot be looped over: the application is only being described, and has no messages yet",
            hint="Say what happens to each message with map, flat_map or filter.",
        )

    def __bool__(self) -> NoReturn:
        refuse(f"{self!r} is neither true nor false: it has no messages yet", hint="Use where or filter to choose messages.")

    # -- message by message ------------------------------------------------------------------------------------------

    def filter(self, function: Callable[[T], object], *, id: str | None = None) -> MessageStream[T]:
        """Keeps the messages for which a Python callable is true."""
        check_callable(function, "filter", 1, hint='SQL conditions go to where("…"); filter takes a callable: lambda message: …')
        check_predicate(function, "filter")
        return self._then(self._graph.add(FilterSpec, id, inputs=(self._operator,), schema=self.schema, function=function))

    def map(self, function: Callable[[T], U], *, schema: object = None, id: str | None = None) -> MessageStream[U]:
        """One message out for each message in, by a Python callable.

        A callable that changes the shape says so by its return annotation (a dataclass) or by ``schema=``; one that says nothing
        keeps the shape.
        """
        check_callable(function, "map", 1, hint='SQL expressions go to select("…"); map takes a callable: lambda message: …')
        shape = declared_schema(function, schema, "map") or self.schema
        return self._then(self._graph.add(MapSpec, id, inputs=(self._operator,), schema=shape, function=function))

    def flat_map(self, function: Callable[[T], Iterable[U]], *, schema: object = None, id: str | None = None) -> MessageStream[U]:
        """Any number of messages out for each message in, by a Python callable that returns an iterable or yields."""
        check_callable(function, "flat_map", 1, hint="flat_map takes a callable: lambda message: [message, …]", generator=True)
        shape = declared_schema(function, schema, "flat_map", many=True) or self.schema
        return self._then(self._graph.add(FlatMapSpec, id, inputs=(self._operator,), schema=shape, function=function))

    def map_batches(self, function: Callable[[pa.RecordBatch], Any], *, schema: object = None, id: str | None = None) -> MessageStream[Any]:
        """A callable from ``pyarrow.RecordBatch`` to one, or to an iterable of them; ``schema=`` says changed columns."""
        check_callable(function, "map_batches", 1, hint="map_batches takes a callable: lambda batch: batch.slice(…)", generator=True)
        with located():
            shape = self.schema if schema is None else Schema.of(schema)
        return self._then(self._graph.add(MapBatchesSpec, id, inputs=(self._operator,), schema=shape, function=function))

    # -- SQL and DataFrames ------------------------------------------------------------------------------------------

    def where(self, condition: str, *, id: str | None = None) -> MessageStream[T]:
        """Keeps the messages for which a SQL condition is true (neither false nor null)."""
        _check_sql(condition, "where", 'Python callables go to filter; where takes SQL: where("dwell_ms > 1000").')
        return self._then(self._graph.add(WhereSpec, id, inputs=(self._operator,), schema=self.schema, condition=condition))

    def select(self, *expressions: str, id: str | None = None) -> MessageStream[Any]:
        """SQL expressions make the columns: ``"*"``, ``"a"``, ``"a + 1 AS b"``."""
        hint = 'Name columns or SQL expressions one by one: select("*", "a + 1 AS b"); Python callables go to map.'
        if not expressions:
            refuse("select names no columns", hint=hint, operator="select")
        for expression in expressions:
            _check_sql(expression, "select", hint)
        shape = selected_schema(self.schema, expressions)
        return self._then(self._graph.add(SelectSpec, id, inputs=(self._operator,), schema=shape, expressions=expressions))

    def transform(self, function: Callable[[DataFrame], DataFrame], *, schema: object = None, id: str | None = None) -> MessageStream[Any]:
        """A narrow function from DataFrame to DataFrame (an exchange in its plan is refused when it is planned)."""
        check_callable(function, "transform", 1, hint="transform takes a callable: lambda df: df.withColumn(…)")
        with located():
            shape = None if schema is None else Schema.of(schema)
        return self._then(self._graph.add(TransformSpec, id, inputs=(self._operator,), schema=shape, function=function))

    # -- several streams ---------------------------------------------------------------------------------------------

    def merge(self, *others: MessageStream[T], id: str | None = None) -> MessageStream[T]:
        """All messages of this stream and the others, which have one schema."""
        if not others:
            refuse("merge names no other stream", hint="Give the streams: views.merge(clicks).", operator="merge")
        streams = (self, *others)
        for place, other in enumerate(streams):
            self._check_stream(other, "merge")
            if any(other is former for former in streams[:place]):
                refuse(f"merge names {other!r} twice, which would double its messages", hint="Name each stream once.", operator="merge")
        shape = merged_schema([stream.schema for stream in streams], "merge")
        spec = self._graph.add(MergeSpec, id, inputs=tuple(stream._operator for stream in streams), schema=shape)
        same_key = all(stream._key == self._key for stream in streams)
        same_time = all(stream._event_time == self._event_time for stream in streams)
        return MessageStream(self._graph, spec, key=self._key if same_key else (), event_time=self._event_time if same_time else None)

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
    ) -> MessageStream[Any]:
        """Joins with a table, or with another stream within ``ttl``.

        ``function`` gets both messages (None for the missing side of an outer join) and returns the result; without one the
        columns are put together, the other side's key left out. ``how`` is ``inner`` or ``left``, for streams ``right`` and
        ``full``, too. ``key`` names the columns of this stream that are looked up in a table, or the key of both streams
        (``left_key`` and ``right_key`` where the names differ); without it the table's key columns, or the key by which the
        streams are partitioned. ``assume_partitioned_by`` settles how a stream of unknown partitioning lies.
        """
        if isinstance(other, Table):
            if ttl is not None or left_key is not None or right_key is not None:
                refuse(
                    f"The join with table {other.descriptor.table_id!r} names {'ttl' if ttl is not None else 'left_key or right_key'}",
                    hint="A table join takes key= (columns of the stream); ttl, left_key and right_key belong to stream joins.",
                )
            return self._join_table(other, function, id, how, key, schema, assume_partitioned_by, renamed_from)
        if not isinstance(other, MessageStream):
            refuse(
                f"join takes a table or a stream, not {other!r}",
                hint="Declare it first: app.pushed_table(…), app.local_table(…), app.input_stream(…).",
                operator="join",
            )
        if other is self:
            refuse(
                f"join got the very same stream twice, {self!r}",
                hint="Aggregate or window it instead; to pair its messages join two maps of it.",
                operator="join",
            )
        return self._join_stream(other, function, id, how, key, left_key, right_key, ttl, schema, assume_partitioned_by, renamed_from)

    def _join_table(
        self,
        table: Table[Any],
        function: Callable[[Any, Any], Any] | None,
        id: str | None,
        how: str,
        key: Columns | None,
        schema: object,
        assumed: Columns | None,
        renamed_from: str | None,
    ) -> MessageStream[Any]:
        descriptor = table.descriptor
        where = _named("join", id)
        self._check_same_application(table, descriptor.table_id, where)
        name = _required_id(id, "join")
        _check_how(how, _TABLE_JOINS, where)
        if descriptor.kind is TableKind.REMOTE and descriptor.reader is None:
            refuse(
                f"{where} reads the remote table {descriptor.table_id!r}, which has no reader",
                hint="Give app.remote_table(…, reader=…), a callable from key to row.",
                table=descriptor.table_id,
            )
        if key is None:
            lacking = [] if self.schema is None else [column for column in descriptor.key if column not in self.schema]
            if lacking:
                refuse(
                    f"{where} looks {listed(lacking)} up, the key of table {descriptor.table_id!r}, and the stream has no such column",
                    hint=f"Say which columns hold the key: key=…, of {listed(self.schema.names if self.schema else ())}.",
                    table=descriptor.table_id,
                )
            columns = descriptor.key
        else:
            columns = key_columns(key, self.schema, where)
        _check_key_count(columns, descriptor.key, f"table {descriptor.table_id!r}", where)
        shape = self._joined(function, schema, where, descriptor.schema, descriptor.key, how)
        spec = self._graph.add(
            TableJoinSpec,
            name,
            inputs=(self._operator,),
            schema=shape,
            table=descriptor,
            key=columns,
            function=function,
            how=how,
            assume_partitioned_by=optional_columns(assumed, None, where),
            renamed_from=_former_id(renamed_from, name, "join"),
        )
        return self._then(spec)

    def _join_stream(
        self,
        other: MessageStream[Any],
        function: Callable[[Any, Any], Any] | None,
        id: str | None,
        how: str,
        key: Columns | None,
        left_key: Columns | None,
        right_key: Columns | None,
        ttl: str | int | timedelta | None,
        schema: object,
        assumed: Columns | None,
        renamed_from: str | None,
    ) -> MessageStream[Any]:
        where = _named("join", id)
        self._check_stream(other, where)
        name = _required_id(id, "join")
        _check_how(how, _STREAM_JOINS, where)
        if ttl is None:
            refuse(
                f"{where} of two streams has no ttl: it would keep every message for ever",
                hint='Say how long a message waits for its partner, for example ttl="1 hour".',
                operator=where,
            )
        with located():
            ttl_ms = duration_ms(ttl)
        if key is not None and (left_key is not None or right_key is not None):
            refuse(f"{where} names key and left_key or right_key", hint="Name key, or both others.", operator=where)
        if (left_key is None) != (right_key is None):
            refuse(f"{where} names one of left_key and right_key", hint="Name both, or key when they are the same.", operator=where)
        left = self._join_key(key if left_key is None else left_key, where, "left")
        right = other._join_key(key if right_key is None else right_key, where, "right")
        _check_key_count(left, right, "the other stream", where)
        shape = self._joined(function, schema, where, other.schema, right, how)
        spec = self._graph.add(
            StreamJoinSpec,
            name,
            inputs=(self._operator, other._operator),
            schema=shape,
            left_key=left,
            right_key=right,
            function=function,
            how=how,
            ttl_ms=ttl_ms,
            assume_partitioned_by=optional_columns(assumed, None, where),
            renamed_from=_former_id(renamed_from, name, "join"),
        )
        return MessageStream(self._graph, spec, key=left, event_time=self._event_time)

    def _join_key(self, key: Columns | None, where: str, side: str) -> tuple[str, ...]:
        if key is not None:
            return key_columns(key, self.schema, where)
        if not self._key:
            refuse(
                f"{where} names no key, and its {side} stream is not known to be partitioned by one",
                hint='Say key="member_id" (or left_key and right_key).',
                operator=where,
            )
        return self._key

    def _joined(
        self,
        function: Callable[[Any, Any], Any] | None,
        schema: object,
        where: str,
        right: Schema | None,
        right_key: tuple[str, ...],
        how: str,
    ) -> Schema | None:
        if function is None:
            if schema is not None:
                refuse(
                    f"{where} has schema= and no function",
                    hint="Without a function the columns of both sides are put together; leave schema= out, or give the function.",
                    operator=where,
                )
            return joined_schema(self.schema, right, right_key, how, where)
        check_callable(function, where, 2, hint="Give a callable with two parameters: lambda left, right: …")
        return declared_schema(function, schema, where) or self.schema

    # -- re-partitions -----------------------------------------------------------------------------------------------

    def partition_by(
        self, key: Columns, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None
    ) -> MessageStream[T]:
        """Sends every message to the partition of its key in an intermediate stream named ``id``. The stage ends here."""
        name = _required_id(id, "partition_by")
        columns = key_columns(key, self.schema, _named("partition_by", id))
        location = SourceLocation.of_caller()
        stream = self._intermediate(name, system, location, key=columns)
        former = _former_id(renamed_from, name, "partition_by")
        self._graph.add(
            PartitionBySpec,
            name,
            inputs=(self._operator,),
            schema=self.schema,
            location=location,
            stream=stream,
            key=columns,
            renamed_from=former,
        )
        return MessageStream(self._graph, self._graph.add_input(InputOperatorSpec, stream), key=columns, event_time=self._event_time)

    def broadcast(self, *, id: str | None = None, system: str | None = None, renamed_from: str | None = None) -> MessageStream[T]:
        """Sends every message to a one-partition intermediate stream that every task reads whole. The stage ends here."""
        name = _required_id(id, "broadcast")
        location = SourceLocation.of_caller()
        stream = self._intermediate(name, system, location, broadcast=True)
        former = _former_id(renamed_from, name, "broadcast")
        self._graph.add(
            BroadcastSpec, name, inputs=(self._operator,), schema=self.schema, location=location, stream=stream, renamed_from=former
        )
        return MessageStream(self._graph, self._graph.add_input(InputOperatorSpec, stream), event_time=self._event_time)

    def _intermediate(
        self, name: str, system: str | None, location: SourceLocation | None, *, key: tuple[str, ...] = (), broadcast: bool = False
    ) -> StreamDescriptor:
        return self._graph.add_stream(
            StreamDescriptor(
                stream_id=name,
                role=StreamRole.INTERMEDIATE,
                system=None if system is None else checked_id(system, "system"),
                schema=self.schema,
                key=key,
                partitions=1 if broadcast else None,  # SEMANTICS P4
                timestamp=self._event_time,
                broadcast=broadcast,
                location=location,
            )
        )

    # -- keyed results -----------------------------------------------------------------------------------------------

    def aggregate(
        self, key: Columns, *, id: str | None = None, renamed_from: str | None = None, **aggregations: Aggregation
    ) -> MessageStream[Row]:
        """A row for each key, emitted at end-of-stream: the key columns, then the aggregations (``delay=avg("dep_delay")``)."""
        where = _named("aggregate", id)
        name = _required_id(id, "aggregate")
        columns = key_columns(key, self.schema, where)
        if not aggregations:
            refuse(f"{where} computes nothing", hint='Name the results: aggregate("page", views=count(), id=…).', operator=where)
        named = named_aggregations(dict(aggregations), self.schema, columns, where)
        spec = self._graph.add(
            AggregateSpec,
            name,
            inputs=(self._operator,),
            schema=aggregated_schema(self.schema, columns, (), named, where),
            key=columns,
            aggregations=named,
            renamed_from=_former_id(renamed_from, name, "aggregate"),
        )
        return MessageStream(self._graph, spec, key=self._key)

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
        **aggregations: Aggregation,
    ) -> MessageStream[Row]:
        """A row for each window (and key): key columns, ``window_start``, ``window_end``, then the results.

        The results are aggregations by name (``views=count()``), or the columns of the message that ``fold`` makes:
        ``fold(former, message)`` starts from ``initial`` (called, if it is a callable) in every window.
        """
        where = _named("window", id)
        name = _required_id(id, "window")
        if not isinstance(window, WindowSpec):
            refuse(
                f"{where} got {window!r}, which is not a window",
                hint='Begin with tumbling("1 minute"), hopping("10 minutes", "1 minute") or session("30 minutes").',
                operator=where,
            )
        columns = optional_columns(key, self.schema, where)
        if window.time == "event" and self._event_time is None:
            refuse(
                f"{where} goes by event time, and no input says which column holds it",
                hint='Name it where the stream comes in, timestamp="at", and keep it; or ask for time="processing".',
                operator=where,
            )
        between = [*WINDOW_COLUMNS]
        taken = (*columns, *(field.name for field in between))
        double = [field.name for field in between if field.name in columns]
        if double:
            refuse(f"The output column {double[0]!r} of {where} appears twice", hint="Rename the key column first.", operator=where)
        if fold is None:
            if not aggregations:
                refuse(f"{where} computes nothing", hint="Name the results: views=count(), or give fold=.", operator=where)
            if initial is not None or schema is not None:
                refuse(f"{where} has initial= or schema= and no fold", hint="They belong to fold=; leave them out.", operator=where)
            named = named_aggregations(dict(aggregations), self.schema, taken, where)
            shape = aggregated_schema(self.schema, columns, between, named, where)
        else:
            if aggregations:
                refuse(f"{where} has fold= and aggregations", hint="Give one of the two.", operator=where)
            check_callable(fold, where, 2, hint="Give fold= a callable with two parameters: lambda former, message: …")
            named = ()
            shape = self._folded(declared_schema(fold, schema, where), columns, between, where)
        spec = self._graph.add(
            WindowOperatorSpec,
            name,
            inputs=(self._operator,),
            schema=shape,
            window=window,
            key=columns,
            aggregations=named,
            fold=fold,
            initial=initial,
            renamed_from=_former_id(renamed_from, name, "window"),
        )
        # A window's result happened in its window: its start says so, its end would already be the next window.
        return MessageStream(self._graph, spec, key=self._key if set(self._key) <= set(columns) else (), event_time=between[0].name)

    def _folded(self, result: Schema | None, key: tuple[str, ...], between: list[Field], where: str) -> Schema | None:
        if result is None:
            refuse(
                f"The fold of {where} does not say which columns it makes",
                hint="Annotate what it returns (a dataclass), or say schema=.",
                operator=where,
            )
        if self.schema is None and key:
            return None
        keys = [self.schema[column] for column in key] if self.schema is not None else []
        double = [field.name for field in result.fields if field.name in key or field in between]
        if double:
            refuse(f"The output column {double[0]!r} of {where} appears twice", hint="Leave it out of the fold's result.", operator=where)
        return Schema((*keys, *between, *result.fields))

    # -- ends --------------------------------------------------------------------------------------------------------

    def send_to(self, target: OutputStream | Table[Any], *, id: str | None = None) -> None:
        """Sends every message to an output stream, or writes it into a local (or writable remote) table by the table's key."""
        if isinstance(target, OutputStream):
            stream = target.descriptor
            self._check_same_application(target, stream.stream_id, "send_to")
            self._check_writable(stream.schema, f"output stream {stream.stream_id!r}")
            for column in (*stream.key, *([stream.timestamp] if stream.timestamp else [])):
                check_column(column, self.schema, f"output stream {stream.stream_id!r}")
            self._graph.add(SendToSpec, id, inputs=(self._operator,), schema=self.schema, stream=stream)
        elif isinstance(target, Table):
            self._send_to_table(target, id)
        elif isinstance(target, MessageStream):  # type: ignore[unreachable]
            refuse(
                f"send_to got {target!r}, a stream that is read",
                hint="Send to app.output_stream(…); to read what another part of the application made, use its stream directly.",
                operator="send_to",
            )
        elif isinstance(target, SideInput):
            refuse(f"send_to got the side input {target.descriptor.stream_id!r}, which is only read", hint="Send to app.output_stream(…).")
        else:
            refuse(f"send_to got {target!r}", hint='Send to app.output_stream("…") or to a table.', operator="send_to")

    def _send_to_table(self, target: Table[Any], id: str | None) -> None:
        table = target.descriptor
        self._check_same_application(target, table.table_id, "send_to")
        _check_table_writable(table)
        for column in table.key:
            check_column(column, self.schema, f"the key of table {table.table_id!r}")
        self._check_writable(table.schema, f"table {table.table_id!r}")
        self._graph.add(SendToTableSpec, id, inputs=(self._operator,), schema=self.schema, table=table)

    def sink(self, function: Callable[[T], object], *, id: str | None = None) -> None:
        """Hands every message to a Python callable, for its effect: at least once, so repeating it must be harmless."""
        check_callable(function, "sink", 1, hint="sink takes a callable: lambda message: …; streams and tables go to send_to.")
        self._graph.add(SinkSpec, id, inputs=(self._operator,), function=function)

    # -- checks ------------------------------------------------------------------------------------------------------

    def _then(self, operator: OperatorSpec) -> MessageStream[Any]:
        return MessageStream(self._graph, operator, key=self._key, event_time=self._event_time)

    def _check_stream(self, other: object, where: str) -> None:
        if not isinstance(other, MessageStream):
            refuse(f"{where} takes message streams, not {other!r}", hint="Declare it first with app.input_stream(…).", operator=where)
        self._check_same_application(other, other._operator.name, where)

    def _check_same_application(self, other: Any, name: str, where: str) -> None:
        if other._graph is not self._graph:
            mine, theirs = self._graph.application, other._graph.application
            refuse(
                f"{where} got {name!r} of another application ({theirs!r}, not {mine!r})"
                if mine != theirs
                else f"{where} got {name!r} of another description of application {mine!r}",
                hint="Declare it inside this application; applications share streams by app.shared_stream(…).",
                operator=where,
            )

    def _check_writable(self, declared: Schema | None, target: str) -> None:
        if declared is None or self.schema is None:
            return
        problem = unwritable(declared, self.schema)
        if problem:
            refuse(
                f"Messages cannot be written to {target} as it is declared: {problem}",
                hint="Bring them to the declared columns with select or map, or declare the schema that they have.",
                target=target,
            )


def _named(op: str, id: object) -> str:
    return op if is_blank(id) else f"{op} {id!r}"


def _required_id(id: str | None, op: str) -> str:
    if is_blank(id):
        refuse(f"{op} needs id=. {_ID_REASON}", hint=f'Name it: {op}(…, id="by-member").', kind=BadId, operator=op)
    return checked_id(id, op)


def _former_id(renamed_from: str | None, name: str, op: str) -> str | None:
    if renamed_from is None:
        return None
    if renamed_from == name:
        refuse(f"{op} {name!r} says that it was renamed from itself", hint="Leave renamed_from= out, or name the former id.", operator=op)
    return checked_id(renamed_from, f"former {op}")


def _check_sql(text: object, op: str, hint: str) -> None:
    if not isinstance(text, str) or not text.strip():
        refuse(f"{op} got {'an empty text' if isinstance(text, str) else repr(text)} instead of SQL", hint=hint, operator=op)


def _check_how(how: object, known: tuple[str, ...], where: str) -> None:
    if how not in known:
        refuse(f"{where} has how={how!r}", hint=f"It is one of {listed(known)}.", operator=where, value=repr(how))


def _check_key_count(left: tuple[str, ...], right: tuple[str, ...], other: str, where: str) -> None:
    if len(left) != len(right):
        refuse(
            f"{where} matches the key {listed(left)} with {listed(right)} of {other}: {len(left)} columns with {len(right)}",
            hint="Name as many key columns on both sides, in the same order.",
            operator=where,
        )


def _check_table_writable(table: TableDescriptor) -> None:
    if table.kind is TableKind.PUSHED:  # SEMANTICS S6
        refuse(
            f"Table {table.table_id!r} is filled by its side inputs and read-only for the application",
            hint="Write to app.local_table(…), or send the messages to an output stream.",
            table=table.table_id,
        )
    if table.kind is TableKind.REMOTE and table.writer is None:
        refuse(
            f"The remote table {table.table_id!r} has no writer",
            hint="Give app.remote_table(…, writer=…), a callable that takes key and row.",
            table=table.table_id,
        )


def options_of(options: Mapping[str, Any] | None) -> tuple[tuple[str, str], ...]:
    """Options as sorted pairs of texts, as descriptors hold them."""
    return tuple(sorted((str(name), str(value)) for name, value in (options or {}).items()))
