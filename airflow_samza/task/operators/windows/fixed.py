"""Open tumbling and hopping windows with aggregations: partial results by key and start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.task.operators.accumulators import Accumulator
from airflow_samza.task.operators.grouping import Grouping
from airflow_samza.task.operators.partial_groups import PartialGroups
from airflow_samza.task.operators.windows.grids import Grid
from airflow_samza.task.operators.windows.open_windows import END, START, Results, by_end

if TYPE_CHECKING:
    import pyarrow as pa

START_COLUMN = "\0start"
"""The start of a message's window, as a column beside the message's own."""


def placed_in_windows(batch: pa.RecordBatch, times: Any, grid: Grid, watermark: int) -> pa.RecordBatch:
    """The messages, each once for every window that it is in and that is open, with the window's start behind them."""
    import pyarrow as pa

    rows, starts = grid.assign(times)
    if rows is not None:
        still = grid.ends(starts) > watermark * 1000
        rows, starts = rows[still], starts[still]
        batch = batch.take(pa.array(rows))
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(starts)], [*batch.schema.names, START_COLUMN])


class FixedWindows:
    """Tumbling or hopping windows that give one result each, when they are closed."""

    def __init__(self, spec: WindowOperatorSpec, accumulators: Sequence[Accumulator], grid: Grid) -> None:
        self._grid = grid
        self._keys = len(spec.key)
        self._columns = list(dict.fromkeys([*spec.key, *(a.column for a in spec.aggregations if a.column is not None)]))
        self._grouping = Grouping(spec, accumulators)
        self._groups = PartialGroups(spec, accumulators, key=(*spec.key, START_COLUMN))
        self._least: int | None = None

    def late(self, times: Any, watermark: int) -> Any:
        """See :class:`OpenWindows`."""
        return self._grid.latest_ends(times) <= watermark * 1000

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        placed = placed_in_windows(batch.select(self._columns), times, self._grid, watermark)
        self._note(placed.column(len(self._columns)).to_numpy())
        self._groups.add(placed)
        return iter(())

    def add_partials(self, batch: pa.RecordBatch) -> None:
        """Takes partial results in, by key and start."""
        self._note(batch.column(self._keys).to_numpy())
        self._groups.add_partials(batch)

    def _note(self, starts: Any) -> None:
        if len(starts):
            least = int(starts.min())
            self._least = least if self._least is None else min(self._least, least)

    def close(self, watermark: int | None) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        import pyarrow as pa

        if self._least is None or (watermark is not None and self._least >= self._grid.earliest_open(watermark * 1000)):
            return
        held = self._groups.merged()
        if held is None:
            return
        starts = held.column(self._keys).to_numpy()
        ends = self._grid.ends(starts)
        self._least = None
        if watermark is not None:
            ready = ends <= watermark * 1000
            rest = held.filter(pa.array(~ready))
            if rest.num_rows:
                self._groups.take_back(rest)
                self._note(starts[~ready])
            held, ends = held.filter(pa.array(ready)), ends[ready]
        yield self._results(held, ends)

    def _results(self, held: pa.Table, ends: Any) -> Results:
        import pyarrow as pa

        names = [*held.column_names[: self._keys], START, *held.column_names[self._keys + 1 :]]
        table = by_end(held.rename_columns(names).append_column(END, pa.array(ends)))
        parts = [table.column(name).combine_chunks() for name in names[self._keys + 1 :]]
        return Results(table, self._grouping.final(parts), True)

    def due(self, now: int) -> Iterator[Results]:
        """See :class:`OpenWindows`."""
        return iter(())

    def earliest(self, watermark: int) -> int:
        """See :class:`OpenWindows`."""
        least = self._grid.earliest_open(watermark * 1000)
        return least if self._least is None else min(least, self._least)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`OpenWindows`."""
        held = self._groups.held()
        return {} if held is None else {"windows": held}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`OpenWindows`."""
        if "windows" in tables:
            self._note(tables["windows"].column(self._keys).to_numpy())
            self._groups.take_back(tables["windows"])
