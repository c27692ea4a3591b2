"""A table whose rows are valid from the event times of its side inputs on, for joins as of these (rule S7).

Temporal joins look up in it, and hosts keep it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.timed_rows import NEVER, TimedRows
from airflow_samza.task.tables.lazy_store import LazyTableStore
from airflow_samza.task.tables.parts import empty

_FOREVER = 1 << 62
"""A time (µs) behind all others."""

_FEW_ROWS = 1 << 16
"""Rows from which on it is worth looking for those that no lookup needs any more."""


class TimedStore(LazyTableStore):
    """Rows by key and time, in few parts, each at least twice as long as the next one.

    Lookups without a time find the row that is the newest by its time. What was replaced by ``forgets_before`` need not
    be kept.
    """

    forgets_before = NEVER

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._timed_rows: list[TimedRows] = []
        self._put: list[tuple[pa.RecordBatch, Numbers, Numbers]] = []
        self._kept_from: dict[str, int] = {}
        self._after_expiry = 0

    def put(self, rows: pa.RecordBatch, since: Numbers, deleted: Numbers) -> None:
        """Add rows, no key of which has a null, valid from a time each (µs); ``deleted`` marks those that delete."""
        if rows.num_rows:
            self._put.append((rows, since, deleted))

    def keep_from(self, needed: Mapping[str, int]) -> None:
        """Note from which time on (µs) each join looks rows up; what was replaced before all of them is left out."""
        self._kept_from.update(needed)
        first, parts = min(self._kept_from.values()), self._sealed()
        if first == NEVER or not parts or len(self) < max(_FEW_ROWS, 2 * self._after_expiry):
            return
        self._timed_rows = [TimedRows.merged(parts, self.key, kept_from=first)]
        self._after_expiry = len(self)

    def __len__(self) -> int:
        """The number of rows of all times."""
        return sum(map(len, self._timed_rows))

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> Numbers:
        """Return the place of the row of each key that is the newest; -1 where there is none."""
        return self._find(columns, np.full(len(columns[0]), _FOREVER, np.int64))

    def find_as_of(self, columns: Sequence[pa.Array], times: pa.Array) -> Numbers:
        """Return the place of the row of each key that was valid at one time each (µs; null: none was)."""
        return self._find(columns, times.fill_null(NEVER).to_numpy(zero_copy_only=False))

    def _find(self, columns: Sequence[pa.Array], times: Numbers) -> Numbers:
        places = np.full(len(times), -1, np.int64)
        newest = np.full(len(times), NEVER, np.int64)
        start = 0
        for part in self._sealed():
            found = part.find(columns, times)
            at = np.maximum(found, 0)
            counts = (found >= 0) & (part.since[at] >= newest)  # of equal times the last one that has come
            places[counts] = np.where(part.deleted[at], -1, found + start)[counts]
            newest[counts] = part.since[at][counts]
            start += len(part)
        return places

    @property
    def rows(self) -> pa.RecordBatch:
        """The newest row of each key."""
        parts = self._sealed()
        if not parts:
            return empty(self._arrow)
        whole = TimedRows.merged(parts, self.key)
        last = whole.starts[1:] - 1
        return whole.rows.take(pa.array(last[~whole.deleted[last]]))

    @property
    def count(self) -> int:
        """The number of rows of all times."""
        self._sealed()
        return len(self)

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(part.rows.nbytes for part in self._sealed())

    def _numbered(self) -> Iterator[tuple[Any, int]]:
        start = 0
        for part in self._sealed():
            yield part, start
            start += len(part)

    def _sealed(self) -> list[TimedRows]:
        """Return the parts, the oldest first, with what was put last among them."""
        if self._put:
            put, self._put = self._put, []
            rows = pa.concat_batches([batch.cast(self._arrow) for batch, _, _ in put])
            since, deleted = (np.concatenate(arrays) for arrays in zip(*((s, g) for _, s, g in put), strict=True))
            parts = [*self._timed_rows, TimedRows.of(rows, since, deleted, self.key)]
            while len(parts) > 1 and len(parts[-2]) < 2 * len(parts[-1]):
                parts[-2:] = [TimedRows.merged(parts[-2:], self.key, kept_from=self.forgets_before)]
            self._timed_rows = parts
        return self._timed_rows


class SequencedStore(TimedStore):
    """The newest row of each key, by a number that orders its changes; nobody looks up what was before.

    A delete is kept, too: changes of before may come after it.
    """

    forgets_before = _FOREVER
