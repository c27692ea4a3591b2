"""From messages that a test pipes into a stream to Arrow batches: dataclass instances, dicts, Rows or Arrow data.

And what cannot be read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.errors import InvalidApplication, SchemaError
from airflow_samza.row import Row
from airflow_samza.schema import Schema
from airflow_samza.systems.system import unreadable_batch
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.messages import MessageWriter, ShapeError
from airflow_samza.task.messages.writer import written_each


def piped_batches(stream: StreamDescriptor, messages: Any, schemas: dict[str, Schema]) -> list[pa.RecordBatch]:
    """Return the messages as batches of the stream's columns.

    ``schemas`` are those of streams that declare none, as they were first piped.
    """
    if (
        stream.serde is not None
        and isinstance(messages, list | tuple)
        and any(isinstance(message, bytes) for message in messages)
    ):
        batches = []
        for are_bytes, part in groupby(messages, key=lambda message: isinstance(message, bytes)):
            alike = list(part)
            batches += [raw_batch(alike)] if are_bytes else piped_batches(stream, alike, schemas)
        return batches
    if stream.on_error is None or isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        batch = _batch(stream, messages, schemas)
        return [] if batch is None else [batch]
    if isinstance(messages, pa.RecordBatch | pa.Table):
        messages = messages.to_pylist()
    rows = list(messages)
    schema = stream.read_schema or schemas.get(stream.stream_id)
    if schema is None:
        values = [row for row in rows if not isinstance(row, str | bytes)]
        schema = schemas.setdefault(stream.stream_id, _inferred(values, stream.stream_id)) if values else None
    return [] if schema is None else _readable_or_not(rows, MessageWriter(schema))


_RAW = {b"airflow_samza": b"bytes"}


def raw_batch(values: Sequence[bytes]) -> pa.RecordBatch:
    """Return messages as a batch of their bytes, which :func:`is_raw` recognises."""
    return pa.RecordBatch.from_arrays(
        [pa.array(values, pa.binary())], schema=pa.schema([("value", pa.binary())], metadata=_RAW)
    )


def is_raw(batch: pa.RecordBatch) -> bool:
    """Return whether a batch was made by :func:`raw_batch`."""
    return bool(batch.schema.metadata == _RAW)


def _batch(stream: StreamDescriptor, messages: Any, schemas: dict[str, Schema]) -> pa.RecordBatch | None:
    if isinstance(messages, pa.RecordBatch):
        messages = pa.Table.from_batches([messages])
    if isinstance(messages, pa.Table):
        schema = stream.read_schema or schemas.setdefault(stream.stream_id, Schema.of(messages.schema))
        batches = messages.combine_chunks().to_batches()
        return (
            SchemaConformer(schema, f"what is piped into {stream.stream_id!r}").conform(batches[0]) if batches else None
        )
    if (
        isinstance(messages, str | bytes | Mapping)
        or not isinstance(messages, Iterable)
        or dataclasses.is_dataclass(messages)
    ):
        raise InvalidApplication(
            f"pipe got {messages!r:.100} for {stream.stream_id!r}, which is no list of messages.",
            hint="Give a list of dataclass instances, dicts or Rows, or a pyarrow.Table.",
            stream=stream.stream_id,
        )
    rows = list(messages)
    if not rows:
        return None
    if stream.events is not None and stream.read_schema is not None:  # of an event much may be left out
        nothing = dict.fromkeys(stream.read_schema.names)
        rows = [{**nothing, **row} if isinstance(row, Mapping) else row for row in rows]
    declared = stream.read_schema or schemas.get(stream.stream_id)
    schema = declared or schemas.setdefault(stream.stream_id, _inferred(rows, stream.stream_id))
    try:
        return MessageWriter(schema).write(rows)
    except ShapeError as error:
        raise SchemaError(
            f"Message {error.index} piped into {stream.stream_id!r} is {rows[error.index]!r:.200}: {error.why}.",
            hint=f"The columns are {schema.ddl()}.",
            stream=stream.stream_id,
        ) from None


def _inferred(rows: Sequence[Any], stream: str) -> Schema:
    first = rows[0]
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        return Schema.of(type(first))
    if not isinstance(first, Mapping | Row):
        raise SchemaError(
            f"The messages piped into {stream!r} are of type {type(first).__name__}.",
            hint="Give dataclass instances, dicts or Rows, or a pyarrow.Table.",
            stream=stream,
        )
    try:
        return Schema.of(pa.Table.from_pylist([dict(row) for row in rows]).schema)
    except (pa.ArrowException, TypeError, ValueError, SchemaError) as error:
        raise SchemaError(
            f"The columns of what is piped into {stream!r} cannot be told: {error}",
            hint="Declare schema= of the input.",
            stream=stream,
        ) from None


def _readable_or_not(rows: Sequence[Any], writer: MessageWriter) -> list[pa.RecordBatch]:
    """Return the messages in batches, and between them those that do not fit."""
    wrong = dict(written_each(writer, rows)[1])
    batches = []
    for bad, places in groupby(range(len(rows)), key=wrong.__contains__):
        part = list(places)
        if bad:
            texts = [
                row if isinstance(row, str) else json.dumps(row, default=str, ensure_ascii=False)
                for row in (rows[at] for at in part)
            ]
            batches.append(unreadable_batch(texts, [wrong[at].why for at in part]))
        else:
            batches.append(writer.write([rows[at] for at in part]))
    return batches
