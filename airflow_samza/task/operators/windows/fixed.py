"""Open tumbling and hopping windows with aggregations: partial results by key and start, with or without early ones.

The window operator holds them; the combiner cuts time as they do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, same_key
from airflow_samza.task.operators.aggregation.grouping import Grouping
from airflow_samza.task.operators.aggregation.partial_groups import PartialGroups, part_names
from airflow_samza.task.operators.windows.early import EarlyWindows, touched_windows
from airflow_samza.task.operators.windows.grids import Grid, grid_of, slices_of
from airflow_samza.task.operators.windows.open_windows import (
    END,
    PANE,
    PENDING,
    START,
    Results,
    by_end,
    with_columns,
    with_more,
)

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
        self._groups = PartialGroups(spec, accumulators, key=(*spec.key, START_COLUMN))
        self._closed = _NOTHING  # windows that end here or before are closed

    def late(self, times: Any, watermark: int) -> Any:
        """Return a numpy mask of the messages that are late.

        All windows that they are in are closed at the watermark (ms). ``times`` are in microseconds.
        """
        return self._grid.latest_ends(times) <= watermark * 1000

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """Add messages that are not late; return early results that are complete with them.

        ``now``: the clock, in ms.
        """
        chosen = batch.select(self._groups.grouping.columns)
        self._groups.add(placed_in_windows(chosen, times, self._slices or self._grid, watermark))
        return iter(())

    def add_partials(self, batch: pa.RecordBatch) -> None:
        """Takes partial results in, by key and slice."""
        self._groups.add_partials(batch)

    def close(self, watermark: int | None) -> Iterator[Results]:
        """Close and return the windows that are complete at a watermark (ms; None: all)."""
        until = _EVERYTHING if watermark is None else watermark * 1000
        before, self._closed = self._closed, max(self._closed, until)
        if before != _NOTHING and until < self._first_end_behind(before):
            return
        held = self._groups.merged()
        if held is None:
            return
        starts = held.column(self._keys).to_numpy()
        if watermark is not None:
            kept = (self._grid.ends(starts) if self._slices is None else self._grid.latest_ends(starts)) > until
            if kept.any():
                self._groups.take_back(held.filter(pa.array(kept)))
        rows, starts = self._grid.assign(starts) if self._slices is not None else (None, starts)
        ends = self._grid.ends(starts)
        ready = np.flatnonzero((ends <= until) & (ends > before))
        held = held.take(pa.array(ready if rows is None else rows[ready]))
        if held.num_rows:
            yield self._results(held, pa.array(starts[ready]))

    def _first_end_behind(self, time: int) -> int:
        return int(self._grid.ends(np.array([self._grid.earliest_open(time)]))[0])

    def _results(self, held: pa.Table, starts: pa.Array) -> Results:
        columns = [column.combine_chunks() for column in held.columns]
        keys, parts = [*columns[: self._keys], starts], columns[self._keys + 1 :]
        if self._overlap:
            keys, parts = self._groups.grouping.merged(keys, parts)
        names = part_names(self._keys, len(parts))
        ends = pa.array(self._grid.ends(keys[-1].to_numpy()))
        table = by_end(pa.table([*keys, ends, *parts], [*names[: self._keys], START, END, *names[self._keys :]]))
        return Results(table, self._groups.grouping.final(table), True)

    def due(self, now: int) -> Iterator[Results]:
        """Return early results that are due by the clock (ms)."""
        return iter(())

    def earliest(self, watermark: int) -> int:
        """Return the smallest start of a window that is open, or that may still be opened at ``watermark`` (ms)."""
        return self._grid.earliest_open(watermark * 1000)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The open windows."""
        held = self._groups.held()
        closed = {"closed": pa.table({"closed": pa.array([self._closed])})}
        return closed if held is None else {**closed, "windows": held}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        self._closed = tables["closed"].column("closed")[0].as_py()
        if "windows" in tables:
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


class EarlyFixedWindows(EarlyWindows):
    """Tumbling or hopping windows that give results before they are closed.

    By number: after exactly so many messages, wherever batches begin and end. So the messages of a batch are grouped
    once more, by the result that they belong to, and where results accumulate each takes in the ones before it.
    """

    def __init__(self, spec: WindowOperatorSpec, accumulators: Sequence[Accumulator]) -> None:
        self._grouping = Grouping(spec, accumulators)
        names = part_names(len(spec.key), len(self._grouping.parts))
        self._keys, self._parts = names[: len(spec.key)], names[len(spec.key) :]
        super().__init__(spec, self._parts)

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`FixedWindows`."""
        placed = placed_in_windows(batch.select(self._grouping.columns), times, self._grid, watermark)
        if not placed.num_rows:
            return
        keys = [same_key(placed.column(name)) for name in (*self._spec.key, START_COLUMN)]
        window, windows, former, others = touched_windows(self._open, self._keys, keys, self._grid, self._early)
        came = np.bincount(window, minlength=windows.num_rows)
        pending = windows.column(PENDING).to_numpy()
        result, full = np.zeros(len(window), np.int64), np.zeros(windows.num_rows, np.int64)
        if self._early.every is not None:
            result = (pending[window] + _ranks(window, came)) // self._early.every
            full = (pending + came) // self._early.every
        most = int(result.max()) + 1
        (item,), parts = self._grouping.keys_and_parts([pa.array(window * most + result)], placed)
        if former is not None:  # what windows have kept is part of their first result
            first = pa.array(np.arange(former.num_rows) * most)
            together = with_more(former, self._parts, parts)
            (item,), parts = self._grouping.merged([pa.concat_arrays([first, item])], together)
        order = np.argsort(item.to_numpy())
        items, parts = item.to_numpy()[order], [part.take(pa.array(order)) for part in parts]
        owner, number = items // most, items % most
        if self._early.accumulating:
            parts = self._running(owner, parts)
        done = number < full[owner]
        if done.any():
            table = windows.take(pa.array(owner[done]))
            columns = dict(zip(self._parts, (part.filter(pa.array(done)) for part in parts), strict=True))
            columns[PANE] = pa.array(table.column(PANE).to_numpy() + number[done])
            yield self._results(with_columns(table, columns), final=False)
        left = self._left(windows, owner, parts, done, full, pending + came, now)
        self._open = left if others is None else pa.concat_tables([others, left.select(others.column_names)])

    def _running(self, owner: Any, parts: list[pa.Array]) -> list[pa.Array]:
        """Parts of results, each with those of the same window before it.

        Steps double, so that it takes few passes.
        """
        rows = np.arange(len(owner))
        step = 1
        while (same := owner[step:] == owner[:-step]).any():
            former = pa.array(rows[:-step][same])
            items = pa.concat_arrays([pa.array(rows[step:][same]), pa.array(rows)])
            together = [pa.concat_arrays([part.take(former), part]) for part in parts]
            (item,), merged = self._grouping.merged([items], together)
            order = pa.array(np.argsort(item.to_numpy()))
            parts = [part.take(order) for part in merged]
            step *= 2
        return parts

    def _left(
        self, windows: pa.Table, owner: Any, parts: list[pa.Array], done: Any, full: Any, pending: Any, now: int
    ) -> pa.Table:
        """The windows that have had messages, as they are now."""
        last = np.append(
            np.flatnonzero(owner[1:] != owner[:-1]), len(owner) - 1
        )  # the last result of each window, begun or done
        kept = [part.take(pa.array(last)) for part in parts]
        if not self._early.accumulating and done[last].any():
            empty = pa.array(np.arange(windows.num_rows), mask=done[last])
            kept = [part.take(empty) for part in kept]
        windows = self._early.counted(windows, full, pending, now)
        return with_columns(windows, dict(zip(self._parts, kept, strict=True)))

    def _results(self, windows: pa.Table, *, final: bool) -> Results:
        table = by_end(windows)
        return Results(table, self._grouping.final(table), final)


def _ranks(groups: Any, counts: Any) -> Any:
    """The place of each row among those of its group."""
    order = np.argsort(groups, kind="stable")
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
