"""The messages that a low-level task sends, on their way to the outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.operator_specs import TaskSpec
from airflow_samza.application.rejections import SourceLocation, did_you_mean, listed
from airflow_samza.errors import InvalidApplication, SchemaError, UnknownName
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import CHUNK, MessageWriter, ShapeError
from airflow_samza.task.messages.output_writers import OutputWriter
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.messages.user_errors import wrong_shape


class Output:
    """Messages on their way to one output stream.

    They are written when :meth:`flush` is called, or enough have come (``as_they_come``).
    """

    def __init__(self, spec: TaskSpec, stream: StreamDescriptor, writer: OutputWriter) -> None:
        self.writes_when_full = True
        self._spec = spec
        self._stream = stream
        self._out = writer
        self._writer: MessageWriter | None = None
        self._copies: OwnCopies | None = None
        if stream.schema is not None:
            self._takes(stream.schema)
        self._messages: list[Any] = []

    def add(self, message: Any) -> None:
        """Takes a message, as it is now: the task may use the object again."""
        if self._writer is None:
            if not dataclasses.is_dataclass(message) or isinstance(message, type):
                raise SchemaError(
                    f"The task sends {type(message).__name__} messages to {self._stream.stream_id!r}, whose columns "
                    "are not declared.",
                    hint="Declare app.output_stream(…, schema=…), or send dataclass instances.",
                    stream=self._stream.stream_id,
                )
            self._takes(Schema.of(type(message)))
        assert self._copies is not None
        self._messages.append(self._copies.of(message))
        if self.writes_when_full and len(self._messages) >= CHUNK:
            self.flush()

    def _takes(self, schema: Schema) -> None:
        self._writer, self._copies = MessageWriter(schema), OwnCopies(schema)

    def taken(self) -> int:
        """Return how many messages wait to be written."""
        return len(self._messages)

    def take_back(self, count: int) -> None:
        """Forget all messages but the first so many."""
        del self._messages[count:]

    def flush(self) -> None:
        """Write what it has; coroutines of the task may add more meanwhile."""
        messages = self._messages[:]
        if not messages:
            return
        del self._messages[: len(messages)]
        assert self._writer is not None
        try:
            batch = self._writer.write(messages)
        except ShapeError as error:
            expected = f"for {self._stream.stream_id!r} {self._writer.expected}"
            raise wrong_shape(self._spec, self._spec.factory, messages[error.index], expected, why=error.why) from None
        self._out.write(batch)


class Collector:
    """Takes what the task sends (``MessageCollector``)."""

    def __init__(self, outputs: Mapping[str, Output], streams: Mapping[str, StreamDescriptor]) -> None:
        self._outputs = outputs
        self._streams = streams

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Sends a message to an output stream, by its id."""
        if stream not in self._outputs:
            raise UnknownName(
                f"The task sends to {stream!r}, which is no output stream of the application "
                f"({SourceLocation.of_caller()}).",
                hint=f"{did_you_mean(stream, self._outputs)}Its outputs are {listed(sorted(self._outputs))}.",
                name=stream,
            )
        if key is not None and not self._streams[stream].key:
            raise InvalidApplication(
                f"The task sends to {stream!r} with a key of its own, and the stream has no key columns "
                f"({SourceLocation.of_caller()}).",
                hint=f'Declare the key columns: app.output_stream("{stream}", key=…).',
                stream=stream,
            )
        self._outputs[stream].add(message)
