"""``app``: what an application's function gets, to declare systems, streams and tables.

Code names systems only; the environment binds them (kind, place, secrets). Source: planner-with-tables (streams,
tables, side inputs); rule P11 (keys and partitioners), rules S2, S6–S8 (tables), rule C10 (shared streams).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from airflow_samza.application.bad_records import error_policy
from airflow_samza.application.callables import check_callable
from airflow_samza.application.columns import Columns
from airflow_samza.application.descriptors import ErrorPolicy, StreamDescriptor, StreamRole, SystemDescriptor
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.handles import OutputStream, SideInput, Table
from airflow_samza.application.identifiers import checked_id
from airflow_samza.application.message_stream import MessageStream
from airflow_samza.application.operator_specs import InputOperatorSpec, ReadTimeSpec
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.remote_access import RemoteAccessOptions
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.stream_declarations import (
    PushedTableOptions,
    StreamOptions,
    check_words,
    declared_stream,
    options_of,
)
from airflow_samza.application.system_times import SystemTime, read_schema, stamped_schema
from airflow_samza.application.table_declarations import TableDeclarations
from airflow_samza.schema import Schema
from airflow_samza.secrecy import gives_away

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

T = TypeVar("T")


_NOT_OF_SIDE_INPUTS = {
    "slice": "a table needs all that its topic holds",
    "max_delay": "it makes no watermarks",
    "watermarks": "it makes no watermarks",
}

_LEAVE_OUT = {
    "slice": "Leave it out; a topic that holds no more than is wanted is compacted, or expires what is old.",
    "max_delay": "Leave it out; time is told by the inputs.",
    "watermarks": "Leave it out; time is told by the inputs.",
}


class ApplicationDescriptor:
    """The streams, systems and tables of one application, as both kinds of application declare them.

    ``id`` is unique among streams, or among tables, and the same from run to run. A declaration that cannot be right
    raises an :class:`~airflow_samza.errors.InvalidApplication` (``BadId``, ``DuplicateId``) or a
    :class:`~airflow_samza.errors.SchemaError`, which name the line. Lengths of time are ms, a ``timedelta`` or a text
    (``"5 minutes"``).
    """

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str], default_system: str | None = None) -> None:
        self._graph = graph
        self.config: Mapping[str, str] = MappingProxyType(dict(config))
        self.default_system_name = None if default_system is None else checked_id(default_system, "system")
        self._tables = TableDeclarations(graph, self.config)

    @property
    def name(self) -> str:
        """The application's name."""
        return self._graph.application

    @property
    def app_id(self) -> str:
        """The id of this copy of the application."""
        return self._graph.app_id

    def __repr__(self) -> str:
        return f"<app {self.name!r}>"

    def check_complete(self) -> None:
        """Reject an application that lacks something it must have; called at the end of its description."""

    # -- systems -----------------------------------------------------------------------------------------------------

    def system(self, name: str, *, kind: str | None = None, **options: object) -> str:
        """Declare a system.

        ``kind`` (``memory``, ``log``, ``files``, …) and options are for environments that bind nothing.

        Returns the name, for ``system=``. No secrets here: they stay in the environment's connections.
        """
        location = SourceLocation.of_caller()
        if kind is not None and (not isinstance(kind, str) or not kind.strip()):
            reject(
                f"System {name!r} has kind={kind!r}",
                hint='Write for example kind="log", or leave it to the environment.',
                system=name,
            )
        secret = next((option for option in options if gives_away(option, options[option])), None)
        if secret is not None:
            reject(
                f"System {name!r} has the option {secret!r}, which looks like a secret",
                hint="Keep secrets in the connection that the environment binds to the system's name.",
                system=name,
            )
        self._graph.add_system(SystemDescriptor(checked_id(name, "system"), kind, options_of(options), location))
        return name

    def default_system(self, name: str) -> None:
        """Make ``name`` the system of every stream that names none. Said once, before the first stream or table."""
        self._graph.check_open()
        checked = checked_id(name, "system")
        if self.default_system_name is not None:
            reject(
                f"The default system is {self.default_system_name!r} already, and now {name!r}",
                hint="Say it once.",
                system=name,
            )
        if self._graph.streams or self._graph.side_inputs or self._graph.tables:
            reject(
                f"The default system {name!r} comes too late: streams or tables are declared already",
                hint="Make app.default_system(…) the first line.",
                system=name,
            )
        self.default_system_name = checked

    # -- streams -----------------------------------------------------------------------------------------------------

    @overload
    def input_stream(self, id: str, *, schema: type[T], **more: Unpack[StreamOptions]) -> MessageStream[T]: ...

    @overload
    def input_stream(self, id: str, *, schema: object = ..., **more: Unpack[StreamOptions]) -> MessageStream[Any]: ...

    def input_stream(self, id: str, *, schema: object = None, **more: Unpack[StreamOptions]) -> MessageStream[Any]:
        """Declare the input stream ``id`` and enters the graph with its messages.

        ``schema``: a dataclass, a DDL string or a ``pyarrow.Schema``; callables get instances of the dataclass, else a
        ``Row``. ``key``: the columns by which the stream is already partitioned. ``partitions``: the count, where the
        system does not know it (files). ``timestamp``: the event-time column, or ``system_time("read_at")``;
        ``max_delay``: how late its messages may come, or ``watermarks``, a strategy of one's own. ``bounded``: whether
        it ends. What a run reads of it: ``path``, a template over the data interval
        (``"{data_interval_start:%Y/%m/%d/%H}"``), ``slice="timestamp"`` (that column within the data interval) or
        ``slice="checkpoint"`` (what came since the last run). ``format`` and ``options`` go to its system. ``serde``
        says how messages are turned into bytes, where the system sends bytes (``"json"``, ``"string"``, ``"bytes"``,
        ``"avro:<schema file>"``, a class of your own); systems that keep columns reject it. ``partitioner``: by whose
        rule it is partitioned, where that is not ours. ``broadcast``: every task reads it whole. ``bootstrap`` reads it
        to its head first; ``priority``: higher is first. ``on_error`` sets what becomes of messages that cannot be read
        or do not fit the schema: ``"fail"`` (the stage fails), ``"drop"``, ``dead_letter(app.output_stream("bad"))``.
        """
        check_words(more, "input_stream")
        self._check_on_error(more, f"input stream {id!r}")
        said = more.get("timestamp")
        if isinstance(said, SystemTime):
            return self._enter_stamped(id, said.column, schema, more)
        return self._enter(declared_stream(id, StreamRole.INPUT, schema=schema, **more))

    @overload
    def shared_stream(self, id: str, *, schema: type[T], **more: Unpack[StreamOptions]) -> MessageStream[T]: ...

    @overload
    def shared_stream(self, id: str, *, schema: object = ..., **more: Unpack[StreamOptions]) -> MessageStream[Any]: ...

    def shared_stream(self, id: str, *, schema: object = None, **more: Unpack[StreamOptions]) -> MessageStream[Any]:
        """Read a stream that another application writes with ``output_stream(…, shared=True)``.

        It does not end unless ``bounded=True``.

        ``id``, ``schema`` and the others as of :meth:`input_stream`.
        Such a stream carries end-of-stream and watermarks of each run that writes it (rule C10).
        """
        check_words(more, "shared_stream")
        self._check_on_error(more, f"shared stream {id!r}")
        more.setdefault("bounded", False)
        return self._enter(declared_stream(id, StreamRole.INPUT, schema=schema, shared=True, **more))

    def from_dataframe(
        self,
        function: Callable[[SparkSession], DataFrame],
        *,
        id: str,
        schema: object = None,
        key: Columns | None = None,
        partitions: int | None = None,
        timestamp: str | None = None,
        max_delay: str | int | timedelta | None = None,
    ) -> MessageStream[Any]:
        """Return a bounded input made by an existing PySpark job: a function from the Spark session to a DataFrame.

        It is called once in a run, and what it gives is put into ``partitions`` partitions, by ``key`` if one is given.
        ``schema`` is checked against its columns; without it they are known when the function has run. ``timestamp`` is
        the event-time column, ``max_delay`` how late its messages may come.
        """
        check_callable(function, "from_dataframe", 1, hint="from_dataframe takes a callable: lambda spark: spark.read…")
        stream = declared_stream(
            id,
            StreamRole.INPUT,
            schema=schema,
            key=key,
            partitions=partitions,
            timestamp=timestamp,
            max_delay=max_delay,
            reader=function,
        )
        return self._enter(stream)

    def output_stream(
        self,
        id: str,
        *,
        system: str | None = None,
        schema: object = None,
        key: Columns | None = None,
        partitioner: str | None = None,
        partitions: int | None = None,
        timestamp: str | None = None,
        path: str | None = None,
        format: str | None = None,
        serde: str | type | None = None,
        shared: bool = False,
        options: Mapping[str, object] | None = None,
    ) -> OutputStream:
        """Declare the output stream ``id`` of a ``system``, for ``send_to``.

        ``schema`` is checked against what is sent, ``key`` partitions it (without one every task writes its own
        partition) into ``partitions``, by ``partitioner`` (None: that of its system). ``timestamp`` names its
        event-time column, which has to be among what is sent. ``shared`` lets other applications read it as a stream
        with control messages. ``path`` (a template over the data interval), ``format`` and ``options`` go to its
        system, ``serde`` is as of :meth:`input_stream`.
        """
        stream = declared_stream(
            id,
            StreamRole.OUTPUT,
            system=system,
            schema=schema,
            key=key,
            partitioner=partitioner,
            partitions=partitions,
            timestamp=timestamp,
            path=path,
            format=format,
            serde=serde,
            shared=shared,
            options=options,
        )
        return OutputStream(self._graph.add_stream(stream), self._graph)

    def side_input(self, id: str, *, schema: object = None, **more: Unpack[StreamOptions]) -> SideInput:
        """Declare the stream ``id``, which feeds tables (:meth:`table`).

        ``schema`` and the others as of :meth:`input_stream`.

        It is read from its oldest message on, before the first message of an input. So ``slice``, ``max_delay`` and
        ``watermarks`` are rejected; ``priority`` and ``bootstrap`` set which side inputs of a table are read before the
        others. ``on_error="drop"`` leaves out what cannot be read or fits no row: the row of its key stays as it was.
        """
        check_words(more, "side_input")
        self._check_on_error(more, f"side input {id!r}")
        policy = more.get("on_error")
        if isinstance(policy, ErrorPolicy) and policy.stream is not None:
            reject(
                f"Side input {id!r} has on_error={policy.text}: each task, host and run reads it for itself, and would "
                "send its dead letters again",
                hint='Write on_error="drop": what is left out is counted, and some of it is in the log.',
                stream=id,
            )
        for word, why in _NOT_OF_SIDE_INPUTS.items():
            if more.get(word) is not None:
                reject(f"Side input {id!r} has {word}=, which is for inputs: {why}", hint=_LEAVE_OUT[word], stream=id)
        return SideInput(
            self._graph.add_stream(declared_stream(id, StreamRole.SIDE_INPUT, schema=schema, **more)), self._graph
        )

    def _check_on_error(self, more: StreamOptions, where: str) -> None:
        if "on_error" in more:
            more["on_error"] = error_policy(more["on_error"], self._graph, where)

    def _enter_stamped(self, id: str, column: str, schema: object, more: StreamOptions) -> MessageStream[Any]:
        """Return an input whose event time is when it is read."""
        where = f"input stream {id!r}"
        for word in ("max_delay", "watermarks"):
            if more.get(word) is not None:
                reject(
                    f"{where} has the system's time and {word}",
                    hint="Leave it out: the clock makes the watermarks.",
                    stream=id,
                )
        with located():
            declared = None if schema is None else Schema.of(schema)
        stamped = stamped_schema(declared, column, where)
        more["timestamp"] = None
        stream = self._enter(declared_stream(id, StreamRole.INPUT, schema=read_schema(declared, column), **more))
        spec = self._graph.add(ReadTimeSpec, id, inputs=(stream._operator,), schema=stamped, column=column)
        return MessageStream(self._graph, spec, key=stream._key, event_time=column)

    def _enter(self, stream: StreamDescriptor) -> MessageStream[Any]:
        self._graph.add_stream(stream)
        spec = self._graph.add_input(InputOperatorSpec, stream)
        return MessageStream(self._graph, spec, key=stream.key, event_time=stream.timestamp)

    # -- tables ------------------------------------------------------------------------------------------------------

    @overload
    def pushed_table(
        self, id: str, *, key: Columns, schema: type[T], **more: Unpack[PushedTableOptions]
    ) -> Table[T]: ...

    @overload
    def pushed_table(
        self, id: str, *, key: Columns, schema: object = ..., **more: Unpack[PushedTableOptions]
    ) -> Table[Any]: ...

    def pushed_table(
        self, id: str, *, key: Columns, schema: object = None, **more: Unpack[PushedTableOptions]
    ) -> Table[Any]:
        """Return a table filled by pushes; read-only here (rule S6).

        Its side input is the stream of the pushes, ``<id>-push``.

        A push takes ``key``, ``schema``, ``partitioner`` and ``partitions`` from here, so it may come before the first
        plan.
        """
        check_words(more, "pushed_table", PushedTableOptions)
        return self._tables.pushed(id, key=key, schema=schema, **more)

    @overload
    def local_table(
        self,
        id: str,
        *,
        key: Columns,
        schema: type[T],
        ttl: str | int | timedelta | None = ...,
        changelog: bool | str = ...,
        options: Mapping[str, object] | None = ...,
        renamed_from: str | None = ...,
    ) -> Table[T]: ...

    @overload
    def local_table(
        self,
        id: str,
        *,
        key: Columns,
        schema: object = ...,
        ttl: str | int | timedelta | None = ...,
        changelog: bool | str = ...,
        options: Mapping[str, object] | None = ...,
        renamed_from: str | None = ...,
    ) -> Table[Any]: ...

    def local_table(
        self,
        id: str,
        *,
        key: Columns,
        schema: object = None,
        ttl: str | int | timedelta | None = None,
        changelog: bool | str = True,
        options: Mapping[str, object] | None = None,
        renamed_from: str | None = None,
    ) -> Table[Any]:
        """Return a table that the application writes with ``send_to``.

        Its changelog brings it back when the disk is lost (rule S10).

        ``key`` are the columns by which rows are found (the last write of a key wins), ``schema`` all columns,
        ``options`` what its store takes; ``renamed_from`` is its former id, under which its rows are found again. The
        changelog lies under the root, with the run's state. ``changelog="system.stream"`` (or
        ``stores.<id>.changelog``) also writes what is written to the table to that stream, for others to read; False:
        what the table holds is lost with the run. ``ttl``: how long a row is found after it was written, by event time
        where all that writes and reads it has one, else by the clock.
        """
        return self._tables.local(
            id, key=key, schema=schema, ttl=ttl, changelog=changelog, options=options, renamed_from=renamed_from
        )

    def remote_table(
        self,
        id: str,
        *,
        key: Columns,
        reader: Callable[[Any], Any] | None = None,
        writer: Callable[..., Any] | None = None,
        schema: object = None,
        options: Mapping[str, object] | None = None,
        **access: Unpack[RemoteAccessOptions],
    ) -> Table[Any]:
        """Return a remote table: ``reader(key) -> row or None`` for joins, ``writer(key, row)`` for ``send_to``.

        Coroutines, too.

        With a key of several columns the callables get a tuple; a row None deletes. ``batch_reads=100``: the reader
        gets a list of at most so many keys, and returns a mapping or a list; ``batch_writes=100``: the writer gets a
        list of pairs of key and row. ``rate="100/second"`` bounds the calls of all tasks together; ``retries``,
        ``backoff`` and ``retry_on`` set what is tried again; ``cache_rows`` and ``cache_ttl`` keep what was read;
        ``concurrency`` and ``timeout`` are for coroutine functions. ``schema`` are the columns of its rows.
        """
        check_words(access, "remote_table", RemoteAccessOptions)
        return self._tables.remote(
            id, key=key, reader=reader, writer=writer, schema=schema, options=options, access=access
        )

    def table(
        self,
        id: str,
        *,
        key: Columns,
        side_inputs: Sequence[SideInput | MessageStream[Any] | str] | None = None,
        processor: Callable[..., Any] | str | None = None,
        schema: object = None,
        ttl: str | int | timedelta | None = None,
        changelog: bool | None = None,
        options: Mapping[str, object] | None = None,
        renamed_from: str | None = None,
    ) -> Table[Any]:
        """Return the general form: a table fed by any side inputs, through a processor.

        ``side_inputs`` are what ``app.side_input(…)`` or ``app.input_stream(…)`` returned, their ids, or
        ``system.stream``; left out, they are those of the configuration (``stores.<id>.side.inputs``). ``processor`` is
        a factory ``(config, metrics) -> SideInputsProcessor`` or its name ``"package.module:attribute"``; without one
        each message is a row, stored under its key columns (rule S2). ``schema``, ``ttl``, ``changelog``, ``options``
        and ``renamed_from`` as of :meth:`local_table`; a table that side inputs fill has no changelog
        (:class:`~airflow_samza.errors.SideInputsWithChangelog`).
        """
        return self._tables.with_side_inputs(
            id,
            key=key,
            side_inputs=side_inputs,
            processor=processor,
            schema=schema,
            ttl=ttl,
            changelog=changelog,
            options=options,
            renamed_from=renamed_from,
        )


class StreamApplicationDescriptor(ApplicationDescriptor):
    """``app`` of a high-level application."""
