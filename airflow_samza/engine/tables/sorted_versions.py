"""Rows of one version of a pushed table by key, without reading all of it (decision 124).

A full push leaves the rows of a partition in the order of their keys. So a key is found by halving the offsets; a few
record batches are read, wherever the root is.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_samza.prepare.task_side_inputs import SideInputs, Slice
from airflow_samza.runs.tables.table_version import is_of_one_push
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.systems.system import MessageRun, OffsetRange
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.side_tables import SideTable, SideTables
from airflow_samza.task.loop.task_tables import Filled
from airflow_samza.task.report import InputReport
from airflow_samza.task.tables.lazy_store import Key

log = logging.getLogger(__name__)

LEAST_ROWS = 4_000_000
"""Rows of a task's partition of a table from which on they are looked for: fewer are read in two seconds."""

_SHARE = 4
"""A table is read whole once its rows divided by this have been read in search of some."""


class _ReadWhole(Exception):
    """A version in which keys cannot be looked for, or are looked for no longer; the text says why."""


@dataclass(frozen=True)
class _Stretch:
    """Offsets ``[start, end)`` that were read before, with the keys of the first and of the last of them."""

    first: Key
    last: Key
    start: int
    end: int


class SortedVersion:
    """The rows of a task's partition of one version, behind a table's store.

    ``source`` is the partition as it would be read whole; ``report`` counts what is read.
    """

    def __init__(
        self, table: SideTable, reader: SideInputs, source: TaskInput, slice_: Slice, report: InputReport
    ) -> None:
        assert source.head is not None
        self._table = table
        self._reader = reader
        self._place = (source.stream_id, source.partition)
        self._slice = slice_
        self._offsets = OffsetRange(source.start, source.head)
        self._report = report
        self._left = self.count // _SHARE
        self._known: list[_Stretch] = []

    @property
    def count(self) -> int:
        """The number of rows: a full push writes one per key, and deletes none."""
        return self._offsets.end - self._offsets.start

    def of(self, keys: Sequence[Key]) -> list[pa.RecordBatch] | None:
        """Return the rows of keys, which are in ascending order; None when all rows are to be read instead."""
        found: list[pa.RecordBatch] = []
        try:
            while keys:
                before, after = self._around(keys[0])
                until = len(keys) if after is None else bisect_left(keys, after.first)
                if before is not None and keys[0] <= before.last:
                    until, span = bisect_right(keys, before.last), OffsetRange(before.start, before.end)
                else:
                    span = OffsetRange(
                        before.end if before is not None else self._offsets.start,
                        after.start if after is not None else self._offsets.end,
                    )
                self._search(span, keys[:until], before, after, found)
                keys = keys[until:]
        except _ReadWhole as reason:
            log.info("The table %s is read whole: %s.", self._table.table.table_id, reason)
            return None
        return found

    def all(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows."""
        for run in self._runs(self._offsets):
            self._table.unsaved += run.messages
            yield self._table.conformed(self._place, run.batch)

    def close(self) -> None:
        """Close the version's topic until more is looked up."""
        self._reader.close()

    def _around(self, key: Key) -> tuple[_Stretch | None, _Stretch | None]:
        """Return the stretches of which the one begins at a key or before it, and the other behind it."""
        at = bisect_right(self._known, key, key=lambda stretch: stretch.first)
        return self._known[at - 1] if at else None, self._known[at] if at < len(self._known) else None

    def _search(
        self,
        span: OffsetRange,
        keys: Sequence[Key],
        before: _Stretch | None,
        after: _Stretch | None,
        found: list[pa.RecordBatch],
    ) -> None:
        """Add to ``found`` the rows of keys that lie in a span, which is between two stretches or is the first."""
        if not keys or span.start >= span.end:
            return
        if self._left <= 0:
            raise _ReadWhole(f"a part of {1 / _SHARE:.0%} of it was read for the keys that were looked up")
        is_known = before is not None and before.start == span.start
        middle = span.start if is_known else (span.start + span.end) // 2
        run = next(self._runs(OffsetRange(middle, span.end)), None)
        if run is None:  # nothing but control messages
            self._search(OffsetRange(span.start, middle), keys, before, after, found)
            return
        self._left -= run.messages
        names = self._table.table.key
        columns = [run.batch.column(name) for name in names]
        first, last = (tuple(column[row].as_py() for column in columns) for row in (0, -1))
        stretch = _Stretch(first, last, run.offset, run.offset + run.messages)
        if not is_known:
            if first > last or (before and first <= before.last) or (after and last >= after.first):
                raise _ReadWhole("its rows are not in the order of their keys")
            at = bisect_right(self._known, first, key=lambda known: known.first)
            self._known.insert(at, stretch)
        begin, end = bisect_left(keys, first), bisect_right(keys, last)
        if begin < end:
            asked = zip(*keys[begin:end], strict=True)
            sought = [pa.array(values, column.type) for values, column in zip(asked, columns, strict=True)]
            rows = ColumnarTable.of(run.batch, names)
            places = rows.find(sought)
            found.append(self._table.conformed(self._place, rows.rows.take(pa.array(places[places >= 0]))))
        if not is_known:
            self._search(OffsetRange(span.start, middle), keys[:begin], before, stretch, found)
            self._search(OffsetRange(stretch.end, span.end), keys[end:], stretch, after, found)

    def _runs(self, offsets: OffsetRange) -> Iterator[MessageRun]:
        for envelope in self._reader.read(*self._place, self._slice, offsets):
            if isinstance(envelope, MessageRun):
                self._report.messages += envelope.messages
                self._report.bytes += envelope.batch.nbytes
                yield envelope


def may_be_searched(tables: SideTables, source: TaskInput, slice_: Slice) -> bool:
    """Return whether a source is one long version in order, and all that one table is to hold."""
    readers = [table for table in tables.tables if source.stream_id in table.table.side_inputs]
    return (
        source.head is not None
        and source.head - source.start >= LEAST_ROWS
        and len(readers) == 1
        and readers[0].is_as_pushed
        and not readers[0].reached
        and is_of_one_push(slice_)
        and source.start == int(slice_["offsets"][source.partition][0])
    )


def search_in(tables: SideTables, reader: SideInputs, source: TaskInput, slice_: Slice, filled: Filled) -> None:
    """Have the table of a source look for its rows there; ``filled`` counts what is read of it meanwhile."""
    (table,) = (table for table in tables.tables if source.stream_id in table.table.side_inputs)
    report = filled.inputs[source.stream_id]
    table.store.read_lazily(SortedVersion(table, reader, source, slice_, report))
