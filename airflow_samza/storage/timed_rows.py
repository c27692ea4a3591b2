"""Rows by key that are valid from a time, or from a version of their table, on; looked up a column at a time.

Temporal joins and tables of timed rows look up by times, joins as of an event time by versions.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.storage.columnar import ColumnarTable, mapped_batch, one_batch, write_batch
from airflow_samza.storage.key_hashes import Numbers
from airflow_samza.storage.key_index import as_rows

NEVER = -(1 << 62)
"""A time (µs) before all others."""

_CHUNK = 32_768
"""Keys looked up at a time: the temporary columns then stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class RowsByTime:
    """Rows in the order of keys, and of the numbers from which they are valid (``since``): times, or versions.

    ``keys`` has each key once; the rows of key k are those of the places ``starts[k]`` to ``starts[k + 1]``.
    """

    keys: ColumnarTable
    rows: pa.RecordBatch
    starts: Numbers
    since: Numbers

    def __len__(self) -> int:
        return len(self.since)

    def find(self, columns: Sequence[pa.Array], moments: Numbers) -> Numbers:
        """Return the place of the last row (int64) of each key that is valid from one moment each, or before; -1: none.

        It may have ended since.
        """
        if not len(self.since):
            return np.full(len(moments), -1, np.int64)
        group = self.keys.find(columns)
        parts = [slice(start, start + _CHUNK) for start in range(0, max(len(moments), 1), _CHUNK)]
        return np.concatenate([self._last(group[part], moments[part]) for part in parts])

    def _last(self, group: Numbers, moments: Numbers) -> Numbers:
        known = group >= 0
        group = np.where(known, group, 0)
        first, end = self.starts[group], self.starts[group + 1]
        at, last = first - 1, len(self.since) - 1
        for step in reversed(range(self._steps)):  # halving what is left, of all keys at a time
            further = at + (1 << step)
            at = np.where((further < end) & (self.since[np.minimum(further, last)] <= moments), further, at)
        return np.where(known & (at >= first), at, -1)

    @cached_property
    def _steps(self) -> int:
        """Halvings that find one among the rows of any key."""
        return int(np.diff(self.starts).max()).bit_length()


@dataclass(frozen=True, eq=False)
class TimedRows(RowsByTime):
    """Rows by key and time (µs), one for both; ``deleted`` marks those that delete their key from their time on."""

    deleted: Numbers

    @staticmethod
    def of(
        rows: pa.RecordBatch, since: Numbers, deleted: Numbers, key: Sequence[str], *, kept_from: int = NEVER
    ) -> TimedRows:
        """Return rows in any order, no key of which has a null; of those of one key and time the last one counts.

        A row that is replaced by ``kept_from`` already is left out: nobody looks up what was valid before.
        """
        keys = ColumnarTable.of(rows.select(list(key)), key)
        group = keys.find([rows.column(name) for name in key])
        order = np.lexsort((since, group))  # stable: of equal times in the order in which they came
        same_key = group[order][1:] == group[order][:-1]
        times = since[order]
        superseded = same_key & ((times[1:] == times[:-1]) | (times[1:] <= kept_from))
        order = order[np.append(~superseded, np.ones(min(len(order), 1), bool))]
        starts = np.searchsorted(group[order], np.arange(len(keys) + 1)).astype(np.int64)
        return TimedRows(keys, rows.take(as_rows(order)), starts, since[order], deleted[order])

    @staticmethod
    def merged(parts: Sequence[TimedRows], key: Sequence[str], *, kept_from: int = NEVER) -> TimedRows:
        """Return the rows of several, of which later ones count where they have the same key and time."""
        rows = pa.concat_batches([part.rows for part in parts])
        since, deleted = (np.concatenate(arrays) for arrays in zip(*((p.since, p.deleted) for p in parts), strict=True))
        return TimedRows.of(rows, since, deleted, key, kept_from=kept_from)


VERSIONS_FILE, STARTS_FILE = "versions.arrow", "starts.arrow"
_SINCE, _UNTIL = "\0since", "\0until"


@dataclass(frozen=True, eq=False)
class VersionChange:
    """Changes that a version brings: ``rows``, of which the last one of a key counts; ``deleted`` marks deletions."""

    version: int
    rows: pa.RecordBatch
    deleted: Numbers


@dataclass(frozen=True, eq=False)
class RowVersions(RowsByTime):
    """Rows by key and version: valid from one (``since``) up to that in which they no longer are (``until``).

    Versions are counted from 0 in the order of the times from which they are valid, ``count`` of them; rows that
    several versions have alike are kept once. They may lie in files of a host, which any of its processes maps into
    memory.
    """

    kind: ClassVar[str] = "versions"

    until: Numbers
    count: int

    @staticmethod
    def of(
        changes: Sequence[VersionChange], bases: Sequence[int], key: Sequence[str], schema: pa.Schema
    ) -> RowVersions:
        """Return the rows that versions make, whose ``changes`` come in their order; no key has a null.

        ``bases`` has for each version the one from which on changes add up: itself, where it begins anew.
        """
        count = len(bases)
        rows = one_batch(pa.Table.from_batches([change.rows for change in changes], schema))
        keys = ColumnarTable.of(rows.select(list(key)), key)
        sizes = [change.rows.num_rows for change in changes]
        since = np.repeat(np.array([change.version for change in changes], np.int64), sizes)
        deleted = np.concatenate([change.deleted for change in changes]) if changes else np.zeros(0, bool)
        group = keys.find([rows.column(name) for name in key])
        places = group * count + since
        order = np.argsort(places, kind="stable")
        places = places[order]
        order = order[np.append(places[1:] != places[:-1], np.ones(min(len(places), 1), bool))]
        group, since, deleted = group[order], since[order], deleted[order]
        until = _next_base(bases)[since]
        follows = group[1:] == group[:-1]
        until[:-1][follows] = np.minimum(until[:-1], since[1:])[follows]
        order, group, since, until = (values[~deleted] for values in (order, group, since, until))
        rows = rows.take(as_rows(order))
        goes_on = (group[1:] == group[:-1]) & (until[:-1] == since[1:])
        if goes_on.any():
            first = np.append(np.ones(1, bool), ~(goes_on & _same_as_next(rows)))
            begins = np.flatnonzero(first)
            until = until[np.append(begins[1:], len(until)) - 1]
            rows, group, since = rows.take(as_rows(begins)), group[begins], since[begins]
        starts = np.searchsorted(group, np.arange(len(keys) + 1)).astype(np.int64)
        return RowVersions(keys, rows, starts, since, until, count)

    def find(self, columns: Sequence[pa.Array], versions: Numbers) -> Numbers:
        """Return the place of the row of each key (int64) in one version each (-1: none); -1 where there is none."""
        at = super().find(columns, versions)
        return np.where(versions >= self.until[at], -1, at) if len(self) else at

    # -- files ---------------------------------------------------------------------------------------------------------

    def write(self, folder: str) -> None:
        """Write all of it into a folder that is there: the keys as a table of their own, and the rows behind them."""
        self.keys.write(folder)
        names = [*self.rows.schema.names, _SINCE, _UNTIL]
        columns = [*self.rows.columns, *map(as_rows, (self.since, self.until))]
        fields = [*self.rows.schema, *(pa.field(name, pa.int64()) for name in names[-2:])]
        schema = pa.schema(fields, {b"count": str(self.count).encode()})
        write_batch(os.path.join(folder, VERSIONS_FILE), pa.RecordBatch.from_arrays(columns, schema=schema))
        write_batch(os.path.join(folder, STARTS_FILE), pa.record_batch({"starts": as_rows(self.starts)}))

    @staticmethod
    def open(folder: str) -> RowVersions:
        """Return what :meth:`write` left, mapped into memory: pages are read when they are used."""
        kept = mapped_batch(os.path.join(folder, VERSIONS_FILE))
        since, until = (kept.column(name).to_numpy() for name in (_SINCE, _UNTIL))
        starts = mapped_batch(os.path.join(folder, STARTS_FILE)).column(0).to_numpy()
        count = int(kept.schema.metadata[b"count"])
        rows = kept.drop_columns([_SINCE, _UNTIL]).replace_schema_metadata(None)
        return RowVersions(ColumnarTable.open(folder), rows, starts, since, until, count)


def _next_base(bases: Sequence[int]) -> Numbers:
    """Return for each version the next one that begins anew, behind the last one where none does."""
    count = len(bases)
    anew = np.flatnonzero(np.asarray(bases, np.int64) == np.arange(count))
    ends = np.append(anew, count).astype(np.int64)
    found: Numbers = ends[np.searchsorted(anew, np.arange(count), side="right")]
    return found


def _same_as_next(rows: pa.RecordBatch) -> Numbers:
    """Return for each row but the last whether the next one has the same values; not where they cannot be compared."""
    same: Numbers = np.ones(rows.num_rows - 1, bool)
    for column in rows.columns:
        if pa.types.is_floating(column.type):  # bit by bit: -0.0 is another value than 0.0, and NaN the same as NaN
            column = column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width])
        mine, next_ = column.slice(0, len(column) - 1), column.slice(1)
        try:
            equal = pc.equal(mine, next_).fill_null(False)
        except pa.ArrowNotImplementedError:  # nested values
            return np.zeros(rows.num_rows - 1, bool)
        equal = pc.or_(equal, pc.and_(mine.is_null(), next_.is_null()))
        same &= equal.to_numpy(zero_copy_only=False)
    return same
