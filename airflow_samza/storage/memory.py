"""A store in memory.

A sorted dict over the Arrow table of the last snapshot, so that a snapshot converts only what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedDict

from airflow_samza.storage.store import BASE, StoreLayout, Values, merged, numbered_changes, too_large


class MemoryStore:
    """Store in memory (decision 39): entries by key; those that were restored stay in Arrow until they are read.

    A snapshot costs a copy of the table, and Python work only for keys that changed since the table was taken over;
    when they are many, the snapshot is taken over. What changed and what did not is merged in key order, so equal
    entries make equal tables.
    """

    def __init__(self, layout: StoreLayout, most_bytes: int | None = None) -> None:
        self.layout = layout
        self._most = most_bytes
        self._take_over(layout.table([]))

    def _take_over(self, base: pa.Table) -> None:
        self._base = base
        self._columns = base.columns[len(self.layout.key.fields) :]
        # An entry is the row of its key in the base, or the value itself.
        self._entries: SortedDict[Any, int | Values] = SortedDict(
            zip(self.layout.keys_of(base), range(base.num_rows), strict=True)
        )
        self._changed: set[Any] = set()
        self._left = np.ones(base.num_rows, bool)
        """The rows of the base that are still entries."""
        self._latest: pa.Table | None = base
        """The snapshot, while nothing has changed since it was taken."""

    def get(self, key: Any) -> Values | None:
        """Return the value of a key, or None."""
        entry = self._entries.get(key)
        return _row(self._columns, entry) if isinstance(entry, int) else entry

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Values]:
        """Return the values of those keys that are there."""
        entries = ((key, self.get(key)) for key in keys)
        return {key: value for key, value in entries if value is not None}

    def put(self, key: Any, value: Values) -> None:
        """Set a value."""
        self._give_up(key)
        self._entries[key] = value
        self._changed.add(key)

    def delete(self, key: Any) -> None:
        """Remove a key; one that is not there is no error."""
        self._give_up(key)
        self._entries.pop(key, None)
        self._changed.discard(key)

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Values]]:
        """Return the entries from ``first`` up to and without ``last``, in key order, as they are now.

        None leaves that end open.
        """
        entries, columns = self._entries, self._columns
        entries_in_order = [(key, entries[key]) for key in entries.irange(first, last, inclusive=(True, False))]
        return ((key, _row(columns, entry) if isinstance(entry, int) else entry) for key, entry in entries_in_order)

    def kept(self) -> dict[str, pa.Table]:
        """Return a base alone: what does not fit into memory twice has no place here."""
        if self._latest is None:
            self._latest = self._merged()
            if self._most is not None and self._latest.nbytes > self._most:
                raise too_large(self.layout.name, "holds", self._latest.nbytes, self._most)
            if len(self._changed) > self._latest.num_rows // 8:  # the next snapshot would convert them again
                self._take_over(self._latest)
        return {BASE: self._latest}

    def restore_kept(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what a store kept, of this kind or another."""
        changes = [table for _, table in numbered_changes(tables)]
        self._take_over(merged(self.layout, self.layout.checked(tables[BASE]), changes).combine_chunks())

    def close(self) -> None:
        """Let go of the entries."""
        self._take_over(self.layout.table([]))

    def _give_up(self, key: Any) -> None:
        self._latest = None
        entry = self._entries.get(key)
        if isinstance(entry, int):
            self._left[entry] = False

    def _merged(self) -> pa.Table:
        """Yield what is left of the base and what changed, each changed key at its place in the order."""
        changed = sorted(self._changed)
        old = self._base.filter(pa.array(self._left))
        new = self.layout.table([(key, self._entries[key]) for key in changed])
        places = np.fromiter((self._entries.index(key) for key in changed), np.int64, len(changed))
        order = np.empty(len(self._entries), np.int64)
        is_new = np.zeros(len(order), bool)
        is_new[places] = True
        order[is_new] = old.num_rows + np.arange(len(changed))
        order[~is_new] = np.arange(old.num_rows)
        return pa.concat_tables([old, new]).take(pa.array(order)).combine_chunks()


def _row(columns: list[pa.ChunkedArray], row: int) -> Values:
    return tuple(column[row].as_py() for column in columns)
