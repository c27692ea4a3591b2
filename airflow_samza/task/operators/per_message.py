"""Operators that call the user's Python once per message: filter, map, flat_map, sink; and methods for watermarks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import Any, TypeVar, cast

import pyarrow as pa

from airflow_samza.application.operator_specs import FilterSpec, FlatMapSpec, MapSpec, SinkSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.watermarks import WatermarkFunction, is_watermark_function
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.messages.bad_records import BadRecords
from airflow_samza.task.messages.event_times import LATEST_MS
from airflow_samza.task.messages.messages import CHUNK, MessageReader, MessageWriter, chunks
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.messages.user_errors import callable_failed, reject_awaitable, reject_awaitables, wrong_shape
from airflow_samza.task.messages.writer import written_groups
from airflow_samza.task.operators.calls import Failures, batch_of, batch_of_each, call_each, chunks_of
from airflow_samza.task.operators.operator import Operator

CallableSpec = TypeVar("CallableSpec", bound=FilterSpec | MapSpec | FlatMapSpec)


class _PerMessage(Operator[CallableSpec]):
    """An operator whose callable may handle watermarks itself (``WatermarkFunction``)."""

    def __init__(self, spec: CallableSpec, inputs: Schema, output: Schema) -> None:
        super().__init__(spec, inputs, output)
        self._reader = MessageReader(inputs)
        self._writer = MessageWriter(output)
        self._copies = OwnCopies(output)
        self._function: Callable[[Any], Any] = spec.function
        self._watermarks: WatermarkFunction | None = None
        if is_watermark_function(spec.function):
            # It keeps something, and tasks of one process must not share it.
            self._watermarks = copy.deepcopy(spec.function)
            self._function = cast("Callable[[Any], Any]", self._watermarks)
            self.moves_watermark = True

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Return the messages that the callable makes of the watermark."""
        if self._watermarks is None:
            return
        method, watermark = self._watermarks.process_watermark, f"the watermark {timestamp}"
        expected = f"an iterable of messages, or None: {self._writer.expected}"
        for messages in self._pieces(method, timestamp, watermark, expected, may_go_on=False):
            origins = [watermark] * len(messages)
            yield batch_of(self.spec, method, self._writer, messages, expected=expected, origins=origins)

    def output_watermark(self, timestamp: int) -> int:
        """Return how far time has come behind the operator: as the callable returns it, or as its input's."""
        if self._watermarks is None:
            return timestamp
        method = self._watermarks.get_output_watermark
        try:
            returned = method()
        except USER_ERRORS as error:
            raise callable_failed(self.spec, method, "no message", error, may_go_on=False) from error
        if returned is None:
            return NONE_YET
        if not isinstance(returned, int) or isinstance(returned, bool) or returned > LATEST_MS:
            raise wrong_shape(self.spec, method, returned, "ms since 1970 in UTC (up to the year 9999), or None")
        return returned

    def _pieces(
        self, function: Callable[[Any], Any], argument: Any, message: Any, expected: str, *, may_go_on: bool = True
    ) -> Iterator[Sequence[Any]]:
        """Yield what a callable makes, in pieces: what is not a list yet may be longer than memory.

        Errors show the ``message`` that it is called with. None is an answer where no ``on_error`` lets it go on.
        """
        left: Iterator[Any] | None = None
        while True:
            try:  # nothing is handed on in here: what ends this iteration must not look like an error of the callable
                if left is None:
                    results = function(argument)
                    if isinstance(results, list | tuple):
                        break
                    if results is None and not may_go_on:
                        return
                    if isinstance(results, str | bytes | dict) or not isinstance(results, Iterable):
                        raise wrong_shape(self.spec, function, results, expected, message=message)
                    left = map(self._copies.of, results)  # a generator may fill one row again and again
                piece = list(islice(left, CHUNK))
            except USER_ERRORS as error:
                raise callable_failed(self.spec, function, message, error, may_go_on=may_go_on) from error
            if not piece:
                return
            yield piece
        if results:
            yield results


class Filter(_PerMessage[FilterSpec]):
    """Keeps the messages for which the callable is true."""

    def __init__(self, spec: FilterSpec, inputs: Schema) -> None:
        super().__init__(spec, inputs, inputs)

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that are kept."""
        use = None if self.bad is None else _as_condition
        for first, part in chunks_of(batch, self.bad):
            messages = self._reader.messages(part)
            failures = Failures(self.bad)
            chosen = call_each(self.spec, self._function, messages.objects, failures, use=use)
            for place, _ in failures.failed:  # in order, so that each lands where it belongs
                chosen.insert(place, False)
            failures.reject(part, first)
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
                messages = messages.where(mask)
            self._reader.remember(messages)
            yield messages.batch


def _as_condition(result: Any) -> bool:
    reject_awaitable(result)
    return bool(result)


class Map(_PerMessage[MapSpec]):
    """One message out for each message in."""

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The callable's messages."""
        spec, function = self.spec, self._function
        for first, part in chunks_of(batch, self.bad):
            messages, failures = self._reader.messages(part), Failures(self.bad)
            results_batch = batch_of_each(spec, function, self._writer, messages.objects, failures, source=messages)
            failures.reject(part, first)
            if results_batch is not None:
                yield results_batch


class FlatMap(_PerMessage[FlatMapSpec]):
    """Any number of messages out for each message in."""

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The callable's messages, in batches as they fill."""
        if self.bad is not None:
            yield from self._tolerantly(batch, self.bad)
            return
        for part in chunks(batch):
            collected: list[Any] = []
            origins: list[Any] = []  # the message that each result came from, for errors
            for message in self._reader.read(part):
                for results in self._results(message):
                    collected += results
                    origins += repeat(message, len(results))
                    while len(collected) >= CHUNK:
                        yield self._written(collected[:CHUNK], origins)
                        del collected[:CHUNK], origins[:CHUNK]
            if collected:
                yield self._written(collected, origins)

    def _results(self, message: Any) -> Iterator[Sequence[Any]]:
        return self._pieces(self._function, message, message, "an iterable of messages")

    def _tolerantly(self, batch: pa.RecordBatch, bad: BadRecords) -> Iterator[pa.RecordBatch]:
        """Yield the messages of whole calls: of one that fails in the middle nothing comes out."""
        for first, part in chunks_of(batch, bad):
            messages, failures = self._reader.read(part), Failures(bad)
            groups: list[list[Any]] = []
            places: list[int] = []
            for place, message in enumerate(messages):
                try:
                    groups.append([result for piece in self._results(message) for result in piece])
                    places.append(place)
                except Exception as error:
                    failures.add(place, error)
            results_batch, misshapen = written_groups(self._writer, groups)
            for number, shape in misshapen:
                place, result = places[number], groups[number][shape.index]
                expected, message = self._writer.expected, messages[place]
                failure = wrong_shape(self.spec, self._function, result, expected, message=message, why=shape.why)
                failures.add(place, failure)
            failures.reject(part, first)
            if results_batch is not None:
                yield results_batch

    def _written(self, messages: list[Any], origins: list[Any]) -> pa.RecordBatch:
        return batch_of(self.spec, self._function, self._writer, messages, origins=origins)


class Sink(Operator[SinkSpec]):
    """Hands every message to the callable, for its effect."""

    def __init__(self, spec: SinkSpec, inputs: Schema) -> None:
        super().__init__(spec, inputs, None)
        self._reader = MessageReader(inputs)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Call the callable."""
        spec, function = self.spec, self.spec.function
        use = None if self.bad is None else reject_awaitable
        for first, part in chunks_of(batch, self.bad):
            messages, failures = self._reader.read(part), Failures(self.bad)
            results = call_each(spec, function, messages, failures, use=use)
            reject_awaitables(spec, function, results, messages)
            failures.reject(part, first)
        return ()
