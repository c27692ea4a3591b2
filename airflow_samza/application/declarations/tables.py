"""Checks of table declarations: pushed, local, remote, and the general form with side inputs (rules S2, S6, S8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow_samza.application.callables import check_callable, reject_async_methods
from airflow_samza.application.columns import Columns, key_columns
from airflow_samza.application.declarations.remote_access import RemoteAccessOptions, remote_access
from airflow_samza.application.declarations.side_inputs import ConfiguredSideInputs
from airflow_samza.application.declarations.streams import checked_partitions, declared_stream, options_of
from airflow_samza.application.descriptors import (
    StreamDescriptor,
    StreamRole,
    TableDescriptor,
    TableKind,
    push_stream_id,
)
from airflow_samza.application.graph_builder import GraphBuilder
from airflow_samza.application.identifiers import checked_id, is_system_stream, parts_of
from airflow_samza.application.message_stream import MessageStream
from airflow_samza.application.operator_checks import DECLARE_HERE, former_id
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.stream import SideInput, Table
from airflow_samza.application.times import duration_ms
from airflow_samza.config import Config
from airflow_samza.errors import BadId, SideInputsWithChangelog
from airflow_samza.schema import Schema

PUSH_DELETES = "_deleted"
"""The column of every stream of pushes that marks the rows which delete their key."""


class TableDeclarations:
    """Declares the tables of one application."""

    def __init__(self, graph: GraphBuilder, config: Mapping[str, str]) -> None:
        self._graph = graph
        self._config = Config(config)
        self._configured = ConfiguredSideInputs(self._config)

    def pushed(
        self,
        id: str,
        *,
        key: Columns,
        schema: object = None,
        partitions: int | None = None,
        system: str | None = None,
        partitioner: str = "samza",
        processor: Callable[..., Any] | str | None = None,
        options: Mapping[str, object] | None = None,
        renamed_from: str | None = None,
    ) -> Table[Any]:
        """Return a table whose side input is its own stream of pushes, ``<id>-push``."""
        table = self._described(id, TableKind.PUSHED, key, schema, options, renamed_from)
        where = f"table {table.table_id!r}"
        if table.schema is not None and PUSH_DELETES in table.schema:
            reject(
                f"The pushed table {table.table_id!r} has a column {PUSH_DELETES!r}, which its stream of pushes has "
                "for itself",
                hint="Leave it out, or call it something else: an incremental push says with deletes= which rows "
                "delete their key.",
                table=table.table_id,
            )
        stream = declared_stream(
            push_stream_id(table.table_id),
            StreamRole.SIDE_INPUT,
            system=system,
            schema=table.schema,
            key=table.key,
            partitioner=partitioner,
            partitions=checked_partitions(partitions, where),
        )
        if self._configured.of(table.table_id):
            self._configured.check_same(table.table_id, [stream])
        checked = self._processor(table, processor, where)
        table = replace(table, partitions=partitions, side_inputs=(stream.stream_id,), processor=checked)
        return self._added(table, stream)

    def local(
        self,
        id: str,
        *,
        key: Columns,
        schema: object,
        ttl: str | int | timedelta | None,
        changelog: bool | str,
        options: Mapping[str, object] | None,
        renamed_from: str | None,
    ) -> Table[Any]:
        """Return a table that the application writes; or one that side inputs of the configuration feed."""
        if isinstance(id, str) and self._configured.feeds(id):
            asked = (
                None if changelog is True or changelog is False else bool(changelog)
            )  # it would be, were there no side inputs
            return self.with_side_inputs(
                id,
                key=key,
                side_inputs=None,
                processor=None,
                schema=schema,
                ttl=ttl,
                changelog=asked,
                options=options,
                renamed_from=renamed_from,
            )
        table = self._described(id, TableKind.LOCAL, key, schema, options, renamed_from)
        if changelog is True:
            changelog = self._config.changelog(table.table_id) or True
        stream = _changelog_stream(table, changelog) if isinstance(changelog, str) else None
        table = replace(table, ttl_ms=_milliseconds(ttl), options=_with_changelog(table, changelog))
        added = self._added(table, stream)
        if stream is not None:
            self._graph.changelogs[table.table_id] = stream
        return added

    def remote(
        self,
        id: str,
        *,
        key: Columns,
        reader: Callable[..., Any] | None,
        writer: Callable[..., Any] | None,
        schema: object,
        options: Mapping[str, object] | None,
        access: RemoteAccessOptions,
    ) -> Table[Any]:
        """Return a table read and written by callables."""
        table = self._described(id, TableKind.REMOTE, key, schema, options, None)
        self._configured.reject_any(
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
        said = remote_access(f"table {table.table_id!r}", reader, writer, access)
        return self._added(replace(table, reader=reader, writer=writer, access=said))

    def with_side_inputs(
        self,
        id: str,
        *,
        key: Columns,
        side_inputs: Sequence[SideInput | MessageStream[Any] | str] | None,
        processor: Callable[..., Any] | str | None,
        schema: object,
        ttl: str | int | timedelta | None,
        changelog: bool | None,
        options: Mapping[str, object] | None,
        renamed_from: str | None,
    ) -> Table[Any]:
        """Return a table fed by any side inputs, declared here or in the configuration."""
        table = self._described(id, TableKind.PUSHED, key, schema, options, renamed_from)
        where = f"table {table.table_id!r}"
        topic = self._config.changelog(table.table_id)
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
        in_code = side_inputs is not None
        if side_inputs is None:
            side_inputs = self._configured.of(table.table_id)
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
        if in_code and self._configured.of(table.table_id):
            self._configured.check_same(table.table_id, streams)
        if checked is None:
            for stream in streams:
                if stream.schema is not None:  # each message is a row: its key columns must be there
                    key_columns(table.key, stream.schema, f"{where}, fed by {stream.stream_id!r}")
        inferred = table.schema or (streams[0].schema if checked is None and len(streams) == 1 else None)
        table = replace(table, schema=inferred, side_inputs=tuple(ids), processor=checked)
        added = self._added(table)
        for stream in streams:
            self._graph.side_inputs.setdefault(stream.stream_id, stream)
        return added

    def _processor(self, table: TableDescriptor, said: Callable[..., Any] | str | None, where: str) -> Any:
        return _checked_processor(self._configured.processor(table.table_id, said), where)

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
        known = self._graph.side_inputs.get(stream_id) or self._graph.streams.get(stream_id)
        if (
            known is not None
            and known.role in (StreamRole.INPUT, StreamRole.SIDE_INPUT)
            and (not system or known.system in (None, system))
        ):
            return replace(known, role=StreamRole.SIDE_INPUT)
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
        options: Mapping[str, object] | None,
        renamed_from: str | None,
    ) -> TableDescriptor:
        table_id = checked_id(id, "table")
        where = f"table {table_id!r}"
        former = former_id(renamed_from, table_id, "table", "table")
        with located():
            shape = None if schema is None else Schema.of(schema)
        return TableDescriptor(
            table_id=table_id,
            kind=kind,
            key=key_columns(key, shape, where),
            schema=shape,
            options=options_of(options),
            renamed_from=former,
            location=SourceLocation.of_caller(),
        )

    def _added(self, table: TableDescriptor, stream: StreamDescriptor | None = None) -> Table[Any]:
        self._graph.add_table(table)
        if stream is not None:
            self._graph.add_stream(stream)
        return Table(table, self._graph)


def _milliseconds(ttl: str | int | timedelta | None) -> int | None:
    with located():
        return None if ttl is None else duration_ms(ttl)


def _changelog_stream(table: TableDescriptor, name: str) -> StreamDescriptor:
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


def _with_changelog(table: TableDescriptor, changelog: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(changelog, bool | str):
        reject(
            f"Table {table.table_id!r} has changelog={changelog!r}",
            hint='Write True or False, or the stream to which changes go: "system.stream".',
            table=table.table_id,
        )
    return table.options if changelog else tuple(sorted((*table.options, ("changelog", "false"))))


def _checked_processor(processor: object, where: str) -> Any:
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
