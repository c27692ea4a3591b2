"""Rows that a commit has taken out of some files and put into others as they were: they have not changed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_samza.systems.tables.row_hashes import Hashes, row_hashes


class RewrittenRows:
    """Rows that a commit has put into files, by hashes; those that it took out of others are compared with them.

    First all removed rows are asked for (:meth:`removed`), then those that were added (:meth:`added`). Of equal rows
    that were taken out and put in, as many cancel out as there are of both. It holds 24 bytes for each of the rows.
    """

    def __init__(self, added: Iterable[pa.RecordBatch]) -> None:
        hashes = [row_hashes(batch) for batch in added]
        none = np.empty(0, np.uint64)
        first, second = (np.concatenate([none, *(one[lane] for one in hashes)]) for lane in (0, 1))
        self._first, places, counts = np.unique(first, return_index=True, return_counts=True)
        self._second = second[places]
        self._counts = counts
        self._left = counts.copy()
        self._moved: npt.NDArray[np.int64] | None = None

    def removed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, of some that were taken out of files, that were not put into others."""
        return batch.filter(pa.array(~self._taken(self._left, row_hashes(batch))))

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, of some that were put into files, that were not in others before."""
        if self._moved is None:
            self._moved = self._counts - self._left
        return batch.filter(pa.array(~self._taken(self._moved, row_hashes(batch))))

    def _taken(self, left: npt.NDArray[np.int64], hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which rows are among those that are left, and take them: of equal ones the first that come."""
        taken = np.zeros(len(hashes.first), bool)
        if not len(self._first) or not len(taken):
            return taken
        places = np.searchsorted(self._first, hashes.first).clip(max=len(self._first) - 1)
        hits = np.flatnonzero((self._first[places] == hashes.first) & (self._second[places] == hashes.second))
        hits = hits[np.argsort(places[hits], kind="stable")]
        groups, begins, counts = np.unique(places[hits], return_index=True, return_counts=True)
        number = np.arange(len(hits)) - np.repeat(begins, counts)
        taken[hits[number < np.repeat(left[groups], counts)]] = True
        left[groups] -= np.minimum(left[groups], counts)
        return taken
