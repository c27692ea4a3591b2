"""Columns of a topic's messages: those inside of the values, by the serde, and Kafka's own facts of each message.

A stream without a schema has Kafka's columns (:data:`RAW`). With one, an option names the column for each fact that is
wanted (``key_column``, ``timestamp_column``, …), and the others are those of the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
from confluent_kafka import Message

from airflow_samza.application.serdes import OF_ONE_COLUMN
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import Schema, type_from_arrow
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde
from airflow_samza.systems.system import StreamSpec

KEY, VALUE, PARTITION, OFFSET, TIMESTAMP, HEADERS = "key", "value", "partition", "offset", "timestamp", "headers"

RAW = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a stream that declares none, as DDL."""

_OPTIONS = {f"{fact}_column": fact for fact in (KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS)}
_KEY_SERDES = {kind: serde for serde, kind in OF_ONE_COLUMN.items()}
"""The serdes of keys, by their columns' types: Kafka's own serializers."""

_TYPES = {
    KEY: tuple(_KEY_SERDES),
    VALUE: ("binary",),
    PARTITION: ("int", "bigint"),
    OFFSET: ("bigint",),
    TIMESTAMP: ("timestamp", "bigint"),
    HEADERS: ("array<struct<key:string,value:binary>>",),
}
_DEFAULT_SERDE = "json"

ON_EXPIRED = "on_expired"
REJECT, SKIP = "reject", "skip"


@dataclass(frozen=True)
class MessageColumns:
    """The columns of a stream: ``facts`` by column name, ``payload`` those inside of the values."""

    stream: str
    schema: pa.Schema
    facts: Mapping[str, str]
    payload: pa.Schema
    serde: str

    @classmethod
    def of(cls, stream: StreamSpec) -> MessageColumns:
        """Return the columns of a stream; options and types that cannot be are rejected."""
        options = _checked_options(stream)
        if stream.schema is None:
            whole = Schema.of(RAW).to_arrow()
            if options:
                name = sorted(options)[0]
                raise ConfigError(
                    f"Stream {stream.name!r} has the option {_option_of(options[name])!r} and declares no columns: it "
                    f"has Kafka's own, which are {', '.join(whole.names)}.",
                    hint="Leave the option out, or declare schema= with the columns of the messages.",
                    key=_option_of(options[name]),
                    value=name,
                )
            return cls(stream.name, whole, {name: name for name in whole.names}, pa.schema([]), _DEFAULT_SERDE)
        declared = Schema.of(stream.schema)
        for name, fact in options.items():
            if name not in declared:
                raise ConfigError(
                    f"Option {_option_of(fact)!r} of stream {stream.name!r} names the column {name!r}, which its "
                    "schema does not have.",
                    hint=f"Declare it in schema=, for example {name!r} as {_TYPES[fact][0]}.",
                    key=_option_of(fact),
                    value=name,
                )
            kind = declared[name].type.ddl().replace(" ", "")
            if kind not in _TYPES[fact]:
                raise SchemaError(
                    f"Column {name!r} of stream {stream.name!r} has the {fact} of Kafka's messages and is declared "
                    f"{declared[name].type.ddl()}.",
                    hint=f"Declare it as {' or '.join(_TYPES[fact])}.",
                    stream=stream.name,
                    column=name,
                )
        whole = declared.to_arrow()
        payload = pa.schema([field for field in whole if field.name not in options])
        return cls(stream.name, whole, options, payload, stream.serde or _DEFAULT_SERDE)

    def check_sliced(self, timestamp: str | None, system: str) -> None:
        """Reject a data interval over any other column than that of the messages' own timestamps."""
        if timestamp is not None and self.facts.get(timestamp) == TIMESTAMP:
            return
        inside = f"its column {timestamp!r}, which is inside of the messages"
        raise ConfigError(
            f"The stream {self.stream!r} is sliced by {inside}, and the brokers of the system {system!r} find messages "
            "by Kafka's timestamps alone.",
            hint='Declare a column for these and slice by it: options={"timestamp_column": "sent_at"}, '
            'timestamp="sent_at".',
            key="timestamp",
            value=str(timestamp),
            stream=self.stream,
        )

    def value_serde(self, system: str, options: Mapping[str, Any], wanted: Sequence[str] | None = None) -> Serde:
        """Return the serde of the values, by the system's options; one of JSON reads the wanted columns only."""
        schema = self.payload
        if self.serde == _DEFAULT_SERDE and wanted is not None:
            schema = pa.schema([self.schema.field(name) for name in wanted if name not in self.facts])
        return bind_serde(self.serde, schema, self.stream, options=options, system=system)

    def reader(self, columns: Sequence[str] | None, system: str, options: Mapping[str, Any]) -> ColumnReader:
        """Return what turns messages into these columns (None: all); name and options of the system are its serde's."""
        names = self.schema.names if columns is None else list(columns)
        for name in names:
            if name not in self.schema.names:
                raise SchemaError(
                    f"Stream {self.stream!r} has no column {name!r}.",
                    hint=f"Its columns are {', '.join(self.schema.names)}.",
                    stream=self.stream,
                    column=name,
                )
        schema = pa.schema([self.schema.field(name) for name in names])
        inside = any(name not in self.facts for name in names)
        serde = self.value_serde(system, options, names) if inside else None
        keys = [self.schema.field(name) for name in names if self.facts.get(name) == KEY]
        key_serde = bind_serde(_KEY_SERDES[_ddl(keys[0])], pa.schema(keys), self.stream) if keys else None
        return ColumnReader(schema, self.facts, serde, key_serde)


@dataclass(frozen=True)
class ColumnReader:
    """Turns messages of a partition into columns."""

    schema: pa.Schema
    facts: Mapping[str, str]
    serde: Serde | None
    key_serde: Serde | None

    def read(self, messages: Sequence[Message], offsets: np.ndarray[Any, Any]) -> Decoded:
        """Return the messages whose values and keys can be read, and those that cannot."""
        found: dict[str, pa.Array] = {}
        bad: dict[int, BadMessage] = {}
        for serde, read in ((self.key_serde, Message.key), (self.serde, Message.value)):
            if serde is not None:
                batch, wrong = _rows(serde, pa.array([read(message) for message in messages], pa.binary()))
                found.update(zip(batch.schema.names, batch.columns, strict=True))
                bad.update((one.place, one) for one in wrong)
        if bad:
            good = np.ones(len(messages), bool)
            good[list(bad)] = False
            found = {name: column.filter(pa.array(good)) for name, column in found.items()}
            messages, offsets = [messages[place] for place in np.flatnonzero(good).tolist()], offsets[good]
        columns = [
            found[field.name] if field.name in found else _FACTS[self.facts[field.name]](messages, offsets, field.type)
            for field in self.schema
        ]
        return Decoded(pa.RecordBatch.from_arrays(columns, schema=self.schema), [bad[place] for place in sorted(bad)])


def _rows(serde: Serde, values: pa.Array) -> tuple[pa.RecordBatch, Sequence[BadMessage]]:
    """Return a row for each value: of nulls where there is none, or one that cannot be read; and these."""
    # A message without a value deletes its key from a compacted topic; one without a key has a key that is null.
    there = values.drop_null() if values.null_count else values
    found = serde.decode_each(there)
    if found.batch.num_rows == len(values):
        return found.batch, ()
    places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    bad = [one.at(int(places[one.place])) for one in found.bad]
    places = np.delete(places, [one.place for one in found.bad])
    rows = np.full(len(values), -1, np.int64)
    rows[places] = np.arange(len(places))
    return found.batch.take(pa.array(rows, mask=rows < 0)), bad


def expects_expiry(stream: StreamSpec) -> bool:
    """Return whether a stream goes on behind messages that were deleted before they were read."""
    return dict(stream.options).get(ON_EXPIRED, REJECT).strip().lower() == SKIP


def _checked_options(stream: StreamSpec) -> dict[str, str]:
    """Return the facts that options ask for, by column name."""
    found: dict[str, str] = {}
    for name, text in stream.options:
        if name in _OPTIONS:
            if text in found:
                raise ConfigError(
                    f"Options {_option_of(found[text])!r} and {name!r} of stream {stream.name!r} name one column, "
                    f"{text!r}.",
                    hint="Give each its own column.",
                    key=name,
                    value=text,
                )
            found[text] = _OPTIONS[name]
        elif name == ON_EXPIRED:
            if text.strip().lower() not in (REJECT, SKIP):
                raise ConfigError(
                    f"Option {name!r} of stream {stream.name!r} is {text!r}, which is not known.",
                    hint=f'Write "{REJECT}" (an error) or "{SKIP}" (go on with what is left).',
                    key=name,
                    value=text,
                )
        else:
            raise ConfigError(
                f"Stream {stream.name!r} has the option {name!r}, which its system of kind kafka does not know.",
                hint=f"Its options are {', '.join([*_OPTIONS, ON_EXPIRED])}; settings of the client belong to the "
                "system.",
                key=name,
                value=text,
            )
    return found


def _ddl(field: pa.Field) -> str:
    return type_from_arrow(field.type).ddl()


def _option_of(fact: str) -> str:
    return f"{fact}_column"


def _raw_values(messages: Sequence[Message], offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    return pa.array([message.value() for message in messages], kind)


def _partitions(messages: Sequence[Message], offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(messages[0].partition(), kind), len(messages)) if messages else pa.array([], kind)


def _offsets(messages: Sequence[Message], offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    return pa.array(offsets, kind)


def millis_of(messages: Sequence[Message]) -> np.ndarray[Any, Any]:
    """Return the timestamps of messages (ms since 1970); negative where a message has none."""
    return np.fromiter((message.timestamp()[1] for message in messages), np.int64, len(messages))


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers of a message that was read, in their order."""
    return cast("list[tuple[str, bytes | None]]", message.headers() or [])


def _timestamps(messages: Sequence[Message], offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    millis = millis_of(messages)
    found = pa.array(millis, pa.int64(), mask=millis < 0)
    return found if pa.types.is_integer(kind) else found.cast(pa.timestamp("ms")).cast(pa.timestamp("us")).cast(kind)


def _headers(messages: Sequence[Message], offsets: np.ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    found = [headers_of(message) for message in messages]
    ends = np.zeros(len(found) + 1, np.int32)
    np.cumsum([len(headers) for headers in found], out=ends[1:])
    pairs = list(chain.from_iterable(found))
    names = pa.array([name for name, _ in pairs], pa.string())
    values = pa.array([value for _, value in pairs], pa.binary())
    item = kind.value_type
    structs = pa.StructArray.from_arrays([names, values], fields=[item.field(0), item.field(1)])
    return pa.ListArray.from_arrays(pa.array(ends), structs, type=kind)


_FACTS: Mapping[str, Callable[[Sequence[Message], np.ndarray[Any, Any], pa.DataType], pa.Array]] = {
    VALUE: _raw_values,
    PARTITION: _partitions,
    OFFSET: _offsets,
    TIMESTAMP: _timestamps,
    HEADERS: _headers,
}
