"""Reading of a partition of a table: the rows of its files as the plan's snapshot has them, then end-of-stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import Conformer
from airflow_samza.systems.files.formats.file_format import (
    READ_BY_SPARK,
    InputFile,
    Unreadable,
    reading,
    rows_without_columns,
)
from airflow_samza.systems.files.formats.limits import check_values
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.files.reading import Within, fitting, numbered, projected_schema, reject_partition
from airflow_samza.systems.iceberg.columns import TableField, columns_of, data_type
from airflow_samza.systems.iceberg.deletes import NONE, DeleteFile, Positions, deleted_positions, kept_rows
from airflow_samza.systems.iceberg.projection import FileField, constant, file_fields, projected
from airflow_samza.systems.iceberg.slicing import input_file
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import (
    ColumnBound,
    ControlEnvelope,
    Envelope,
    OffsetRange,
    StreamSpec,
    SystemStreamPartition,
)


class IcebergConsumer:
    """Consumer of one input range. Offsets count the rows of a partition in the order of its files, without deleted."""

    def __init__(self, storage: TableStorage, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        self.stream = stream
        self.partitions = int(slice["partitions"])
        self.schema: pa.Schema = Schema.of(stream.schema or slice["schema"]).to_arrow()
        self._storage = storage
        self._table, self._snapshot = str(slice["table"]), slice["snapshot"]
        self._columns = {column.name: column for column in columns_of(slice["columns"])}
        self._names = slice["names"]
        self._files = slice["files"]
        self._deletes = [DeleteFile.of(one) for one in slice["deletes"]]
        self._splits = [[Split(*split) for split in splits] for splits in slice["splits"]]
        self._within = Within.of(stream, self.schema)

    def read(
        self,
        ssp: SystemStreamPartition,
        offsets: OffsetRange | None,
        columns: Sequence[str] | None = None,
        bounds: Sequence[ColumnBound] = (),
        *,
        dictionaries: bool = False,
    ) -> Iterator[Envelope]:
        """Yield the rows of a partition; with ``offsets`` only those, and no end-of-stream.

        Bounds skip row groups.
        """
        reject_partition(ssp, self.partitions, self.stream.name)
        skipping = tuple(bounds) if offsets is None else ()  # offsets count all rows
        end = 0
        for split in self._splits[ssp.partition]:
            if offsets is not None and end >= offsets.end:
                return
            end = yield from numbered(ssp, end, self._split(split, columns, skipping, dictionaries), offsets)
        if offsets is None:
            yield ControlEnvelope(ssp, end, EndOfStreamMessage(None, 1, stream_id=self.stream.name))

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""

    def _split(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        target = projected_schema(self.schema, columns, self.stream.name)
        wanted = target if self._within is None else self._within.added_to(target, self.schema)
        listed = self._files[split.file]
        file = dataclasses.replace(
            input_file(self._storage, listed["path"], int(listed["size"]), self.stream.name), dictionaries=dictionaries
        )
        try:
            with reading(file, "parquet"):
                for batch in self._conformed(file, listed, split, wanted, bounds):
                    if isinstance(batch, Unreadable):
                        yield batch
                        continue
                    yield batch if self._within is None else self._within.rows_of(batch).select(target.names)
        except TopicError as error:
            if error.__cause__ is not None and is_missing(error.__cause__):
                raise self._gone(file) from error
            raise

    def _conformed(
        self,
        file: InputFile,
        listed: Mapping[str, Any],
        split: Split,
        wanted: pa.Schema,
        bounds: tuple[ColumnBound, ...],
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        columns = [self._columns[name] for name in wanted.names]
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
        deleted = self._deleted(listed)
        with closing(_Rows(file, split, self._file_fields)) as rows:
            rows.skip_by(bounds, self._columns)
            row = 0
            for batch in rows.batches(columns, listed.get("constants", {}), deleted):
                check_values(batch, row, file.shown, file.stream)
                row += batch.num_rows
                yield from fitting(conformer, batch) if self.stream.tolerant else (conformer.apply(batch),)

    def _deleted(self, listed: Mapping[str, Any]) -> Positions:
        """Return the positions of a file's deleted rows."""
        files = [self._deletes[place] for place in listed.get("deletes", ())]
        if not files:
            return NONE
        found = [deleted_positions(self._storage.at(one.path), one, listed["path"], self.stream.name) for one in files]
        return np.unique(np.concatenate(found))

    def _file_fields(self, schema: pa.Schema, file: InputFile) -> tuple[FileField, ...]:
        fields = file_fields(schema, self._names)
        if fields is None:
            raise TopicError(
                f"File {file.shown} of the table {self._table} (stream {file.stream!r}) has no field ids, and "
                "the table has no name mapping, so that nobody knows which column is which.",
                hint=f"Set the table's property schema.name-mapping.default, or rewrite the file; or {READ_BY_SPARK}.",
                file=file.shown,
                stream=file.stream,
            )
        return fields

    def _gone(self, file: InputFile) -> TopicError:
        return TopicError(
            f"File {file.shown} of the table {self._table} (stream {file.stream!r}) is gone: the plan reads the "
            f"snapshot {self._snapshot}, which has been removed since.",
            hint="Clear the plan task, so that a new plan reads a snapshot that is there; keep snapshots for longer "
            "than runs take (older_than of expire_snapshots).",
            file=file.shown,
            stream=file.stream,
            snapshot=self._snapshot,
        )


class _Rows:
    """Rows of a part of a data file, in the columns of the table."""

    def __init__(self, file: InputFile, split: Split, fields_of: Any) -> None:
        self._opened = ParquetInput(file)
        self._split = split
        try:
            self._fields: dict[int | None, FileField] = {
                field.id: field for field in fields_of(self._opened.schema, file)
            }
        except BaseException:
            self._opened.close()
            raise

    def close(self) -> None:
        """Give the file back."""
        self._opened.close()

    def skip_by(self, bounds: Sequence[ColumnBound], columns: Mapping[str, TableField]) -> None:
        """Skip row groups by bounds of columns of the table, which may have other names in the file."""
        of_file = []
        for bound in bounds:
            found = self._fields.get(columns[bound.column].id) if bound.column in columns else None
            if found is not None:
                of_file.append(bound._replace(column=found.name))
        self._opened.file = dataclasses.replace(self._opened.file, bounds=tuple(of_file))

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
        return self._opened.batches(self._split.start, self._split.end, names, None)

    def _kept(self, names: Sequence[str], deleted: Positions) -> Iterator[pa.RecordBatch]:
        """Yield rows without deleted ones: row group by row group, whose places in the file are known."""
        metadata = self._opened.parquet.metadata
        first = 0
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if self._split.start <= group and (self._split.end is None or group < self._split.end):
                position = first
                for batch in self._opened.batches(group, group + 1, names, None):
                    kept = kept_rows(deleted, position, batch.num_rows)
                    position += batch.num_rows
                    if kept is None:
                        yield batch
                    elif names:
                        yield batch.filter(kept)
                    else:
                        yield rows_without_columns(kept.true_count)
            first += rows
