"""A table of one task: rows by key, in memory, the last write of a key wins; looked up a column at a time.

Rows (decision 42) lie in parts that never change, each with an index of its own: the *base*, what has changed since the
base was written (*changes*), and what this epoch has written (*fresh*, few parts, each at least twice as long as the
next, so that a write costs about the same whatever the table's size). Of several parts the newest that has a key
counts. The same parts are what is kept: the base in one file, and the changes of each epoch in a small one (the table's
changelog), until they are so many that a new base takes their place. Operators that keep tables or state by key hold
their rows in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import as_rows
from airflow_samza.task.tables.parts import Part, compacted, empty, from_tables, merged, remember, rows_with_key

ROWS, CHANGES = "rows", "changes-"
"""The names of what is kept: the base, and a numbered table for each epoch that has changed something since."""

_SHARE = 4
"""A new base is written when the changes are more than this part of its rows.

A row is then written about this many times.
"""

_MOST_FILES = 16
"""Tables of changes that become one: each is a file to open when the state is restored elsewhere."""

_NO_KEY = -1


class TableStore:
    """Rows by key.

    ``schema`` are the columns, ``key`` the key columns among them, ``ttl_ms`` how long a row is found after its time,
    ``by_event_time`` whether that is the time of messages, or of the clock. A row with a null in its key is not kept
    (rule S2: ignored, and counted in ``ignored``).
    """

    def __init__(
        self,
        table_id: str,
        schema: Schema,
        key: tuple[str, ...],
        ttl_ms: int | None = None,
        *,
        by_event_time: bool = False,
    ) -> None:
        self.table_id = table_id
        self.schema = schema
        self.key = key
        self.ttl_ms = ttl_ms
        self.by_event_time = by_event_time
        self.ignored = 0
        self.key_schema = Schema(tuple(schema[name] for name in key))
        self._arrow = schema.to_arrow()
        self._pending: list[tuple[pa.RecordBatch, Any, Any]] = []
        self._base: Part | None = None
        self._changes: Part | None = None
        self._fresh: list[Part] = []
        self._kept: dict[str, pa.Table] = {}
        self._now: int | None = None
        """The latest time known: rows whose time to live is over by then need not be kept."""

    def start_from(self, base: ColumnarTable) -> None:
        """Replace all rows by those of a table of the same columns that does not change, as a local store has it."""
        self._pending, self._fresh, self._changes, self._kept = [], [], None, {}
        rows = base.rows if base.rows.schema.equals(self._arrow) else base.rows.cast(self._arrow)
        self._base = Part(rows, self.key, None, None, base.index)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, batch: pa.RecordBatch, times: Any = None, deleted: Any = False) -> None:
        """Upserts rows, or deletes those of the keys of rows that ``deleted`` marks (one for each row or one for all).

        ``times`` (ms, likewise) begin their time to live; None where the table has none.
        """
        if batch.num_rows:
            self._pending.append((batch, deleted, times))

    def delete(self, keys: pa.RecordBatch) -> None:
        """Deletes the rows of keys, which are columns of their own names; one that is not there is no error."""
        self.write(self.with_all_columns(keys), 0, True)

    def expire(self, now: int) -> None:
        """Note the time ``now`` (ms): rows whose time to live is over need not be kept any more."""
        self._now = now if self._now is None else max(now, self._now)

    def take_in(self) -> None:
        """Make rows of what was written; what has no key is counted in ``ignored`` then."""
        self._parts()

    # -- reading -------------------------------------------------------------------------------------------------------

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> Numbers:
        """The place of the row of each key, for :meth:`take`; -1 where there is none. A null in a key finds nothing.

        ``now`` (ms, one for each key or one for all) is the time at which a row has to be alive.
        """
        places_by_key = np.full(len(columns[0]), _NO_KEY, np.int64)
        left = np.arange(len(columns[0]))
        for part, start in reversed(list(self._numbered())):
            rows = part.find(
                columns if len(left) == len(columns[0]) else [each.take(as_rows(left)) for each in columns]
            )
            hit = rows >= 0
            alive = hit
            if part.deleted is not None:
                alive = alive & ~part.deleted[np.maximum(rows, 0)]
            if part.times is not None and now is not None and self.ttl_ms is not None:
                moments = np.broadcast_to(now, len(columns[0]))[left]
                alive = alive & (part.times[np.maximum(rows, 0)] > moments - self.ttl_ms)
            places_by_key[left[alive]] = rows[alive] + start
            left = left[~hit]
            if not len(left):
                break
        return places_by_key

    def find_as_of(self, columns: Sequence[pa.Array], times: pa.Array) -> Numbers:
        """Return the place of the row of each key at one time each (µs): at any time, as there is one version.

        A key without a time (null) finds nothing.
        """
        places = self.find(columns)
        return np.where(times.is_valid().to_numpy(zero_copy_only=False), places, _NO_KEY)

    def take(self, places: Numbers, names: Sequence[str] | None = None) -> list[pa.Array]:
        """Columns of the rows at places that :meth:`find` gave since the last write; nulls where a place is -1."""
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
            pieces.append(part.rows.select(list(names)).take(as_rows(places[mine] - start)))
        together = pa.concat_batches(pieces)
        rows = pa.array(order, pa.int64(), mask=order < 0)
        return [together.column(name).take(rows) for name in names]

    def batch(self, places: Numbers) -> pa.RecordBatch:
        """The rows at places that :meth:`find` gave."""
        return pa.RecordBatch.from_arrays(self.take(places), schema=self._arrow)

    @property
    def rows(self) -> pa.RecordBatch:
        """The rows as they are now, one per key: all of them, so it costs as much as the table is long."""
        whole = self._compacted()
        return whole.rows if whole is not None else empty(self._arrow)

    @property
    def whole(self) -> ColumnarTable:
        """The rows as they are now with their index, as a local store keeps them."""
        whole = self._compacted()
        if whole is None:
            return ColumnarTable.of(empty(self._arrow), self.key)
        return ColumnarTable(whole.rows, whole.key, whole.index)

    @property
    def count(self) -> int:
        """Return how many rows there are, those counted whose time to live is over and which are not forgotten yet."""
        parts = self._parts()
        rows = 0
        for place, part in enumerate(parts):
            superseded = np.unique(part.superseded(parts[place + 1 :]))
            deleted = int(part.deleted.sum() - part.deleted[superseded].sum()) if part.deleted is not None else 0
            rows += len(part) - len(superseded) - deleted
        return rows

    @property
    def nbytes(self) -> int:
        """The bytes of its parts."""
        return sum(part.rows.nbytes for part in self._parts())

    # -- what is kept --------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Table]:
        """The base, and the changes since, to be kept; nothing when there are no rows.

        Tables that it gave before are given again.
        """
        parts = self._parts()
        changed = sum(map(len, parts)) - (len(self._base) if self._base is not None else 0)
        if self._fresh or self._is_mostly_over():
            if self._base is None or changed * _SHARE > len(self._base) or self._is_mostly_over():
                self._base, self._changes = self._compacted(), None
                self._kept = {ROWS: self._base.to_table()} if self._base is not None else {}
                if self._base is not None:
                    remember(self._kept[ROWS], self._base)
            else:
                fresh = merged(self._fresh, timed=self._timed)
                self._changes = merged(
                    [*([self._changes] if self._changes is not None else []), fresh], timed=self._timed
                )
                numbers = [int(name.removeprefix(CHANGES)) for name in self._kept if name != ROWS]
                if len(numbers) >= _MOST_FILES:
                    self._kept = {ROWS: self._kept[ROWS]}
                    fresh = self._changes
                table = fresh.to_table()
                self._kept[f"{CHANGES}{max(numbers, default=0) + 1}"] = table
                remember(table, self._changes)
            self._fresh = []
        return dict(self._kept)

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave, in place of all that it holds."""
        self._pending, self._fresh, self._changes = [], [], None
        self._kept = dict(tables)
        self._base = from_tables([tables[ROWS]], self._arrow, self.key, timed=self._timed)
        later = sorted((name for name in tables if name != ROWS), key=lambda name: int(name.removeprefix(CHANGES)))
        changes = [tables[name] for name in later]
        self._changes = from_tables(changes, self._arrow, self.key, timed=self._timed) if changes else None

    def _compacted(self) -> Part | None:
        return compacted(self._parts(), timed=self._timed, over=self._over)

    def _is_mostly_over(self) -> bool:
        """Return whether the time to live of most rows of the base is over."""
        if self._over is None or self._base is None or self._base.times is None:
            return False
        return bool(2 * int((self._base.times <= self._over).sum()) > len(self._base))

    @property
    def _timed(self) -> bool:
        return self.ttl_ms is not None

    @property
    def _over(self) -> int | None:
        """The time to live of rows that were written then (ms), or before, is over."""
        return None if self.ttl_ms is None or self._now is None else self._now - self.ttl_ms

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _parts(self) -> list[Part]:
        """All parts, the oldest first, with what was written last among them."""
        if self._pending:
            self._seal()
        return [part for part in (self._base, self._changes, *self._fresh) if part is not None]

    def _numbered(self) -> Iterator[tuple[Part, int]]:
        """Return the parts, each with the number of its first row among those of all."""
        parts = self._parts()
        return zip(parts, accumulate(map(len, parts), initial=0), strict=False)

    def _seal(self) -> None:
        """Make a part of what was written; parts that are not twice as long as the next one are merged with it."""
        pending, self._pending = self._pending, []
        batches, deleted, times = [], [], []
        for batch, deletes, written in pending:
            batches.append(batch if batch.schema.equals(self._arrow) else batch.cast(self._arrow))
            deleted.append(np.broadcast_to(deletes, batch.num_rows))
            if self.ttl_ms is not None:
                times.append(np.broadcast_to(np.asarray(0 if written is None else written, np.int64), batch.num_rows))
        rows = pa.concat_batches(batches) if len(batches) > 1 else batches[0]
        which = np.concatenate(deleted)
        valid = rows_with_key([rows.column(name) for name in self.key])
        moments = np.concatenate(times) if times else None
        if valid is not None:
            self.ignored += int(len(valid) - valid.sum())
            rows, which = rows.filter(pa.array(valid)), which[valid]
            moments = moments[valid] if moments is not None else None
        if not rows.num_rows:
            return
        self._fresh.append(Part.of(rows, self.key, which if which.any() else None, moments))
        while len(self._fresh) > 1 and len(self._fresh[-2]) < 2 * len(self._fresh[-1]):
            self._fresh[-2:] = [merged(self._fresh[-2:], timed=self._timed)]

    def with_all_columns(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return keys as rows whose other columns are null."""
        columns = [
            keys.column(field.name).cast(field.type) if field.name in self.key else pa.nulls(keys.num_rows, field.type)
            for field in self._arrow
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._arrow)
