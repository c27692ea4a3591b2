"""Tables of open windows: which of them the messages of a batch are in, and which are closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.task.operators.windows.early import NOT_DUE, EarlyResults
from airflow_samza.task.operators.windows.grids import Grid
from airflow_samza.task.operators.windows.open_windows import DUE, END, PANE, PENDING, SEEN, START, codes_of

if TYPE_CHECKING:
    import pyarrow as pa


def touched_windows(
    opened: pa.Table | None, key_names: Sequence[str], keys: Sequence[pa.Array], grid: Grid, early: EarlyResults
) -> tuple[Any, pa.Table, pa.Table | None, pa.Table | None]:
    """The windows that messages are in, of which ``keys`` are the key columns and the start.

    Gives the place of each message's window among them; the windows, without parts, those that were open before first;
    these as they are in ``opened``; and the other open ones. None stands for no windows.
    """
    import numpy as np
    import pyarrow as pa

    before = 0 if opened is None else opened.num_rows
    together = list(keys)
    if opened is not None:
        mine = [opened.column(name) for name in (*key_names, START)]
        together = [
            pa.chunked_array([*one.chunks, other]).combine_chunks() for one, other in zip(mine, keys, strict=True)
        ]
    codes = codes_of(together, before + len(keys[0]))
    touched, firsts, window = np.unique(codes[before:], return_index=True, return_inverse=True)
    fresh = firsts[touched >= before]
    made = [column.take(pa.array(fresh)) for column in keys]
    zeros = pa.array(np.zeros(len(fresh), np.int64))
    columns = dict(zip((*key_names, START), made, strict=True))
    columns |= {END: pa.array(grid.ends(made[-1].to_numpy())), PANE: zeros, PENDING: zeros}
    columns |= {DUE: pa.array(np.full(len(fresh), NOT_DUE)), SEEN: pa.array(early.next_turns(len(fresh)))}
    windows = pa.table(columns)
    if opened is None or len(fresh) == len(touched):
        return window, windows, None, opened
    known = opened.take(pa.array(touched[touched < before]))
    others = opened.filter(pa.array(~np.isin(np.arange(before), touched)))
    return window, pa.concat_tables([known.select(windows.column_names), windows]), known, others


def closed_windows(opened: pa.Table, watermark: int | None) -> tuple[pa.Table, pa.Table | None]:
    """Return the windows that are complete at a watermark (ms; None: all), oldest first, and the others."""
    import pyarrow as pa

    if watermark is None:
        return opened.sort_by(SEEN), None
    closed = opened.column(END).to_numpy() <= watermark * 1000
    if not closed.any():
        return opened.slice(0, 0), opened
    rest = opened.filter(pa.array(~closed))
    return opened.filter(pa.array(closed)).sort_by(SEEN), rest if rest.num_rows else None
