"""The window operator: it drops late messages, closes windows and emits their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.messages.event_times import timed_messages
from airflow_samza.task.messages.output_writers import Sender, without_late
from airflow_samza.task.operators.aggregation.partial_groups import accumulators_of
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.windows.fixed import EarlyFixedWindows, FixedWindows
from airflow_samza.task.operators.windows.folded import Fold, FoldedSessions, FoldedWindows
from airflow_samza.task.operators.windows.open_windows import END, PANE, START, Results
from airflow_samza.task.operators.windows.sessions import SessionWindows

_BEFORE_ALL = -(1 << 52)
"""A watermark (ms) at which nothing is late."""


class Window(Operator[WindowOperatorSpec]):
    """A row for each window and key.

    Rows come when the watermark, or the clock, has reached the window's end, and at the end of all inputs. They come in
    the order of the windows' ends; those of one end in the order in which their keys came. ``late`` counts messages all
    of whose windows were closed, ``without_time`` those that have no event time and so are in no window. ``combined``:
    partial results come instead of messages (see ``combiner``).
    """

    def __init__(
        self,
        spec: WindowOperatorSpec,
        inputs: Schema,
        output: Schema,
        clock: Callable[[], int],
        late_to: Sender | None = None,
        *,
        combined: bool = False,
    ) -> None:
        super().__init__(spec, inputs, output)
        self._combined = combined
        self.late = 0
        self.without_time = 0
        self._clock = clock
        self._late_to = late_to
        self._by_event = spec.window.time == "event"
        self._open = open_windows(spec, inputs, output)
        self._watermark = NONE_YET
        self._now = NONE_YET  # processing time; it does not go back

    def start(self) -> None:
        """Set the handler of messages on which a fold fails."""
        if isinstance(self._open, FoldedWindows | FoldedSessions):
            self._open.fold.bad = self.bad

    def metrics(self) -> dict[str, float]:
        """Return the counts of late messages and of those without a time, as reports show them."""
        return {"late_messages": self.late, "messages_without_time": self.without_time} if self._by_event else {}

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Return results that are due with these messages.

        They are early ones, and windows of processing time that have ended.
        """
        if self._combined:
            assert isinstance(self._open, FixedWindows)
            self._open.add_partials(batch)
            return
        now = self._tick()
        if not self._by_event:
            yield from self._rows(self._open.close(now))
            yield from self._rows(self._open.add(batch, np.full(batch.num_rows, now * 1000), _BEFORE_ALL, now))
            return
        what = f"input of {self.spec.title}"
        batch, moments, without = timed_messages(batch, self.input, self.spec.time_column, what)
        self.without_time += without
        if self._watermark != NONE_YET and batch.num_rows:
            is_late = self._open.late(moments, self._watermark)
            batch, moments, late = without_late(batch, moments, is_late, self._late_to)
            self.late += late
        if batch.num_rows:
            watermark = self._watermark if self._watermark != NONE_YET else _BEFORE_ALL
            yield from self._rows(self._open.add(batch, moments, watermark, now))

    def _tick(self) -> int:
        self._now = max(self._now, self._clock())
        return self._now

    def on_watermark(self, timestamp: int) -> Iterator[pa.RecordBatch]:
        """Return the windows of event time that have ended."""
        if self._by_event and timestamp > self._watermark:
            self._watermark = timestamp
            yield from self._rows(self._open.close(timestamp))

    def on_time(self, now: int) -> Iterator[pa.RecordBatch]:
        """The windows of processing time that have ended, and early results that are due."""
        self._now = max(self._now, now)
        if not self._by_event:
            yield from self._rows(self._open.close(self._now))
        yield from self._rows(self._open.due(self._now))

    @property
    def waits_for_time(self) -> bool:
        """Return whether windows close, or early results are due, by the clock."""
        return not self._by_event or self.spec.window.early_after_ms is not None

    def output_watermark(self, timestamp: int) -> int:
        """The start of the earliest window that may still give a row: a row's event time is its window's start."""
        reached = timestamp if self._by_event else self._tick()
        if reached == NONE_YET:
            return NONE_YET
        return max(NONE_YET, min(self._open.earliest(reached) // 1000, reached))

    def flush(self) -> Iterable[pa.RecordBatch]:
        """Return all windows."""
        return self._rows(self._open.close(None))

    def _rows(self, results: Iterable[Results]) -> Iterator[pa.RecordBatch]:
        for windows in results:
            table = windows.table
            columns: dict[str, Any] = {name: table.column(f"k{place}") for place, name in enumerate(self.spec.key)}
            columns["window_start"], columns["window_end"] = (
                table.column(name).combine_chunks().view(pa.timestamp("us", "UTC")) for name in (START, END)
            )
            if self.spec.window.is_early:
                columns["pane"] = table.column(PANE)
                columns["is_final"] = pa.repeat(pa.scalar(windows.final), table.num_rows)
            yield from self.emitted({**columns, **windows.values})

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The open windows, and the times reached."""
        reached = pa.table({"watermark": pa.array([self._watermark]), "now": pa.array([self._now])})
        return {**self._open.snapshot(), "reached": reached}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over the open windows and the times reached."""
        self._watermark, self._now = (tables["reached"].column(name)[0].as_py() for name in ("watermark", "now"))
        self._open.restore(tables)


OpenWindows = FixedWindows | EarlyFixedWindows | FoldedWindows | SessionWindows
"""The open windows of one operator."""


def open_windows(spec: WindowOperatorSpec, inputs: Schema, output: Schema) -> OpenWindows:
    """Return what keeps the windows of a spec."""
    window = spec.window
    if spec.fold is not None:
        assert spec.fold_schema is not None
        fold = Fold(spec, inputs, spec.fold_schema)
        if window.gap_ms is not None:
            return FoldedSessions(spec, fold, inputs)
        return FoldedWindows(spec, fold)
    accumulators = accumulators_of(spec, inputs, output, placed=window.gap_ms is not None)
    if window.gap_ms is not None:
        return SessionWindows(spec, accumulators)
    if window.is_early:
        return EarlyFixedWindows(spec, accumulators)
    return FixedWindows(spec, accumulators)
