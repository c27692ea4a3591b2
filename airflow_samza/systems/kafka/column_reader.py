"""Turns messages of a partition into columns: first what is wanted of each message, then whole columns by the serdes.

The client's messages are objects, and cost most where many are alive: so a few at a time are taken apart (decision 91).

Messages without a value, which delete their key from a compacted topic, are rows of a side input: such a row has its
key columns, and is marked in the column ``_deleted``. Key columns that are inside of the values of other messages are
read out of its key, where outputs of ours write them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Message

from airflow_samza.application.declarations.tables import PUSH_DELETES
from airflow_samza.errors import SchemaError
from airflow_samza.schema import type_from_arrow
from airflow_samza.systems.kafka.columns import (
    HEADERS,
    KEY,
    KEY_SERDES,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALUE,
    MessageColumns,
    bind_key_serde,
)
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde

Numbers = np.ndarray[Any, Any]
Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Taken:
    """Facts that were taken of messages of one partition, in their order; those that nobody wants are None.

    ``offsets`` and ``millis`` (timestamps in ms since 1970, negative where there is none) are int64, ``keys`` and
    ``values`` binary.
    """

    partition: int
    offsets: Numbers
    keys: pa.Array | None
    values: pa.Array | None
    millis: Numbers | None
    headers: list[Headers | None] | None

    @classmethod
    def of(cls, messages: Sequence[Message], facts: Set[str]) -> Taken:
        """Return the wanted facts of messages, one at least."""
        return cls(
            cast("int", messages[0].partition()),
            _offsets_of(messages),
            pa.array(list(map(Message.key, messages)), pa.binary()) if KEY in facts else None,
            pa.array(list(map(Message.value, messages)), pa.binary()) if VALUE in facts else None,
            np.fromiter((m.timestamp()[1] for m in messages), np.int64, len(messages)) if TIMESTAMP in facts else None,
            cast("list[Headers | None]", list(map(Message.headers, messages))) if HEADERS in facts else None,
        )

    @classmethod
    def joined(cls, parts: Sequence[Taken]) -> Taken:
        """Return parts, one at least and all with the same facts, as one."""
        first = parts[0]
        if len(parts) == 1:
            return first
        return cls(
            first.partition,
            np.concatenate([part.offsets for part in parts]),
            None if first.keys is None else pa.concat_arrays([part.keys for part in parts]),
            None if first.values is None else pa.concat_arrays([part.values for part in parts]),
            None if first.millis is None else np.concatenate([cast("Numbers", part.millis) for part in parts]),
            None if first.headers is None else list(chain.from_iterable(part.headers or () for part in parts)),
        )

    def where(self, chosen: Numbers) -> Taken:
        """Return the messages that a mask chooses."""
        mask = pa.array(chosen)
        return Taken(
            self.partition,
            self.offsets[chosen],
            None if self.keys is None else self.keys.filter(mask),
            None if self.values is None else self.values.filter(mask),
            None if self.millis is None else self.millis[chosen],
            None if self.headers is None else [self.headers[place] for place in np.flatnonzero(chosen).tolist()],
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """The bytes of keys and values."""
        return sum(part.nbytes for part in (self.keys, self.values) if part is not None)


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
        keys = [stream.schema.field(name) for name in names if stream.facts.get(name) == KEY]
        of_key = [KEY_SERDES[type_from_arrow(field.type).ddl()] for field in keys[:1]]
        key_serde = bind_serde(of_key[0], pa.schema(keys), stream.stream) if keys else None
        deleting = stream.deleting
        tombstones = None if deleting is None else Tombstones.of(stream.payload, deleting, names, stream.stream)
        return cls(schema, stream.facts, serde, key_serde, tombstones)

    @property
    def needed_facts(self) -> frozenset[str]:
        """The facts of messages that it reads."""
        named = {self.facts[name] for name in self.schema.names if name in self.facts}
        inside = {VALUE} if self.serde is not None else set()
        return frozenset(named | inside | ({KEY, VALUE} if self.tombstones is not None else set()))

    def read(self, taken: Taken) -> Decoded:
        """Return the messages whose values and keys can be read, and those that cannot."""
        arrays: dict[str, pa.Array] = {}
        bad: dict[int, BadMessage] = {}
        for serde, values in ((self.key_serde, taken.keys), (self.serde, taken.values)):
            if serde is not None:
                batch, wrong = rows_of(serde, values)
                arrays.update(zip(batch.schema.names, batch.columns, strict=True))
                bad.update((one.place, one) for one in wrong)
        if self.tombstones is not None:
            bad.update((one.place, one) for one in self.tombstones.mark(taken.keys, taken.values, arrays))
        if bad:
            good = np.ones(len(taken), bool)
            good[list(bad)] = False
            arrays = {name: column.filter(pa.array(good)) for name, column in arrays.items()}
            taken = taken.where(good)
        columns = [
            arrays[field.name] if field.name in arrays else _COLUMNS[self.facts[field.name]](taken, field.type)
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


def _timestamps(taken: Taken, kind: pa.DataType) -> pa.Array:
    millis = cast("Numbers", taken.millis)
    times = pa.array(millis, pa.int64(), mask=millis < 0)
    return times if pa.types.is_integer(kind) else times.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(kind)


def _headers(taken: Taken, kind: pa.DataType) -> pa.Array:
    lists: Iterable[Headers] = [headers or [] for headers in taken.headers or ()]
    ends = np.zeros(len(taken) + 1, np.int32)
    np.cumsum([len(headers) for headers in lists], out=ends[1:])
    pairs = list(chain.from_iterable(lists))
    names = pa.array([name for name, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.binary())
    item = kind.value_type
    structs = pa.StructArray.from_arrays([names, values], fields=[item.field(0), item.field(1)])
    return pa.ListArray.from_arrays(pa.array(ends), structs, type=kind)


_COLUMNS: Mapping[str, Callable[[Taken, pa.DataType], pa.Array]] = {
    VALUE: lambda taken, kind: taken.values,
    PARTITION: lambda taken, kind: pa.repeat(pa.scalar(taken.partition, kind), len(taken)),
    OFFSET: lambda taken, kind: pa.array(taken.offsets, kind),
    TIMESTAMP: _timestamps,
    HEADERS: _headers,
}
