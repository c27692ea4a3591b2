"""Operators that call the user's Python once per message: filter, map, flat_map, sink."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Any, TypeVar, cast

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.operator_specs import FilterSpec, FlatMapSpec, MapSpec, SinkSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.watermarks import is_watermark_function
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import CHUNK, MessageReader, MessageWriter, ShapeError, chunks
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.messages.user_errors import callable_failed, reject_awaitables, wrong_shape
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.tolerant_calls import filter_each, flat_map_each, map_each, sink_each
from airflow_samza.task.operators.watermark_calls import WatermarkCalls

if TYPE_CHECKING:
    import pyarrow as pa


def called(spec: OperatorSpec, function: Callable[[Any], Any], messages: Sequence[Any]) -> list[Any]:
    """The callable's results on all messages; one that raises is named with its message."""
    left: Any = iter(messages)
    results: list[Any] = []
    try:
        results.extend(map(function, left))  # in C; the rest of the iterator shows how far it came
    except USER_ERRORS as error:
        raise callable_failed(spec, function, messages[len(messages) - left.__length_hint__() - 1], error) from error
    if len(results) < len(messages):  # StopIteration would end the map in silence
        place = len(results)
        raise callable_failed(spec, function, messages[place], RuntimeError("it raised StopIteration"))
    return results


CallableSpec = TypeVar("CallableSpec", bound=FilterSpec | MapSpec | FlatMapSpec)


class _PerMessage(Operator[CallableSpec]):
    """An operator whose callable may handle watermarks itself (``WatermarkFunction``)."""

    def __init__(self, spec: CallableSpec, inputs: Schema, output: Schema) -> None:
        super().__init__(spec, inputs, output)
        self._reader = MessageReader(inputs)
        self._writer = MessageWriter(output)
        self._copies = OwnCopies(output)
        self._function: Callable[[Any], Any] = spec.function
        self._watermarks: WatermarkCalls | None = None
        if is_watermark_function(spec.function):
            own = copy.deepcopy(spec.function)  # it keeps something, and tasks of one process must not share it
            self._function = cast("Callable[[Any], Any]", own)
            self._watermarks = WatermarkCalls(spec, own, self._writer)
            self.moves_watermark = True

    def on_watermark(self, timestamp: int) -> Iterable[pa.RecordBatch]:
        """Return the messages that the callable makes of the watermark."""
        return () if self._watermarks is None else self._watermarks.process(timestamp)

    def output_watermark(self, timestamp: int) -> int:
        """Return the callable's output watermark, or the input's."""
        return timestamp if self._watermarks is None else self._watermarks.output()


class Filter(_PerMessage[FilterSpec]):
    """Keeps the messages for which the callable is true."""

    def __init__(self, spec: FilterSpec, inputs: Schema) -> None:
        super().__init__(spec, inputs, inputs)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that are kept."""
        import pyarrow as pa

        if self.bad is not None:
            yield from filter_each(self.spec, self._function, self._reader, batch, self.bad)
            return
        for part in chunks(batch):
            messages = self._reader.messages(part)
            chosen = called(self.spec, self._function, messages.objects)
            try:
                mask = pa.array(chosen, pa.bool_())
            except (pa.ArrowException, TypeError, ValueError):  # true and false in other forms
                reject_awaitables(self.spec, self._function, chosen, messages.objects)
                chosen = list(map(bool, chosen))
                mask = pa.array(chosen, pa.bool_())
            if mask.null_count:  # None is false
                mask = mask.fill_null(False)
            kept = mask.true_count
            if not kept:
                continue
            if kept < part.num_rows:
                messages = messages.where(chosen, mask)
            self._reader.remember(messages)
            yield messages.batch


class Map(_PerMessage[MapSpec]):
    """One message out for each message in."""

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The callable's messages."""
        if self.bad is not None:
            yield from map_each(self.spec, self._function, self._reader, self._writer, batch, self.bad)
            return
        for part in chunks(batch):
            messages = self._reader.messages(part)
            results = called(self.spec, self._function, messages.objects)
            try:
                yield self._writer.write(results, messages)
            except ShapeError as error:
                place = error.index
                raise wrong_shape(
                    self.spec,
                    self._function,
                    results[place],
                    self._writer.expected,
                    message=messages.objects[place],
                    why=error.why,
                ) from None


class FlatMap(_PerMessage[FlatMapSpec]):
    """Any number of messages out for each message in."""

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The callable's messages, in batches as they fill."""
        if self.bad is not None:
            yield from flat_map_each(
                self.spec, self._function, self._results, self._reader, self._writer, batch, self.bad
            )
            return
        for part in chunks(batch):
            made: list[Any] = []
            origins: list[Any] = []  # the message that each result came from, for errors
            for message in self._reader.read(part):
                for results in self._results(message):
                    made += results
                    origins += repeat(message, len(results))
                    while len(made) >= CHUNK:
                        yield self._written(made[:CHUNK], origins)
                        del made[:CHUNK], origins[:CHUNK]
            if made:
                yield self._written(made, origins)

    def _results(self, message: Any) -> Iterator[Sequence[Any]]:
        """Yield what the callable makes of a message, in pieces: what is not a list yet may be longer than memory."""
        function = self._function
        left: Iterator[Any] | None = None
        while True:
            try:  # nothing is handed on in here: what ends this iteration must not look like an error of the callable
                if left is None:
                    results = function(message)
                    if isinstance(results, list | tuple):
                        break
                    if isinstance(results, str | bytes | dict) or not isinstance(results, Iterable):
                        raise wrong_shape(self.spec, function, results, "an iterable of messages", message=message)
                    left = map(self._copies.of, results)  # a generator may fill one row again and again
                piece = list(islice(left, CHUNK))
            except USER_ERRORS as error:
                raise callable_failed(self.spec, function, message, error) from error
            if not piece:
                return
            yield piece
        yield results

    def _written(self, made: list[Any], origins: list[Any]) -> pa.RecordBatch:
        try:
            return self._writer.write(made)
        except ShapeError as error:
            place = error.index
            raise wrong_shape(
                self.spec, self._function, made[place], self._writer.expected, message=origins[place], why=error.why
            ) from None


class Sink(Operator[SinkSpec]):
    """Hands every message to the callable, for its effect."""

    def __init__(self, spec: SinkSpec, inputs: Schema) -> None:
        super().__init__(spec, inputs, None)
        self._reader = MessageReader(inputs)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Call the callable."""
        if self.bad is not None:
            sink_each(self.spec, self.spec.function, self._reader, batch, self.bad)
            return ()
        for part in chunks(batch):
            messages = self._reader.read(part)
            reject_awaitables(self.spec, self.spec.function, called(self.spec, self.spec.function, messages), messages)
        return ()
