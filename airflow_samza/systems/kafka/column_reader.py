"""Turns messages of a partition into columns: first what is wanted of each message, then whole columns by the serdes.

The client's messages are objects, and cost most where many are alive: so a few at a time are taken apart (decision 91).

Messages without a value, which delete their key from a compacted topic, are rows of a side input: such a row has its
key columns, and is marked in the column ``_deleted``. Key columns that are inside of the values of other messages are
read out of its key, where outputs of ours write them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from airflow_samza.application.declarations.tables import PUSH_DELETES
from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.kafka.columns import (
    HEADERS,
    KEY,
    OFFSET,
    PARTITION,
    RAW,
    TIMESTAMP,
    VALUE,
    MessageColumns,
    bind_key_serde,
)
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde

Numbers = np.ndarray[Any, Any]
Headers = list[tuple[str, bytes | None]]


_HEADERS = Schema.of(RAW).to_arrow().field(HEADERS).type


def taken(messages: Sequence[Message], facts: Set[str]) -> pa.RecordBatch:
    """Return the wanted facts of messages of one partition, one at least, and their offsets, in columns of these names.

    Timestamps are ms since 1970, negative where there is none.
    """
    columns: dict[str, pa.Array] = {OFFSET: pa.array(_offsets_of(messages), pa.int64())}
    if KEY in facts:
        columns[KEY] = pa.array(list(map(Message.key, messages)), pa.binary())
    if VALUE in facts:
        columns[VALUE] = pa.array(list(map(Message.value, messages)), pa.binary())
    if PARTITION in facts:
        columns[PARTITION] = pa.repeat(pa.scalar(messages[0].partition(), pa.int32()), len(messages))
    if TIMESTAMP in facts:
        columns[TIMESTAMP] = pa.array([message.timestamp()[1] for message in messages], pa.int64())
    if HEADERS in facts:
        columns[HEADERS] = _headers(cast("list[Headers | None]", list(map(Message.headers, messages))))
    return pa.record_batch(columns)


@dataclass(frozen=True)
class Tombstones:
    """Marks messages without a value; ``serde`` reads the columns ``names`` out of their keys (None: no column)."""

    names: tuple[str, ...]
    serde: Serde | None

    @classmethod
    def of(cls, payload: pa.Schema, key: Sequence[str], columns: Sequence[str], stream: str) -> Tombstones:
        """Return those of a stream whose values have the columns ``payload``, ``key`` among them."""
        if not key or not set(key) <= set(columns):
            return cls((), None)
        return cls(tuple(key), bind_key_serde(payload, key, stream))

    def mark(self, keys: pa.Array, values: pa.Array, columns: dict[str, pa.Array]) -> list[BadMessage]:
        """Add the column ``_deleted`` to columns, where there is anything to mark, and what the keys hold.

        Returns the messages whose keys cannot be read.
        """
        if not values.null_count:
            return []
        is_deleted = values.is_null()
        before = columns.get(PUSH_DELETES)
        columns[PUSH_DELETES] = is_deleted if before is None else pc.or_(is_deleted, before.fill_null(False))
        if self.serde is None:
            return []
        batch, wrong = rows_of(self.serde, pc.if_else(is_deleted, keys, pa.scalar(None, pa.binary())))
        for name in self.names:
            columns[name] = pc.if_else(is_deleted, batch.column(name), columns[name])
        return [
            BadMessage(
                one.place,
                f"it has no value, so that it deletes its key, and {', '.join(self.names)} cannot be read out of that "
                f"({one}); where keys are written in another form, name a column of theirs as key_column",
            )
            for one in wrong
        ]


def rows_of(serde: Serde, values: pa.Array) -> tuple[pa.RecordBatch, Sequence[BadMessage]]:
    """Return a row for each value: of nulls where there is none, or one that cannot be read; and these."""
    # A message without a value deletes its key from a compacted topic; one without a key has a key that is null.
    present = values.drop_null() if values.null_count else values
    decoded = serde.decode_each(present)
    if decoded.batch.num_rows == len(values):
        return decoded.batch, ()
    places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    bad = [one.at(int(places[one.place])) for one in decoded.bad]
    places = np.delete(places, [one.place for one in decoded.bad])
    rows = np.full(len(values), -1, np.int64)
    rows[places] = np.arange(len(places))
    return decoded.batch.take(pa.array(rows, mask=rows < 0)), bad


@dataclass(frozen=True)
class ColumnReader:
    """Turns what was taken of messages into columns; with ``tombstones`` one marks messages without a value."""

    schema: pa.Schema
    facts: Mapping[str, str]
    serde: Serde | None
    key_serde: Serde | None
    tombstones: Tombstones | None = None

    @classmethod
    def of(
        cls, stream: MessageColumns, columns: Sequence[str] | None, system: str, options: Mapping[str, Any]
    ) -> ColumnReader:
        """Return what reads these columns (None: all); name and options of the system are its serde's."""
        names = stream.schema.names if columns is None else list(columns)
        for name in names:
            if name not in stream.schema.names:
                raise SchemaError(
                    f"Stream {stream.stream!r} has no column {name!r}.",
                    hint=f"Its columns are {', '.join(stream.schema.names)}.",
                    stream=stream.stream,
                    column=name,
                )
        schema = pa.schema([stream.schema.field(name) for name in names])
        inside = any(name not in stream.facts for name in names)
        serde = stream.value_serde(system, options, names) if inside else None
        keys = [name for name in names if stream.facts.get(name) == KEY]
        key_serde = bind_key_serde(stream.schema, keys, stream.stream) if keys else None
        deleting = stream.deleting
        tombstones = None if deleting is None else Tombstones.of(stream.payload, deleting, names, stream.stream)
        return cls(schema, stream.facts, serde, key_serde, tombstones)

    @property
    def needed_facts(self) -> frozenset[str]:
        """The facts of messages that it reads."""
        named = {self.facts[name] for name in self.schema.names if name in self.facts}
        inside = {VALUE} if self.serde is not None else set()
        return frozenset(named | inside | ({KEY, VALUE} if self.tombstones is not None else set()))

    def read(self, messages: pa.RecordBatch) -> Decoded:
        """Return the messages whose values and keys can be read, and those that cannot."""
        arrays: dict[str, pa.Array] = {}
        bad: dict[int, BadMessage] = {}
        for serde, fact in ((self.key_serde, KEY), (self.serde, VALUE)):
            if serde is not None:
                batch, wrong = rows_of(serde, messages.column(fact))
                arrays.update(zip(batch.schema.names, batch.columns, strict=True))
                bad.update((one.place, one) for one in wrong)
        if self.tombstones is not None:
            wrong = self.tombstones.mark(messages.column(KEY), messages.column(VALUE), arrays)
            bad.update((one.place, one) for one in wrong)
        if bad:
            good = np.ones(len(messages), bool)
            good[list(bad)] = False
            arrays = {name: column.filter(pa.array(good)) for name, column in arrays.items()}
            messages = messages.filter(pa.array(good))
        columns = [
            arrays[field.name] if field.name in arrays else _as_column(messages, self.facts[field.name], field.type)
            for field in self.schema
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if PUSH_DELETES in arrays and PUSH_DELETES not in self.schema.names:
            batch = batch.append_column(PUSH_DELETES, arrays[PUSH_DELETES])
        return Decoded(batch, [bad[place] for place in sorted(bad)])


def offset_of(message: Message) -> int:
    """Return the offset of a message that was read, or of a report about its partition."""
    return cast("int", message.offset())


def _offsets_of(messages: Sequence[Message]) -> Numbers:
    first, behind = offset_of(messages[0]), offset_of(messages[-1]) + 1
    if behind - first == len(messages):  # they ascend: there is no hole
        return np.arange(first, behind)
    return np.fromiter(map(offset_of, messages), np.int64, len(messages))


def _as_column(messages: pa.RecordBatch, fact: str, kind: pa.DataType) -> pa.Array:
    """Return a fact of messages as a column of a type that it may have."""
    column = messages.column(fact)
    if fact == TIMESTAMP:
        column = pc.if_else(pc.less(column, 0), pa.scalar(None, pa.int64()), column)
        return column if pa.types.is_integer(kind) else column.cast(pa.timestamp("ms")).cast(kind)
    return column.cast(kind)


def _headers(each: Sequence[Headers | None]) -> pa.Array:
    lists = [headers or [] for headers in each]
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([len(headers) for headers in lists], out=ends[1:])
    pairs = list(chain.from_iterable(lists))
    names = pa.array([name for name, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.binary())
    item = _HEADERS.value_type
    structs = pa.StructArray.from_arrays([names, values], fields=[item.field(0), item.field(1)])
    return pa.ListArray.from_arrays(pa.array(ends), structs, type=_HEADERS)
