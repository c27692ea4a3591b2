"""A table of one task: rows by key, in memory, the last write of a key wins; looked up a column at a time.

Rows lie in parts that never change, each with an index of its own: the *base*, what has changed since the base was written (*changes*), and
what this epoch has written (*fresh*, few parts, each at least twice as long as the next, so that a write costs about the same whatever the
table's size). A newer part's word on a key counts. The same parts are what is kept: the base in one file, and the changes of each epoch in
a small one (the table's changelog), until they are so many that a new base takes their place.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from airflow_samza.storage.columnar import ColumnarTable
    from airflow_samza.storage.key_index import KeyIndex

ROWS, CHANGES = "rows", "changes-"
"""The names of what is kept: the base, and a numbered table for each epoch that has changed something since."""

DELETED, WRITTEN = "deleted", "written_ms"
"""Columns that are kept behind those of the table: whether the key is gone, and the row's time, where rows have a time to live."""

_SHARE = 4
"""A new base is written when the changes are more than this part of its rows: a row is then written about this many times."""

_MOST_FILES = 16
"""So many tables of changes become one: each is a file to open when the state is restored elsewhere."""

_NO_KEY = -1


@dataclass(frozen=True)
class _Part:
    """Rows, one per key. ``gone`` are those that say that a key was deleted (None: none do), ``times`` when each was written."""

    rows: pa.RecordBatch
    key: tuple[str, ...]
    gone: np.ndarray[Any, Any] | None
    times: np.ndarray[Any, Any] | None
    index: KeyIndex

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def find(self, columns: Sequence[pa.Array]) -> np.ndarray[Any, Any]:
        """The row of each key, -1 where there is none."""
        return self.index.find(self._keys, columns)

    @cached_property
    def _keys(self) -> list[pa.Array]:
        return [self.rows.column(name) for name in self.key]

    def look_up(self, newer: _Part) -> np.ndarray[Any, Any]:
        """The rows here of which a newer part has another word."""
        found = self.find(newer._keys)
        return found[found >= 0]


_KNOWN: dict[int, tuple[weakref.ref[pa.Table], _Part]] = {}
"""Parts that this process has made an index of, by the table that completed them, as long as somebody keeps that."""


class TableStore:
    """Rows by key.

    ``schema`` are the columns, ``key`` the key columns among them, ``ttl_ms`` how long a row is found after its time, ``by_event_time``
    whether that is the time of messages, or of the clock. A row with a null in its key is not kept (SEMANTICS S2: ignored, and counted in
    ``ignored``).
    """

    def __init__(
        self, table_id: str, schema: Schema, key: tuple[str, ...], ttl_ms: int | None = None, *, by_event_time: bool = False
    ) -> None:
        self.table_id = table_id
        self.schema = schema
        self.key = key
        self.ttl_ms = ttl_ms
        self.by_event_time = by_event_time
        self.ignored = 0
        self._arrow = schema.to_arrow()
        self._pending: list[tuple[pa.RecordBatch, bool, Any]] = []
        self._base: _Part | None = None
        self._changes: _Part | None = None
        self._fresh: list[_Part] = []
        self._kept: dict[str, pa.Table] = {}
        self._now: int | None = None
        """The last time that anybody told: rows whose time to live is over by then need not be kept."""

    def start_from(self, base: ColumnarTable) -> None:
        """Takes over a table of the same columns that does not change, as a local store has it, in place of all that it holds."""
        self._pending, self._fresh, self._changes, self._kept = [], [], None, {}
        rows = base.rows if base.rows.schema.equals(self._arrow) else base.rows.cast(self._arrow)
        self._base = _Part(rows, self.key, None, None, base.index)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, batch: pa.RecordBatch, times: Any = None) -> None:
        """Upserts rows. ``times`` (ms, one for each row or one for all) begin their time to live; None where the table has none."""
        if batch.num_rows:
            self._pending.append((batch, False, times))

    def delete(self, keys: pa.RecordBatch) -> None:
        """Deletes the rows of keys, which are columns of their own names; one that is not there is no error."""
        if keys.num_rows:
            self._pending.append((keys, True, 0))

    def expire(self, now: int) -> None:
        """Time has come to ``now`` (ms): rows whose time to live is over need not be kept any more."""
        self._now = now if self._now is None else max(now, self._now)

    # -- reading -------------------------------------------------------------------------------------------------------

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> np.ndarray[Any, Any]:
        """The place of the row of each key, for :meth:`take`; -1 where there is none. A null in a key finds nothing.

        ``now`` (ms, one for each key or one for all) is the time at which a row has to be alive.
        """
        import numpy as np

        found = np.full(len(columns[0]), _NO_KEY, np.int64)
        left: Any = None
        for part, start in reversed(list(self._numbered())):
            asked = columns if left is None else [column.take(_numbers(left)) for column in columns]
            rows = part.find(asked)
            hit = rows >= 0
            if hit.any():
                alive = hit
                if part.gone is not None:
                    alive = hit & ~part.gone[np.maximum(rows, 0)]
                if part.times is not None and now is not None and self.ttl_ms is not None:
                    at = now if left is None or np.isscalar(now) else np.asarray(now)[left]
                    alive = alive & (part.times[np.maximum(rows, 0)] > np.asarray(at) - self.ttl_ms)
                places = np.where(alive, rows + start, _NO_KEY)
                if left is None:
                    found = places
                else:
                    found[left[hit]] = places[hit]
            missed = np.flatnonzero(~hit)
            left = missed if left is None else left[missed]
            if not len(left):
                break
        return found

    def take(self, places: np.ndarray[Any, Any], names: Sequence[str] | None = None) -> list[pa.Array]:
        """Columns of the rows at places that :meth:`find` gave since the last write; nulls where a place is -1."""
        import numpy as np
        import pyarrow as pa

        names = self.schema.names if names is None else names
        parts = [(part, start) for part, start in self._numbered() if len(part)]
        used = [(part, start) for part, start in parts if ((places >= start) & (places < start + len(part))).any()]
        if not used:
            return [pa.nulls(len(places), self._arrow.field(name).type) for name in names]
        if len(used) == 1:
            part, start = used[0]
            rows = pa.array(places - start, pa.int64(), mask=places < 0)
            return [part.rows.column(name).take(rows) for name in names]
        pieces, order = [], np.full(len(places), _NO_KEY, np.int64)
        taken = 0
        for part, start in used:
            mine = np.flatnonzero((places >= start) & (places < start + len(part)))
            order[mine] = taken + np.arange(len(mine))
            taken += len(mine)
            pieces.append(part.rows.select(list(names)).take(_numbers(places[mine] - start)))
        together = pa.concat_batches(pieces)
        rows = pa.array(order, pa.int64(), mask=order < 0)
        return [together.column(name).take(rows) for name in names]

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as they are now, one per key: all of them, so it costs as much as the table is long."""
        whole = self._merged(self._parts(), final=True)
        return whole.rows if whole is not None else _empty(self._arrow)

    @property
    def count(self) -> int:
        """How many rows there are, those counted whose time to live is over and which are not forgotten yet."""
        parts = self._parts()
        gone = sum(int(part.gone.sum()) for part in parts if part.gone is not None)
        return sum(map(len, parts)) - gone - self._superseded(parts)

    @property
    def nbytes(self) -> int:
        """The bytes of its parts."""
        return sum(part.rows.nbytes for part in self._parts())

    def _superseded(self, parts: Sequence[_Part]) -> int:
        """Rows of parts that say something, of which a newer part says something else."""
        import numpy as np

        found = 0
        for number, part in enumerate(parts[:-1]):
            rows = np.unique(np.concatenate([part.look_up(newer) for newer in parts[number + 1 :]]))
            found += len(rows) - (int(part.gone[rows].sum()) if part.gone is not None else 0)
        return found

    # -- what is kept --------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Table]:
        """The base, and the changes since, to be kept; nothing when there are no rows. Tables that it gave before are given again."""
        parts = self._parts()
        changed = sum(map(len, parts)) - (len(self._base) if self._base is not None else 0)
        if self._fresh or self._is_mostly_over():
            if self._base is None or changed * _SHARE > len(self._base) or self._is_mostly_over():
                self._base, self._changes = self._merged(parts, final=True), None
                self._kept = {ROWS: self._table(self._base)} if self._base is not None else {}
                if self._base is not None:
                    _remember(self._kept[ROWS], self._base)
            else:
                fresh = self._merged(self._fresh)
                assert fresh is not None
                self._changes = self._merged([*([self._changes] if self._changes is not None else []), fresh])
                assert self._changes is not None
                numbers = [int(name.removeprefix(CHANGES)) for name in self._kept if name != ROWS]
                if len(numbers) >= _MOST_FILES:
                    self._kept = {ROWS: self._kept[ROWS]}
                    fresh = self._changes
                table = self._table(fresh)
                self._kept[f"{CHANGES}{max(numbers, default=0) + 1}"] = table
                _remember(table, self._changes)
            self._fresh = []
        return dict(self._kept)

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave, in place of all that it holds."""
        self._pending, self._fresh, self._changes = [], [], None
        self._kept = dict(tables)
        self._base = self._known(tables[ROWS], [ROWS])
        later = sorted((name for name in tables if name != ROWS), key=lambda name: int(name.removeprefix(CHANGES)))
        self._changes = self._known(tables[later[-1]], later) if later else None

    def _known(self, last: pa.Table, names: Sequence[str]) -> _Part:
        """The part that kept tables make, of which one is the last: that one came after no others than these."""
        known = _KNOWN.get(id(last))
        if known is not None and known[0]() is last and known[1].rows.schema.equals(self._arrow) and known[1].key == self.key:
            return known[1]
        part = self._merged([self._part(*self._columns(self._kept[name])) for name in names])
        assert part is not None
        _remember(last, part)
        return part

    def _is_mostly_over(self) -> bool:
        """Whether the time to live of most rows of the base is over."""
        if self.ttl_ms is None or self._now is None or self._base is None or self._base.times is None:
            return False
        return bool(2 * int((self._base.times <= self._now - self.ttl_ms).sum()) > len(self._base))

    def _table(self, part: _Part) -> pa.Table:
        import pyarrow as pa

        table = pa.Table.from_batches([part.rows])
        if part.gone is not None:
            table = table.append_column(DELETED, pa.array(part.gone))
        if part.times is not None:
            table = table.append_column(WRITTEN, pa.array(part.times))
        return table

    def _columns(self, table: pa.Table) -> tuple[pa.RecordBatch, Any, Any]:
        """Rows, which of them are deletions, and times, of a table that is kept."""
        import pyarrow as pa

        width = len(self._arrow)
        more = dict(zip(table.column_names[width:], table.columns[width:], strict=True))
        batches = pa.Table.from_arrays(table.columns[:width], names=table.column_names[:width]).combine_chunks().to_batches()
        rows = batches[0] if batches else _empty(self._arrow)
        gone, times = more.get(DELETED), more.get(WRITTEN)
        return (
            pa.RecordBatch.from_arrays(rows.columns, schema=self._arrow) if _same(rows.schema, self._arrow) else rows.cast(self._arrow),
            None if gone is None else gone.to_numpy(),
            None if times is None else times.to_numpy(),
        )

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _parts(self) -> list[_Part]:
        """All parts, the oldest first, with what was written last among them."""
        if self._pending:
            self._seal()
        return [part for part in (self._base, self._changes, *self._fresh) if part is not None]

    def _numbered(self) -> Iterator[tuple[_Part, int]]:
        start = 0
        for part in self._parts():
            yield part, start
            start += len(part)

    def _seal(self) -> None:
        """What was written becomes a part; parts that are not twice as long as the next one are merged with it."""
        import numpy as np
        import pyarrow as pa

        pending, self._pending = self._pending, []
        batches, gone, times = [], [], []
        for batch, deletes, written in pending:
            batches.append(self._with_all_columns(batch) if deletes else batch.cast(self._arrow))
            gone.append(np.full(batch.num_rows, deletes))
            if self.ttl_ms is not None:
                times.append(np.broadcast_to(np.asarray(0 if written is None else written, np.int64), batch.num_rows))
        rows = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
        which = np.concatenate(gone)
        valid = rows.column(self.key[0]).is_valid().to_numpy(zero_copy_only=False)
        for name in self.key[1:]:
            valid = valid & rows.column(name).is_valid().to_numpy(zero_copy_only=False)
        moments = np.concatenate(times) if times else None
        if not valid.all():
            self.ignored += int(len(valid) - valid.sum())
            rows, which = rows.filter(pa.array(valid)), which[valid]
            moments = moments[valid] if moments is not None else None
        if not rows.num_rows:
            return
        self._fresh.append(self._part(rows, which if which.any() else None, moments))
        while len(self._fresh) > 1 and len(self._fresh[-2]) < 2 * len(self._fresh[-1]):
            merged = self._merged(self._fresh[-2:])
            assert merged is not None
            self._fresh[-2:] = [merged]

    def _with_all_columns(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Keys as rows of which nothing else is known."""
        import pyarrow as pa

        columns = [
            keys.column(field.name).cast(field.type) if field.name in self.key else pa.nulls(keys.num_rows, field.type)
            for field in self._arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)

    def _merged(self, parts: Sequence[_Part], *, final: bool = False) -> _Part | None:
        """Parts, the oldest first, as one; ``final``: nothing is older, so deletions, and what is over, need not be remembered."""
        import numpy as np
        import pyarrow as pa

        if not parts:
            return None
        if len(parts) == 1 and not final:
            return parts[0]
        if len(parts) == 1:
            rows, gone, times = parts[0].rows, parts[0].gone, parts[0].times
        else:
            kept = [self._not_superseded(parts, number) for number in range(len(parts))]
            rows = pa.concat_batches([part.rows.take(_numbers(left)) for part, left in zip(parts, kept, strict=True)])
            deleted = [
                part.gone[left] if part.gone is not None else np.zeros(len(left), bool) for part, left in zip(parts, kept, strict=True)
            ]
            gone = np.concatenate(deleted)
            times = (
                np.concatenate([_times(part)[left] for part, left in zip(parts, kept, strict=True)]) if self.ttl_ms is not None else None
            )
        if final:
            alive = ~gone if gone is not None else np.ones(rows.num_rows, bool)
            if times is not None and self.ttl_ms is not None and self._now is not None:
                alive &= times > self._now - self.ttl_ms
            if alive.all() and len(parts) == 1 and gone is None:
                return parts[0]
            rows, gone, times = rows.filter(pa.array(alive)), None, times[alive] if times is not None else None
            if not rows.num_rows:
                return None
        return self._part(rows, gone if gone is not None and gone.any() else None, times)

    def _not_superseded(self, parts: Sequence[_Part], number: int) -> np.ndarray[Any, Any]:
        """The rows of a part of which no newer part has another word, in order."""
        import numpy as np

        left = np.ones(len(parts[number]), bool)
        for newer in parts[number + 1 :]:
            left[parts[number].look_up(newer)] = False
        return np.flatnonzero(left)

    def _part(self, rows: pa.RecordBatch, gone: Any, times: Any) -> _Part:
        """A part of rows, of which the last of each key counts."""
        from airflow_samza.storage.key_index import make_index

        index, counting = make_index([rows.column(name) for name in self.key])
        if counting is not None:
            rows = rows.take(_numbers(counting))
            gone = gone[counting] if gone is not None else None
            times = times[counting] if times is not None else None
        return _Part(rows, self.key, gone, times, index)


def _gone(part: _Part) -> np.ndarray[Any, Any]:
    import numpy as np

    return part.gone if part.gone is not None else np.zeros(len(part), bool)


def _times(part: _Part) -> np.ndarray[Any, Any]:
    import numpy as np

    return part.times if part.times is not None else np.zeros(len(part), np.int64)


def _remember(table: pa.Table, part: _Part) -> None:
    place = id(table)
    _KNOWN[place] = (weakref.ref(table, lambda _: _KNOWN.pop(place, None)), part)


def _same(one: pa.Schema, other: pa.Schema) -> bool:
    return bool(one.names == other.names and one.types == other.types)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=schema)


def _numbers(rows: np.ndarray[Any, Any]) -> pa.Array:
    """Row numbers for Arrow."""
    from airflow_samza.storage.key_index import as_rows

    return as_rows(rows)
