"""Calls of a callable's methods for watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.watermarks import WatermarkFunction
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.task.messages.event_times import LATEST_MS
from airflow_samza.task.messages.messages import CHUNK, MessageWriter, ShapeError
from airflow_samza.task.messages.user_errors import callable_failed, wrong_shape


class WatermarkCalls:
    """The watermark methods of one operator's callable; their errors name the operator."""

    def __init__(self, spec: OperatorSpec, function: WatermarkFunction, writer: MessageWriter) -> None:
        self._spec = spec
        self._function = function
        self._writer = writer

    def process(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """The messages that the callable makes of a watermark."""
        method = self._function.process_watermark
        expected = f"an iterable of messages, or None: {self._writer.expected}"
        watermark = f"the watermark {timestamp}"
        pieces = self._pieces(method, timestamp, expected, watermark)
        while True:
            try:
                messages = next(pieces, None)
            except USER_ERRORS as error:
                raise callable_failed(self._spec, method, watermark, error, may_go_on=False) from error
            if messages is None:
                return
            yield self._written(messages, method, expected, watermark)

    def _pieces(
        self, method: Callable[[int], Any], timestamp: int, expected: str, watermark: str
    ) -> Iterator[list[Any]]:
        result = method(timestamp)
        if result is None:
            return
        if isinstance(result, str | bytes | dict) or not isinstance(result, Iterable):
            raise wrong_shape(self._spec, method, result, expected, message=watermark)
        left = iter(result)
        while messages := list(islice(left, CHUNK)):
            yield messages

    def output(self) -> int:
        """Return how far time has come behind the operator, as the callable returns it; -1: it returns none."""
        method = self._function.get_output_watermark
        try:
            returned = method()
        except USER_ERRORS as error:
            raise callable_failed(self._spec, method, "no message", error, may_go_on=False) from error
        if returned is None:
            return NONE_YET
        if not isinstance(returned, int) or isinstance(returned, bool) or returned > LATEST_MS:
            raise wrong_shape(self._spec, method, returned, "ms since 1970 in UTC (up to the year 9999), or None")
        return returned

    def _written(self, messages: list[Any], method: object, expected: str, watermark: str) -> pa.RecordBatch:
        try:
            return self._writer.write(messages)
        except ShapeError as error:
            raise wrong_shape(
                self._spec, method, messages[error.index], expected, message=watermark, why=error.why
            ) from None
