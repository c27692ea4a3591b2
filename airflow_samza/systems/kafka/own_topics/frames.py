"""Messages of a run's own topic: record batches in the wire form of intermediate streams (rule C1).

A user message is the type byte and an Arrow stream of one record batch, schema included: each can be read by itself.
What is larger than a message may be lies in several, one behind the other; headers say whose they are and how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from airflow_samza.control.messages import MessageType, encode
from airflow_samza.systems.topic_rejections import places_of

WRITER = "attempt"
"""Header with the try at a task that sent a message: a commit names its messages, or nobody reads them."""

PART = "part"
"""Header of a message that is a part of a record batch: which, and of how many (``2/5``, counted from 1)."""

OVERHEAD = 1024
"""Bytes that a message and the batch that it is alone in have beside the value, headers included."""


_USER = bytes([MessageType.USER])


def frames(batch: pa.RecordBatch, largest: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the rows of a batch as values of messages, none above ``largest`` bytes: rows, and the parts with them.

    A batch that is too large is cut by rows; a single row that is too large is cut into parts.
    """
    value = encode(_stream(batch))
    rows = batch.num_rows
    if len(value) <= largest:
        yield rows, [value]
    elif rows == 1:
        yield 1, [value[at : at + largest] for at in range(0, len(value), largest)]
    else:
        step = max(1, rows // (len(value) // largest + 2))
        for first in range(0, rows, step):
            yield from frames(batch.slice(first, step), largest)


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    # One thread: Spark runs a task per core already.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]  # Arrow has no types


def unframed(value: bytes, columns: Sequence[str] | None, topic: str) -> pa.RecordBatch:
    """Return the record batch of a user message; an error of Arrow's, or a TopicError for a column that it lacks."""
    if value[:1] != _USER:
        raise pa.ArrowInvalid("it is no user message")
    data = pa.py_buffer(value[1:])
    options = pa.ipc.IpcReadOptions(use_threads=False)  # as of the writer
    if columns is not None:
        options.included_fields = places_of(pa.ipc.open_stream(data).schema, columns, topic)
    batch = pa.ipc.open_stream(data, options=options).read_next_batch()
    return batch if columns is None else batch.select(list(columns))
