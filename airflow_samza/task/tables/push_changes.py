"""Changes of a lake's table on their way into a push: rows that are gone and rows that are new become changes of keys.

A key with new rows gets these; one of which only rows have gone is deleted; rows that were only written anew are none.
Tasks of incremental pushes go through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import PushError
from airflow_samza.quoting import plainly
from airflow_samza.runs.tables.lake_changes import PUSH_ALL
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CARRIED, REMOVED
from airflow_samza.task.tables.parts import key_begins, rows_with_key

Mask = npt.NDArray[np.bool_]


def changed_rows(batches: Iterator[pa.RecordBatch], key: Sequence[str], table: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows and deletes of a push from rows that come by key, with what became of them as the last column.

    Those of one key come in the order carried, deleted, inserted. New rows without a key are let through.
    """
    held: pa.RecordBatch | None = None
    for batch in batches:
        has_key = rows_with_key([batch.column(name) for name in key])
        if has_key is not None:
            is_new = _mask(pc.equal(batch.column(batch.num_columns - 1), ADDED))
            yield _unmarked(batch.filter(pa.array(is_new & ~has_key)))
            batch = batch.filter(pa.array(has_key))
        if not batch.num_rows:
            continue
        held = batch if held is None else pa.concat_batches([held, batch])
        begins = key_begins([held.column(name) for name in key])
        last = int(np.flatnonzero(begins)[-1])
        if last:
            yield _Keys(held.slice(0, last), key, begins[:last], table).resolved()
            held = held.slice(last)
    if held is not None:
        yield _Keys(held, key, key_begins([held.column(name) for name in key]), table).resolved()


class _Keys:
    """Rows of whole keys; ``begins`` marks the first row of each."""

    def __init__(self, batch: pa.RecordBatch, key: Sequence[str], begins: Mask, table: str) -> None:
        self._batch = _unmarked(batch)
        self._key = key
        self._table = table
        self._starts = np.flatnonzero(begins)
        marks = batch.column(batch.num_columns - 1)
        self._is_new = _mask(pc.equal(marks, ADDED))
        self._carried, self._removed, self._added = (
            np.add.reduceat(_mask(pc.equal(marks, one)).astype(np.int64), self._starts)
            for one in (CARRIED, REMOVED, ADDED)
        )

    def resolved(self) -> pa.RecordBatch:
        """Return what a push writes: new rows, and a row that deletes for each key that has lost its rows."""
        is_deleted = (self._removed > 0) & (self._added == 0)
        self._reject_ambiguous(is_deleted & (self._carried > 0))
        lengths = np.diff(np.append(self._starts, self._batch.num_rows))
        kept = self._is_new & ~np.repeat(self._is_unchanged(), lengths)
        deletes = np.zeros(self._batch.num_rows, bool)
        deletes[self._starts[is_deleted]] = True
        return self._taken(np.flatnonzero(kept | deletes), deletes)

    def _is_unchanged(self) -> Mask:
        """Return of which keys the new rows are those that they had, in any order."""
        unchanged = (self._removed == self._added) & (self._added > 0)
        old = self._starts + self._carried
        single: Mask = unchanged & (self._added == 1)
        for column in self._batch.columns:
            places = old[single]
            single[single] = _is_same(column.take(pa.array(places)), column.take(pa.array(places + 1)))
        for group in np.flatnonzero(unchanged & (self._added > 1)):
            count = int(self._added[group])
            former, present = (
                sorted(map(repr, self._batch.slice(int(start), count).to_pylist()))
                for start in (old[group], old[group] + count)
            )
            single[group] = former == present
        return single

    def _taken(self, places: npt.NDArray[np.int64], deletes: Mask) -> pa.RecordBatch:
        """Return some rows; those that delete have nothing but their key."""
        whole, of_values = pa.array(places), pa.array(places, mask=deletes[places])
        columns = []
        for name, column in zip(self._batch.schema.names, self._batch.columns, strict=True):
            if name == DELETED:
                columns.append(pa.array(_mask(column.take(whole)) | deletes[places]))
            else:
                columns.append(column.take(whole if name in self._key else of_values))
        return pa.RecordBatch.from_arrays(columns, schema=self._batch.schema)

    def _reject_ambiguous(self, groups: Mask) -> None:
        if not groups.any():
            return
        place = int(self._starts[groups.argmax()])
        values = [self._batch.column(name)[place].as_py() for name in self._key]
        raise PushError(
            f"The push of table {self._table!r} has rows that are gone from its source, where other rows still have "
            f"their key ({', '.join(self._key)}), such as {plainly(values[0] if len(values) == 1 else tuple(values))}: "
            "which row counts now is not certain.",
            hint=f'{PUSH_ALL} Where keys have several rows, on_duplicate="last" with latest_by= says which one stays.',
            table=self._table,
            keys=int(groups.sum()),
        )


def _unmarked(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(batch.schema.names[:-1])


def _is_same(one: pa.Array, other: pa.Array) -> Mask:
    """Return where the values of two columns are the same to the bit."""
    if pa.types.is_nested(one.type):
        return np.array([repr(a) == repr(b) for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], bool)
    if pa.types.is_floating(one.type):
        kind = pa.int64() if one.type == pa.float64() else pa.int32()
        one, other = one.view(kind), other.view(kind)
    return _mask(pc.equal(one, other)) | _mask(pc.and_(one.is_null(), other.is_null()))


def _mask(column: pa.Array) -> Mask:
    """Return a column of truth as a mask, in which null is false."""
    masked: Any = column.fill_null(False).to_numpy(zero_copy_only=False)
    return np.asarray(masked, bool)
