"""A table of one task: rows by key, in memory, the last write of a key wins; looked up a column at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_DENSE = 4
"""A table over the whole range of integer keys is used when the range is at most this many times the number of rows."""

_SMALL_RANGE = 1 << 20


class _Index(Protocol):
    def find(self, columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
        """The row of each key, -1 where there is none."""
        ...


class TableStore:
    """Rows by key. ``schema`` are the columns, ``key`` the key columns among them.

    A row with a null in its key is not kept (SEMANTICS S2: ignored, and counted in ``ignored``).
    """

    def __init__(self, table_id: str, schema: Schema, key: tuple[str, ...]) -> None:
        self.table_id = table_id
        self.schema = schema
        self.key = key
        self.ignored = 0
        self._arrow = schema.to_arrow()
        self._pending: list[pa.RecordBatch] = []
        self._rows: pa.RecordBatch | None = None
        self._index: _Index | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Upsert rows."""
        if batch.num_rows:
            self._pending.append(batch)

    @property
    def rows(self) -> pa.RecordBatch:
        """The current rows, one per key."""
        return self._sealed()[0]

    def snapshot(self) -> dict[str, pa.Table]:
        """The rows, to be kept; nothing when there are none."""
        import pyarrow as pa

        return {"rows": pa.Table.from_batches([self.rows])} if self.rows.num_rows else {}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        for batch in tables["rows"].to_batches():
            self.write(batch)

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
        """The place in :attr:`rows` for each key, -1 where there is none; a null in a key finds nothing."""
        return self._sealed()[1].find(columns)

    def _sealed(self) -> tuple[pa.RecordBatch, _Index]:
        if self._rows is None or self._index is None or self._pending:
            self._seal()
        assert self._rows is not None
        assert self._index is not None
        return self._rows, self._index

    def _seal(self) -> None:
        import numpy as np
        import pyarrow as pa

        parts = ([self._rows] if self._rows is not None else []) + self._pending
        self._pending = []
        if not parts:
            parts = [pa.RecordBatch.from_pylist([], schema=self._arrow)]
        batch = pa.concat_batches([part.cast(self._arrow) for part in parts]) if len(parts) > 1 else parts[0].cast(self._arrow)
        valid = batch.column(self.key[0]).is_valid().to_numpy(zero_copy_only=False)
        for name in self.key[1:]:
            valid = valid & batch.column(name).is_valid().to_numpy(zero_copy_only=False)
        if not valid.all():
            self.ignored += int(len(valid) - valid.sum())
            batch = batch.filter(pa.array(valid))
        last = _last_of_each([batch.column(name) for name in self.key])
        if len(last) < batch.num_rows:
            batch = batch.take(pa.array(np.sort(last)))
        self._rows = batch
        self._index = _index([batch.column(name) for name in self.key])


def _last_of_each(columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
    """The row numbers of the last row of each key."""
    import numpy as np
    import pyarrow as pa

    from airflow_samza.task.operators.accumulators import same_key

    names = [f"k{place}" for place in range(len(columns))]
    table = pa.table([*(same_key(column) for column in columns), pa.array(np.arange(len(columns[0])))], [*names, "row"])
    grouped = table.group_by(names, use_threads=False).aggregate([("row", "max")])
    return grouped.column("row_max").combine_chunks().to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _index(columns: Sequence[pa.Array]) -> _Index:
    if len(columns) == 1 and _as_int64(columns[0]) is not None:
        return _IntegerIndex(columns[0])
    return _HashIndex(columns)


def _as_int64(column: pa.Array) -> Any:
    """A column of whole numbers as int64 values; None for other types. What stands at nulls means nothing."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_date32(column.type):
        return column.view(pa.int32()).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_timestamp(column.type):
        return column.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):  # equal floats have equal bits once -0.0 and NaN are made one
        values = column.cast(pa.float64()).fill_null(0).to_numpy(zero_copy_only=False) + 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.int64)
    return None


class _IntegerIndex:
    """Whole numbers: by a table over their range when they lie close together, else by binary search."""

    def __init__(self, column: pa.Array) -> None:
        import numpy as np

        keys = _as_int64(column)
        self._least = int(keys.min()) if len(keys) else 0
        self._span = int(keys.max()) - self._least + 1 if len(keys) else 0
        self._places: Any = None
        if self._span <= max(_DENSE * len(keys), _SMALL_RANGE):
            self._places = np.full(self._span + 1, -1, np.int64)
            self._places[keys - self._least] = np.arange(len(keys))
        else:
            self._order = np.argsort(keys, kind="stable")
            self._sorted = keys[self._order]

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
        """The row of each key."""
        import numpy as np

        keys = _as_int64(columns[0])
        if self._span == 0:
            return np.full(len(keys), -1, np.int64)
        if self._places is not None:
            inside = (keys >= self._least) & (keys < self._least + self._span)
            found = self._places[np.where(inside, keys - self._least, self._span)]
        else:
            at = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
            found = np.where(self._sorted[at] == keys, self._order[at], -1)
        if columns[0].null_count:
            found[columns[0].is_null().to_numpy(zero_copy_only=False)] = -1
        return found  # type: ignore[no-any-return]


class _HashIndex:
    """Any other key: a dict from the key's Python value; a batch asks once for each distinct one."""

    def __init__(self, columns: Sequence[pa.Array]) -> None:
        self._rows = {key: row for row, key in enumerate(_keys(columns))}

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
        """The row of each key."""
        import numpy as np
        import pyarrow as pa

        get = self._rows.get
        if len(columns) == 1 and len(columns[0]) > 64:
            column = columns[0]
            encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            found = np.array([get(key, -1) for key in encoded.dictionary.to_pylist()] + [-1], np.int64)
            return found[encoded.indices.fill_null(len(found) - 1).to_numpy(zero_copy_only=False)]  # type: ignore[no-any-return]
        return np.array([get(key, -1) for key in _keys(columns)], np.int64)


def _keys(columns: Sequence[pa.Array]) -> list[Any]:
    from airflow_samza.task.operators.accumulators import same_key

    if len(columns) == 1:
        return columns[0].to_pylist()  # type: ignore[no-any-return]
    lists = []
    for column in columns:
        whole = _as_int64(same_key(column))  # floats as their bits: NaN is a key like any other
        values = column.to_pylist() if whole is None else whole.tolist()
        lists.append([None if value is None else v for v, value in zip(values, column.to_pylist(), strict=True)])
    return [None if None in key else key for key in zip(*lists, strict=True)]
