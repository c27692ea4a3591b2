"""Rows of a part of a data file, in the columns of its table and without those that are deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from airflow_samza.systems.dictionaries import batch_of
from airflow_samza.systems.files.formats.file_format import InputFile, TimeRange, rows_without_columns
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables.columns import TableField, data_type
from airflow_samza.systems.tables.projection import FileField, constant, projected
from airflow_samza.systems.tables.vectors import Positions, kept_rows

_NUMBERS = ("byte", "short", "int", "long")


class TableRows:
    """Rows of a part of a data file, in the columns of the table."""

    def __init__(self, file: InputFile, split: Split, fields_of: Callable[[pa.Schema], Sequence[FileField]]) -> None:
        self._opened = ParquetInput(file)
        self._split = split
        self._within: TimeRange | None = None
        try:
            self._fields: dict[int | str | None, FileField] = {
                field.id: field for field in fields_of(self._opened.schema)
            }
        except BaseException:
            self._opened.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        self._opened.close()

    @property
    def count(self) -> int:
        """The rows of the whole file, with deleted ones."""
        return int(self._opened.parquet.metadata.num_rows)

    def others(self, positions: Positions) -> Positions:
        """Return the positions of the file that are not among some."""
        return np.setdiff1d(np.arange(self.count), positions, assume_unique=True)

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
        for batch in self._kept(names, deleted) if len(deleted) else self._all(names):
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

    def _all(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        return self._opened.batches(self._split.start, self._split.end, names, self._within)

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
