"""Declarations of tables: pushed, local, remote, and the general form with side inputs (rules S2, S6, S8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from airflow_samza.application.callables import check_callable, reject_async_methods
from airflow_samza.application.columns import Columns, check_column, declared_columns, key_columns
from airflow_samza.application.declarations.remote_access import RemoteAccessOptions, remote_access
from airflow_samza.application.declarations.side_inputs import (
    check_same,
    chosen_processor,
    configured_keys,
    reject_configured,
)
from airflow_samza.application.declarations.streams import (
    PushedTableOptions,
    check_words,
    checked_partitions,
    declared_stream,
)
from airflow_samza.application.descriptors import (
    FROM_TABLE,
    ROW_DELETED,
    StreamDescriptor,
    StreamRole,
    TableDescriptor,
    TableKind,
    push_stream_id,
)
from airflow_samza.application.expectations import checked_expectations_of_pushes
from airflow_samza.application.graph_builder import DECLARE_HERE, GraphBuilder
from airflow_samza.application.message_stream import MessageStream
from airflow_samza.application.operator_checks import (
    checked_doc,
    checked_id,
    former_id,
    is_system_stream,
    parts_of,
)
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.application.rejections import checked_calls, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.stream import SideInput, Table
from airflow_samza.application.times import duration_ms
from airflow_samza.config import Config
from airflow_samza.errors import BadId, SideInputsWithChangelog
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    from typing_extensions import Unpack


T = TypeVar("T")

PUSH_DELETES = "_deleted"
"""The column of every stream of pushes that marks the rows which delete their key."""


@checked_calls
class TableDeclarations:
    """Declarations of the tables of one application."""

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str]) -> None:
        self._graph = graph
        self._settings = Config(config)

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
        """Declare a table that pushes fill: ``SamzaTablePushOperator``, or ``airflow-samza tables push``.

        The application only reads it (rule S6). Its side input is the stream of the pushes, ``<id>-push``. A push takes
        key, schema, partitioner and partition count from here, so it may come before the first run. With ``from_table``
        it is a small table of Iceberg or Delta, which every task reads at the snapshot of the plan.

        ```python
        members = app.pushed_table("members", key="member_id", schema="member_id bigint, tier string")
        ```

        :param id: The table's id.
        :param key: The columns by which rows are found.
        :param schema: The columns of a row: a dataclass, a DDL string or a ``pyarrow.Schema``.
        """
        check_words(more, "pushed_table", PushedTableOptions)
        return self._pushed(id, key, schema, **more)

    @overload
    def local_table(
        self,
        id: str,
        *,
        key: Columns,
        schema: type[T],
        ttl: str | int | timedelta | None = ...,
        changelog: bool | str = ...,
        renamed_from: str | None = ...,
        doc: str | None = ...,
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
        renamed_from: str | None = ...,
        doc: str | None = ...,
    ) -> Table[Any]: ...

    def local_table(
        self,
        id: str,
        *,
        key: Columns,
        schema: object = None,
        ttl: str | int | timedelta | None = None,
        changelog: bool | str = True,
        renamed_from: str | None = None,
        doc: str | None = None,
    ) -> Table[Any]:
        """Declare a table that the application writes with ``send_to``, and reads by joins.

        The last row that was written for a key counts. Changes are saved under the root with each epoch, so the table
        survives the loss of a host (rule S10).

        ```python
        prices = app.local_table("prices", key="item", schema="item string, price int", ttl="1 day")
        ```

        :param id: The table's id.
        :param key: The columns by which rows are found.
        :param schema: The columns of a row: a dataclass, a DDL string or a ``pyarrow.Schema``.
        :param ttl: The time for which a row is found after it was written. It is measured by event time if all streams
            that write or read the table have one, otherwise by the clock. By default for ever.
        :param changelog: True: the rows are kept. ``"system.stream"`` (or the key ``stores.<id>.changelog``):
            ``send_to`` also writes them to that stream, for others to read. False: the rows are lost with the run.
        :param renamed_from: The former id of the table, under which its rows are found.
        :param doc: A description for people, which the page in Airflow shows.
        """
        if isinstance(id, str) and configured_keys(self._settings, id):
            has_changelog = None if isinstance(changelog, bool) else bool(changelog)  # side inputs make no use of it
            return self.table(
                id, key=key, schema=schema, ttl=ttl, changelog=has_changelog, renamed_from=renamed_from, doc=doc
            )
        table = self._described(id, TableKind.LOCAL, key, schema, renamed_from, doc)
        if changelog is True:
            changelog = self._settings.changelog(table.table_id) or True
        stream = changelog_stream(table, changelog) if isinstance(changelog, str) else None
        ttl_ms = None if ttl is None else duration_ms(ttl)
        table = replace(table, ttl_ms=ttl_ms, options=with_changelog(table, changelog))
        added = self._added(table, stream)
        if stream is not None:
            self._graph.changelogs[table.table_id] = stream
        return added

    def remote_table(
        self,
        id: str,
        *,
        key: Columns,
        reader: Callable[[Any], Any] | None = None,
        writer: Callable[..., Any] | None = None,
        schema: object = None,
        doc: str | None = None,
        **access: Unpack[RemoteAccessOptions],
    ) -> Table[Any]:
        """Declare a table that functions of yours read and write: a service, a database.

        Functions may be coroutine functions. A key of several columns is a tuple.

        ```python
        prices = app.remote_table("prices", key="sku", reader=fetch, batch_reads=100, rate="50/second")
        ```

        :param id: The table's id.
        :param key: The columns by which rows are found.
        :param reader: A callable ``reader(key)`` that returns a row or None, for joins.
        :param writer: A callable ``writer(key, row)`` for ``send_to``; the row None deletes.
        :param schema: The columns of a row. Without a schema joins get what the reader returned.
        :param doc: A description for people, which the page in Airflow shows.
        """
        check_words(access, "remote_table", RemoteAccessOptions)
        table = self._described(id, TableKind.REMOTE, key, schema, None, doc)
        reject_configured(
            self._settings,
            table.table_id,
            f"The table {table.table_id!r} is remote",
            "Side inputs feed app.table(…): leave the key out, or declare that.",
        )
        if reader is None and writer is None:
            reject(
                f"The remote table {table.table_id!r} has neither reader nor writer",
                hint="Give reader=(key) -> row for joins, writer=(key, row) for send_to.",
                table=table.table_id,
            )
        calls = remote_access(f"table {table.table_id!r}", reader, writer, access)
        return self._added(replace(table, reader=reader, writer=writer, access=calls))

    def table(
        self,
        id: str,
        *,
        key: Columns,
        side_inputs: Sequence[SideInput | MessageStream[Any] | str] | None = None,
        processor: Callable[..., Any] | str | None = None,
        schema: object = None,
        ttl: str | int | timedelta | None = None,
        retain: str | int | timedelta | None = None,
        sequence_by: str | None = None,
        changelog: bool | None = None,
        renamed_from: str | None = None,
        doc: str | None = None,
    ) -> Table[Any]:
        """Declare a table that side inputs fill, through a processor where their messages are no rows.

        ```python
        changes = app.side_input("profile-changes", schema="member_id bigint, tier string", key="member_id")
        profiles = app.table("profiles", key="member_id", side_inputs=[changes])
        ```

        :param id: The table's id.
        :param key: The columns by which rows are found.
        :param side_inputs: The streams that fill the table: what :meth:`side_input` or :meth:`input_stream` returned,
            their ids, or ``"system.stream"``. By default those of the key ``stores.<id>.side.inputs``.
        :param processor: A factory ``(config, metrics) -> SideInputsProcessor``, or its name
            ``"package.module:factory"``. By default each message is a row (rule S2).
        :param schema: The columns of a row. By default those of the side input.
        :param ttl: Rejected: a row lives until its side input deletes it.
        :param retain: For joins as of event times: how far behind the watermark a message may be and still find the
            row of its time. Rows that were replaced before are dropped. Required behind unbounded inputs.
        :param sequence_by: The column that orders the changes of a key: a number or a time, such as the position in the
            log of a database. A message counts if no other one of its key has a greater value, in whatever order they
            come. By default the last message that is read counts.
        :param changelog: Rejected if true: the side inputs bring the table back
            (:class:`~airflow_samza.errors.SideInputsWithChangelog`).
        :param renamed_from: The former id of the table, under which its rows are found.
        :param doc: A description for people, which the page in Airflow shows.
        """
        table = self._described(id, TableKind.PUSHED, key, schema, renamed_from, doc)
        where = f"table {table.table_id!r}"
        topic = self._settings.changelog(table.table_id)
        if changelog or topic is not None:
            asks = f"stores.{table.table_id}.changelog is {topic!r}" if topic is not None else "asks for a changelog"
            reject(
                f"The {where} has side inputs, and {asks}",
                hint="Its side inputs bring it back after a loss: leave the changelog out.",
                kind=SideInputsWithChangelog,
                table=table.table_id,
            )
        if ttl is not None:
            reject(
                f"The {where} has side inputs and ttl={ttl!r}",
                hint="Leave it out: a row lives until its side input deletes it.",
                table=table.table_id,
            )
        if retain is not None:
            table = replace(table, retain_ms=duration_ms(retain))
        in_code = side_inputs is not None
        if side_inputs is None:
            side_inputs = self._settings.side_inputs(table.table_id)
        if isinstance(side_inputs, str) or not isinstance(side_inputs, Sequence):
            reject(
                f"{where} has side_inputs={side_inputs!r}",
                hint="Give a list: side_inputs=[app.side_input(…)].",
                table=table.table_id,
            )
        if not side_inputs:
            reject(
                f"{where} has no side inputs",
                hint=f"Give side_inputs=[…] or the key stores.{table.table_id}.side.inputs; "
                "a table that the application writes is app.local_table(…).",
                table=table.table_id,
            )
        checked = self._processor(table, processor, where)
        # Without a processor each message is a row, so it has the columns of the table.
        rows = table if checked is None else replace(table, schema=None)
        streams = [self._side_input(named, rows, where) for named in side_inputs]
        ids = [stream.stream_id for stream in streams]
        double = next((stream_id for stream_id in ids if ids.count(stream_id) > 1), None)
        if double is not None:
            reject(
                f"{where} names the side input {double!r} twice", hint="Name each stream once.", table=table.table_id
            )
        if in_code:
            check_same(self._settings, table.table_id, streams)
        if checked is None:
            for stream in streams:
                if stream.schema is not None:  # each message is a row: its key columns must be there
                    key_columns(table.key, stream.schema, f"{where}, fed by {stream.stream_id!r}")
        inferred = table.schema or (rows_of(streams[0]) if checked is None and len(streams) == 1 else None)
        table = replace(table, schema=inferred, side_inputs=tuple(ids), processor=checked)
        if sequence_by is not None:
            table = replace(table, sequence_by=checked_sequence(table, sequence_by, streams, where))
        added = self._added(table)
        for stream in streams:
            self._graph.side_inputs.setdefault(stream.stream_id, stream)
        return added

    def _pushed(
        self,
        id: str,
        key: Columns,
        schema: object,
        *,
        partitions: int | None = None,
        system: str | None = None,
        partitioner: str = "samza",
        processor: Callable[..., Any] | str | None = None,
        renamed_from: str | None = None,
        from_table: str | None = None,
        options: Mapping[str, object] | None = None,
        doc: str | None = None,
        expect: Sequence[object] | None = None,
    ) -> Table[Any]:
        table = self._described(id, TableKind.PUSHED, key, schema, renamed_from, doc)
        where = f"table {table.table_id!r}"
        is_lake = from_table is not None or options is not None
        if not is_lake and table.schema is not None and PUSH_DELETES in table.schema:
            reject(
                f"The pushed table {table.table_id!r} has a column {PUSH_DELETES!r}, which its stream of pushes has "
                "for itself",
                hint="Leave it out, or call it something else: an incremental push says with deletes= which rows "
                "delete their key.",
                table=table.table_id,
            )
        if is_lake and expect is not None:
            reject(
                f"The {where} is a table of a lake, which nothing is pushed to, and has expect=",
                hint="Leave it out, or push to the table: leave from_table= out.",
                table=table.table_id,
            )
        table = replace(table, expect=checked_expectations_of_pushes(expect, self._graph, table))
        if is_lake:
            stream = lake_stream(table, system, from_table, options, partitions, partitioner)
            table = replace(table, options=((FROM_TABLE, str(from_table)),))
        else:
            stream = declared_stream(
                push_stream_id(table.table_id),
                StreamRole.SIDE_INPUT,
                system=system,
                schema=table.schema,
                key=table.key,
                partitioner=partitioner,
                partitions=checked_partitions(partitions, where),
            )
        check_same(self._settings, table.table_id, [stream])
        checked = self._processor(table, processor, where)
        table = replace(table, partitions=partitions, side_inputs=(stream.stream_id,), processor=checked)
        return self._added(table, stream)

    def _processor(self, table: TableDescriptor, processor: Callable[..., Any] | str | None, where: str) -> Any:
        return checked_processor(chosen_processor(self._settings, table.table_id, processor), where)

    def _side_input(self, named: object, table: TableDescriptor, where: str) -> StreamDescriptor:
        if isinstance(named, SideInput | MessageStream):
            if named._graph is not self._graph:
                reject(
                    f"{where} got {named!r} of another application",
                    hint=DECLARE_HERE,
                    table=table.table_id,
                )
            if isinstance(named, SideInput):
                return named.descriptor
            operator = named._operator
            if not isinstance(operator, InputOperatorSpec) or operator.stream.role is not StreamRole.INPUT:
                reject(
                    f"{where} got {named!r}, which is made by the application",
                    hint="A side input is a stream from outside; write into app.local_table(…) with send_to instead.",
                    table=table.table_id,
                )
            return replace(operator.stream, role=StreamRole.SIDE_INPUT, location=operator.stream.location)
        if not isinstance(named, str) or not is_system_stream(named.strip()):
            reject(
                f"{where} has the side input {named!r}, which is no stream",
                hint='Give app.side_input(…), a stream id, or "system.stream".',
                kind=BadId,
                value=repr(named),
            )
        system, stream_id, topic = parts_of(named)
        declared = self._graph.side_inputs.get(stream_id) or self._graph.streams.get(stream_id)
        if (
            declared is not None
            and declared.role in (StreamRole.INPUT, StreamRole.SIDE_INPUT)
            and (not system or declared.system in (None, system))
        ):
            return replace(declared, role=StreamRole.SIDE_INPUT)
        stream = declared_stream(
            stream_id, StreamRole.SIDE_INPUT, system=system or None, key=table.key, schema=table.schema, topic=topic
        )
        return self._graph.add_stream(stream)

    def _described(
        self,
        id: str,
        kind: TableKind,
        key: Columns,
        schema: object,
        renamed_from: str | None,
        doc: str | None,
    ) -> TableDescriptor:
        table_id = checked_id(id, "table")
        where = f"table {table_id!r}"
        former = former_id(renamed_from, table_id, "table", "table")
        shape = declared_columns(schema)
        return TableDescriptor(
            table_id=table_id,
            kind=kind,
            key=key_columns(key, shape, where),
            schema=shape,
            renamed_from=former,
            doc=checked_doc(doc, where),
            location=SourceLocation.of_caller(),
        )

    def _added(self, table: TableDescriptor, stream: StreamDescriptor | None = None) -> Table[Any]:
        self._graph.add_table(table)
        if stream is not None:
            self._graph.add_stream(stream)
        return Table(table, self._graph)


def changelog_stream(table: TableDescriptor, name: str) -> StreamDescriptor:
    """Return the changelog stream of a table: ``system.stream``, or a stream of the default system."""
    if not is_system_stream(name.strip()):
        reject(
            f"Table {table.table_id!r} has the changelog {name!r}, which is no stream",
            hint='Write "system.stream", or the name of a stream in the default system.',
            kind=BadId,
            value=name,
        )
    system, stream_id, topic = parts_of(name)
    return declared_stream(
        stream_id, StreamRole.OUTPUT, system=system or None, schema=table.schema, key=table.key, topic=topic
    )


def with_changelog(table: TableDescriptor, changelog: object) -> tuple[tuple[str, str], ...]:
    """Return the options of a table, which say that its rows are lost with the run where it has no changelog."""
    if not isinstance(changelog, bool | str):
        reject(
            f"Table {table.table_id!r} has changelog={changelog!r}",
            hint='Write True or False, or the stream to which changes go: "system.stream".',
            table=table.table_id,
        )
    return table.options if changelog else tuple(sorted((*table.options, ("changelog", "false"))))


def checked_processor(processor: object, where: str) -> Any:
    """Return the factory of a processor of side inputs, or its name; None: each message is a row."""
    if processor is None:
        return None
    if isinstance(processor, str):
        module, _, attribute = processor.replace(":", ".").rpartition(".")
        if not module or not all(part.isidentifier() for part in (*module.split("."), attribute)):
            reject(
                f"{where} has processor={processor!r}, which names nothing that can be imported",
                hint='Write "package.module:factory".',
                value=processor,
            )
        return processor
    if not isinstance(processor, type) and hasattr(processor, "process") and not callable(processor):
        reject(
            f"{where} got a processor that is made already",
            hint="Give its factory, (config, metrics) -> processor: each task makes its own.",
            value=repr(processor),
        )
    check_callable(
        processor,
        f"the processor factory of {where}",
        2,
        hint="Give a callable (config, metrics) -> SideInputsProcessor.",
    )
    reject_async_methods(processor, f"the processor of {where}", "process")
    return processor


def lake_stream(
    table: TableDescriptor,
    system: str | None,
    from_table: str | None,
    options: Mapping[str, object] | None,
    partitions: int | None,
    partitioner: str,
) -> StreamDescriptor:
    """Return the side input that is a table of a lake, which every task reads whole, as it is."""
    if from_table is None or system is None:
        word, lacking = ("from_table", "system") if from_table is not None else ("options", "from_table")
        reject(
            f"The table {table.table_id!r} has {word}=, and no {lacking}=",
            hint='Name the table and its system: from_table="web.members", system="lake".',
            table=table.table_id,
        )
    if partitions is not None or partitioner != "samza":
        word = "partitions" if partitions is not None else "partitioner"
        reject(
            f"The table {table.table_id!r} has from_table=, which every task reads whole, and {word}=",
            hint=f"Leave {word}= out; or feed the table by a side input or by pushes.",
            table=table.table_id,
        )
    return declared_stream(
        table.table_id,
        StreamRole.SIDE_INPUT,
        system=system,
        schema=table.schema,
        table=from_table,
        broadcast=True,
        options=options,
    )


def rows_of(stream: StreamDescriptor) -> Schema | None:
    """Return the columns of the rows of which a side input's messages are changes."""
    if stream.events is None or stream.schema is None:
        return stream.schema
    return Schema(tuple(field for field in stream.schema.fields if field.name != ROW_DELETED))


_ORDERED = ("bigint", "int", "smallint", "tinyint", "timestamp", "timestamp_ntz", "date")


def checked_sequence(
    table: TableDescriptor, sequence_by: object, streams: Sequence[StreamDescriptor], where: str
) -> str:
    """Return the column that orders the changes of a table, if all of its side inputs have it."""
    if not isinstance(sequence_by, str) or not sequence_by.strip():
        reject(
            f"{where} has sequence_by={sequence_by!r}",
            hint='Name the column that orders the changes of a key: sequence_by="lsn".',
            table=table.table_id,
        )
    if table.processor is not None:
        reject(
            f"{where} has sequence_by={sequence_by!r} and a processor, which gets the messages as they come",
            hint="Leave one of them out.",
            table=table.table_id,
        )
    for stream in streams:
        check_column(sequence_by, stream.schema, f"sequence_by of {where}, fed by {stream.stream_id!r}")
        if stream.schema is None:
            reject(
                f"{where} has sequence_by={sequence_by!r}, and the columns of its side input {stream.stream_id!r} are "
                "not known",
                hint="Declare them: schema= of the side input.",
                table=table.table_id,
            )
        kind = stream.schema[sequence_by].type
        if kind.name not in _ORDERED:
            reject(
                f"Column {sequence_by!r} of the side input {stream.stream_id!r} is of type {kind.ddl()}, which orders "
                f"no changes of {where}",
                hint="Order them by a whole number, a timestamp or a date.",
                column=sequence_by,
            )
    return sequence_by
