"""Wire form of streams of bytes: user messages by their serde, and control messages between them (rule C1).

Kafka's readers and outputs, Spark's staging and the test driver use it.
Source: control-messages, "Intermediate Stream Message Format"; rule C1. Only intermediate and shared streams carry
the type byte (``in_band``); inputs and outputs hold the user's bytes as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.control.messages import ControlMessage, MessageType, decode
from airflow_samza.systems.serdes.serde import BadMessage, Serde, cannot_read, cannot_write
from airflow_samza.systems.system import ControlEnvelope, Envelope, MessageRun, SystemStreamPartition, UnreadableRun

_USER = bytes([MessageType.USER])


def user_bytes(batch: pa.RecordBatch, serde: Serde, *, stream: str, in_band: bool) -> pa.Array:
    """Return the bytes of user messages (binary), with the type byte where the stream carries it."""
    try:
        values = serde.encode(batch)
    except BadMessage as bad:
        raise cannot_write(bad, stream=stream) from bad
    return (
        pc.binary_join_element_wise(pa.scalar(_USER, pa.binary()), values, pa.scalar(b"", pa.binary()))
        if in_band
        else values
    )


def envelopes(
    ssp: SystemStreamPartition, offset: int, values: pa.Array, serde: Serde, *, in_band: bool, tolerant: bool = False
) -> Iterator[Envelope]:
    """Yield what consecutive values of a partition hold, from ``offset`` on: runs of user messages, control messages.

    A user message that cannot be read is an error, or an :class:`~airflow_samza.systems.system.UnreadableRun` where
    that is asked for; a control message that cannot be read is always an error.
    """
    if not in_band:
        yield from _user_messages(ssp, offset, values, serde, tolerant)
        return
    messages = values.to_pylist()
    first = 0
    for place in [
        *(place for place, value in enumerate(messages) if value is None or value[:1] != _USER),
        len(messages),
    ]:
        if place > first:
            users = pa.array([value[1:] for value in messages[first:place]], pa.binary())
            yield from _user_messages(ssp, offset + first, users, serde, tolerant)
        if place < len(messages):
            message = decode(messages[place] or b"", stream=ssp.stream, partition=ssp.partition, offset=offset + place)
            assert isinstance(message, ControlMessage)
            yield ControlEnvelope(ssp, offset + place, message)
        first = place + 1


def _user_messages(
    ssp: SystemStreamPartition, offset: int, values: pa.Array, serde: Serde, tolerant: bool
) -> Iterator[Envelope]:
    if not len(values):
        return
    if not tolerant:
        try:
            yield MessageRun(ssp, offset, serde.decode(values))
        except BadMessage as bad:
            raise cannot_read(bad, stream=ssp.stream, partition=ssp.partition, offset=offset + bad.place) from bad
        return
    for place, piece in serde.decode_each(values).pieces():
        if isinstance(piece, list):
            texts = [as_text(values[bad.place].as_py()) for bad in piece]
            yield UnreadableRun.of(ssp, offset + place, texts, [str(bad) for bad in piece])
        else:
            yield MessageRun(ssp, offset + place, piece)


def as_text(value: bytes | None) -> str:
    """Return a value that cannot be read as text, bytes that are none escaped; one that is missing is empty."""
    return "" if value is None else value.decode(errors="backslashreplace")


def headers_text(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Return a message's headers as JSON: a list of names and values, in their order; None where there are none.

    >>> headers_text([("trace", b"a1"), ("trace", None)])
    '[["trace", "a1"], ["trace", null]]'
    """
    if not headers:
        return None
    return json.dumps(
        [(name, None if value is None else as_text(value)) for name, value in headers], ensure_ascii=False
    )
