"""Parts of a table: rows that never change, one per key, with an index.

They become one, and are kept as Arrow tables. Of several parts the newest that has a key counts. A part may mark keys
as deleted, and hold the time at which each row was written.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import KeyIndex, as_rows, make_index

DELETED, WRITTEN = "deleted", "written_ms"
"""Columns that are kept behind those of the table.

They say whether the key is gone, and give the row's time, where rows have a time to live.
"""


def rows_with_key(columns: Sequence[pa.Array]) -> Numbers | None:
    """Return a mask of the rows without a null in the columns of their key; None when that is every row."""
    valid = [column.is_valid().to_numpy(zero_copy_only=False) for column in columns if column.null_count]
    return np.logical_and.reduce(valid) if valid else None


def key_begins(columns: Sequence[pa.Array]) -> Numbers:
    """Return a mask of the rows with another key than the row before them; no key has a null, and NaN is like NaN."""
    begins = np.ones(len(columns[0]), bool)
    same = begins[1:]
    for column in columns:
        one, other = column.slice(0, len(column) - 1), column.slice(1)
        equal = pc.equal(one, other)
        if pa.types.is_floating(column.type):
            equal = pc.or_(equal, pc.and_(pc.is_nan(one), pc.is_nan(other)))
        same &= equal.to_numpy(zero_copy_only=False)
    np.logical_not(same, out=same)
    return begins


@dataclass(frozen=True)
class Part:
    """Rows, one per key.

    ``deleted`` marks deletions of keys (None: there are none), ``times`` when each was written.
    """

    rows: pa.RecordBatch
    key: tuple[str, ...]
    deleted: Numbers | None
    times: Numbers | None
    index: KeyIndex

    @staticmethod
    def of(rows: pa.RecordBatch, key: tuple[str, ...], deleted: Numbers | None, times: Numbers | None) -> Part:
        """The part that rows make, of which the last of each key counts."""
        index, counting = make_index([rows.column(name) for name in key])
        if counting is not None:
            rows = rows.take(as_rows(counting))
            deleted = deleted[counting] if deleted is not None else None
            times = times[counting] if times is not None else None
        return Part(rows, key, deleted, times, index)

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def find(self, columns: Sequence[pa.Array]) -> Numbers:
        """The row of each key, -1 where there is none."""
        return self.index.find(self._keys, columns)

    @cached_property
    def _keys(self) -> list[pa.Array]:
        return [self.rows.column(name) for name in self.key]

    def superseded(self, newer: Sequence[Part]) -> Numbers:
        """Return the rows whose keys are in newer parts, too; a row comes once for each of those."""
        rows = np.concatenate([np.zeros(0, np.int64), *(self.find(part._keys) for part in newer)])
        return rows[rows >= 0]

    def without(self, rows: Numbers) -> Numbers:
        """All rows but these, in order."""
        left = np.ones(len(self), bool)
        left[rows] = False
        return np.flatnonzero(left)

    def to_table(self) -> pa.Table:
        """The part as it is kept; :func:`from_tables` reads it back."""
        table = pa.Table.from_batches([self.rows])
        if self.deleted is not None:
            table = table.append_column(DELETED, pa.array(self.deleted))
        if self.times is not None:
            table = table.append_column(WRITTEN, pa.array(self.times))
        return table


def merged(parts: Sequence[Part], *, timed: bool) -> Part:
    """Parts, the oldest first, as one. ``timed``: rows have a time to live."""
    if len(parts) == 1:
        return parts[0]
    rows, deleted, times = _together(parts, timed)
    return Part.of(rows, parts[0].key, deleted if deleted.any() else None, times)


def compacted(parts: Sequence[Part], *, timed: bool, over: int | None) -> Part | None:
    """Return the oldest parts as one, without deletions, and without rows written at ``over`` (ms) or before.

    None when no rows are left.
    """
    if not parts:
        return None
    rows, deleted, times = (
        (parts[0].rows, parts[0].deleted, parts[0].times) if len(parts) == 1 else _together(parts, timed)
    )
    alive = ~deleted if deleted is not None else np.ones(rows.num_rows, bool)
    if times is not None and over is not None:
        alive &= times > over
    if alive.all() and len(parts) == 1 and deleted is None:
        return parts[0]
    rows, times = rows.filter(pa.array(alive)), times[alive] if times is not None else None
    return Part.of(rows, parts[0].key, None, times) if rows.num_rows else None


def _together(parts: Sequence[Part], timed: bool) -> tuple[pa.RecordBatch, Numbers, Numbers | None]:
    """The rows that count of several parts, which of them are deletions, and their times."""
    kept = [(part, part.without(part.superseded(parts[place + 1 :]))) for place, part in enumerate(parts)]
    rows = pa.concat_batches([part.rows.take(as_rows(numbers)) for part, numbers in kept])
    deleted = np.concatenate(
        [part.deleted[numbers] if part.deleted is not None else np.zeros(len(numbers), bool) for part, numbers in kept]
    )
    if not timed:
        return rows, deleted, None
    times = [
        part.times[numbers] if part.times is not None else np.zeros(len(numbers), np.int64) for part, numbers in kept
    ]
    return rows, deleted, np.concatenate(times)


# -- what is kept ------------------------------------------------------------------------------------------------------

_REMEMBERED: dict[int, tuple[weakref.ref[pa.Table], Part]] = {}
"""Parts that this process has made an index of, by the table that completed them, as long as that is kept."""


def remember(table: pa.Table, part: Part) -> None:
    """Keep a part with its index for when the table that completed it is read again, while that table exists."""
    place = id(table)
    _REMEMBERED[place] = (weakref.ref(table, lambda _: _REMEMBERED.pop(place, None)), part)


def from_tables(tables: Sequence[pa.Table], schema: pa.Schema, key: tuple[str, ...], *, timed: bool) -> Part:
    """The part that kept tables make, the oldest first, as one of columns ``schema``.

    The last one came after no others than these.
    """
    last = tables[-1]
    remembered = _REMEMBERED.get(id(last))
    if (
        remembered is not None
        and remembered[0]() is last
        and remembered[1].rows.schema.equals(schema)
        and remembered[1].key == key
    ):
        return remembered[1]
    part = merged([_read(table, schema, key) for table in tables], timed=timed)
    remember(last, part)
    return part


def _read(table: pa.Table, schema: pa.Schema, key: tuple[str, ...]) -> Part:
    width = len(schema)
    more = dict(zip(table.column_names[width:], table.columns[width:], strict=True))
    batches = (
        pa.Table.from_arrays(table.columns[:width], names=table.column_names[:width]).combine_chunks().to_batches()
    )
    rows = batches[0] if batches else empty(schema)
    same = rows.schema.names == schema.names and rows.schema.types == schema.types
    rows = pa.RecordBatch.from_arrays(rows.columns, schema=schema) if same else rows.cast(schema)
    deleted, times = more.get(DELETED), more.get(WRITTEN)
    return Part.of(
        rows, key, None if deleted is None else deleted.to_numpy(), None if times is None else times.to_numpy()
    )


def empty(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_pylist([], schema=schema)
