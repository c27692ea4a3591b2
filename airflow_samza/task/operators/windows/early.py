"""Early results, which come before a window is closed, by the number of messages or by the clock.

A result holds what came since the last one, or, accumulating, all so far. Nothing is emitted for a window in which
nothing is new, but for the last result of an accumulating one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.windows import WindowSpec
from airflow_samza.task.operators.aggregation.accumulators import key_codes
from airflow_samza.task.operators.windows.grids import Grid, grid_of
from airflow_samza.task.operators.windows.open_windows import (
    DUE,
    EARLY_COLUMNS,
    END,
    PANE,
    PENDING,
    SEEN,
    START,
    Results,
    with_columns,
    with_more,
)

NOT_DUE = -1


class EarlyResults:
    """The early results of one operator.

    Windows are tables with :data:`EARLY_COLUMNS`, the messages' parts in the columns ``parts``.
    """

    def __init__(self, window: WindowSpec, parts: list[str]) -> None:
        self.every = window.early_every
        self.accumulating = window.accumulating
        self._after_ms = window.early_after_ms
        self._parts = parts
        self._seen = 0

    def next_turns(self, count: int) -> Any:
        """The turns of so many windows that are opened now."""
        self._seen += count
        return np.arange(self._seen - count, self._seen)

    def due_from(self, now: int) -> int:
        """Return when a result is due of a window whose first new message came ``now``."""
        return NOT_DUE if self._after_ms is None else now + self._after_ms

    def restored(self, windows: pa.Table) -> pa.Table:
        """Takes over windows of a former epoch."""
        if windows.num_rows:
            self._seen = max(self._seen, pc.max(windows.column(SEEN)).as_py() + 1)
        return windows

    def carried(self, table: pa.Table, former: pa.Table | None, joined: Any, count: int, now: int) -> pa.Table:
        """Sessions with what is known of their results.

        ``joined`` is the number of the session in which each former one (``count`` of them) and each message is.
        """
        sessions = table.num_rows
        came = np.bincount(joined[count:], minlength=sessions)
        pane, pending = np.zeros(sessions, np.int64), came.astype(np.int64)
        due, seen = np.full(sessions, _NEVER), np.full(sessions, _NEVER)
        if former is not None:
            into = joined[:count]
            before = {name: former.column(name).to_numpy() for name in EARLY_COLUMNS}
            np.maximum.at(pane, into, before[PANE])
            np.add.at(pending, into, before[PENDING])
            np.minimum.at(due, into, np.where(before[DUE] == NOT_DUE, _NEVER, before[DUE]))
            np.minimum.at(seen, into, before[SEEN])
        fresh = due == _NEVER
        due[fresh] = np.where(came[fresh] > 0, self.due_from(now), NOT_DUE)
        opened = seen == _NEVER
        seen[opened] = self.next_turns(int(opened.sum()))
        return with_columns(table, dict(zip(EARLY_COLUMNS, (pane, pending, due, seen), strict=True)))

    def counted(self, windows: pa.Table, results: Any, pending: Any, now: int) -> pa.Table:
        """Windows that have got messages.

        ``results`` is how many results each has had since, ``pending`` its new messages before them.
        """
        rest = pending if self.every is None else pending % self.every
        due = windows.column(DUE).to_numpy()
        due = np.where(rest == 0, NOT_DUE, np.where((results > 0) | (due == NOT_DUE), self.due_from(now), due))
        return with_columns(windows, {PANE: windows.column(PANE).to_numpy() + results, PENDING: rest, DUE: due})

    def full(self, windows: pa.Table | None) -> pa.Table | None:
        """The windows with as many new messages as a result waits for."""
        if windows is None or self.every is None:
            return None
        return windows.filter(pc.greater_equal(windows.column(PENDING), self.every))

    def due(self, windows: pa.Table, now: int) -> pa.Table:
        """The windows whose result is due, in the order in which they were opened."""
        due = windows.column(DUE).to_numpy()
        chosen = (due != NOT_DUE) & (due <= now) & (windows.column(PENDING).to_numpy() > 0)
        return windows.filter(pa.array(chosen)).sort_by(SEEN)

    def last(self, windows: pa.Table) -> pa.Table:
        """Return those of closed windows that have a last result."""
        return windows if self.accumulating else windows.filter(pc.greater(windows.column(PENDING), 0))

    def after(self, windows: pa.Table, emitted: pa.Table) -> pa.Table:
        """Return what is left of open windows when some of them have had a result."""
        had = np.isin(windows.column(SEEN).to_numpy(), emitted.column(SEEN).to_numpy())
        changed = {
            PANE: windows.column(PANE).to_numpy() + had,
            PENDING: np.where(had, 0, windows.column(PENDING).to_numpy()),
            DUE: np.where(had, NOT_DUE, windows.column(DUE).to_numpy()),
        }
        if not self.accumulating:
            for name in self._parts:
                column = windows.column(name).combine_chunks()
                changed[name] = column.take(pa.array(np.arange(len(had)), mask=had))
        return with_columns(windows, changed)


_NEVER = (1 << 62) - 1


def touched_windows(
    opened: pa.Table | None, key_names: Sequence[str], keys: Sequence[pa.Array], grid: Grid, early: EarlyResults
) -> tuple[Any, pa.Table, pa.Table | None, pa.Table | None]:
    """The windows that messages are in, of which ``keys`` are the key columns and the start.

    Gives the place of each message's window among them; the windows, without parts, those that were open before first;
    these as they are in ``opened``; and the other open ones. None stands for no windows.
    """
    before = 0 if opened is None else opened.num_rows
    together = keys if opened is None else with_more(opened, (*key_names, START), keys)
    codes = key_codes(together, before + len(keys[0]))
    touched, firsts, window = np.unique(codes[before:], return_index=True, return_inverse=True)
    fresh = firsts[touched >= before]
    new_keys = [column.take(pa.array(fresh)) for column in keys]
    zeros = pa.array(np.zeros(len(fresh), np.int64))
    windows = pa.table(
        {
            **dict(zip((*key_names, START), new_keys, strict=True)),
            END: pa.array(grid.ends(new_keys[-1].to_numpy())),
            PANE: zeros,
            PENDING: zeros,
            DUE: pa.array(np.full(len(fresh), NOT_DUE)),
            SEEN: pa.array(early.next_turns(len(fresh))),
        }
    )
    if opened is None or len(fresh) == len(touched):
        return window, windows, None, opened
    reopened = opened.take(pa.array(touched[touched < before]))
    others = opened.filter(pa.array(~np.isin(np.arange(before), touched)))
    return window, pa.concat_tables([reopened.select(windows.column_names), windows]), reopened, others


def closed_windows(opened: pa.Table, until: int | None) -> tuple[pa.Table, pa.Table | None]:
    """Return the windows that end at a time (µs; None: all) or before, and the others."""
    if until is None:
        return opened, None
    closed = opened.column(END).to_numpy() <= until
    if not closed.any():
        return opened.slice(0, 0), opened
    rest = opened.filter(pa.array(~closed))
    return opened.filter(pa.array(closed)), rest if rest.num_rows else None


class EarlyWindows:
    """Open tumbling or hopping windows that may give results before they are closed, kept as one table."""

    def __init__(self, spec: WindowOperatorSpec, parts: list[str]) -> None:
        self._spec = spec
        self._grid = grid_of(spec.window)
        self._early = EarlyResults(spec.window, parts)
        self._open: pa.Table | None = None

    def _results(self, windows: pa.Table, *, final: bool) -> Results:
        """Return the results of windows."""
        raise NotImplementedError

    def _forget(self, windows: pa.Table) -> None:
        """Drop what is kept beside the table of windows that are closed, or begin anew."""

    def late(self, times: Any, watermark: int) -> Any:
        """See :class:`.FixedWindows`."""
        return self._grid.latest_ends(times) <= watermark * 1000

    def close(self, watermark: int | None) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        if self._open is None:
            return
        closed, self._open = closed_windows(self._open, None if watermark is None else watermark * 1000)
        last = self._early.last(closed.sort_by(SEEN))
        if last.num_rows:
            yield self._results(last, final=True)
        self._forget(closed)

    def due(self, now: int) -> Iterator[Results]:
        """See :class:`.FixedWindows`."""
        due = self._early.due(self._open, now) if self._open is not None else None
        if due is None or not due.num_rows:
            return
        yield self._results(due, final=False)
        self._open = self._early.after(self._open, due)
        if not self._early.accumulating:
            self._forget(due)

    def earliest(self, watermark: int) -> int:
        """See :class:`.FixedWindows`."""
        return self._grid.earliest_open(watermark * 1000)

    def snapshot(self) -> Mapping[str, pa.Table]:
        """See :class:`.FixedWindows`."""
        return {} if self._open is None else {"windows": self._open}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """See :class:`.FixedWindows`."""
        if "windows" in tables:
            self._open = self._early.restored(tables["windows"])
