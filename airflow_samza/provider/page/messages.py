"""Messages of a topic from an offset on; nothing is consumed or committed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from airflow_samza.control.messages import to_json
from airflow_samza.provider.disclosure import masked_columns, shown_row
from airflow_samza.provider.page.answer import Answer, NotFound
from airflow_samza.provider.page.topics import RunTopic
from airflow_samza.secrecy import HIDDEN
from airflow_samza.systems.system import (
    Envelope,
    MessageRun,
    OffsetRange,
    SystemConsumer,
    SystemStreamPartition,
    UnreadableRun,
)

CONTROL_SHOWN = 500
"""Control messages among the messages of one answer, of which there may be as many as there are producers."""


class Message(Answer):
    """A message of a topic, or a control message (end-of-stream, watermark)."""

    partition: int
    offset: int
    control: str | None
    """The kind of a control message; None of a message of the user's."""
    value: dict[str, Any]
    """The columns; a masked one is ``***``, a long text is cut, bytes are base64."""


class Messages(Answer):
    """Messages of one partition from an offset on."""

    stream_id: str
    partition: int
    oldest: int
    head: int
    next_offset: int
    """The offset to go on from."""
    messages: list[Message]
    masked: list[str]
    """The columns that are masked."""
    note: str | None


def read_messages(topic: RunTopic, partition: int, first: int | None, most: int, control: bool) -> Messages:
    """Return messages of a partition from an offset on, or the last ones."""
    metadata = topic.metadata()
    if partition >= metadata.partitions:
        raise NotFound(f"The topic has {metadata.partitions} partitions; there is no partition {partition}.")
    oldest, head = metadata.oldest[partition], metadata.head[partition]
    begin = max(head - most, oldest) if first is None else min(max(first, oldest), head)
    note = None
    if first is not None and first < oldest:
        note = f"What is before offset {oldest} is expired."
    read, after = _read(topic, partition, begin, head, most, control)
    masked = sorted({name for message in read for name, value in message.value.items() if value == HIDDEN})
    return Messages(
        stream_id=topic.bound.stream_id,
        partition=partition,
        oldest=oldest,
        head=head,
        next_offset=after,
        messages=read,
        masked=masked,
        note=note,
    )


def _read(
    topic: RunTopic, partition: int, begin: int, head: int, most: int, control: bool
) -> tuple[list[Message], int]:
    """Return messages and the offset behind the last of them."""
    read: list[Message] = []
    if begin >= head or topic.system is None:
        return read, begin
    users, controls, after, masked = 0, 0, begin, masked_columns()
    ssp = SystemStreamPartition(topic.bound.system, topic.spec.name, partition)
    with topic.asking(), closing(topic.system.consumer(topic.spec)) as consumer:
        for envelope in _envelopes(topic, consumer, ssp, OffsetRange(begin, head), most):
            if isinstance(envelope, MessageRun):
                rows = envelope.slice(0, min(envelope.messages, most - users))
                for place, row in enumerate(rows.batch.to_pylist()):
                    if isinstance(envelope, UnreadableRun):
                        # Its text may hold columns that are masked.
                        value = {"error": row.get("error"), "text": HIDDEN if masked else row.get("text")}
                    elif topic.spec.schema is None and topic.log is None:
                        value = _undeclared(row, masked)
                    else:
                        value = row
                    offset = envelope.offset + place
                    read.append(
                        Message(partition=partition, offset=offset, control=None, value=shown_row(value, masked))
                    )
                users += rows.messages
                after = envelope.offset + rows.messages
                if users >= most:
                    break
                continue
            after = envelope.offset + 1
            if control:
                kind = type(envelope.message).__name__.removesuffix("Message")
                value = {str(name): part for name, part in to_json(envelope.message).items()}
                read.append(Message(partition=partition, offset=after - 1, control=kind, value=value))
                controls += 1
                if controls >= CONTROL_SHOWN:
                    break
        else:
            after = head
    return read, after


def _envelopes(
    topic: RunTopic, consumer: SystemConsumer, ssp: SystemStreamPartition, offsets: OffsetRange, most: int
) -> Iterator[Envelope]:
    """Yield what a range holds; of brokers window by window, as they read thousands of messages ahead."""
    if topic.log is not None:
        yield from consumer.read(ssp, offsets)
        return
    position, width = offsets.start, most
    while position < offsets.end:
        end = min(position + width, offsets.end)
        yield from consumer.read(ssp, OffsetRange(position, end))
        position, width = end, 2 * width  # compaction and transactions leave offsets without a message


def _undeclared(row: dict[str, Any], masked: tuple[str, ...]) -> dict[str, Any]:
    """Return a message whose columns nobody has declared: key and value as JSON or text, where they are such."""
    shown = {name: _opened(row[name], masked) for name in ("key", "value")}
    return {**shown, "timestamp": row["timestamp"], "headers": HIDDEN if masked and row["headers"] else row["headers"]}


def _opened(value: bytes | None, masked: tuple[str, ...]) -> Any:
    """Return bytes as JSON or as text; what is no object of JSON is hidden where columns are masked.

    >>> _opened(b'{"n": 1}', ("email",)), _opened(b"a@b.fr", ("email",)), _opened(b"a@b.fr", ())
    ({'n': 1}, '***', 'a@b.fr')
    """
    if value is None:
        return None
    try:
        text = value.decode()
        content = json.loads(text)
    except UnicodeDecodeError:
        return HIDDEN if masked else value
    except ValueError:
        content = text
    if masked and not isinstance(content, dict):
        return HIDDEN
    return content if isinstance(content, dict) else text
