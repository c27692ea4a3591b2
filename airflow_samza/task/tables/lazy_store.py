"""A table whose rows are read when their keys are looked up first, until that would read too much (decision 124).

Tasks look up in it where a table of a long version is on no host.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.task.tables.parts import Part
from airflow_samza.task.tables.store import TableStore

MOST_KEYS = 256
"""Keys that are new at a time; more lie in all parts of a table, which is read whole then."""

Key = tuple[Any, ...]


class RowsByKey(Protocol):
    """Rows that lie elsewhere, one per key."""

    @property
    def count(self) -> int:
        """Their number."""

    def of(self, keys: Sequence[Key]) -> list[pa.RecordBatch] | None:
        """Return the rows of keys, which are in ascending order; None when all rows are to be read instead."""

    def all(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""

    def close(self) -> None:
        """Close what was opened to read them; it is opened again when it is needed."""


class LazyTableStore(TableStore):
    """A table store that has its rows from elsewhere, if :meth:`read_lazily` says so.

    What needs all rows (a write, a look at all of them, many keys at a time) reads all rows first.
    """

    _elsewhere: RowsByKey | None = None
    _asked: set[Key]

    def read_lazily(self, elsewhere: RowsByKey) -> None:
        """Begin to read rows when they are looked up."""
        self._elsewhere, self._asked = elsewhere, set()

    def rest(self) -> None:
        """Close what was opened to read rows, until more are looked up."""
        if self._elsewhere is not None:
            self._elsewhere.close()

    def read_all(self) -> None:
        """Read all rows, as far as that was not done."""
        elsewhere, self._elsewhere = self._elsewhere, None
        if elsewhere is not None:
            self._asked = set()
            for rows in elsewhere.all():
                super().write(rows)
            elsewhere.close()

    def start_from(self, base: ColumnarTable) -> None:
        """Replace all rows; see the base class."""
        self._elsewhere = None
        super().start_from(base)

    def write(self, batch: pa.RecordBatch, times: Any = None, deleted: Any = False) -> None:
        """Upsert or delete rows; see the base class."""
        self.read_all()
        super().write(batch, times, deleted)

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> Numbers:
        """Return the place of the row of each key; see the base class."""
        if self._elsewhere is not None:
            self._fetch(self._elsewhere, columns)
        return super().find(columns, now)

    @property
    def count(self) -> int:
        """The number of rows, here and elsewhere."""
        return self._elsewhere.count if self._elsewhere is not None else super().count

    def _compacted(self) -> Part | None:
        self.read_all()
        return super()._compacted()

    def _fetch(self, elsewhere: RowsByKey, columns: Sequence[pa.Array]) -> None:
        keys = pa.Table.from_arrays(list(columns), [str(place) for place in range(len(columns))])
        different = keys.group_by(keys.column_names, use_threads=False).aggregate([])
        if different.num_rows > MOST_KEYS:
            self.read_all()
            return
        asked = zip(*(column.to_pylist() for column in different.columns), strict=True)
        new = sorted(key for key in asked if None not in key and key not in self._asked)
        if not new:
            return
        found = elsewhere.of(new)
        if found is None:
            self.read_all()
            return
        self._asked.update(new)
        for rows in found:
            super().write(rows)
