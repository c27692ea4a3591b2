"""Tables whose rows are valid from some time on, for joins as of event times (rule S7).

They are those of all versions of a pushed table that messages may need, or begin at the event times of side inputs.
Tasks look up in them, and hosts keep the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.timed_rows import NEVER, RowVersions, TimedRows, VersionChange
from airflow_samza.task.tables.lazy_store import LazyTableStore
from airflow_samza.task.tables.parts import Part, empty

_FOREVER = 1 << 62
"""A time (µs) behind all others."""

_FEW_ROWS = 1 << 16
"""Rows from which on it is worth looking for those that no lookup needs any more."""


Section = tuple[str, str]
"""Producer and generation of a commit."""

Changes = list[tuple[pa.RecordBatch, Numbers]]
"""Rows of one section in their order, and which of them delete their keys."""


class HistoryStore(LazyTableStore):
    """A table store that also finds rows as of a time, once :meth:`hold` has given it the versions.

    Until then its rows are valid at any time.
    """

    held: Any = None
    """Identity of the versions that it holds."""

    sections: Mapping[Section, Changes] = MappingProxyType({})
    """The changes of which they were made in this process; empty where they come from the host."""

    _versions: RowVersions | None = None
    _valid_from: Numbers
    _current: int

    def versions_of(self, history: Sequence[Mapping[str, Any]], sections: Mapping[Section, Changes]) -> RowVersions:
        """Return the rows that the ``sections`` of versions make, which are in the order in which they are valid."""
        changes: list[VersionChange] = []
        bases: list[int] = []
        former: list[Section] = []
        for place, version in enumerate(history):
            mine = [(producer, generation) for producer, generation in version["sections"]]
            goes_on = bool(former) and mine[: len(former)] == former
            bases.append(bases[-1] if goes_on else place)
            for section in mine[len(former) :] if goes_on else mine:
                changes += [VersionChange(place, rows, is_deleted) for rows, is_deleted in sections[section]]
            former = mine
        return RowVersions.of(changes, bases, self.key, self._arrow)

    def hold(self, history: Sequence[Mapping[str, Any]], current: int, versions: RowVersions) -> None:
        """Hold versions: each with its ``number``, and the time ``from`` which it is valid (µs).

        Other lookups than those as of a time find the rows of the version ``current``.
        """
        self._versions = versions
        self._valid_from = np.array([version["from"] for version in history], np.int64)
        self._current = next(place for place, version in enumerate(history) if version["number"] == current)
        self._pending, self._changes, self._fresh = [], None, []
        self._base = Part(versions.rows, self.key, None, None, versions.keys.index)

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> Numbers:
        """Return the place of the row of each key in the current version."""
        if self._versions is None:
            return super().find(columns, now)
        return self._versions.find(columns, np.full(len(columns[0]), self._current, np.int64))

    def find_as_of(self, columns: Sequence[pa.Array], times: pa.Array) -> Numbers:
        """Return the place of the row of each key that was valid at one time each (µs; null: none was)."""
        if self._versions is None:
            return super().find_as_of(columns, times)
        moments = times.fill_null(0).to_numpy(zero_copy_only=False)
        versions = np.searchsorted(self._valid_from, moments, side="right").astype(np.int64) - 1
        if times.null_count:
            versions[times.is_null().to_numpy(zero_copy_only=False)] = -1
        return self._versions.find(columns, versions)


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
        first, parts = min(self._kept_from.values()), self._parts()
        if first == NEVER or not parts or self.count < max(_FEW_ROWS, 2 * self._after_expiry):
            return
        self._timed_rows = [TimedRows.merged(parts, self.key, kept_from=first)]
        self._after_expiry = self.count

    def find(self, columns: Sequence[pa.Array], now: Any = None) -> Numbers:
        """Return the place of the row of each key that is the newest; -1 where there is none."""
        return self._find(columns, np.full(len(columns[0]), _FOREVER, np.int64))

    def find_as_of(self, columns: Sequence[pa.Array], times: pa.Array) -> Numbers:
        """Return the place of the row of each key that was valid at one time each (µs; null: none was)."""
        return self._find(columns, times.fill_null(NEVER).to_numpy(zero_copy_only=False))

    def _find(self, columns: Sequence[pa.Array], times: Numbers) -> Numbers:
        places = np.full(len(times), -1, np.int64)
        newest = np.full(len(times), NEVER, np.int64)
        numbered: Any = self._numbered()
        for part, start in numbered:
            found = part.find(columns, times)
            at = np.maximum(found, 0)
            counts = (found >= 0) & (part.since[at] >= newest)  # of equal times the last one that has come
            places[counts] = np.where(part.deleted[at], -1, found + start)[counts]
            newest[counts] = part.since[at][counts]
        return places

    @property
    def rows(self) -> pa.RecordBatch:
        """The newest row of each key."""
        parts = self._parts()
        if not parts:
            return empty(self._arrow)
        whole = TimedRows.merged(parts, self.key)
        last = whole.starts[1:] - 1
        return whole.rows.take(pa.array(last[~whole.deleted[last]]))

    @property
    def count(self) -> int:
        """The number of rows of all times."""
        return sum(map(len, self._parts()))

    def _parts(self) -> list[Any]:
        """Return the parts, the oldest first, with what was put last among them."""
        if self._put:
            put, self._put = self._put, []
            rows = pa.concat_batches([batch for batch, _, _ in put])
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
