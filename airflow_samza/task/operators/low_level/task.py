"""A low-level task as an operator: the user's StreamTask gets every message with its place, and sends what it likes."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_specs import InputOperatorSpec, TaskSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.application.task_api import IncomingMessageEnvelope
from airflow_samza.config import TASK_WINDOW, Config
from airflow_samza.errors import ConfigError
from airflow_samza.schema import Schema
from airflow_samza.storage.store import BASE
from airflow_samza.task.messages.bad_records import Reading
from airflow_samza.task.messages.messages import MessageReader, chunks
from airflow_samza.task.messages.output_writers import OutputWriter
from airflow_samza.task.messages.user_errors import callable_failed
from airflow_samza.task.messages.values import key_values, values_or_none
from airflow_samza.task.operators.low_level.context import Collector, Context, Coordinator, Output, TaskProgress
from airflow_samza.task.operators.low_level.timers import EVENT, PROCESSING
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.tables.async_calls import AsyncCalls, CallFailed, TaskLoop

_STORE = "store-"
"""Before the name of a store, among the tables that are kept."""


class LowLevelTask(Operator[TaskSpec]):
    """Calls the user's task. ``reading`` says from where a batch comes.

    With ``stops_at_commit`` a commit that the task asks for leaves the rest of a batch (decision 26); :attr:`left`
    counts its messages. ``init`` is called before anything else of the task, when everything is restored.
    """

    def __init__(
        self,
        spec: TaskSpec,
        inputs: Mapping[str, Schema],
        writers: Mapping[str, OutputWriter],
        context: Context,
        reading: Reading,
    ) -> None:
        super().__init__(spec, next(iter(inputs.values())), None)
        self.context = context
        self._reading = reading
        self.coordinator = Coordinator()
        self.stops_at_commit = False
        self.left = 0
        self._outputs = {s.stream_id: Output(spec, s, writers[s.stream_id]) for s in spec.outputs}
        self._collector = Collector(self._outputs)
        streams_read = (source.stream for source in spec.inputs if isinstance(source, InputOperatorSpec))
        self._inputs = {stream.stream_id: stream for stream in streams_read}
        self._readers = {name: MessageReader(schema) for name, schema in inputs.items()}
        self._config = Config(context.config)
        self._progress = TaskProgress(context)
        self._loop = TaskLoop(context.task_name)
        self._calls: AsyncCalls | None = None
        self._task: Any = None
        self._begun = False

    def start(self) -> None:
        """Make the task."""
        self._task = self._guarded(self.spec.factory)
        self.context.timers.listener = hasattr(self._task, "on_timer")
        if hasattr(self._task, "window"):
            if TASK_WINDOW not in self._config:
                raise ConfigError(
                    f"The task has window(), and {TASK_WINDOW} is not set: it would never be called.",
                    hint=f'Set how often: config={{"{TASK_WINDOW}": "60000"}} (ms), or "-1" for never.',
                    key=TASK_WINDOW,
                )
            self._progress.window_ms = self._config.window_ms
        if inspect.iscoroutinefunction(getattr(self._task, "process", None)):
            self._calls = AsyncCalls(
                self._loop,
                self._processed,
                self._config.max_concurrency,
                ordered=False,
                timeout_ms=self._config.callback_timeout_ms,
                stop=self.is_stopped,
            )
            self._calls.keeps_failures = self.bad is not None
        if self._calls is not None or self.bad is not None:
            for output in self._outputs.values():
                # What coroutines send is written by this thread, what a message sent is taken back when it fails.
                output.writes_when_full = False

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._progress.begin()
            self._call("init", self.context)

    # -- messages ------------------------------------------------------------------------------------------------------

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Call the task once per message; only what it sends is handed on."""
        self._begin()
        if self._calls is not None:
            self._process_async(batch, self._calls)
            return ()
        process, collector, coordinator, bad = self._task.process, self._collector, self.coordinator, self.bad
        progress, timers, stops_at_commit = self._progress, self.context.timers, self.stops_at_commit
        if bad is not None:
            bad.begin(batch)
        # with a handler what a message sends is written only behind it, so that it can be taken back
        outputs = () if bad is None else tuple(self._outputs.values())
        done = 0
        for envelope in self._envelopes(batch):
            if coordinator.shut_down or (coordinator.commit_requested and stops_at_commit):
                break
            for output in outputs:
                output.keep()
            try:
                result = process(envelope, collector, coordinator)
                if result is not None:
                    _reject_coroutine(result)
            except USER_ERRORS as error:
                failure = callable_failed(self.spec, process, envelope.message, error)
                if bad is None:
                    raise failure from error
                for output in outputs:
                    output.take_back()
                bad.reject_row(batch.slice(done, 1), done, failure)
            done += 1
            if (timers.any or progress.window_ms) and progress.is_due():
                self._do_due()
        self.left = batch.num_rows - done
        return ()

    def _process_async(self, batch: pa.RecordBatch, calls: AsyncCalls) -> None:
        before = calls.unstarted
        envelopes = self._envelopes(batch)
        for part in chunks(batch):
            calls.submit([next(envelopes) for _ in range(part.num_rows)])
            calls.wait_begun()
            self._take_ended(calls)
            if self._progress.is_due():
                self._do_due()
        self.left = calls.unstarted - before

    async def _processed(self, envelope: IncomingMessageEnvelope) -> None:
        await self._task.process(envelope, self._collector, self.coordinator)

    def _take_ended(self, calls: AsyncCalls) -> None:
        try:
            ended = calls.take()
        except CallFailed as failed:
            raise callable_failed(self.spec, self._task.process, failed.item.message, failed.error) from failed.error
        for envelope, result in ended:
            if isinstance(result, CallFailed) and self.bad is not None:
                error = callable_failed(self.spec, self._task.process, envelope.message, result.error)
                origin = envelope.stream, envelope.partition, envelope.offset
                self.bad.reject_message(envelope.message, self._readers[envelope.stream].schema, error, origin)
        for output in self._outputs.values():
            output.flush()

    def _envelopes(self, batch: pa.RecordBatch) -> Iterator[IncomingMessageEnvelope]:
        name, partition, offset = self._reading.stream, self._reading.partition, self._reading.offset
        assert name is not None
        stream, read = self._inputs[name], self._readers[name].read
        for part in chunks(batch):
            keys, times = key_values(part, stream.key), values_or_none(part, stream.timestamp)
            for place, (key, message, time) in enumerate(zip(keys, read(part), times, strict=True), offset):
                yield IncomingMessageEnvelope(name, partition, place, key, message, stream.system, time)
            offset += part.num_rows

    # -- time ----------------------------------------------------------------------------------------------------------

    def on_watermark(self, timestamp: int) -> Iterable[pa.RecordBatch]:
        """Call event timers up to the watermark."""
        self._settled()
        self.context.watermark_ms = timestamp
        self._do_due()
        return ()

    def on_time(self, now: int) -> Iterable[pa.RecordBatch]:
        """Call processing timers up to now, and ``window`` when it is due."""
        self._begin()
        if self._progress.is_due():
            self._do_due()
        elif self._calls is not None:
            self._take_ended(self._calls)
        return ()

    @property
    def waits_for_time(self) -> bool:
        """Return whether the clock brings it a call: of a timer, or of ``window``."""
        return self._progress.waits_for_time

    def _do_due(self) -> None:
        """Call what is due, with nothing in flight; after a stop it waits for the next epoch, if there is one."""
        self._settled()
        context = self.context
        if self.is_stopped():
            return
        for kind, until in ((EVENT, context.watermark_ms), (PROCESSING, context.now_ms())):
            for key, time in context.timers.due(kind, until):
                self._call("on_timer", key, time, self._collector, self.coordinator)
                if self.is_stopped():
                    return
        if self._progress.window_is_due():
            self._call("window", self._collector, self.coordinator)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _settled(self) -> None:
        """Wait for everything in flight."""
        self._begin()
        if self._calls is not None:
            self._calls.wait_ended()
            self._take_ended(self._calls)

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Wait for everything in flight, and send it."""
        self._settled()
        if self._progress.is_due():
            self._do_due()
        self.finish()
        return ()

    def flush(self) -> Iterable[pa.RecordBatch]:
        """End for good: event timers fire (decision 27), and ``on_end_of_stream`` may still send (rule C7)."""
        self._settled()
        for timer in self.context.timers.end():
            if self.coordinator.shut_down:
                return ()
            self._call("on_timer", *timer, self._collector, self.coordinator)
        if not self.coordinator.shut_down:
            self._call("on_end_of_stream", self._collector, self.coordinator)
        return ()

    def finish(self) -> None:
        """Send what is still collected; the last thing before the outputs end.

        What was written to tables is there, too.
        """
        for table in self.context.own_tables:
            table.flush()
        for output in self._outputs.values():
            output.flush()

    def close(self) -> None:
        """Close the task, and give back what it held."""
        try:
            self._call("close")
        finally:
            self._loop.close()
            for store in self.context.stores.values():
                store.backend.close()

    # -- from epoch to epoch -------------------------------------------------------------------------------------------

    def snapshot(self) -> Mapping[str, pa.Table]:
        """Stores, timers and times, as far as there are any."""
        stores = {
            f"{_STORE}{name}" if part == BASE else f"{_STORE}{name}.{part}": table
            for name, store in self.context.stores.items()
            for part, table in store.backend.kept().items()
        }
        return {name: table for name, table in {**stores, **self._progress.snapshot()}.items() if table.num_rows}

    def snapshot_after_end(self) -> Mapping[str, pa.Table]:
        """The stores: they are the user's, and stay when timers have fired for the last time."""
        return {name: table for name, table in self.snapshot().items() if name.startswith(_STORE)}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave; a store that is declared no more is forgotten."""
        for name, store in self.context.stores.items():
            whole = f"{_STORE}{name}"
            if whole in tables:
                changes = {
                    part.removeprefix(f"{whole}."): table
                    for part, table in tables.items()
                    if part.startswith(f"{whole}.")
                }
                store.backend.restore_kept({BASE: tables[whole], **changes})
        self._progress.restore(tables)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def is_stopped(self) -> bool:
        """Return whether the task asked for an end, or for a commit that leaves the rest of a batch."""
        coordinator = self.coordinator
        return coordinator.shut_down or (self.stops_at_commit and coordinator.commit_requested)

    def _call(self, method: str, *arguments: Any) -> None:
        function = getattr(self._task, method, None)
        if function is not None:
            self._guarded(function, *arguments)

    def _guarded(self, function: Any, *arguments: Any) -> Any:
        try:
            result = function(*arguments)
            return self._loop.run(result) if inspect.iscoroutine(result) else result
        except USER_ERRORS as error:
            raise callable_failed(self.spec, function, "no message", error, may_go_on=False) from error


def _reject_coroutine(result: object) -> None:
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError("it returned a coroutine, and is no async def")
