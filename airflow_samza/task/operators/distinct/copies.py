"""Messages that wait until time has passed them, and the groups of copies that are open; their keys have no nulls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import DistinctSpec
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.storage.key_index import as_rows
from airflow_samza.task.checkpoint import fitting_state
from airflow_samza.task.messages.conform import MESSAGE, SchemaConformer, kept_messages, kept_rows
from airflow_samza.task.operators.distinct.chains import Longs, Segments, group_begins, repeated, segments_of
from airflow_samza.task.tables.store import TableStore

LONG_AGO, FAR = -(1 << 60), 1 << 60
"""A time (µs) before all others, and a length of time that is longer than any between two."""

_GATHERED = 1 << 18
"""Waiting rows, at least, before those that are superfluous already are left out; later twice as many as were left."""

_OUT_ROWS = 1 << 16
"""Rows of an emitted batch."""

_TIME = "time"
WAITING, OPEN = "waiting", "open-"
"""The names of what is kept: messages that wait, and the tables of open groups."""

Keys = Callable[[pa.RecordBatch], list[pa.Array]]
Times = Callable[[pa.RecordBatch], Longs]


class _Rows(NamedTuple):
    rows: pa.RecordBatch
    times: Longs

    def chosen(self, numbers: Longs) -> _Rows:
        return _Rows(self.rows.take(as_rows(numbers)), self.times[numbers])


class Copies:
    """Groups of copies: messages of a key that come less than the spec's time after the first one of their group.

    ``keys`` gives the key columns of messages, which have the fields ``key``; ``times`` their times (µs).
    """

    def __init__(self, spec: DistinctSpec, messages: Schema, key: Sequence[Field], keys: Keys, times: Times) -> None:
        self.duplicates = 0
        self._spec = spec
        self._messages = messages
        self._keys, self._times = keys, times
        self._within = FAR if spec.within_ms is None else min(spec.within_ms * 1000, FAR)
        self._last = spec.keep == "last"
        self._names = [field.name for field in key]
        of_messages = tuple(Field(MESSAGE + field.name, field.type, field.nullable) for field in messages.fields)
        kept = Schema((*key, Field(_TIME, DataType("bigint"), False), *(of_messages if self._last else ())))
        self._conformer = SchemaConformer(kept, f"what {spec.title} kept")
        self._kept = kept.to_arrow()
        self._waiting_schema = Schema((Field(_TIME, DataType("bigint"), False), *of_messages)).to_arrow()
        self._open = TableStore(spec.title, kept, tuple(self._names), spec.within_ms)
        self._begun: list[tuple[Longs, list[pa.Array]]] = []
        """With ``keep="last"`` the beginnings of open groups and their keys, in the order in which they close."""
        self._waiting: list[_Rows] = []
        self.waiting, self._gathered = 0, _GATHERED

    # -- messages ------------------------------------------------------------------------------------------------------

    def add(self, rows: pa.RecordBatch, times: Longs) -> None:
        """Let messages wait."""
        self._waiting.append(_Rows(rows, times))
        self.waiting += len(times)
        if self.waiting >= self._gathered:
            waiting = _together(self._waiting)
            segments = segments_of(self._keys(waiting.rows), waiting.times)
            whole = self._spec.within_ms is None
            repeats = repeated(waiting.times[segments.order], segments, self._spec.keep, whole=whole)
            left = np.sort(segments.order[~repeats])
            self.duplicates += len(repeats) - len(left)
            self._waiting, self.waiting = [waiting.chosen(left)], len(left)
            self._gathered = max(_GATHERED, 2 * len(left))

    def settle(self, until: int | None) -> Iterator[pa.RecordBatch]:
        """Return the results of time having reached ``until``: no message before it comes any more. None: the end."""
        settled = self._settled(until)
        if settled is None:
            found = [self._closed(until)] if self._last else []
        else:
            segments = segments_of(self._keys(settled.rows), settled.times)
            found = list((self._lasts if self._last else self._firsts)(settled, segments, until))
        if self._open.ttl_ms is not None and until is not None:
            self._open.expire(until // 1000)
        found = [each for each in found if len(each.times)]
        if found:
            results = _together(found)
            in_order = results.chosen(np.argsort(results.times, kind="stable")).rows
            yield from pa.Table.from_batches([in_order]).to_batches(max_chunksize=_OUT_ROWS)

    def _settled(self, until: int | None) -> _Rows | None:
        """Take the messages before a time from those that wait; None where there are none."""
        waiting, self._waiting = self._waiting, []
        settled = []
        for each in waiting:
            past = np.ones(len(each.times), np.bool_) if until is None else each.times < until
            if past.all():
                settled.append(each)
            elif not past.any():
                self._waiting.append(each)
            else:
                settled.append(each.chosen(np.flatnonzero(past)))
                self._waiting.append(each.chosen(np.flatnonzero(~past)))
        self.waiting = sum(len(each.times) for each in self._waiting)
        return _together(settled) if settled else None

    def _firsts(self, settled: _Rows, segments: Segments, until: int | None) -> Iterator[_Rows]:
        times = settled.times[segments.order]
        keys = self._keys(settled.rows)
        begins, _ = group_begins(times, segments, self._opened(keys, segments), self._within)
        self.duplicates += len(times) - len(begins)
        if until is not None and len(begins):
            last = np.append(np.diff(segments.numbers[begins]) > 0, True)
            open_ = begins[last & (times[begins] + self._within > until)]
            self._write(_taken(keys, segments.order[open_]), times[open_], None)
        yield settled.chosen(np.sort(segments.order[begins]))

    def _lasts(self, settled: _Rows, segments: Segments, until: int | None) -> Iterator[_Rows]:
        times = settled.times[segments.order]
        keys = self._keys(settled.rows)
        opened = self._opened(keys, segments)
        begins, behind = group_begins(times, segments, opened, self._within)
        self.duplicates += len(times) - len(begins)
        going_on = np.flatnonzero(behind > segments.begins)
        newest = segments.order[behind[going_on] - 1]
        self._write(_taken(keys, newest), opened[going_on], settled.rows.take(as_rows(newest)))
        yield self._closed(until)
        following = np.append(begins[1:], len(times))
        newest = segments.order[np.minimum(following, segments.ends[segments.numbers[begins]]) - 1]
        open_ = np.zeros(len(begins), np.bool_) if until is None else times[begins] + self._within > until
        yield settled.chosen(newest[~open_])
        if open_.any():
            kept = np.flatnonzero(open_)
            kept = kept[np.argsort(times[begins[kept]], kind="stable")]
            own = _taken(keys, newest[kept])
            self._write(own, times[begins[kept]], settled.rows.take(as_rows(newest[kept])))
            self._begun.append((times[begins[kept]], own))

    # -- open groups ---------------------------------------------------------------------------------------------------

    def _opened(self, keys: list[pa.Array], segments: Segments) -> Longs:
        """Return the time at which the last group of each segment's key began; one long ago where there is none."""
        places = self._open.find(_taken(keys, segments.order[segments.begins]))
        (times,) = self._open.take(places, [_TIME])
        return np.asarray(times.fill_null(LONG_AGO).to_numpy(zero_copy_only=False), np.int64)

    def _write(self, keys: list[pa.Array], begins: Longs, messages: pa.RecordBatch | None) -> None:
        columns = [*keys, as_rows(begins), *(messages.columns if messages is not None else ())]
        rows = pa.RecordBatch.from_arrays(columns, self._kept.names).cast(self._kept)
        self._open.write(rows, -(-begins // 1000))

    def _closed(self, until: int | None) -> _Rows:
        """Take the open groups that nothing can join any more, and return the last message of each."""
        keys: list[list[pa.Array]] = []
        while self._begun:
            times, own = self._begun[0]
            count = len(times) if until is None else int(np.searchsorted(times + self._within, until, "right"))
            if count:
                keys.append([column.slice(0, count) for column in own])
                self._begun[0] = times[count:], [column.slice(count) for column in own]
            if count < len(times):
                break
            del self._begun[0]
        columns = [pa.concat_arrays(column) for column in zip(*keys, strict=True)]
        schema = self._messages.to_arrow()
        if columns:
            places = self._open.find(columns)
            rows = pa.RecordBatch.from_arrays(
                self._open.take(places, [MESSAGE + name for name in schema.names]), schema=schema
            )
        else:
            rows = pa.RecordBatch.from_pylist([], schema=schema)
        return _Rows(rows, self._times(rows))

    # -- state ---------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, pa.Table]:
        """The messages that wait, and the open groups."""
        tables = {OPEN + name: table for name, table in self._open.snapshot().items()}
        if self._waiting:
            waiting = _together(self._waiting)
            columns = [as_rows(waiting.times), *waiting.rows.columns]
            tables[WAITING] = pa.Table.from_arrays(columns, schema=self._waiting_schema)
        return tables

    def restore(self, tables: Mapping[str, pa.Table], reached: int) -> None:
        """Take over what :meth:`snapshot` gave, when time had reached ``reached``."""
        with fitting_state(self._spec.title):
            if WAITING in tables:
                times = tables[WAITING].column(_TIME).combine_chunks().to_numpy()
                conformer = SchemaConformer(self._messages, f"what {self._spec.title} kept")
                self.add(kept_messages(tables[WAITING], conformer), times)
            kept = {name.removeprefix(OPEN): t for name, t in tables.items() if name.startswith(OPEN)}
            if kept:
                self._open.restore({name: kept_rows(table, self._conformer) for name, table in kept.items()})
        if self._last and kept:
            groups = self._open.rows
            begins = groups.column(_TIME).to_numpy()
            order = np.argsort(begins, kind="stable")
            order = order[begins[order] + self._within > reached]  # others have been emitted, and may lie there still
            self._begun = [(begins[order], _taken([groups.column(name) for name in self._names], order))]


def _together(parts: Sequence[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    return _Rows(pa.concat_batches([each.rows for each in parts]), np.concatenate([each.times for each in parts]))


def _taken(columns: Sequence[pa.Array], numbers: Longs) -> list[Any]:
    return [column.take(as_rows(numbers)) for column in columns]
