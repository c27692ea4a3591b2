"""Open tumbling and hopping windows with aggregations: partial results by key and start.

The window operator holds them; the combiner cuts time as they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.schema import Schema
from airflow_samza.task.messages.event_times import micros
from airflow_samza.task.operators.aggregation.accumulators import Accumulator
from airflow_samza.task.operators.aggregation.grouping import Grouping
from airflow_samza.task.operators.aggregation.partial_groups import PartialGroups, part_names
from airflow_samza.task.operators.windows.grids import Grid, grid_of, slices_of
from airflow_samza.task.operators.windows.open_windows import END, START, Results, by_end

START_COLUMN = "\0start"
"""The start of a message's window, as a column beside the message's own."""


def placed_in_windows(batch: pa.RecordBatch, times: Any, grid: Grid, watermark: int) -> pa.RecordBatch:
    """The messages, each once for every window that it is in and that is open, with the window's start behind them."""
    rows, starts = grid.assign(times)
    if rows is not None:
        still = grid.ends(starts) > watermark * 1000
        rows, starts = rows[still], starts[still]
        batch = batch.take(pa.array(rows))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(starts)], [*batch.schema.names, START_COLUMN])


def placed_in_slices(batch: pa.RecordBatch, times: Any, slices: Grid) -> pa.RecordBatch:
    """The messages with the start of their slice behind them."""
    _, starts = slices.assign(times)
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(starts)], [*batch.schema.names, START_COLUMN])


class FixedWindows:
    """Tumbling or hopping windows that give one result each, when they are closed.

    Where windows overlap evenly, partial results (decision 36) are kept of *slices*, which are a hop long, and put
    together when a window is closed: so a message is counted once, however many windows it is in. A tumbling window is
    one slice.
    """

    def __init__(self, spec: WindowOperatorSpec, accumulators: Sequence[Accumulator]) -> None:
        self._grid = grid_of(spec.window)
        self._slices = slices_of(spec.window, spec.aggregations)
        self._overlap = self._slices is not None and spec.window.hop_ms is not None
        self._keys = len(spec.key)
        self._columns = list(dict.fromkeys([*spec.key, *(a.column for a in spec.aggregations if a.column is not None)]))
        self._grouping = Grouping(spec, accumulators)
        self._groups = PartialGroups(spec, accumulators, key=(*spec.key, START_COLUMN))
        self._least: int | None = None  # the earliest start that is kept
        self._closed = _NOTHING  # windows that end here or before are closed

    def late(self, times: Any, watermark: int) -> Any:
        """See :class:`OpenWindows`."""
        return self._grid.latest_ends(times) <= watermark * 1000

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        chosen = batch.select(self._columns)
        if self._slices is not None:
            placed = placed_in_slices(chosen, times, self._slices)
        else:
            placed = placed_in_windows(chosen, times, self._grid, watermark)
        self._note(placed.column(len(self._columns)).to_numpy())
        self._groups.add(placed)
        return iter(())

    def add_partials(self, batch: pa.RecordBatch) -> None:
        """Takes partial results in, by key and slice."""
        self._note(batch.column(self._keys).to_numpy())
        self._groups.add_partials(batch)

    def _note(self, starts: Any) -> None:
        if len(starts):
            least = int(starts.min())
            self._least = least if self._least is None else min(self._least, least)

    def close(self, watermark: int | None) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        until = _EVERYTHING if watermark is None else watermark * 1000
        before, self._closed = self._closed, max(self._closed, until)
        if self._least is None or until < self._next_end(self._least, before):
            return
        held = self._groups.merged()
        if held is None:
            return
        starts = held.column(self._keys).to_numpy()
        self._least = None
        if watermark is not None:
            kept = self._latest_ends(starts) > until
            if kept.any():
                self._groups.take_back(held.filter(pa.array(kept)))
                self._note(starts[kept])
        rows, starts = self._grid.assign(starts) if self._slices is not None else (None, starts)
        ends = self._grid.ends(starts)
        ready = np.flatnonzero((ends <= until) & (ends > before))
        held = held.take(pa.array(ready if rows is None else rows[ready]))
        if held.num_rows:
            yield self._results(held, pa.array(starts[ready]))

    def _next_end(self, start: int, closed: int) -> int:
        """The end of the first window that is not closed of those in which something that starts at ``start`` is."""
        grid = self._slices or self._grid
        end = int(grid.ends(np.array([start]))[0])
        return end if end > closed else int(grid.latest_ends(np.array([closed]))[0])

    def _latest_ends(self, starts: Any) -> Any:
        return self._grid.latest_ends(starts) if self._slices is not None else self._grid.ends(starts)

    def _results(self, held: pa.Table, starts: pa.Array) -> Results:
        columns = [column.combine_chunks() for column in held.columns]
        keys, parts = [*columns[: self._keys], starts], columns[self._keys + 1 :]
        if self._overlap:
            keys, parts = self._grouping.merged(keys, parts)
        names = part_names(self._keys, len(parts))
        ends = pa.array(self._grid.ends(keys[-1].to_numpy()))
        table = by_end(pa.table([*keys, ends, *parts], [*names[: self._keys], START, END, *names[self._keys :]]))
        return Results(
            table, self._grouping.final([table.column(name).combine_chunks() for name in names[self._keys :]]), True
        )

    def due(self, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        return iter(())

    def earliest(self, watermark: int) -> int:
        """See :class:`OpenWindows`."""
        return self._grid.earliest_open(watermark * 1000)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`OpenWindows`."""
        held = self._groups.held()
        closed = {"closed": pa.table({"closed": pa.array([self._closed])})}
        return closed if held is None else {**closed, "windows": held}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`OpenWindows`."""
        self._closed = tables["closed"].column("closed")[0].as_py()
        if "windows" in tables:
            self._note(tables["windows"].column(self._keys).to_numpy())
            self._groups.take_back(tables["windows"])


_NOTHING, _EVERYTHING = -(1 << 62), 1 << 62


def has_slices(spec: WindowOperatorSpec) -> bool:
    """Return whether a window's results can be put together of partial results of slices that other tasks made."""
    window = spec.window
    whole = spec.fold is not None or bool(spec.side_outputs) or window.is_early
    return (
        window.duration_ms is not None
        and window.time == "event"
        and not whole
        and slices_of(window, spec.aggregations) is not None
    )


class Placing:
    """Puts the start of its slice behind each message.

    ``without_time`` counts the messages that have none and are left out.
    """

    def __init__(self, spec: WindowOperatorSpec, messages: Schema) -> None:
        slices = slices_of(spec.window, spec.aggregations)
        assert slices is not None
        self.without_time = 0
        self._slices = slices
        self._title = spec.title
        self._place = messages.names.index(spec.time_column or "")
        self._kind = messages.fields[self._place].type

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The messages that have a time, with the start of their slice."""
        times = micros(batch.column(self._place), self._kind, f"input of {self._title}")
        if times.null_count:
            self.without_time += times.null_count
            batch, times = batch.filter(times.is_valid()), times.drop_null()
        return placed_in_slices(batch, times.to_numpy(zero_copy_only=False), self._slices)
