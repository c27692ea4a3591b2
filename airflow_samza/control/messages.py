"""Control messages, the number of tasks that each of them tells, and their wire form.

That is one type byte, then the user's bytes untouched, or JSON. Tasks make them, systems keep them beside user
messages, and the page and the command line show them.
Source: control-messages, "Intermediate Stream Message Format"; rules C1 and C3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

from airflow_samza.errors import ControlError

VERSION = 1


class MessageType(IntEnum):
    """The type byte."""

    USER = 0
    WATERMARK = 1
    END_OF_STREAM = 2


@dataclass(frozen=True)
class ControlMessage:
    """A message from a producer task to every partition of a stream.

    ``task_name`` None: it comes from a source and completes its partition at once (rule C2). ``run`` marks the section
    of a shared stream (rule C10).
    """

    task_name: str | None
    task_count: int
    run: str | None = None


@dataclass(frozen=True)
class EndOfStreamMessage(ControlMessage):
    """The end of a producer task's output to ``stream_id``.

    ``final`` False ends an input range, not the stream (rule C9).
    """

    stream_id: str = ""
    final: bool = True


@dataclass(frozen=True)
class WatermarkMessage(ControlMessage):
    """A producer task's watermark: it has processed everything up to ``timestamp`` (ms since the epoch, UTC)."""

    timestamp: int = -1


@dataclass(frozen=True)
class ProducerEnds:
    """Ends of a stream that lie one behind the other: of different producer tasks, and else of the same content."""

    messages: tuple[EndOfStreamMessage, ...]

    @classmethod
    def of(cls, messages: Sequence[ControlMessage]) -> ProducerEnds | None:
        """Return the messages as such ends; None where they are none."""
        ends = tuple(message for message in messages if isinstance(message, EndOfStreamMessage))
        if not ends or len(ends) < len(messages) or len({message.task_name for message in ends} - {None}) < len(ends):
            return None
        same = {(end.task_count, end.run, end.stream_id, end.final) for end in ends}
        return cls(ends) if len(same) == 1 else None

    @cached_property
    def tasks(self) -> frozenset[str]:
        """The names of the producer tasks."""
        return frozenset(message.task_name for message in self.messages if message.task_name is not None)


def to_json(message: ControlMessage) -> dict[str, Any]:
    """Return the JSON object of a control message (keys as on the wire)."""
    body: dict[str, Any] = {"version": VERSION, "taskName": message.task_name, "taskCount": message.task_count}
    if message.run is not None:
        body["run"] = message.run
    if isinstance(message, EndOfStreamMessage):
        body["streamId"] = message.stream_id
        if not message.final:
            body["final"] = False
    elif isinstance(message, WatermarkMessage):
        body["timestamp"] = message.timestamp
    return body


def message_type(message: ControlMessage) -> MessageType:
    """The type byte of a control message."""
    return MessageType.END_OF_STREAM if isinstance(message, EndOfStreamMessage) else MessageType.WATERMARK


def from_json(kind: int, body: object, *, stream: str, partition: int, offset: object) -> ControlMessage:
    """Return the control message of a JSON object; an error names stream, partition and offset."""

    def rejected(what: str) -> ControlError:
        return ControlError(
            f"The control message at {stream}/{partition} offset {offset} {what}.",
            hint="The stream was written by an incompatible producer: clear the stage that writes it, or upgrade the "
            "older side.",
            stream=stream,
            partition=partition,
            offset=offset,
        )

    if kind not in (MessageType.WATERMARK, MessageType.END_OF_STREAM):
        raise rejected(f"has the unknown type byte {kind}")
    if not isinstance(body, dict):
        raise rejected("is not a JSON object")

    def value(name: str, kinds: tuple[type, ...], default: Any = ...) -> Any:
        if name not in body:
            if default is ...:
                raise rejected(f"has no {name!r}")
            return default
        field = body[name]
        if not isinstance(field, kinds) or (isinstance(field, bool) and bool not in kinds):
            raise rejected(f"has {field!r} as {name!r}")
        return field

    if value("version", (int,)) != VERSION:
        raise rejected(f"has the unknown version {body['version']!r}")
    task_name = value("taskName", (str, type(None)))
    task_count = value("taskCount", (int,))
    run = value("run", (str, type(None)), None)
    if kind == MessageType.WATERMARK:
        return WatermarkMessage(task_name, task_count, run, value("timestamp", (int,)))
    return EndOfStreamMessage(task_name, task_count, run, value("streamId", (str,)), value("final", (bool,), True))


def encode(message: ControlMessage | bytes) -> bytes:
    """Return the wire form of a control message, or of a user message's bytes.

    >>> encode(b"user")[0], encode(EndOfStreamMessage("task-1", 2, stream_id="views"))[0]
    (0, 2)
    """
    if isinstance(message, bytes):
        return bytes([MessageType.USER]) + message
    return bytes([message_type(message)]) + json.dumps(to_json(message), separators=(",", ":")).encode()


def decode(data: bytes, *, stream: str, partition: int, offset: object) -> ControlMessage | bytes:
    """Return what :func:`encode` was given: the user's bytes, or a control message."""
    if not data:
        raise ControlError(
            f"The message at {stream}/{partition} offset {offset} is empty: it has no type byte.",
            hint="Only intermediate and shared streams carry the type byte; declare this stream as an input.",
            stream=stream,
            partition=partition,
            offset=offset,
        )
    if data[0] == MessageType.USER:
        return data[1:]
    try:
        body = json.loads(data[1:]) if data[0] in (MessageType.WATERMARK, MessageType.END_OF_STREAM) else None
    except (ValueError, RecursionError):
        body = None
    return from_json(data[0], body, stream=stream, partition=partition, offset=offset)


class TaskCounts:
    """The task counts of streams. ``producer_counts`` serve messages that carry none."""

    def __init__(self, producer_counts: Mapping[str, int] | None = None) -> None:
        self._producer_counts = dict(producer_counts or {})
        self._counts: dict[str, int] = {}

    def take(self, stream: str, partition: int, message: ControlMessage, offset: object) -> int:
        """Record and return the task count that a message gives.

        A :class:`~airflow_samza.errors.ControlError` where an earlier one gave another. ``partition`` and ``offset``
        say where the message lies.
        """
        total = message.task_count if message.task_count > 0 else self._producer_counts.get(stream, 0)
        if total > 0 and self._counts.setdefault(stream, total) == total:
            return total
        kind = "end-of-stream" if isinstance(message, EndOfStreamMessage) else "watermark"
        where = f"{stream}/{partition}" + ("" if offset is None else f" offset {offset}")
        said = f"has the task count {total or message.task_count}" + (
            f"; an earlier message said {self._counts[stream]}" if total else ""
        )
        raise ControlError(
            f"The {kind} message of {message.task_name!r} at {where} {said}.",
            hint=f"{'Two attempts with different plans have written the stream: clear' if total else 'Clear'} the "
            "stage that writes it.",
            stream=stream,
            partition=partition,
            offset=offset,
        )

    def of(self, stream: str) -> int | None:
        """Return the task count that messages have given; None when there was none yet."""
        return self._counts.get(stream)

    def restore(self, stream: str, total: int) -> None:
        """Restore a checkpoint's count, unless a message has given one."""
        self._counts.setdefault(stream, total)
