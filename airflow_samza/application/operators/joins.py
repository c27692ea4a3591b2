"""Operators over several streams: joins with a table or another stream, and merges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow_samza.application.bad_records import on_error_fields
from airflow_samza.application.callables import check_callable, declared_schema
from airflow_samza.application.columns import Columns, key_columns, optional_columns
from airflow_samza.application.declarations.remote_access import GIVE_READER
from airflow_samza.application.descriptors import TableKind
from airflow_samza.application.event_times import kept_time
from airflow_samza.application.operator_checks import (
    check_same_application,
    former_id,
    named,
    required_id,
)
from airflow_samza.application.operator_specs import MergeSpec, StreamJoinSpec, TableJoinSpec
from airflow_samza.application.output_schemas import joined_schema, joined_streams_schema, merged_schema
from airflow_samza.application.rejections import did_you_mean, listed, located, reject
from airflow_samza.application.stream import Stream, Table
from airflow_samza.application.times import duration_ms
from airflow_samza.schema import Schema

_STREAM_JOINS = ("inner", "left", "right", "full")
_TABLE_JOINS = ("inner", "left")


@dataclass(frozen=True)
class JoinOptions:
    """The arguments of :meth:`MessageStream.join` as the user gave them, the other side apart."""

    function: Callable[[Any, Any], Any] | None
    id: str | None
    how: str = "inner"
    key: Columns | None = None
    left_key: Columns | None = None
    right_key: Columns | None = None
    ttl: str | int | timedelta | None = None
    schema: object = None
    assume_partitioned_by: Columns | None = None
    renamed_from: str | None = None
    on_error: object = "fail"


def join_table(stream: Stream[Any], table: Table[Any], options: JoinOptions) -> TableJoinSpec:
    """Return the lookup of every message of a stream in a table."""
    descriptor, id, how = table.descriptor, options.id, options.how
    if options.ttl is not None or options.left_key is not None or options.right_key is not None:
        reject(
            f"The join with table {descriptor.table_id!r} names "
            f"{'ttl' if options.ttl is not None else 'left_key or right_key'}",
            hint="A table join takes key= (columns of the stream); ttl, left_key and right_key belong to stream joins.",
        )
    where = named("join", id)
    check_same_application(stream._graph, table, descriptor.table_id, where)
    name = required_id(id, "join")
    _check_how(how, _TABLE_JOINS, where)
    if descriptor.kind is TableKind.REMOTE and descriptor.reader is None:
        reject(
            f"{where} reads the remote table {descriptor.table_id!r}, which has no reader",
            hint=GIVE_READER,
            table=descriptor.table_id,
        )
    if options.key is None:
        lacking = [] if stream.schema is None else [column for column in descriptor.key if column not in stream.schema]
        if lacking:
            reject(
                f"{where} looks {listed(lacking)} up, the key of table {descriptor.table_id!r}, and the stream has no "
                "such column",
                hint="Say which columns hold the key: key=…, of "
                f"{listed(stream.schema.names if stream.schema else ())}.",
                table=descriptor.table_id,
            )
        columns = descriptor.key
    else:
        columns = key_columns(options.key, stream.schema, where)
    _check_key_count(columns, descriptor.key, f"table {descriptor.table_id!r}", where)
    shape = _declared_result(stream, options, where)
    if options.function is None:
        shape = joined_schema(stream.schema, descriptor.schema, descriptor.key, how, where)
    return stream._graph.add(
        TableJoinSpec,
        name,
        inputs=(stream._operator,),
        schema=shape,
        table=descriptor,
        key=columns,
        function=options.function,
        how=how,
        time_column=stream._time(where) if descriptor.ttl_ms is not None else None,
        event_time=kept_time(stream, shape) if options.function is not None else None,
        **_common(stream, options, name, options.function or descriptor.reader, where),
    )


def join_stream(stream: Stream[Any], other: object, options: JoinOptions) -> StreamJoinSpec:
    """Return the join of two streams."""
    if not isinstance(other, Stream):
        reject(
            f"join takes a table or a stream, not {other!r}",
            hint="Declare it first: app.pushed_table(…), app.local_table(…), app.input_stream(…).",
            operator="join",
        )
    if other is stream:
        reject(
            f"join got the very same stream twice, {stream!r}",
            hint="Aggregate or window it instead; to pair its messages join two maps of it.",
            operator="join",
        )
    id, how, key, left_key, right_key = options.id, options.how, options.key, options.left_key, options.right_key
    where = named("join", id)
    stream._check_stream(other, where)
    name = required_id(id, "join")
    _check_how(how, _STREAM_JOINS, where)
    if options.ttl is None:
        reject(
            f"{where} of two streams has no ttl: it would keep every message for ever",
            hint='Say how long a message waits for its partner, for example ttl="1 hour".',
            operator=where,
        )
    with located():
        ttl_ms = duration_ms(options.ttl)
    if key is not None and (left_key is not None or right_key is not None):
        reject(f"{where} names key and left_key or right_key", hint="Name key, or both others.", operator=where)
    if (left_key is None) != (right_key is None):
        reject(
            f"{where} names one of left_key and right_key",
            hint="Name both, or key when they are the same.",
            operator=where,
        )
    left = _join_key(stream, key if left_key is None else left_key, where, "left")
    right = _join_key(other, key if right_key is None else right_key, where, "right")
    _check_key_count(left, right, "the other stream", where)
    shape = _declared_result(stream, options, where)
    if options.function is None:
        shape = joined_streams_schema(stream.schema, other.schema, left, right, how, where)
    return stream._graph.add(
        StreamJoinSpec,
        name,
        inputs=(stream._operator, other._operator),
        schema=shape,
        left_key=left,
        right_key=right,
        function=options.function,
        how=how,
        ttl_ms=ttl_ms,
        left_time=stream._time(where),
        right_time=other._time(where),
        **_common(stream, options, name, options.function, where),
    )


def event_time_of(join: StreamJoinSpec) -> str | None:
    """Return the column that holds the event time of joined messages: that of a side that is always there.

    None when there is none.
    """
    if join.how == "full" and join.function is None:
        return None
    if join.how != "right" or join.function is not None:
        return join.left_time
    named = dict(zip(join.right_key, join.left_key, strict=True))  # the right key's columns have the left one's names
    return join.right_time and named.get(join.right_time, join.right_time)


def _check_how(how: object, kinds: tuple[str, ...], where: str) -> None:
    """Reject a kind of join that is not known here."""
    if how not in kinds:
        reject(
            f"{where} has how={how!r}",
            hint=f"{did_you_mean(str(how), kinds)}It is one of {listed(kinds)}.",
            operator=where,
            value=repr(how),
        )


def _check_key_count(left: tuple[str, ...], right: tuple[str, ...], other: str, where: str) -> None:
    """Reject keys of different numbers of columns."""
    if len(left) != len(right):
        reject(
            f"{where} matches the key {listed(left)} with {listed(right)} of {other}: {len(left)} columns with "
            f"{len(right)}",
            hint="Name as many key columns on both sides, in the same order.",
            operator=where,
        )


def _common(stream: Stream[Any], options: JoinOptions, name: str, function: object, where: str) -> dict[str, Any]:
    """Return the fields that both kinds of joins have; ``function`` is what may fail on a message."""
    fields = on_error_fields(options.on_error, stream._graph, where)
    if fields and function is None:
        reject(
            f"{where} has on_error= and no function",
            hint="A join without a function cannot fail on a message: leave on_error= out.",
            operator=where,
        )
    return {
        "assume_partitioned_by": optional_columns(options.assume_partitioned_by, None, where),
        "renamed_from": former_id(options.renamed_from, name, "join"),
        **fields,
    }


def _join_key(stream: Stream[Any], key: Columns | None, where: str, side: str) -> tuple[str, ...]:
    if key is not None:
        return key_columns(key, stream.schema, where)
    if not stream._key:
        reject(
            f"{where} has no key=, and it is not known by which key its {side} stream is partitioned",
            hint='Set key="member_id" (or left_key and right_key).',
            operator=where,
        )
    return stream._key


def _declared_result(stream: Stream[Any], options: JoinOptions, where: str) -> Schema | None:
    """Return the columns that the function of a join makes; None: there is no function, or it does not declare them."""
    function = options.function
    if function is not None:
        check_callable(function, where, 2, hint="Give a callable with two parameters: lambda left, right: …")
        return declared_schema(function, options.schema, where) or stream.schema
    if options.schema is not None:
        reject(
            f"{where} has schema= and no function",
            hint="Without a function the columns of both sides are put together; "
            "leave schema= out, or give the function.",
            operator=where,
        )
    return None


def merge(streams: Sequence[Stream[Any]], id: str | None) -> MergeSpec:
    """Return the merge of ``streams``, the first of which is the one that the user called it on."""
    first = streams[0]
    if len(streams) == 1:
        reject("merge names no other stream", hint="Give the streams: views.merge(clicks).", operator="merge")
    for place, other in enumerate(streams):
        first._check_stream(other, "merge")
        if any(other is former for former in streams[:place]):
            reject(
                f"merge names {other!r} twice, which would double its messages",
                hint="Name each stream once.",
                operator="merge",
            )
    shape = merged_schema([stream.schema for stream in streams], "merge")
    return first._graph.add(MergeSpec, id, inputs=tuple(stream._operator for stream in streams), schema=shape)
