"""Output of topics of Kafka: tries at tasks stage encoded messages under the root, and publishing sends them.

Staged messages are segments of a topic of the run's under the root, which is never committed: the run's own commit
decides, and what is published is deleted. Options of an output say how it is delivered, what a rerun may do, and the
columns of key, timestamp and headers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.declarations.serdes import JSON
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import Delivery
from airflow_samza.systems.kafka.columns import bind_key_serde, unknown_option
from airflow_samza.systems.kafka.failures import too_large
from airflow_samza.systems.log.commits import stage
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.serdes.binding import bind_serde
from airflow_samza.systems.serdes.serde import Serde
from airflow_samza.systems.serdes.wire import user_bytes
from airflow_samza.systems.system import StreamSpec

DELIVERY, EXACTLY_ONCE, AT_LEAST_ONCE = "delivery", "exactly_once", "at_least_once"
ON_RERUN, REJECT, APPEND = "on_rerun", "reject", "append"
KEY_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMN = "key_column", "timestamp_column", "headers_column"

_CHOICES = {DELIVERY: (EXACTLY_ONCE, AT_LEAST_ONCE), ON_RERUN: (REJECT, APPEND)}
_NAMES = (*_CHOICES, KEY_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMN)

IN_TRANSACTIONS = Delivery(True, "for readers with isolation.level=read_committed")
ONE_BY_ONE = Delivery(False, "after a death in between, messages come again")


@dataclass(frozen=True)
class OutputOptions:
    """Options of one output."""

    delivery: Delivery
    appends: bool
    columns: Mapping[str, str]
    """By option (``key_column``, …) the column that it names."""

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return a stream's options; one that is not known is rejected."""
        options = dict(stream.options)
        for name, text in options.items():
            if name not in _NAMES:
                raise unknown_option("output", stream.name, name, text, _NAMES)
            if name in _CHOICES and text not in _CHOICES[name]:
                raise ConfigError(
                    f"The output {stream.name!r} has {name}={text!r}, which is not known.",
                    hint=f'Write "{_CHOICES[name][0]}" (the default) or "{_CHOICES[name][1]}".',
                    key=name,
                    value=text,
                )
        return cls(
            IN_TRANSACTIONS if options.get(DELIVERY, EXACTLY_ONCE) == EXACTLY_ONCE else ONE_BY_ONE,
            options.get(ON_RERUN, REJECT) == APPEND,
            {name: text for name, text in options.items() if name not in _CHOICES},
        )


STAGED = "key binary, value binary, partition int, timestamp bigint, headers array<struct<key: string, value: binary>>"
"""The columns of staged messages (DDL). ``partition`` -1: by the key's hash; ``timestamp`` in ms, null: now."""

BY_KEY = -1
_SCHEMA = Schema.of(STAGED).to_arrow()
_HEADERS = _SCHEMA.field("headers").type


class MessageEncoder:
    """Turns batches of an output's columns into messages; what cannot be is rejected when it is made."""

    def __init__(self, stream: StreamSpec, schema: pa.Schema, system: str, settings: Mapping[str, Any]) -> None:
        options = OutputOptions.of(stream)
        self._stream = stream.name
        for option, name in options.columns.items():
            if name not in schema.names:
                raise ConfigError(
                    f"The option {option} of the output {stream.name!r} names the column {name!r}, which is not sent.",
                    hint=f"Its columns are {', '.join(schema.names)}.",
                    key=option,
                    value=name,
                )
        self._key = (options.columns[KEY_COLUMN],) if KEY_COLUMN in options.columns else tuple(stream.key)
        self._time = options.columns.get(TIMESTAMP_COLUMN)
        self._headers = options.columns.get(HEADERS_COLUMN)
        # A column that is a message's key, time or headers by an option is not in its value as well.
        payload = pa.schema([field for field in schema if field.name not in options.columns.values()])
        self._payload = payload.names
        self.serde: Serde = bind_serde(stream.serde or JSON, payload, stream.name, options=settings, system=system)
        self._key_serde = bind_key_serde(schema, self._key, stream.name) if self._key else None
        for column, fact, is_fit, types in (
            (self._time, "timestamp", _is_time, "a timestamp, or a bigint of milliseconds since 1970"),
            (self._headers, "headers", _HEADERS.equals, "array<struct<key: string, value: binary>>"),
        ):
            if column is not None and not is_fit(schema.field(column).type):
                raise SchemaError(
                    f"Column {column!r} of the output {stream.name!r} has the {fact} of its messages and is of type "
                    f"{schema.field(column).type}.",
                    hint=f"Make it {types}.",
                    stream=stream.name,
                    column=column,
                )

    def encode(self, batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
        """Return the messages of a batch for one partition, or for those of their keys (:data:`BY_KEY`)."""
        rows = batch.num_rows
        value = user_bytes(batch.select(self._payload), self.serde, stream=self._stream, in_band=False)
        key = self._keys(batch)
        places = pa.array(np.full(rows, partition, np.int32))
        if partition == BY_KEY and key.null_count:
            places = pc.if_else(key.is_null(), pa.scalar(0, pa.int32()), places)
        headers = pa.nulls(rows, _HEADERS) if self._headers is None else batch.column(self._headers).cast(_HEADERS)
        return pa.RecordBatch.from_arrays([key, value, places, self._times(batch), headers], schema=_SCHEMA)

    def _keys(self, batch: pa.RecordBatch) -> pa.Array:
        if self._key_serde is None:
            return pa.nulls(batch.num_rows, pa.binary())
        keys = batch.select(list(self._key))
        if len(self._key) > 1 or not keys.column(0).null_count:
            return self._key_serde.encode(keys)
        valid = keys.column(0).is_valid()
        encoded = self._key_serde.encode(keys.filter(valid))
        return pc.replace_with_mask(pa.nulls(batch.num_rows, pa.binary()), valid, encoded)

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        if self._time is None:
            return pa.nulls(batch.num_rows, pa.int64())
        column = batch.column(self._time)
        if pa.types.is_timestamp(column.type):
            return pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        return column.cast(pa.int64())


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_int64(kind))


def largest_of(messages: pa.RecordBatch) -> tuple[int, int]:
    """Return the row and the size in bytes of the largest message, by key and value."""
    sizes = pc.add(_lengths(messages.column(0)), _lengths(messages.column(1)))
    row = int(np.argmax(sizes.to_numpy(zero_copy_only=False)))
    return row, int(sizes[row].as_py())


def _lengths(column: Any) -> Any:
    return pc.fill_null(pc.binary_length(column), 0)


_SMALL = 16 * 2**10
"""A message up to this size fits every topic: the brokers are not asked."""

OVERHEAD = 512
"""Bytes that a message and the batch that it is alone in have beside key and value, headers not counted."""


class KafkaProducer:
    """Producer that stages the messages of one try at a task.

    ``encoder`` makes what turns batches of a schema into messages; ``bound`` returns how large a message the topic
    takes, and is called for a large one only.
    """

    def __init__(
        self,
        topic: Topic,
        stream: StreamSpec,
        writer: str,
        encoder: Callable[[pa.Schema], MessageEncoder],
        bound: Callable[[], int],
    ) -> None:
        self._staging = stage(topic, writer, durable=True)
        self._stream = stream
        self._bound = bound
        self._schema = Schema.of(stream.schema).to_arrow() if stream.schema else None
        self._encoder_of = encoder
        self._encoder = encoder(self._schema) if self._schema is not None else None
        self._rows = 0

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append messages for a partition."""
        self._write(batch, partition)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append messages, each for the partition of its key's bytes: as Kafka's own producer, by murmur2."""
        self._write(batch, BY_KEY)

    def finish(self) -> dict[str, Any]:
        """Close the segment, and describe it."""
        described = self._staging.finish()
        schema = Schema.of(self._schema).ddl() if self._schema is not None and self._schema.names else None
        return {**described, "total_rows": self._rows, "schema": schema}

    def abort(self) -> None:
        """Delete what was staged."""
        self._staging.abort()

    def _write(self, batch: pa.RecordBatch, partition: int) -> None:
        if not batch.num_rows:
            return
        if self._encoder is None:
            self._schema = batch.schema.remove_metadata()
            self._encoder = self._encoder_of(self._schema)
        messages = self._encoder.encode(batch, partition)
        row, size = largest_of(messages)
        if size > _SMALL and size + OVERHEAD > (bound := self._bound()):
            raise too_large(self._stream.name, messages.column(0)[row].as_py(), size, bound)
        self._staging.write(0, messages)
        self._rows += batch.num_rows
