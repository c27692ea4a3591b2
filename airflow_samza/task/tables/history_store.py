"""A table of which a task holds all versions that messages may need, for joins as of their event time (rule S7).

Tasks look up in it, and hosts keep it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.row_versions import RowVersions, VersionChange
from airflow_samza.task.tables.lazy_store import LazyTableStore
from airflow_samza.task.tables.parts import Part

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
