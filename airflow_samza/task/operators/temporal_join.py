"""The join as of event times whose rows have times of their own, or whose messages wait (rule S7; decision 127)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_specs import TableJoinSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.storage.timed_rows import NEVER
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.operators.tables import TableJoin
from airflow_samza.task.tables.store import TableStore
from airflow_samza.task.tables.timed_store import TimedStore

_WAITING, _REACHED, _WATERMARK = "waiting", "reached", "watermark"


class TemporalJoin(TableJoin):
    """Looks each message up when the watermark is ``wait`` behind its event time, in the order of these times.

    Late messages are looked up at once; one that is older than the watermark less ``retain`` finds no row, and is
    counted in ``late``. ``waits`` is False where no input is unbounded: all rows are there before the first message.
    """

    def __init__(
        self,
        spec: TableJoinSpec,
        inputs: Schema,
        output: Schema,
        store: TableStore,
        clock: Callable[[], int],
        *,
        waits: bool,
    ) -> None:
        super().__init__(spec, inputs, output, store, clock)
        self.late = 0
        self._wait_ms = spec.wait_ms if waits else None
        self._retain_ms = spec.table.retain_ms
        self._watermark = NONE_YET
        self._waiting: list[pa.RecordBatch] = []
        self._settling = False
        self._keep_from(NEVER)

    def metrics(self) -> Mapping[str, float]:
        """Return the count of messages that came when the rows of their time were kept no longer."""
        return {"late_messages": self.late} if self._retain_ms is not None else {}

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Let messages wait; look up those that need not."""
        if self._wait_ms is not None:
            batch = self._kept_waiting(batch)
        if batch.num_rows:
            yield from super().process(batch)

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Look up the messages that have waited long enough."""
        self._watermark = timestamp
        if self._wait_ms is not None:
            yield from self._settled(timestamp - self._wait_ms)

    def output_watermark(self, timestamp: int) -> int:
        """Return the watermark less the time that messages wait."""
        return timestamp if self._wait_ms is None else max(timestamp - self._wait_ms, NONE_YET)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Look up all that wait."""
        yield from self._settled(None)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The messages that wait, and the watermark."""
        tables = {_REACHED: pa.table({_WATERMARK: pa.array([self._watermark], pa.int64())})}
        if self._waiting:
            tables[_WAITING] = pa.Table.from_batches(self._waiting)
        return tables

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take both over; what no message looks up any more is left out from then on."""
        self._watermark = tables[_REACHED].column(_WATERMARK)[0].as_py()
        if _WAITING in tables:
            conformer = SchemaConformer(self.input, f"what {self.spec.title} kept")
            self._waiting = [conformer.conform(batch) for batch in tables[_WAITING].to_batches() if batch.num_rows]
        if self._watermark != NONE_YET and self._retain_ms is not None:
            # By what was committed only: another attempt may begin here again, with the same rows in memory.
            self._keep_from((self._watermark - self._retain_ms) * 1000)

    def _keep_from(self, time: int) -> None:
        if isinstance(self._store, TimedStore):
            self._store.keep_from({self.spec.op_id: time})

    def _moments(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the event times, without those of which rows are kept no longer (µs)."""
        times = super()._moments(batch)
        if self._settling or self._retain_ms is None or self._watermark == NONE_YET:
            return times
        old = pc.less(times, (self._watermark - self._retain_ms) * 1000).fill_null(False)
        self.late += pc.sum(old).as_py() or 0
        return pc.if_else(old, pa.scalar(None, times.type), times)

    def _event_times(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """Return the event times (µs), and where there are any."""
        times = super()._moments(batch)
        return times.fill_null(0).to_numpy(zero_copy_only=False), times.is_valid().to_numpy(zero_copy_only=False)

    def _kept_waiting(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the messages that need not wait."""
        assert self._wait_ms is not None
        times, has_time = self._event_times(batch)
        waits = has_time
        if self._watermark != NONE_YET:
            waits = has_time & (times > (self._watermark - self._wait_ms) * 1000)
        if waits.any():
            self._waiting.append(batch if waits.all() else batch.filter(pa.array(waits)))
        return batch.filter(pa.array(~waits))

    def _settled(self, until: int | None) -> Iterator[pa.RecordBatch]:
        """Look up the messages up to a time (ms; None: all), in the order of their times."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        batch = pa.concat_batches(waiting)
        times, _ = self._event_times(batch)
        past = np.ones(len(times), bool) if until is None else times <= until * 1000
        if not past.all():
            self._waiting = [batch.filter(pa.array(~past))]
        which = np.flatnonzero(past)
        if len(which):
            self._settling = True  # they came in time
            yield from super().process(batch.take(pa.array(which[np.argsort(times[which], kind="stable")])))
            self._settling = False
