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
from airflow_samza.application.columns import Columns, declared_columns
from airflow_samza.application.declarations.streams import (
    SECRETS_BELONG_ELSEWHERE,
    StreamOptions,
    bounded_by_run,
    check_upsert,
    check_words,
    declared_stream,
    options_of,
    options_with,
    options_with_mode,
)
from airflow_samza.application.declarations.tables import TableDeclarations
from airflow_samza.application.descriptors import (
    ROW_DELETED,
    ChangeEvents,
    ErrorPolicy,
    Expectation,
    StreamDescriptor,
    StreamRole,
    SystemDescriptor,
)
from airflow_samza.application.event_times import SystemTime, read_schema, stamped_schema
from airflow_samza.application.expectations import check_expected_columns, checked_expectations, referring
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.message_stream import MessageStream
from airflow_samza.application.operator_checks import checked_id
from airflow_samza.application.operator_specs import ReadTimeSpec
from airflow_samza.application.rejections import checked_calls, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.stream import OutputStream, SideInput
from airflow_samza.secrecy import gives_away

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Unpack

T = TypeVar("T")


# Arguments of inputs that side inputs do not take: why, and what there is instead.
_NOT_OF_SIDE_INPUTS = {
    "slice": (
        "a table needs all that its topic holds",
        "a topic that holds no more than is wanted is compacted, or expires what is old.",
    ),
    "intervals": (
        "a table needs all that its topic holds",
        "a path without a time names the files of every run.",
    ),
    "changes": (
        "a side input from a lake is read as the table is",
        "a pushed table takes changes by pushes with mode=incremental.",
    ),
    "max_delay": ("it makes no watermarks", "time is told by the inputs."),
    "watermarks": ("it makes no watermarks", "time is told by the inputs."),
    "renamed_from": ("it is read from its oldest message on under any id", "rename it as you like."),
    "expect": ("each task, host and run reads it for itself", "expect something of the stream where it is written."),
}


@checked_calls
class ApplicationDescriptor(TableDeclarations):
    """Declarations of systems, streams and tables, as both kinds of application make them.

    The rules that all calls share are described where they are shown: :class:`StreamApplicationDescriptor`.
    """

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str], default_system: str | None = None) -> None:
        super().__init__(graph, config)
        self.config: Mapping[str, str] = MappingProxyType(dict(config))
        """Configuration of the application, by key."""
        self.default_system_name = None if default_system is None else checked_id(default_system, "system")

    @property
    def name(self) -> str:
        """Return the application's name."""
        return self._graph.application

    @property
    def app_id(self) -> str:
        """Return the id of this copy of the application; ``"1"`` unless it is set."""
        return self._graph.app_id

    def __repr__(self) -> str:
        return f"<app {self.name!r}>"

    def check_complete(self) -> None:
        """Reject an application that lacks something it must have; called at the end of its description."""

    # -- systems -----------------------------------------------------------------------------------------------------

    def system(self, name: str, *, kind: str | None = None, **options: object) -> str:
        """Declare a system, and return its name for ``system=``.

        A declaration is needed only for a default: where an environment (connections in Airflow, ``samza.toml``
        elsewhere) binds the name, the binding counts.

        ```python
        app.system("lake", kind="files", root="/data/lake")
        ```

        :param name: The system's name.
        :param kind: The kind of system (``"log"``, ``"files"``, ``"memory"``, …) where no environment binds the name.
        :param options: Options of that kind, such as ``root="/data/lake"``. Options that look like secrets are
            rejected: secrets belong into the environment's connections.
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
                hint=SECRETS_BELONG_ELSEWHERE,
                system=name,
            )
        self._graph.add_system(SystemDescriptor(checked_id(name, "system"), kind, options_of(options), location))
        return name

    def default_system(self, name: str) -> None:
        """Make ``name`` the system of all streams that name none.

        Call it once, before the first stream or table is declared.

        ```python
        app.default_system("lake")
        ```

        :param name: The system's name.
        """
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
    def input_stream(
        self, id: str, *, schema: type[T], where: str | None = ..., **more: Unpack[StreamOptions]
    ) -> MessageStream[T]: ...

    @overload
    def input_stream(
        self, id: str, *, schema: object = ..., where: str | None = ..., **more: Unpack[StreamOptions]
    ) -> MessageStream[Any]: ...

    def input_stream(
        self, id: str, *, schema: object = None, where: str | None = None, **more: Unpack[StreamOptions]
    ) -> MessageStream[Any]:
        """Declare an input stream, and return its messages.

        ```python
        views = app.input_stream(
            "page-views",
            system="lake",
            schema="member_id bigint, country string, at timestamp",
            path="{data_interval_start:%Y/%m/%d}/*.parquet",
            partitions=16,
        )
        ```

        :param id: The stream's id.
        :param schema: The columns: a dataclass, a DDL string or a ``pyarrow.Schema``. Callables get instances of the
            dataclass, otherwise a :class:`Row`. Without a schema the columns are those that the system reports.
        :param where: A SQL condition on the messages: short for ``.where(…)`` behind the input. Systems that know
            statistics skip what it rules out.
        """
        self._check_input(id, more, "input_stream")
        timestamp = more.get("timestamp")
        if isinstance(timestamp, SystemTime) and isinstance(more.get("changes"), ChangeEvents):
            reject(
                f"Input stream {id!r} has changes= and the system's time",
                hint="Name a column of the rows, which says when a row has changed; or leave timestamp= out.",
                stream=id,
            )
        if isinstance(timestamp, SystemTime):
            entered = self._enter_stamped(id, timestamp.column, schema, more)
        else:
            entered = self._enter(declared_stream(id, StreamRole.INPUT, schema=schema, **more))
        entered = self._referring(entered, more)
        return entered if where is None else entered.where(where)

    @overload
    def shared_stream(self, id: str, *, schema: type[T], **more: Unpack[StreamOptions]) -> MessageStream[T]: ...

    @overload
    def shared_stream(self, id: str, *, schema: object = ..., **more: Unpack[StreamOptions]) -> MessageStream[Any]: ...

    def shared_stream(self, id: str, *, schema: object = None, **more: Unpack[StreamOptions]) -> MessageStream[Any]:
        """Declare a stream that another application writes with ``shared=True``, and return its messages.

        Such a stream carries end-of-stream and watermarks of each run that writes it (rule C10). ``bounded`` is false
        unless it is set. The other parameters are those of :meth:`input_stream`.

        ```python
        departures = app.shared_stream("departures", system="log", schema="carrier string, delay int", key="carrier")
        ```

        :param id: The stream's id.
        :param schema: The columns, as for :meth:`input_stream`.
        """
        self._check_input(id, more, "shared_stream")
        more.setdefault("bounded", False)
        entered = self._enter(declared_stream(id, StreamRole.INPUT, schema=schema, shared=True, **more))
        return self._referring(entered, more)

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
        """Declare a bounded input that a PySpark function reads, and return its messages.

        Use it to keep the reading part of an existing PySpark job. The function is called once in a run.

        ```python
        flights = app.from_dataframe(lambda spark: spark.read.parquet("/data/flights"), id="flights", partitions=16)
        ```

        :param function: A function from the Spark session to a DataFrame.
        :param id: The stream's id.
        :param schema: The columns, which the DataFrame must have. Without a schema they are known once the function has
            run.
        :param key: The columns by which the rows are put into partitions.
        :param partitions: The partition count.
        :param timestamp: The event-time column.
        :param max_delay: The greatest delay of messages, as a length of time.
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
        mode: str | None = None,
        table: str | None = None,
        create: bool | None = None,
        partition_by: str | None = None,
        branch: str | None = None,
        run_column: str | None = None,
        sort_by: str | None = None,
        options: Mapping[str, object] | None = None,
        doc: str | None = None,
        expect: Sequence[Expectation | str] | None = None,
        publish: str | None = None,
    ) -> OutputStream:
        """Declare an output stream, for ``send_to``.

        ```python
        app.output_stream("long-views", system="warehouse", path="long-views/{ds}", format="parquet")
        ```

        :param id: The stream's id.
        :param system: The system in which the stream is. By default the application's default system.
        :param schema: The columns that messages must have. By default they are those of the messages that are sent.
        :param key: The columns by which messages are put into partitions. Without a key each task writes its own
            partition.
        :param partitioner: The rule from key to partition. By default that of the system.
        :param partitions: The partition count.
        :param timestamp: The event-time column, which must be among the columns that are sent.
        :param path: Where the system writes, as a template over the data interval: ``"views/{ds}"``.
        :param format: The format in its system. By default that of the binding.
        :param serde: The encoder of messages that are bytes, as for :meth:`input_stream`.
        :param shared: If true, other applications can read the stream with its end-of-stream and watermarks.
        :param mode: The fate of what earlier runs wrote. Of files and of the log: ``"replace"`` (a run replaces what an
            earlier one wrote for the same data interval and partition key) or ``"append"`` (it adds to it). Of tables
            that Spark writes: ``"append"``, ``"overwrite"`` or ``"overwrite_partitions"``. Short for the option of this
            name. Of tables of kind ``iceberg`` and ``delta`` also ``"upsert"``, ``"replace partitions"`` (those to
            which the run writes) and ``"replace table"``. With ``"upsert"`` messages replace the rows of the same
            ``key``, and delete them where ``_deleted`` is true. By default files, the log and tables replace, Spark
            appends.
        :param table: The table to write, where the system has tables. Short for the option of this name, as are the
            next two.
        :param create: If true, a missing table is made (kinds ``iceberg`` and ``delta``).
        :param partition_by: The partitions of a table that is made: ``"country, day(at), bucket(16, id)"``.
        :param branch: The branch of a table to which the run commits, until it is published: ``"audit/{run_id}"``
            (kinds ``iceberg`` and ``delta``; :class:`SamzaPublishOperator`, ``airflow-samza publish``).
        :param run_column: The column of a table, of texts, that is filled with a name of the run (kinds ``iceberg`` and
            ``delta``). By it, what the run wrote can be replaced after others have compacted the table.
        :param sort_by: The order of the rows in each file of a table that is made: ``"country, at desc"`` (kind
            ``iceberg``).
        :param options: Options of the system for this stream.
        :param doc: A description for people, which the page in Airflow shows.
        :param expect: What must be true of the messages before anybody reads them. This is a list of :func:`unique`,
            :func:`not_null`, :func:`foreign_key`, :func:`rows`, :func:`fresh`, and conditions in SQL such as
            ``"amount >= 0"``. By default a run that does not meet one fails, and publishes nothing.
        :param publish: The moment at which readers see what a run writes: ``"at once"`` (when its stage has ended) or
            ``"after approval"`` (when :class:`SamzaPublishOperator` or ``airflow-samza publish`` says so; not in
            continuous runs). Default: ``"at once"``
        """
        where = f"output stream {id!r}"
        expected = checked_expectations(expect, self._graph, where)
        if mode is not None:
            options = options_with_mode(options, mode, where)
        if dict(options_of(options)).get("mode") == "upsert":
            check_upsert(key, expected, shared=shared, where=where)
        for name, value in (
            ("create", create),
            ("partition_by", partition_by),
            ("branch", branch),
            ("run_column", run_column),
            ("sort_by", sort_by),
        ):
            if value is not None:
                options = options_with(options, name, value, where)
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
            table=table,
            serde=serde,
            shared=shared,
            options=options,
            doc=doc,
            expect=expected,
            publish=publish,
        )
        check_expected_columns(expected, stream.schema, where)
        if expected and stream.schema is None and self._graph.low_level:
            reject(
                f"{where} has expect= and no schema=, and a low-level task may send it anything",
                hint="Declare its columns: schema=…",
                stream=id,
            )
        return OutputStream(self._graph.add_stream(stream), self._graph)

    def side_input(self, id: str, *, schema: object = None, **more: Unpack[StreamOptions]) -> SideInput:
        """Declare a stream that feeds tables (:meth:`table`).

        It is read from its oldest message on, before the first message of an input. So ``slice``, ``intervals``,
        ``changes=True``, ``max_delay``, ``watermarks`` and ``renamed_from`` are rejected. ``priority`` and
        ``bootstrap`` set which side inputs of a table are read first. With ``on_error="drop"`` the row of a message
        that cannot be read stays as it was. The other parameters are those of :meth:`input_stream`.

        ```python
        changes = app.side_input("profile-changes", schema="member_id bigint, tier string", key="member_id")
        profiles = app.table("profiles", key="member_id", side_inputs=[changes])
        ```

        :param id: The stream's id.
        :param schema: The columns, as for :meth:`input_stream`.
        """
        check_words(more, "side_input")
        self._check_on_error(more, f"side input {id!r}")
        policy = more.get("on_error")
        if isinstance(policy, ErrorPolicy) and policy.stream is not None:
            reject(
                f"Side input {id!r} has on_error={policy.text}: each task, host and run reads it for itself, and would "
                "send its dead letters again",
                hint='Write on_error="drop": dropped messages are counted, and the log shows some.',
                stream=id,
            )
        for word, (why, instead) in _NOT_OF_SIDE_INPUTS.items():
            if more.get(word) not in (None, False) and not isinstance(more.get(word), ChangeEvents):
                reject(
                    f"Side input {id!r} has {word}=, which is for inputs: {why}",
                    hint=f"Leave it out; {instead}",
                    stream=id,
                )
        return SideInput(
            self._graph.add_stream(declared_stream(id, StreamRole.SIDE_INPUT, schema=schema, **more)), self._graph
        )

    def _check_on_error(self, more: StreamOptions, where: str) -> None:
        if "on_error" in more:
            more["on_error"] = error_policy(more["on_error"], self._graph, where)

    def _check_input(self, id: str, more: StreamOptions, method: str) -> None:
        check_words(more, method)
        where = f"{method.replace('_', ' ')} {id!r}"
        self._check_on_error(more, where)
        if "expect" in more:
            more["expect"] = checked_expectations(more["expect"], self._graph, where, of_input=True)
        bounded_by_run(id, more, self._settings, shared=method == "shared_stream")

    @staticmethod
    def _referring(entered: MessageStream[Any], more: StreamOptions) -> MessageStream[Any]:
        """Return an input whose messages lie where the tables do in which its expectations look them up."""
        expected = [each for each in more.get("expect") or () if isinstance(each, Expectation)]
        operator = referring(entered, expected)
        return entered if operator is entered._operator else entered._then(operator)

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
        declared = declared_columns(schema)
        stamped = stamped_schema(declared, column, where)
        more["timestamp"] = None
        stream = self._enter(declared_stream(id, StreamRole.INPUT, schema=read_schema(declared, column), **more))
        spec = self._graph.add(
            ReadTimeSpec,
            id,
            inputs=(stream._operator,),
            schema=stamped,
            column=column,
            renamed_from=stream._operator.renamed_from,
        )
        return MessageStream(self._graph, spec, key=stream._key, event_time=column)

    def _enter(self, stream: StreamDescriptor) -> MessageStream[Any]:
        check_expected_columns(stream.expect, stream.schema, f"input stream {stream.stream_id!r}")
        self._graph.add_stream(stream)
        spec = self._graph.add_input(stream)
        entered: MessageStream[Any] = MessageStream(self._graph, spec, key=stream.key, event_time=stream.timestamp)
        if stream.events is None or self._graph.low_level:
            return entered
        return entered.where(f"{ROW_DELETED} IS NOT NULL")  # it is null in events that are no change of a row


@checked_calls
class StreamApplicationDescriptor(ApplicationDescriptor):
    """The ``app`` that the function of a stream application gets: it declares systems, streams and tables.

    An ``id`` is unique among the streams, or among the tables, of an application. Topics, state and plans are named
    after it, so keep it from run to run. A length of time is a number of ms, a ``timedelta`` or a text such as ``"5
    minutes"``. A key is a column, or a list of columns.

    A wrong declaration raises :class:`~airflow_samza.errors.InvalidApplication` (``BadId``, ``DuplicateId``) or
    :class:`~airflow_samza.errors.SchemaError` at once; the error names file and line of the call.
    """
