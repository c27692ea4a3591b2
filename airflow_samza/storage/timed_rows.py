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


@dataclass(frozen=True, eq=False)
class TimedRows:
    """Rows in the order of keys, and of the times (µs) from which they are valid (``since``), one for a key and time.

    ``keys`` has each key once; the rows of key k are those of the places ``starts[k]`` to ``starts[k + 1]``.
    ``deleted`` marks those that delete their key from their time on.
    """

    keys: ColumnarTable
    rows: pa.RecordBatch
    starts: Numbers
    since: Numbers
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

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.since)

    def find(self, columns: Sequence[pa.Array], times: Numbers) -> Numbers:
        """Return the place of the row of each key valid at one time each, also of one that deletes; -1: none."""
        group = self.keys.find(columns)
        known = group >= 0
        group = np.where(known, group, 0)
        ranks = np.searchsorted(self._moments, times, side="right") - 1
        known &= ranks >= 0
        at = np.searchsorted(self._places, group * len(self._moments) + ranks, side="right") - 1
        known &= at >= self.starts[group]
        return np.where(known, at, -1)

    @cached_property
    def _moments(self) -> Numbers:
        """All times, each once, in order."""
        return np.unique(self.since)

    @cached_property
    def _places(self) -> Numbers:
        """One number for each row, in ascending order: of its key, and of its time among all times."""
        group = np.repeat(np.arange(len(self.keys)), np.diff(self.starts))
        places: Numbers = group * len(self._moments) + np.searchsorted(self._moments, self.since)
        return places
