"""Upserts of a table: a task stages the changes of an epoch as they come, and the commit merges them by key.

Staged files have the rows in the columns of messages, and the mark of those that delete. Of a key the last one counts.
Whoever publishes reads them, finds the data files that have rows of these keys, and writes those anew without them
(copy on write). So a reader needs to know nothing of upserts (decision 129). Outputs to both lake formats with
``mode="upsert"`` use it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_samza.application.descriptors import ROW_DELETED
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, SchemaError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.output_slots import UPSERT
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.columns import TableField, TableType, inner_fields
from airflow_samza.systems.tables.file_columns import FileField, inner_of, null_error, projected
from airflow_samza.systems.tables.inputs.change_columns import ADDED, AFTER, BEFORE, CHANGE, REMOVED
from airflow_samza.systems.tables.inputs.table_version import TableFile
from airflow_samza.systems.tables.options import BRANCH, RUN_COLUMN, TableOutputOptions
from airflow_samza.systems.tables.output import TableProducer
from airflow_samza.systems.tables.output_target import OutputTarget
from airflow_samza.systems.tables.row_hashes import Words, hashes_of, row_hashes
from airflow_samza.systems.tables.staged_files import gone, reading_staged

_FEW_KEYS = 200
"""Keys by which files are left out one by one; of more their bounds are looked at."""

_NO_KEYS = ("float", "double", "struct", "list", "map")


def check_options(options: TableOutputOptions, stream: StreamSpec) -> None:
    """Reject an output that is upserted without a key, or in a way that keeps rows of runs apart."""
    if options.mode != UPSERT:
        return
    if not stream.key:
        raise ConfigError(
            f'The output {stream.name!r} has mode="{UPSERT}" and no key, by which rows would be replaced.',
            hint='Declare them on the output: key="member_id".',
            key="key",
            stream=stream.name,
        )
    for name, value, default in ((BRANCH, options.branch, "main"), (RUN_COLUMN, options.run_column, "")):
        if value != default:
            raise ConfigError(
                f'The output {stream.name!r} has mode="{UPSERT}" and {name}={value!r}.',
                hint="Leave it out: upserted rows are known by their key, whichever run has written them."
                if name == RUN_COLUMN
                else 'Leave it out; publish="after approval" keeps what is upserted back until somebody approves it.',
                key=name,
                value=value,
                stream=stream.name,
            )


def made_columns(columns: Schema, options: TableOutputOptions) -> Schema:
    """Return the columns of a table that is made for messages: no row is marked as deleted in it."""
    if options.mode != UPSERT:
        return columns
    return Schema(tuple(field for field in columns.fields if field.name != ROW_DELETED))


def fix_key(fixed: Mapping[str, Any], options: TableOutputOptions, stream: StreamSpec) -> dict[str, Any]:
    """Return what the plan has of a table with the key by which its rows are replaced."""
    if options.mode != UPSERT:
        return dict(fixed)
    target = OutputTarget.of(fixed)
    columns = {column.name: column for column in target.columns}
    if ROW_DELETED in columns:
        raise TopicError(
            f"The table {target.table} of the output {stream.name!r} has a column {ROW_DELETED!r}, which marks the "
            "messages that delete their row.",
            hint='Drop the column, or write the table with mode="append" and keep deletes as rows.',
            table=target.table,
            stream=stream.name,
            column=ROW_DELETED,
        )
    for name in stream.key:
        if name not in columns:
            raise SchemaError(
                f"The output {stream.name!r} is upserted by {name!r}, and the table {target.table} has no such column.",
                hint=f"{did_you_mean(name, columns)}Its columns are {listed(columns)}.",
                table=target.table,
                stream=stream.name,
                column=name,
            )
        if columns[name].type.word in _NO_KEYS:
            raise SchemaError(
                f"The output {stream.name!r} is upserted by {name!r}, which is {columns[name].type.word} in the table "
                f"{target.table}, and no two of such values are surely the same.",
                hint="Name columns of whole numbers, texts, dates or times.",
                table=target.table,
                stream=stream.name,
                column=name,
            )
    return {**fixed, "key": list(stream.key)}


class ChangeProducer(TableProducer):
    """Producer of the changes of a table: in their order, in files of which no version of the table ever knows."""

    def __init__(self, folder: Location, stream: StreamSpec, writer: str, target: OutputTarget) -> None:
        super().__init__(folder, stream, writer, dataclasses.replace(target, sort=(), partition=()))
        self._in_log = () if target.in_files else tuple(column.name for _, column in target.partition_columns)
        self._schema = staged_schema(target)

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append changes."""
        rows = self.conformed(batch)
        if rows is None:
            return
        is_deleted = pa.repeat(pa.scalar(False), batch.num_rows)
        if ROW_DELETED in batch.schema.names:
            is_deleted = batch.column(ROW_DELETED).fill_null(False)
        self._reject_nulls(rows, is_deleted)
        whole = pa.RecordBatch.from_arrays([*rows.columns, is_deleted], schema=self._schema)
        with storage_errors(path=str(self._folder), stream=self.stream.name, doing="write"):
            self._write((), whole)

    def _reject_nulls(self, rows: pa.RecordBatch, is_deleted: pa.BooleanArray) -> None:
        """Reject nulls in a key, and empty texts that a log would have as null: such rows are never found again."""
        for column, values in zip(self.target.columns, rows.columns, strict=True):
            is_key = column.name in self.target.key
            is_text_in_log = column.name in self._in_log and pa.types.is_string(values.type)
            if is_key and is_text_in_log and pc.any(pc.equal(values, "")).as_py():
                raise SchemaError(
                    f"Column {column.name!r} of the key of the output {self.stream.name!r} is empty in a message, and "
                    f"the table {self.target.table} is partitioned by it, where an empty text is null.",
                    hint="Leave such messages out with where, or partition the table by another column.",
                    table=self.target.table,
                    stream=self.stream.name,
                    column=column.name,
                )
            if is_key and values.null_count:
                raise SchemaError(
                    f"Column {column.name!r} of the key of the output {self.stream.name!r} is null in a message, so "
                    f"that nobody knows which row of the table {self.target.table} it is.",
                    hint="Leave such messages out with where.",
                    table=self.target.table,
                    stream=self.stream.name,
                    column=column.name,
                )
            if (
                column.required
                and values.null_count
                and pc.any(pc.and_(values.is_null(), pc.invert(is_deleted))).as_py()
            ):
                raise null_error(column.name, self.target.table)


def staged_schema(target: OutputTarget) -> pa.Schema:
    """Return the columns of staged changes."""
    columns = [pa.field(field.name, field.type.to_arrow()) for field in target.declared.fields]
    return pa.schema([*columns, pa.field(ROW_DELETED, pa.bool_())])


class Upserts:
    """The last change of each key in an epoch. ``rows`` are those that stay."""

    def __init__(self, changes: pa.Table, key: Sequence[str]) -> None:
        self.key = tuple(key)
        batch = changes.combine_chunks().to_batches()
        whole = batch[0] if batch else pa.RecordBatch.from_pylist([], schema=changes.schema)
        first, second = row_hashes(whole.select(list(key)))
        chosen = _last_of_each(first, second)
        self._changed = _KeySet(first[chosen], second[chosen])
        rows = whole.take(pa.array(np.sort(chosen)))
        self.keys = rows.select(list(key))
        self.rows = rows.filter(pc.invert(rows.column(ROW_DELETED))).drop_columns([ROW_DELETED])

    @classmethod
    def read(
        cls, described: Iterable[Mapping[str, Any]], place: Callable[[str], Location], target: OutputTarget, stream: str
    ) -> Upserts:
        """Return the changes that the tasks of an epoch have staged, in their order, in the columns of the table.

        The table may have got more columns since, or wider ones, or other names for those that have ids, also within
        structs.
        """
        schema = staged_schema(target)
        tables = [schema.empty_table()]
        own = [(key, path) for key, path, _ in inner_fields(target.columns)]
        fields = {key: field for key, _, field in inner_fields(target.columns)}
        for one in described:
            names = {column[0]: column[3] for column in one["columns"]}
            ids = {path: fields[key].id for key, *_, path in one.get("inner", own) if key in fields}
            for file in one["files"]:
                at = place(str(file["path"]))
                with reading_staged(at, stream, gone("file of changes", at, stream)):
                    found = pq.read_table(at.path, filesystem=at.filesystem)
                columns = []
                for column, field in zip(target.columns, schema, strict=False):
                    if column.id in names:
                        values = found[names[column.id]].combine_chunks()
                        staged = _staged_field(column.name, values.type, names[column.id], ids)
                        columns.append(projected(values, staged, column.type))
                    else:
                        columns.append(pa.nulls(found.num_rows, field.type))
                tables.append(pa.table([*columns, found[ROW_DELETED]], schema=schema))
        return cls(pa.concat_tables(tables), target.key)

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._changed.first)

    def others(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return which rows of a table no change is about."""
        return pa.array(~self._changed.has(batch, self.key))

    def bounds(self) -> list[ColumnBound]:
        """Return bounds that rows of these keys fulfil; types of which statistics say nothing have none."""
        found = []
        for name, column in zip(self.key, self.keys.columns, strict=True):
            values = pc.unique(column)
            if (
                not len(values)
                or not isinstance(values[0].as_py(), int | str | date)
                or pa.types.is_timestamp(values.type)
            ):
                continue
            if len(values) <= _FEW_KEYS:
                found.append(ColumnBound(name, "in", tuple(sorted(values.to_pylist()))))
            elif pa.types.is_integer(values.type) or pa.types.is_date(values.type):
                least, most = (pc.min_max(values)[side].as_py() for side in ("min", "max"))
                found += [ColumnBound(name, ">=", least), ColumnBound(name, "<=", most)]
        return found


def _staged_field(name: str, kind: pa.DataType, path: str, ids: Mapping[str, Any]) -> FileField:
    """Return a column of staged changes, or a field within one; ``ids`` are those of the table, by the staged paths."""
    inner = (_staged_field(one.name, one.type, f"{path}.{one.name}", ids) for one in inner_of(kind))
    return FileField(ids.get(path), name, kind, tuple(inner))


def merged(
    upserts: Upserts,
    files: Iterable[tuple[Any, TableFile]],
    rows_of: Callable[[TableFile, Sequence[str] | None], Iterator[pa.RecordBatch]],
    producer: TableProducer,
    feed: TableProducer | None = None,
) -> list[Any]:
    """Write the new rows, and what is left of files that have rows of their keys; return those files.

    Each of ``files`` comes as the table has it, and as readers have it. ``rows_of`` returns the rows of a file, without
    deleted ones, in some columns of the table; None: in all. ``feed`` gets the rows that leave and those that come,
    each with what became of it; nothing where no file leaves: then all that comes is new.
    """
    if upserts.rows.num_rows:
        producer.write(0, upserts.rows)
    leaving, replaced = [], []
    new_keys = _KeySet.of([upserts.rows], upserts.key) if feed is not None else None
    for file, read in files:
        if any(not pc.all(upserts.others(batch)).as_py() for batch in rows_of(read, upserts.key) if batch.num_rows):
            leaving.append(file)
            for batch in rows_of(read, None):
                others = upserts.others(batch)
                producer.write(0, batch.filter(others))
                if feed is not None and new_keys is not None:
                    removed = batch.filter(pc.invert(others))
                    feed.write(0, _with_change(removed, new_keys.has(removed, upserts.key), BEFORE, REMOVED))
                    replaced.append(removed)
    if feed is not None and leaving:
        updated = _KeySet.of(replaced, upserts.key).has(upserts.rows, upserts.key)
        feed.write(0, _with_change(upserts.rows, updated, AFTER, ADDED))
    return leaving


def feed_target(target: OutputTarget, folder: str) -> OutputTarget:
    """Return a table as the files of its change data feed have it, in a folder of their own."""
    change = TableField(CHANGE, CHANGE, TableType("string"))
    return dataclasses.replace(target, columns=(*target.columns, change), data=folder, key=(), sort=())


def _with_change(rows: pa.RecordBatch, updated: Any, update: str, other: str) -> pa.RecordBatch:
    change = pc.if_else(pa.array(updated, pa.bool_()), update, other)
    return pa.RecordBatch.from_arrays([*rows.columns, change], names=[*rows.schema.names, CHANGE])


class _KeySet(NamedTuple):
    """Hashes of keys, sorted, each once."""

    first: Any
    second: Any

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch], key: Sequence[str]) -> _KeySet:
        first, second = hashes_of(batch.select(list(key)) for batch in batches)
        chosen = _last_of_each(first, second)
        return cls(first[chosen], second[chosen])

    def has(self, rows: pa.RecordBatch, key: Sequence[str]) -> Any:
        """Return which rows have a key that is among them."""
        first, second = row_hashes(rows.select(list(key)))
        if not len(self.first):
            return np.zeros(len(first), bool)
        places = np.searchsorted(self.first, first).clip(max=len(self.first) - 1)
        return (self.first[places] == first) & (self.second[places] == second)


def _last_of_each(first: Words, second: Words) -> npt.NDArray[np.int64]:
    """Return the places of hashes in their order, of equal ones the last that came."""
    order = np.lexsort((second, first))  # keeps the order of equal ones
    last = np.ones(len(order), bool)
    last[:-1] = (first[order][1:] != first[order][:-1]) | (second[order][1:] != second[order][:-1])
    return order[last]
