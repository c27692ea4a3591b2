"""Rows by key, each valid from a time on until the next one of its key; looked up a column at a time.

Temporal joins and tables of timed rows look up in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import as_rows

NEVER = -(1 << 62)
"""A time (µs) before all others."""


_CHUNK = 32_768
"""Keys looked up at a time: the temporary columns then stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class RowsByTime:
    """Rows in the order of keys, and of the numbers from which they are valid (``since``): times, or versions.

    ``keys`` has each key once; the rows of key k are those of the places ``starts[k]`` to ``starts[k + 1]``.
    """

    keys: ColumnarTable
    rows: pa.RecordBatch
    starts: Numbers
    since: Numbers

    def __len__(self) -> int:
        return len(self.since)

    def find(self, columns: Sequence[pa.Array], moments: Numbers) -> Numbers:
        """Return the place of the last row (int64) of each key that is valid from one moment each, or before; -1: none.

        It may have ended since.
        """
        if not len(self.since):
            return np.full(len(moments), -1, np.int64)
        group = self.keys.find(columns)
        parts = [slice(start, start + _CHUNK) for start in range(0, max(len(moments), 1), _CHUNK)]
        return np.concatenate([self._last(group[part], moments[part]) for part in parts])

    def _last(self, group: Numbers, moments: Numbers) -> Numbers:
        known = group >= 0
        group = np.where(known, group, 0)
        first, end = self.starts[group], self.starts[group + 1]
        at, last = first - 1, len(self.since) - 1
        for step in reversed(range(self._steps)):  # halving what is left, of all keys at a time
            further = at + (1 << step)
            at = np.where((further < end) & (self.since[np.minimum(further, last)] <= moments), further, at)
        return np.where(known & (at >= first), at, -1)

    @cached_property
    def _steps(self) -> int:
        """Halvings that find one among the rows of any key."""
        return int(np.diff(self.starts).max()).bit_length()


@dataclass(frozen=True, eq=False)
class TimedRows(RowsByTime):
    """Rows by key and time (µs), one for both; ``deleted`` marks those that delete their key from their time on."""

    deleted: Numbers

    @staticmethod
    def of(
        rows: pa.RecordBatch, since: Numbers, deleted: Numbers, key: Sequence[str], *, kept_from: int = NEVER
    ) -> TimedRows:
        """Return rows in any order, no key of which has a null; of those of one key and time the last one counts.

        A row that is replaced by ``kept_from`` already is left out: nobody looks up what was valid before.
        """
        keys = ColumnarTable.of(rows.select(list(key)), key)
        group = keys.find([rows.column(name) for name in key])
        order = np.lexsort((since, group))  # stable: of equal times in the order in which they came
        same_key = group[order][1:] == group[order][:-1]
        times = since[order]
        superseded = same_key & ((times[1:] == times[:-1]) | (times[1:] <= kept_from))
        order = order[np.append(~superseded, np.ones(min(len(order), 1), bool))]
        starts = np.searchsorted(group[order], np.arange(len(keys) + 1)).astype(np.int64)
        return TimedRows(keys, rows.take(as_rows(order)), starts, since[order], deleted[order])

    @staticmethod
    def merged(parts: Sequence[TimedRows], key: Sequence[str], *, kept_from: int = NEVER) -> TimedRows:
        """Return the rows of several, of which later ones count where they have the same key and time."""
        rows = pa.concat_batches([part.rows for part in parts])
        since, deleted = (np.concatenate(arrays) for arrays in zip(*((p.since, p.deleted) for p in parts), strict=True))
        return TimedRows.of(rows, since, deleted, key, kept_from=kept_from)
