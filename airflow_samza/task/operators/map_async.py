"""The operator that calls a coroutine function per message, several at a time (decision 28)."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from airflow_samza.application.operator_specs import MapAsyncSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, chunks
from airflow_samza.task.messages.user_errors import callable_failed
from airflow_samza.task.operators.calls import Failures, batch_of_results
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.async_calls import AsyncCalls, CallFailed, TaskLoop


class MapAsync(Operator[MapAsyncSpec]):
    """One message out for each message in, in order or as the calls end.

    Up to ``concurrency`` stay in flight from batch to batch. Nothing is in flight when the watermark moves on, when an
    epoch ends and when the input does (rule C7).
    """

    def __init__(self, spec: MapAsyncSpec, inputs: Schema, output: Schema, task_name: str) -> None:
        super().__init__(spec, inputs, output)
        self._reader = MessageReader(inputs)
        self._writer = MessageWriter(output)
        self._loop = TaskLoop(task_name)
        self._calls = AsyncCalls(
            self._loop, spec.function, spec.concurrency, ordered=spec.ordered, timeout_ms=spec.timeout_ms
        )

    def start(self) -> None:
        """Set whether the failures of calls are kept."""
        self._calls.keeps_failures = self.bad is not None

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Start calls, and yield the results that are ready."""
        for part in chunks(batch):
            self._calls.submit(self._reader.read(part))
            self._calls.wait_begun()
            yield from self._ready()

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """The results of all messages before it."""
        return self.settle()

    def settle(self) -> Iterator[pa.RecordBatch]:
        """The results of all messages so far."""
        self._calls.wait_ended()
        yield from self._ready()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Return the results of all messages."""
        return self.settle()

    def close(self) -> None:
        """Cancels what is in flight after a failure."""
        self._loop.close()

    def _ready(self) -> Iterator[pa.RecordBatch]:
        try:
            ready = self._calls.take()
        except CallFailed as failed:
            raise callable_failed(self.spec, self.spec.function, failed.item, failed.error) from failed.error
        if not ready:
            return
        spec, failures = self.spec, Failures(self.bad)
        messages = [message for message, _ in ready]
        for place, (message, result) in enumerate(ready):
            if isinstance(result, CallFailed):
                failures.add(place, callable_failed(spec, spec.function, message, result.error))
        results = [result for _, result in ready if not isinstance(result, CallFailed)]
        batch = batch_of_results(spec, spec.function, self._writer, messages, results, failures)
        for place, error in failures.in_order():
            assert self.bad is not None
            self.bad.reject_message(messages[place], self.input, error)
        if batch is not None:
            yield batch
