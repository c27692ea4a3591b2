"""Watermarks at the source: the progress of event time in one partition of an unbounded input, batch by batch.

A watermark of ``w`` ms means that every message still to come is from ``w`` or later; so it is the greatest event time,
rounded down to whole ms, less the delay, and a window that ends at ``e`` is complete as soon as the watermark is ``e``.
It never goes back. Times before 1970 make none (-1 on the wire means: none yet).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.callables import name_of
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.rejections import USER_ERRORS, let_interrupts_through
from airflow_samza.application.watermarks import BOUNDED_DELAY, PUNCTUATED, WatermarkStrategy
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.errors import MessageError, SamzaError
from airflow_samza.quoting import quoted
from airflow_samza.schema import Schema
from airflow_samza.task.messages.event_times import LATEST_MS, micros_or_null, to_ms
from airflow_samza.task.messages.messages import MessageReader, chunks
from airflow_samza.task.messages.user_errors import located, user_location


def source_watermark(stream: StreamDescriptor, schema: Schema) -> SourceWatermark | None:
    """Return the maker of watermarks for one partition of ``stream``, of which batches of ``schema`` are read.

    None where the input makes none: it is bounded, or its watermarks come to it in band, or its event time is not
    known.
    """
    if stream.bounded or stream.watermarks is None:  # decision 19
        return None
    return SourceWatermark(stream, schema)


class SourceWatermark:
    """The watermark of one partition. ``watermark`` is the last one (ms), -1 before the first."""

    def __init__(self, stream: StreamDescriptor, schema: Schema) -> None:
        assert stream.watermarks is not None
        self.watermark = NONE_YET
        self._stream = stream
        self._schema = schema
        self._what = f"input {stream.stream_id!r}"
        self._strategy: WatermarkStrategy = stream.watermarks
        self._place = schema.names.index(stream.timestamp) if stream.timestamp in schema else None
        function = self._strategy.function
        self._named = f"{name_of(function)} in the watermarks of {self._what}"
        self._own: Any = self._instance(function) if isinstance(function, type) else None
        self._reader = MessageReader(schema) if self._strategy.kind == PUNCTUATED else None

    def _instance(self, kind: type) -> Any:
        try:
            return kind()
        except USER_ERRORS as error:
            raise self._failed(error, None) from error

    def observe(self, batch: pa.RecordBatch) -> int | None:
        """Takes the next messages into account; the new watermark in ms, None when it has not moved."""
        latest = max(self._watermarks(batch), default=NONE_YET) if batch.num_rows else NONE_YET
        if latest <= self.watermark:
            return None
        self.watermark = latest
        return latest

    def _watermarks(self, batch: pa.RecordBatch) -> Iterator[int]:
        if self._reader is not None:
            for chunk in chunks(batch):
                for message in self._reader.read(chunk):
                    yield from self._answers(self._strategy.function, message)
            return
        assert self._place is not None
        times = micros_or_null(batch.column(self._place), self._schema.fields[self._place].type, self._what)
        if times.null_count == len(times):
            return
        if self._strategy.kind == BOUNDED_DELAY:
            yield pc.max(times).as_py() // 1000 - self._strategy.delay_ms
        elif self._own is not None and hasattr(self._own, "on_batch"):
            ends = pc.min_max(times).as_py()
            yield from self._answers(self._own.on_batch, ends["min"] // 1000, ends["max"] // 1000)
        else:
            function = self._own.on_event_time if self._own is not None else self._strategy.function
            for time in (times.drop_null().to_numpy() // 1000).tolist():
                yield from self._answers(function, time)

    def _answers(self, function: Callable[..., Any], *values: Any) -> Iterator[int]:
        shown = values[0] if len(values) == 1 else values
        try:
            result = function(*values)
        except USER_ERRORS as error:
            raise self._failed(error, shown) from error
        if result is None:
            return
        time = to_ms(result)
        if time is None or time > LATEST_MS:
            raise MessageError(
                f"{self._named} returned {quoted(result)} for {quoted(shown)}.",
                hint="Return a datetime, a whole number of ms since 1970 (up to the year 9999), "
                "or None for no watermark.",
                stream=self._stream.stream_id,
            )
        yield time

    def _failed(self, error: BaseException, value: Any) -> SamzaError:
        if isinstance(error, SamzaError):
            return error
        let_interrupts_through(error)
        at = located(user_location(self._strategy.function, error.__traceback__))
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        on = "" if value is None else f", on {quoted(value)}"
        return MessageError(
            f"{self._named} failed with {what}{on}{at}.",
            hint="Return None for what carries no time.",
            stream=self._stream.stream_id,
        )

    def snapshot(self) -> dict[str, Any]:
        """Return the state from which it continues, as JSON.

        It has the watermark, and what the user's object gives as its own ``snapshot()``, if it has one.
        """
        kept: dict[str, Any] = {"watermark": self.watermark}
        if hasattr(self._own, "snapshot"):
            kept["own"] = self._own.snapshot()
        return kept

    def restore(self, kept: dict[str, Any]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        self.watermark = max(self.watermark, int(kept["watermark"]))
        if "own" in kept and hasattr(self._own, "restore"):
            self._own.restore(kept["own"])


class SourceWatermarks:
    """The watermarks of all partitions of a task's inputs that make any. ``kept`` is what a former epoch left."""

    def __init__(self, kept: Mapping[str, Mapping[int, Any]]) -> None:
        self._kept: dict[str, dict[int, Any]] = {stream: dict(states) for stream, states in kept.items()}
        self._open: dict[tuple[str, int], SourceWatermark | None] = {}

    def observe(self, stream: StreamDescriptor, schema: Schema, partition: int, batch: pa.RecordBatch) -> int | None:
        """Takes the next messages of a partition into account; its new watermark in ms, None when it has not moved."""
        place = (stream.stream_id, partition)
        if place not in self._open:
            maker = source_watermark(stream, schema)
            state = self._kept.get(stream.stream_id, {}).get(partition)
            if maker is not None and state is not None:
                maker.restore(state)
            self._open[place] = maker
        marks = self._open[place]
        return None if marks is None else marks.observe(batch)

    def snapshot(self) -> dict[str, dict[int, Any]]:
        """Return the state that the next epoch needs, by stream and partition."""
        for (stream, partition), marks in self._open.items():
            if marks is not None:
                self._kept.setdefault(stream, {})[partition] = marks.snapshot()
        return self._kept
