"""The interface of what keeps a task's open windows, and the rows in which they are handed over.

The window operator asks it, and the aggregation hands over its rows likewise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

START, END = "start", "end"
"""Columns of windows, int64 microseconds; before them stand the key ``k0`` …, behind them the parts ``p0`` …"""

PANE, PENDING, DUE, SEEN = "pane", "pending", "due", "seen"
"""Columns of windows with early results.

They hold the number of the next one, the messages since the last one, when one is due (ms; -1: not), and the window's
turn among those that were opened.
"""

EARLY_COLUMNS = (PANE, PENDING, DUE, SEEN)


@dataclass(frozen=True)
class Results:
    """Windows to emit: ``table`` has the columns above, ``values`` the finished columns by name.

    ``final`` when the windows are closed.
    """

    table: pa.Table
    values: Mapping[str, Any]
    final: bool


class OpenWindows(Protocol):
    """The open windows of one operator. Times are microseconds."""

    def late(self, times: Any, watermark: int) -> Any:
        """Return a numpy mask of the messages that are late.

        All windows that they are in are closed at the watermark (ms).
        """
        ...

    def add(self, batch: pa.RecordBatch, times: Any, watermark: int, now: int) -> Iterator[Results]:
        """Add messages that are not late; return early results that are complete with them.

        ``now``: the clock, in ms.
        """
        ...

    def close(self, watermark: int | None) -> Iterator[Results]:
        """Close and return the windows that are complete at a watermark (ms; None: all)."""
        ...

    def due(self, now: int) -> Iterator[Results]:
        """Return early results that are due by the clock (ms)."""
        ...

    def earliest(self, watermark: int) -> int:
        """Return the smallest start of a window that is open, or that may still be opened at ``watermark`` (ms)."""
        ...

    def snapshot(self) -> Mapping[str, pa.Table]:
        """The open windows."""
        ...

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        ...


def codes_of(keys: Sequence[pa.Array], rows: int) -> Any:
    """A number from 0 for each distinct key, in the order in which they come (numpy int64 per row).

    Equal keys have equal bits.
    """
    if not keys or not rows:
        return np.zeros(rows, np.int64)
    names = [f"k{place}" for place in range(len(keys))]
    grouped = (
        pa.table([*keys, pa.array(np.arange(rows))], [*names, "row"])
        .group_by(names, use_threads=False)
        .aggregate([("row", "list")])
    )
    lists = grouped.column("row_list").combine_chunks()
    lengths = pc.list_value_length(lists).to_numpy()
    members = lists.flatten().to_numpy()
    firsts = members[np.cumsum(lengths) - lengths]
    turns = np.empty(len(lists), np.int64)
    turns[np.argsort(firsts)] = np.arange(len(lists))
    codes = np.empty(rows, np.int64)
    codes[members] = np.repeat(turns, lengths)
    return codes


def by_end(table: pa.Table) -> pa.Table:
    """Windows in the order of their ends; those of one end as they were opened."""
    ends = table.column(END).to_numpy()
    if len(ends) > 1 and not (ends[1:] >= ends[:-1]).all():
        table = table.take(np.argsort(ends, kind="stable"))
    return table
