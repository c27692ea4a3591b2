"""Early results.

They come before a window is closed, by the number of messages or by the clock.

A result holds what came since the last one, or, accumulating, all so far. Nothing is emitted for a window in which
nothing is new, but for the last result of an accumulating one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_samza.application.windows import WindowSpec
from airflow_samza.task.operators.windows.open_windows import DUE, EARLY_COLUMNS, PANE, PENDING, SEEN

if TYPE_CHECKING:
    import pyarrow as pa

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
        import numpy as np

        self._seen += count
        return np.arange(self._seen - count, self._seen)

    def due_from(self, now: int) -> int:
        """Return when a result is due of a window whose first new message came ``now``."""
        return NOT_DUE if self._after_ms is None else now + self._after_ms

    def restored(self, windows: pa.Table) -> pa.Table:
        """Takes over windows of a former epoch."""
        import pyarrow.compute as pc

        if windows.num_rows:
            self._seen = max(self._seen, pc.max(windows.column(SEEN)).as_py() + 1)
        return windows

    def carried(self, table: pa.Table, former: pa.Table | None, joined: Any, count: int, now: int) -> pa.Table:
        """Sessions with what is known of their results.

        ``joined`` is the number of the session in which each former one (``count`` of them) and each message is.
        """
        import numpy as np
        import pyarrow as pa

        sessions = table.num_rows
        came = np.bincount(joined[count:], minlength=sessions)
        pane, pending = np.zeros(sessions, np.int64), came.astype(np.int64)
        due, seen = np.full(sessions, _NEVER), np.full(sessions, _NEVER)
        if former is not None:
            into = joined[:count]
            known = {name: former.column(name).to_numpy() for name in EARLY_COLUMNS}
            np.maximum.at(pane, into, known[PANE])
            np.add.at(pending, into, known[PENDING])
            np.minimum.at(due, into, np.where(known[DUE] == NOT_DUE, _NEVER, known[DUE]))
            np.minimum.at(seen, into, known[SEEN])
        fresh = due == _NEVER
        due[fresh] = np.where(came[fresh] > 0, self.due_from(now), NOT_DUE)
        opened = seen == _NEVER
        seen[opened] = self.next_turns(int(opened.sum()))
        for name, values in zip(EARLY_COLUMNS, (pane, pending, due, seen), strict=True):
            table = table.append_column(name, pa.array(values))
        return table

    def counted(self, windows: pa.Table, results: Any, pending: Any, now: int) -> pa.Table:
        """Windows that have got messages.

        ``results`` is how many results each has had since, ``pending`` its new messages before them.
        """
        import numpy as np
        import pyarrow as pa

        rest = pending if self.every is None else pending % self.every
        due = windows.column(DUE).to_numpy()
        due = np.where(rest == 0, NOT_DUE, np.where((results > 0) | (due == NOT_DUE), self.due_from(now), due))
        changed = {PANE: windows.column(PANE).to_numpy() + results, PENDING: rest, DUE: due}
        for name, values in changed.items():
            windows = windows.set_column(windows.column_names.index(name), name, pa.array(values))
        return windows

    def full(self, windows: pa.Table | None) -> pa.Table | None:
        """The windows with as many new messages as a result waits for."""
        import pyarrow.compute as pc

        if windows is None or self.every is None:
            return None
        return windows.filter(pc.greater_equal(windows.column(PENDING), self.every))

    def due(self, windows: pa.Table, now: int) -> pa.Table:
        """The windows whose result is due, in the order in which they were opened."""
        import pyarrow as pa

        due = windows.column(DUE).to_numpy()
        chosen = (due != NOT_DUE) & (due <= now) & (windows.column(PENDING).to_numpy() > 0)
        return windows.filter(pa.array(chosen)).sort_by(SEEN)

    def last(self, windows: pa.Table) -> pa.Table:
        """Return those of closed windows that have a last result."""
        import pyarrow.compute as pc

        return windows if self.accumulating else windows.filter(pc.greater(windows.column(PENDING), 0))

    def after(self, windows: pa.Table, emitted: pa.Table) -> pa.Table:
        """Return what is left of open windows when some of them have had a result."""
        import numpy as np
        import pyarrow as pa

        had = np.isin(windows.column(SEEN).to_numpy(), emitted.column(SEEN).to_numpy())
        changed = {
            PANE: pa.array(windows.column(PANE).to_numpy() + had),
            PENDING: pa.array(np.where(had, 0, windows.column(PENDING).to_numpy())),
            DUE: pa.array(np.where(had, NOT_DUE, windows.column(DUE).to_numpy())),
        }
        if not self.accumulating:
            for name in self._parts:
                column = windows.column(name).combine_chunks()
                changed[name] = column.take(pa.array(np.arange(len(had)), mask=had))
        for name, column in changed.items():
            windows = windows.set_column(windows.column_names.index(name), name, column)
        return windows


_NEVER = (1 << 62) - 1
