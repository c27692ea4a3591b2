"""Columns of a topic's messages: those inside of the values, by the serde, and Kafka's own facts of each message.

A stream without a schema has Kafka's columns (:data:`RAW`). With one, an option names the column for each fact that is
wanted (``key_column``, ``timestamp_column``, …), and the others are those of the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_samza.application.declarations.serdes import JSON, OF_ONE_COLUMN
from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import DataType, Schema
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import Serde
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.topic_rejections import unknown_value

KEY, VALUE, PARTITION, OFFSET, TIMESTAMP, HEADERS = "key", "value", "partition", "offset", "timestamp", "headers"

RAW = (
    "key binary, value binary, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of a stream that declares none, as DDL."""

_OPTIONS = {f"{fact}_column": fact for fact in (KEY, PARTITION, OFFSET, TIMESTAMP, HEADERS)}

_TYPES = {
    KEY: tuple(OF_ONE_COLUMN.values()),
    VALUE: ("binary",),
    PARTITION: ("int", "bigint"),
    OFFSET: ("bigint",),
    TIMESTAMP: ("timestamp", "bigint"),
    HEADERS: ("array<struct<key:string,value:binary>>",),
}

ON_EXPIRED = "on_expired"
REJECT, SKIP = "reject", "skip"

GROUP = "group"
"""The option that names a consumer group to which runs commit what they have read."""


@dataclass(frozen=True)
class MessageColumns:
    """The columns of a stream: ``facts`` by column name, ``payload`` those inside of the values."""

    stream: str
    schema: pa.Schema
    facts: Mapping[str, str]
    payload: pa.Schema
    serde: str
    deleting: tuple[str, ...] | None = None
    """The columns that are read out of the keys of messages without a value; None: these are not looked for."""

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
            facts = {name: name for name in whole.names}
            return cls(stream.name, whole, facts, pa.schema([]), JSON, () if stream.deletes else None)
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
        inside = stream.key if set(stream.key) <= set(payload.names) else ()
        deleting = inside if stream.deletes else None
        return cls(stream.name, whole, options, payload, stream.serde or JSON, deleting)

    def check_sliced(self, timestamp: str | None, system: str) -> None:
        """Reject a data interval over any other column than that of the messages' own timestamps."""
        if timestamp is not None and self.facts.get(timestamp) == TIMESTAMP:
            return
        inside = f"its column {timestamp!r}, which is inside of the messages"
        raise ConfigError(
            f"The stream {self.stream!r} is sliced by {inside}, and the brokers of the system {system!r} find messages "
            "by Kafka's timestamps alone.",
            hint="Declare a column for these and slice by it: "
            'options={"timestamp_column": "sent_at"}, timestamp="sent_at".',
            key="timestamp",
            value=str(timestamp),
            stream=self.stream,
        )

    def value_serde(self, system: str, options: Mapping[str, Any], columns: Sequence[str] | None = None) -> Serde:
        """Return the serde of the values, by the system's options; one of JSON reads the wanted columns only."""
        schema = self.payload
        if self.serde == JSON and columns is not None:
            schema = pa.schema([self.schema.field(name) for name in columns if name not in self.facts])
        return bind_serde(self.serde, schema, self.stream, options=options, system=system)


def browsed(stream: StreamSpec) -> StreamSpec:
    """Return a stream as an input with all its messages; an output without declared columns has Kafka's own."""
    options = tuple(pair for pair in stream.options if pair[0] in _OPTIONS) if stream.schema is not None else ()
    return replace(stream, options=options, interval=None, written=False, through=None, tolerant=True)


def expects_expiry(stream: StreamSpec) -> bool:
    """Return whether a stream goes on behind messages that were deleted before they were read."""
    return dict(stream.options).get(ON_EXPIRED, REJECT).strip().lower() == SKIP


def group_of(stream: StreamSpec) -> str | None:
    """Return the consumer group to which runs commit what they have read of a stream; None: none."""
    return dict(stream.options).get(GROUP, "").strip() or None


def _checked_options(stream: StreamSpec) -> dict[str, str]:
    """Return the facts that options ask for, by column name."""
    facts: dict[str, str] = {}
    for name, text in stream.options:
        if name in _OPTIONS:
            if text in facts:
                raise ConfigError(
                    f"Options {_option_of(facts[text])!r} and {name!r} of stream {stream.name!r} name one column, "
                    f"{text!r}.",
                    hint="Give each its own column.",
                    key=name,
                    value=text,
                )
            facts[text] = _OPTIONS[name]
        elif name == ON_EXPIRED:
            if text.strip().lower() not in (REJECT, SKIP):
                hint = f'Write "{REJECT}" (an error) or "{SKIP}" (go on with what is left).'
                raise unknown_value(stream.name, name, text, hint)
        elif name == GROUP:
            if not text.strip():
                raise ConfigError(
                    f"Option {name!r} of stream {stream.name!r} names no consumer group.",
                    hint="Name one, or leave it out.",
                    key=name,
                    value=text,
                )
        else:
            raise unknown_option("stream", stream.name, name, text, (*_OPTIONS, ON_EXPIRED, GROUP))
    return facts


def _option_of(fact: str) -> str:
    return f"{fact}_column"


def bind_key_serde(schema: pa.Schema, names: Sequence[str], stream: str) -> Serde:
    """Return the serde of keys that are made of some columns of a stream: Kafka's own for one column, else JSON."""
    kinds = {DataType(kind).to_arrow(): serde for serde, kind in OF_ONE_COLUMN.items()}
    serde = kinds.get(schema.field(names[0]).type, JSON) if len(names) == 1 else JSON
    return bind_serde(serde, pa.schema([schema.field(name) for name in names]), stream)


def unknown_option(what: str, stream: str, option: str, value: str, names: Sequence[str]) -> ConfigError:
    """Return the error for an option that no stream of Kafka, or no output there, has."""
    return ConfigError(
        f"The {what} {stream!r} has the option {option!r}, which its system of kind kafka does not know.",
        hint=f"{did_you_mean(option, names)}Its options are {', '.join(names)}; "
        "settings of the client belong to the system.",
        key=option,
        value=value,
    )
