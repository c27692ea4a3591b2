"""Open windows as tables: their columns, their order, and the form in which they are handed over.

What keeps the open windows of a task hands them over to the window operator in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

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


def by_end(table: pa.Table) -> pa.Table:
    """Windows in the order of their ends; those of one end as they were opened."""
    ends = table.column(END).to_numpy()
    if len(ends) > 1 and not (ends[1:] >= ends[:-1]).all():
        table = table.take(np.argsort(ends, kind="stable"))
    return table


def with_columns(windows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return windows with some columns, in the place of those of the same names or behind the others."""
    return pa.table({**dict(zip(windows.column_names, windows.columns, strict=True)), **columns})


def with_more(windows: pa.Table, names: Sequence[str], more: Sequence[pa.Array]) -> list[pa.Array]:
    """Return columns of windows, each with more values behind."""
    return [pa.concat_arrays([*windows.column(name).chunks, one]) for name, one in zip(names, more, strict=True)]
