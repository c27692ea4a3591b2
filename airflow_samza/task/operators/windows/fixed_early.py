"""Open tumbling and hopping windows with early results.

By number: after exactly so many messages, wherever batches begin and end. So the messages of a batch are grouped once
more, by the result that they belong to, and where results accumulate each takes in the ones before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, same_key
from airflow_samza.task.operators.aggregation.grouping import Grouping
from airflow_samza.task.operators.aggregation.partial_groups import part_names
from airflow_samza.task.operators.windows.early import EarlyWindows, touched_windows
from airflow_samza.task.operators.windows.fixed import START_COLUMN, placed_in_windows
from airflow_samza.task.operators.windows.grids import Grid
from airflow_samza.task.operators.windows.open_windows import PANE, PENDING, Results, by_end


class EarlyFixedWindows(EarlyWindows):
    """Tumbling or hopping windows that give results before they are closed."""

    def __init__(self, spec: WindowOperatorSpec, accumulators: Sequence[Accumulator], grid: Grid) -> None:
        grouping = Grouping(spec, accumulators)
        names = part_names(len(spec.key), len(grouping.parts))
        super().__init__(spec, grid, names[len(spec.key) :])
        self._columns = list(dict.fromkeys([*spec.key, *(a.column for a in spec.aggregations if a.column is not None)]))
        self._grouping = grouping
        self._keys, self._parts = names[: len(spec.key)], names[len(spec.key) :]

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        placed = placed_in_windows(batch.select(self._columns), times, self._grid, watermark)
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
            kept = [former.column(name).combine_chunks() for name in self._parts]
            first = pa.array(np.arange(former.num_rows) * most)
            together = [pa.concat_arrays([one, other]) for one, other in zip(kept, parts, strict=True)]
            (item,), parts = self._grouping.merged([pa.concat_arrays([first, item])], together)
        order = np.argsort(item.to_numpy())
        items, parts = item.to_numpy()[order], [part.take(pa.array(order)) for part in parts]
        owner, number = items // most, items % most
        if self._early.accumulating:
            parts = self._running(owner, parts)
        done = number < full[owner]
        if done.any():
            table = windows.take(pa.array(owner[done]))
            pane = pa.array(table.column(PANE).to_numpy() + number[done])
            table = table.set_column(table.column_names.index(PANE), PANE, pane)
            yield self._results(_with(table, self._parts, [part.filter(pa.array(done)) for part in parts]), final=False)
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
        return _with(windows, self._parts, kept)

    def _results(self, windows: pa.Table, *, final: bool) -> Results:
        table = by_end(windows)
        return Results(
            table, self._grouping.final([table.column(name).combine_chunks() for name in self._parts]), final
        )


def _with(windows: pa.Table, names: Sequence[str], parts: Sequence[pa.Array]) -> pa.Table:
    for name, part in zip(names, parts, strict=True):
        windows = windows.append_column(name, part)
    return windows


def _ranks(groups: Any, counts: Any) -> Any:
    """The place of each row among those of its group."""
    order = np.argsort(groups, kind="stable")
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks
