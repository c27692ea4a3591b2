"""Reading of a partition of a table: the rows of its files as the plan has fixed them, then end-of-stream.

Delta and Iceberg read inputs by it, and publishers the rows that they write anew.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import Conformer
from airflow_samza.systems.files.formats.file_format import (
    InputFile,
    TimeRange,
    Unreadable,
    reading,
    rows_without_columns,
)
from airflow_samza.systems.files.formats.limits import check_values
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.files.reading import Within, fitting
from airflow_samza.systems.files.split_reading import SplitConsumer, projected_schema
from airflow_samza.systems.system import ColumnBound, MessageRun, StreamSpec, SystemStreamPartition
from airflow_samza.systems.tables.columns import TableField, TableType, columns_of, data_type
from airflow_samza.systems.tables.file_columns import FileField, constant, projected
from airflow_samza.systems.tables.inputs.change_columns import ADDED, BEFORE, CHANGE, COMMIT, COMMITTED, REMOVED
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion, input_file
from airflow_samza.systems.tables.row_hashes import RewrittenRows
from airflow_samza.systems.tables.vectors import NONE, Positions, kept_rows

WHOLE = Split(0, 0, None)

_OF_FEED = TableField(CHANGE, CHANGE, TableType("string"))
"""The column in which the files of a change data feed say what became of each row."""


class TableConsumer(SplitConsumer):
    """Consumer of one input range of a table. Offsets do not count deleted rows."""

    def __init__(self, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        super().__init__(stream, slice)
        self.schema: pa.Schema = Schema.of(stream.schema or slice["schema"]).to_arrow()
        self._table = str(slice["table"])
        self._columns = {column.name: column for column in columns_of(slice["columns"])}
        self._files = slice["files"]
        self._commits = slice.get("commits", ())
        self._within = Within.of(stream, self.schema)
        self._remedy: str | None = slice.get("remedy")

    def opened(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> AbstractContextManager[Iterator[pa.RecordBatch | Unreadable]]:
        """Return the rows of a split, without deleted ones."""
        return closing(self._split(split, columns, bounds, dictionaries))

    def _split(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> Generator[pa.RecordBatch | Unreadable, None, None]:
        target = projected_schema(self.schema, columns, self.stream.name)
        wanted = target if self._within is None else self._within.added_to(target, self.schema)
        listed = self._files[split.file]
        rows = (
            self._changed(listed, wanted)
            if "parts" in listed
            else self._rows(listed, split, wanted, bounds, dictionaries=dictionaries)
        )
        with closing(rows):
            for batch in rows:
                if isinstance(batch, Unreadable) or self._within is None:
                    yield batch
                else:
                    yield self._within.rows_of(batch).select(target.names)

    def _changed(
        self, listed: Mapping[str, Any], target: pa.Schema
    ) -> Generator[pa.RecordBatch | Unreadable, None, None]:
        """Yield the rows that a commit has changed: removed ones, then added ones.

        Rows that it has only written anew cancel out, whichever columns are read.
        """
        whole = pa.schema([field for field in self.schema if field.name in self._columns])
        added = [change for change in listed["parts"] if change["change"] == ADDED]
        batches = (batch for change in added for batch in self._rows(change, WHOLE, whole))
        rewritten = RewrittenRows(batch for batch in batches if not isinstance(batch, Unreadable))
        for change in listed["parts"]:
            still_changed = rewritten.added if change["change"] == ADDED else rewritten.removed
            for batch in self._rows(change, WHOLE, whole):
                if isinstance(batch, Unreadable):
                    yield batch
                elif (rows := still_changed(batch)).num_rows:
                    yield _marked(rows, target, self._marks({**change, "commit": listed["commit"]}))

    def _rows(
        self,
        listed: Mapping[str, Any],
        split: Split,
        wanted: pa.Schema,
        bounds: tuple[ColumnBound, ...] = (),
        *,
        dictionaries: bool = False,
    ) -> Generator[pa.RecordBatch | Unreadable, None, None]:
        file = input_file(self.place(listed["path"]), int(listed["size"]), self.stream.name)
        file = dataclasses.replace(file, dictionaries=dictionaries)
        try:
            with reading(file, "parquet"):
                yield from self._conformed(file, listed, split, wanted, bounds)
        except TopicError as error:
            if error.__cause__ is not None and is_missing(error.__cause__):
                raise self._missing(file) from error
            raise

    def _conformed(
        self,
        file: InputFile,
        listed: Mapping[str, Any],
        split: Split,
        wanted: pa.Schema,
        bounds: tuple[ColumnBound, ...],
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        target, wanted = wanted, pa.schema([field for field in wanted if field.name in self._columns])
        columns = [self._columns[name] for name in wanted.names]
        feed = bool(listed.get("feed"))
        if feed:
            columns, wanted = [*columns, _OF_FEED], wanted.append(pa.field(CHANGE, pa.string()))
        whole = pa.schema([pa.field(column.name, data_type(column.type).to_arrow()) for column in columns])
        conformer = Conformer.check(
            whole,
            wanted,
            file=file.shown,
            stream=file.stream,
            options=FileOptions(),
            dictionaries=file.dictionaries,
            any_bytes=True,
        )
        with closing(ParquetInput(file)) as opened:
            rows = _FileRows(opened, split, self.file_fields(opened.schema, file, listed))
            deleted, only = self._positions(listed, rows.count)
            if only is not None and not len(only):
                return
            rows.skip_by(bounds, None if self._within is None else self._within.range, self._columns)
            if only is not None:
                deleted = np.setdiff1d(np.arange(rows.count), only, assume_unique=True)
            row = 0
            for batch in rows.batches(columns, listed.get("constants", {}), deleted):
                check_values(batch, row, file.shown, file.stream)
                row += batch.num_rows
                for one in fitting(conformer, batch) if self.stream.tolerant else (conformer.apply(batch),):
                    if isinstance(one, Unreadable) or (not feed and len(target) == len(wanted)):
                        yield one
                        continue
                    if feed:
                        one = one.filter(_of_change(one.column(CHANGE), listed["change"]))
                    yield _marked(one, target, self._marks(listed))

    def _marks(self, listed: Mapping[str, Any]) -> dict[str, pa.Scalar]:
        """Return what a part of changes says of all of its rows, by column."""
        marks = {CHANGE: pa.scalar(listed["change"], pa.string())}
        if "commit" in listed:
            commit = self._commits[listed["commit"]]
            marks[COMMIT] = pa.scalar(int(commit["number"]), pa.int64())
            marks[COMMITTED] = pa.scalar(int(commit["time"]) * 1000, pa.timestamp("us", "UTC"))
        return marks

    def _positions(self, listed: Mapping[str, Any], rows: int) -> tuple[Positions, Positions | None]:
        """Return the positions of the deleted rows of a file, and of a part of changes those that it consists of."""
        deleted, only = (
            np.unique(np.concatenate(self.positions(places, listed, rows))) if (places := listed.get(name)) else None
            for name in ("deletes", "only")
        )
        deleted = NONE if deleted is None else deleted
        return deleted, None if only is None else np.setdiff1d(only, deleted, assume_unique=True)

    @abstractmethod
    def place(self, path: str) -> Location:
        """Return the place of a data file of the range."""

    @abstractmethod
    def file_fields(self, schema: pa.Schema, file: InputFile, listed: Mapping[str, Any]) -> tuple[FileField, ...]:
        """Return the columns of a data file that are columns of the table, with their ids."""

    @abstractmethod
    def positions(self, places: Sequence[int], listed: Mapping[str, Any], rows: int) -> list[Positions]:
        """Return the positions of rows of a data file that some of the range's deletes have: of its ``rows``."""

    @abstractmethod
    def removal(self) -> tuple[str, str, dict[str, Any]]:
        """Return why a planned file may be gone (behind a colon), what to do about it, and the facts."""

    def _missing(self, file: InputFile) -> TopicError:
        why, hint, facts = self.removal()
        return TopicError(
            f"File {file.shown} of the table {self._table} (stream {file.stream!r}) is gone: {why}.",
            hint=self._remedy or f"Clear the plan task, so that a new plan reads {hint}.",
            file=file.shown,
            stream=file.stream,
            **facts,
        )


def file_rows(
    version: TableVersion,
    file: TableFile,
    consumer: Callable[[StreamSpec, Mapping[str, Any]], TableConsumer],
    names: Sequence[str] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one data file of a version, without deleted ones, in some columns of it; None: in all."""
    stream = version.stream
    range_ = {**version.described([file]), "partitions": 1, "offsets": None, "splits": [[[0, 0, None]]]}
    for envelope in consumer(stream, range_).read(SystemStreamPartition("", stream.name, 0), None, names):
        if isinstance(envelope, MessageRun):
            yield envelope.batch


def _marked(batch: pa.RecordBatch, target: pa.Schema, marks: Mapping[str, pa.Scalar]) -> pa.RecordBatch:
    """Return rows with the columns that say what became of them, unless they have these already."""
    present = set(batch.schema.names)
    columns = [
        batch.column(name) if name in present else pa.repeat(marks[name], batch.num_rows) for name in target.names
    ]
    return batch_of(columns, target) if columns else rows_without_columns(batch.num_rows)


def _of_change(changes: pa.StringArray, change: str) -> pa.BooleanArray:
    """Return which rows of a change data feed were removed, or added."""
    is_removed = pc.is_in(changes, pa.array([REMOVED, BEFORE]))
    return is_removed if change == REMOVED else pc.invert(is_removed)


_NUMBERS = ("byte", "short", "int", "long")


class _FileRows:
    """Rows of a part of a data file, in the columns of the table."""

    def __init__(self, opened: ParquetInput, split: Split, fields: Iterable[FileField]) -> None:
        self._opened = opened
        self._split = split
        self._within: TimeRange | None = None
        self._fields: dict[int | str | None, FileField] = {field.id: field for field in fields}

    @property
    def count(self) -> int:
        """The rows of the whole file, with deleted ones."""
        return int(self._opened.parquet.metadata.num_rows)

    def skip_by(
        self, bounds: Sequence[ColumnBound], within: TimeRange | None, columns: Mapping[str, TableField]
    ) -> None:
        """Skip row groups by columns of the table, which may have other names in the file: by bounds and a slice."""
        of_file = []
        for bound in bounds:
            found = self._fields.get(columns[bound.column].id) if bound.column in columns else None
            if found is not None:
                of_file.append(bound._replace(column=found.name))
        self._opened.file = dataclasses.replace(self._opened.file, bounds=tuple(of_file))
        column = columns.get(within.column) if within is not None else None
        time = self._fields.get(column.id) if column is not None else None
        if within is None or column is None or time is None:
            return
        # What is a point in time in the table and a number in the file, or the other way, has another unit there.
        if types.is_integer(time.type) == (column.type.word in _NUMBERS):
            self._within = within._replace(column=time.name)

    def batches(
        self, columns: Sequence[TableField], constants: Mapping[str, Any], deleted: Positions
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are not deleted; what the file lacks is its partition's value, else null."""
        names = [self._fields[column.id].name for column in columns if column.id in self._fields]
        whole = self._opened.batches(self._split.start, self._split.end, names, self._within)
        for batch in self._kept(names, deleted) if len(deleted) else whole:
            made = []
            for column in columns:
                found = self._fields.get(column.id)
                made.append(
                    constant(column, constants.get(str(column.id)), batch.num_rows)
                    if found is None
                    else projected(batch.column(batch.schema.get_field_index(found.name)), found, column.type)
                )
            if not made:
                yield rows_without_columns(batch.num_rows)
                continue
            schema = pa.schema([pa.field(column.name, data_type(column.type).to_arrow()) for column in columns])
            yield batch_of(made, schema)

    def _kept(self, names: Sequence[str], deleted: Positions) -> Iterator[pa.RecordBatch]:
        """Yield rows without deleted ones: row group by row group, whose places in the file are known."""
        metadata = self._opened.parquet.metadata
        first = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if self._split.start <= group and (self._split.end is None or group < self._split.end):
                position = first
                for batch in self._opened.batches(group, group + 1, names, self._within):
                    kept = kept_rows(deleted, position, batch.num_rows)
                    position += batch.num_rows
                    if kept is None:
                        yield batch
                    elif names:
                        yield batch.filter(kept)
                    else:
                        yield rows_without_columns(kept.true_count)
            first += rows
