"""Remote tables of a task: rows that another service keeps, read and written by the user's functions.

Joins, ends of streams and low-level tasks call it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from cachetools import TTLCache

from airflow_samza.application.callables import name_of
from airflow_samza.application.declarations.remote_access import GIVE_READER, GIVE_WRITER, RemoteAccess
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import RemoteTableError, SamzaError
from airflow_samza.quoting import quoted
from airflow_samza.schema import Schema
from airflow_samza.task.messages.messages import MessageReader, MessageWriter
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.messages.user_errors import located, user_location
from airflow_samza.task.messages.values import python_values
from airflow_samza.task.messages.writer import written_each
from airflow_samza.task.tables.async_calls import TaskLoop
from airflow_samza.task.tables.remote_calls import GaveUp, RemoteCalls, rate_limit

_CACHES: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()
"""The rows that this process has read, by application as it was loaded.

The epochs of an attempt share it, for as long as rows may live.
"""


class RemoteTable:
    """A remote table as one task calls it. ``tasks`` share the rate."""

    def __init__(self, table: TableDescriptor, tasks: int, task_name: str, owner: Any) -> None:
        self.table = table
        self.access = table.access or RemoteAccess()
        self._loop = TaskLoop(f"{task_name}-{table.table_id}")
        self._rate = None if self.access.calls_per_second is None else rate_limit(self.access.calls_per_second / tasks)
        self._counts: dict[str, Any] = Counter()
        self._reader = self._calls(
            table.reader, lambda function, keys: function(keys) if self.access.batch_reads else function(keys[0])
        )
        self._writer = self._calls(
            table.writer, lambda function, rows: function(rows) if self.access.batch_writes else function(*rows[0])
        )
        self._copies = OwnCopies(table.schema)
        if table.schema is not None:
            self._to_batch = MessageWriter(table.schema)
            self._to_rows = MessageReader(table.schema)
        self._cache: Any = None
        if self.access.cache_rows is not None:
            caches = _CACHES.setdefault(owner, {})
            cache: Any = TTLCache(self.access.cache_rows, self.access.cache_ttl_ms / 1000, time.monotonic)
            self._cache = caches.setdefault(table.table_id, cache)

    def _calls(self, function: Any, call: Callable[[Callable[..., Any], Any], Any]) -> RemoteCalls | None:
        return (
            None if function is None else RemoteCalls(function, call, self.access, self._loop, self._rate, self._counts)
        )

    # -- reading -------------------------------------------------------------------------------------------------------

    def find(self, keys: Sequence[Any], *, tolerant: bool = False) -> dict[Any, Any]:
        """The row of each key, read once for all; None where there is none. A null key has no row.

        What cannot be read is raised; ``tolerant``: the error stands in the row's place.
        """
        rows: dict[Any, Any] = {}
        for key in dict.fromkeys(keys):
            if _is_null(key):
                rows[key] = None
            elif self._cache is not None and (hit := self._cache.get(key, _NOTHING)) is not _NOTHING:
                self._counts["hits"] += 1
                rows[key] = hit
            else:
                rows[key] = _NOTHING
        missing = [key for key, row in rows.items() if row is _NOTHING]
        self._counts["reads"] += len(missing)
        for key, row in zip(missing, self._checked(missing, self._read(missing, tolerant)), strict=True):
            if isinstance(row, SamzaError) and not tolerant:
                raise row
            rows[key] = row
            if self._cache is not None and not isinstance(row, BaseException):
                self._cache[key] = (
                    row if self.table.schema is not None else self.own_copy(row)
                )  # else it is the reader's object
        return rows

    def own_copy(self, row: Any) -> Any:
        """A row that :meth:`find` gave, for a callable of the user: changing it changes no other copy."""
        if row is None or (self.table.schema is None and self._cache is None):
            return row
        try:
            return self._copies.of(row)
        except Exception as error:
            raise RemoteTableError(
                f"The reader of the remote table {self.table.table_id!r} returned {quoted(row)}, which cannot be "
                f"copied for the cache ({type(error).__name__}: {error}).",
                hint="Return a dict, a dataclass or plain values, or leave cache_rows= out.",
                table=self.table.table_id,
            ) from error

    def _read(self, keys: Sequence[Any], tolerant: bool) -> list[Any]:
        """Return the reader's answer for each key."""
        if self._reader is None:
            raise RemoteTableError(
                f"The task reads the remote table {self.table.table_id!r}, which has no reader.",
                hint=GIVE_READER,
                table=self.table.table_id,
            )
        size = self.access.batch_reads or 1
        parts = [list(keys[first : first + size]) for first in range(0, len(keys), size)]
        results: list[Any] = []
        try:
            answers = self._reader.run(parts, tolerant=tolerant)
        except GaveUp as gave_up:
            raise self._failed("reader", self.table.reader, gave_up.item, gave_up) from gave_up.error
        for part, result in zip(parts, answers, strict=True):
            if isinstance(result, GaveUp):
                results += [self._failed("reader", self.table.reader, part, result)] * len(part)
            elif self.access.batch_reads:
                results += self._of_batch(part, result)
            else:
                results.append(result)
        return results

    def _of_batch(self, keys: list[Any], result: Any) -> list[Any]:
        if isinstance(result, Mapping):
            return [result.get(key) for key in keys]
        if isinstance(result, list | tuple) and len(result) == len(keys):
            return list(result)
        expected = f"a mapping from key to row, or a list of {len(keys)} rows, None where there is none"
        return [self._misshapen(result, expected, "")] * len(keys)

    def _checked(self, keys: Sequence[Any], rows: list[Any]) -> list[Any]:
        """The rows as messages of the table's schema, where it has one."""
        if self.table.schema is None:
            return rows
        places = [place for place, row in enumerate(rows) if row is not None and not isinstance(row, BaseException)]
        batch, misshapen = written_each(self._to_batch, [rows[place] for place in places])
        wrong = {number: shape.why for number, shape in misshapen}
        for number, why in wrong.items():
            rows[places[number]] = self._misshapen(
                rows[places[number]], self._to_batch.expected, why, keys[places[number]]
            )
        fine = [place for number, place in enumerate(places) if number not in wrong]
        if batch is not None:
            for place, message, key in zip(fine, self._to_rows.read(batch), self._keys(batch), strict=True):
                other = not _is_null(key) and key != keys[place] and key == key  # NaN alone is unlike itself
                rows[place] = (
                    self._misshapen(rows[place], "a row of that key", "a row of another key", keys[place])
                    if other
                    else message
                )
        return rows

    def _keys(self, rows: pa.RecordBatch) -> list[Any]:
        """The key of each row; None where it has none."""
        schema = self.table.schema
        if schema is None or not set(self.table.key) <= set(schema.names):
            return [None] * rows.num_rows
        return keys_of(rows, schema, self.table.key)

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, entries: Sequence[tuple[Any, Any]], *, tolerant: bool = False) -> dict[int, SamzaError]:
        """Writes rows in order, None deletes.

        When it returns, all is written but what it names: errors by the place of the entry.

        What cannot be written is raised, unless it is ``tolerant``. Writes of one key keep their order, also where
        several calls are in flight. A null key is not written, and counted.
        """
        if self._writer is None:
            raise RemoteTableError(
                f"The task writes the remote table {self.table.table_id!r}, which has no writer.",
                hint=GIVE_WRITER,
                table=self.table.table_id,
            )
        places = [place for place, (key, _) in enumerate(entries) if not _is_null(key)]
        self._counts["ignored"] += len(entries) - len(places)
        try:
            failed = self._write(self._writer, entries, places, tolerant)
        finally:
            if self._cache is not None:
                for place in places:  # also of those that failed: what they have done is not known
                    self._cache.pop(entries[place][0], None)
        self._counts["writes"] += len(places) - len(failed)
        return failed

    def _write(
        self, writer: RemoteCalls, entries: Sequence[tuple[Any, Any]], places: Sequence[int], tolerant: bool
    ) -> dict[int, SamzaError]:
        """Have the writer write the entries at some places; return the errors of those that it could not write."""
        size = self.access.batch_writes or 1
        failed: dict[int, SamzaError] = {}
        for turn in self._turns([(place, entries[place][0]) for place in places]):
            parts = [turn[first : first + size] for first in range(0, len(turn), size)]
            try:
                results = writer.run([[entries[place] for place in part] for part in parts], tolerant=tolerant)
            except GaveUp as gave_up:
                keys = [key for key, _ in gave_up.item]
                raise self._failed("writer", self.table.writer, keys, gave_up) from gave_up.error
            for part, result in zip(parts, results, strict=True):
                if isinstance(result, GaveUp):
                    error = self._failed("writer", self.table.writer, [entries[place][0] for place in part], result)
                    failed.update(dict.fromkeys(part, error))
        return failed

    def _turns(self, keys: Sequence[tuple[int, Any]]) -> list[list[int]]:
        """The entries in groups that follow each other: where calls overlap, no key comes twice in a group."""
        if self.access.concurrency == 1:
            return [[place for place, _ in keys]] if keys else []
        turns: defaultdict[int, list[int]] = defaultdict(list)
        seen = Counter[Any]()
        for place, key in keys:
            turns[seen[key]].append(place)
            seen[key] += 1
        return list(turns.values())

    # -- the rest ------------------------------------------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """Return the counts of reads, writes, calls and retries."""
        counts = self._counts
        if not (counts["calls"] or counts["hits"]):
            return {}
        figures = {
            "remote_reads": counts["reads"],
            "remote_writes": counts["writes"],
            "remote_calls": counts["calls"],
            "remote_retries": counts["retries"],
            "remote_cache_hits": counts["hits"],
            "remote_seconds": round(counts["seconds"], 3),
            "remote_null_keys_ignored": counts["ignored"],
        }
        return {f"{name}.{self.table.table_id}": value for name, value in figures.items() if value}

    def close(self) -> None:
        """Cancels what is in flight after a failure."""
        self._loop.close()

    def _failed(self, word: str, function: Any, keys: Sequence[Any], gave_up: GaveUp) -> SamzaError:
        error = gave_up.error
        if isinstance(error, SamzaError):
            return error
        at = located(user_location(function, error.__traceback__))
        key = (
            f"the key {quoted(keys[0])}" if len(keys) == 1 else f"{len(keys)} keys, the first of them {quoted(keys[0])}"
        )
        tried = f"after {gave_up.tries} attempts" if gave_up.tries > 1 else "at the first attempt"
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        failure = RemoteTableError(
            f"{name_of(function)}, the {word} of the remote table {self.table.table_id!r}{at}, failed for {key}, "
            f"{tried}: {what}.",
            hint="Is the service up? More retries=, a longer backoff= or a lower rate= may help; "
            'on_error="drop" or dead_letter(…) lets the stage continue without such messages.',
            table=self.table.table_id,
            key=quoted(keys[0]),
            attempts=gave_up.tries,
            exception=type(error).__name__,
        )
        failure.__cause__ = error
        return failure

    def _misshapen(self, row: Any, expected: str, why: str, key: Any = None) -> SamzaError:
        at = located(SourceLocation.of_callable(self.table.reader))
        of = "" if key is None else f" for the key {quoted(key)}"
        return RemoteTableError(
            f"The reader of the remote table {self.table.table_id!r}{at} returned "
            f"{quoted(row)}{of}{f' ({why})' if why else ''}; "
            f"expected: {expected}.",
            hint="Return a row of the table's schema, or None where there is none.",
            table=self.table.table_id,
        )


class RemoteTables:
    """The remote tables of one task, made when they are first used; all operators share one."""

    def __init__(self, owner: Any = None, tasks: int = 1, task_name: str = "task") -> None:
        self._owner = owner
        self._tasks = tasks
        self._task_name = task_name
        self._tables: dict[str, RemoteTable] = {}

    def of(self, table: TableDescriptor) -> RemoteTable:
        """The table as this task calls it."""
        if table.table_id not in self._tables:
            self._tables[table.table_id] = RemoteTable(table, self._tasks, self._task_name, self._owner)
        return self._tables[table.table_id]

    def metrics(self, table_ids: Iterable[str]) -> dict[str, float]:
        """Return the counts of some tables."""
        tables = [self._tables[table_id] for table_id in table_ids if table_id in self._tables]
        return {name: count for table in tables for name, count in table.metrics().items()}

    def close(self) -> None:
        """Close all of them."""
        for table in self._tables.values():
            table.close()


_NOTHING = object()


def keys_of(batch: pa.RecordBatch, schema: Schema, names: Sequence[str]) -> list[Any]:
    """The key of each row as functions of remote tables get it: the value of the one column, else a tuple."""
    columns = [python_values(batch.column(name), schema[name].type) for name in names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _is_null(key: Any) -> bool:
    return key is None or (isinstance(key, tuple) and None in key)
