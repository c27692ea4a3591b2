"""Output to a table: a task writes data files where the table has them, which the commit of the epoch makes visible.

A file holds rows of one partition. The names of all files of a generation of a stage begin alike: by that a later
generation finds what it replaces. Tasks write by it into tables of both lake formats; sweeps know files by their names.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.durable_files import make_directory, sync_directory, sync_file
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.casts import Conformer
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.parquet_output import ParquetOutput
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.columns import inner_fields
from airflow_samza.systems.tables.file_columns import arrow_field, for_file, null_error
from airflow_samza.systems.tables.output_target import OutputTarget, check_messages
from airflow_samza.systems.tables.transforms import sorted_rows, split_rows

OPEN_FILES = 50
"""Files that a task writes at a time; with more partitions the one that was written longest ago is closed."""

HELD_BYTES = 256 * 2**20
"""Rows that a task holds back for its open files, in bytes; beyond this the file that holds most writes them."""

SORTED_BYTES = 128 * 2**20
"""Rows of a file that are sorted, in bytes in memory: with these it is closed."""

_TRY = re.compile(r"-\d+-\d+-[0-9a-f]{32}$")
"""The end of a writer's name that differs between the tries at the tasks of one generation of a stage."""


def waiting_folder(run: str) -> str:
    """Return the folder under the root of what waits of a run (``<application>/<run>``) to be committed to tables."""
    return f"runs/{run}/branches"


def name_prefix(run: str, writer: str, stream: str) -> str:
    """Return how the names of the data files begin that the tries of one generation of a run's stage write.

    They differ by output: two of a stage may go to one table.
    """
    output = f"{run}/{_TRY.sub('', writer)}\0{stream}"
    return f"samza-{hashlib.sha256(output.encode()).hexdigest()[:16]}-"


def file_name(path: str) -> str:
    """Return the last part of a data file's path."""
    return path.rpartition("/")[2]


def schema_of_files(target: OutputTarget) -> pa.Schema:
    """Return the columns that data files of a table have."""
    return pa.schema([arrow_field(column) for column in target.columns_of_files])


class DataFileWriter:
    """Data file that is being written: rows of one partition, which a table with a sort order has sorted as a whole."""

    def __init__(self, place: Location, path: str, schema: pa.Schema, target: OutputTarget) -> None:
        self.place = place
        self.path = path
        self.rows = 0
        self._target = target
        self._unsorted: list[pa.RecordBatch] = []
        self._unsorted_bytes = 0
        self._sink = place.filesystem.open_output_stream(place.path, compression=None)
        self._writer = ParquetOutput(self._sink, schema, target.compression)

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        self.rows += batch.num_rows
        if self._target.sort:
            self._unsorted.append(batch)
            self._unsorted_bytes += batch.nbytes
        else:
            self._writer.write(batch)

    @property
    def size(self) -> int:
        """Bytes that were written."""
        return int(self._sink.tell())

    @property
    def held(self) -> int:
        """Bytes of rows that wait for their row group to be full, or to be sorted."""
        return self._unsorted_bytes + self._writer.size

    @property
    def is_full(self) -> bool:
        """Return whether the rows that are to be sorted are enough for a file."""
        return self._unsorted_bytes >= SORTED_BYTES

    def flush(self) -> None:
        """Write the rows that wait as a row group."""
        self._writer.flush()

    def finish(self, partition: Sequence[Any]) -> dict[str, Any]:
        """Close the file, and describe it; ``partition`` are the values of its partition."""
        if self._unsorted:
            for batch in sorted_rows(pa.Table.from_batches(self._unsorted), self._target.sort_columns).to_batches():
                self._writer.write(batch)
            self._unsorted = []
        self._writer.close()
        if not self._sink.closed:
            self._sink.close()
        sync_file(self.place)
        size = int(self.place.filesystem.get_file_info(self.place.path).size)
        order = {"sort_order": self._target.sort_id} if self._target.sort else {}
        return {"path": self.path, "rows": self.rows, "bytes": size, "partition": list(partition), **order}

    def abort(self) -> None:
        """Close the file, of which nobody needs anything; an abort ignores errors of the storage."""
        with suppress(OSError, pa.ArrowException, ValueError):
            self._writer.close()
        with suppress(OSError, pa.ArrowException, ValueError):
            if not self._sink.closed:
                self._sink.close()


class TableProducer:
    """Producer of what one try at a task writes to a table: files of which no version of the table knows yet.

    Their names begin with ``prefix``; "": as those of the ``writer``.
    """

    def __init__(
        self, folder: Location, stream: StreamSpec, writer: str, target: OutputTarget, prefix: str = ""
    ) -> None:
        self.stream = stream
        self.target = target
        self._folder = folder
        self._prefix = prefix or name_prefix(target.run, writer, stream.name)
        # Null where there may be none is looked for in all columns at once, by ``for_file``.
        self._declared = pa.schema([field.with_nullable(True) for field in target.declared.to_arrow()])
        self._conformer: Conformer | None = None
        self._schema = schema_of_files(target)
        self._checked: pa.Schema | None = None
        self._open: dict[tuple[Any, ...], DataFileWriter] = {}
        self._files: list[dict[str, Any]] = []
        self._places: list[Location] = []
        self._described: dict[str, Any] | None = None

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append rows; the partition of the stream plays no part, those of the table do."""
        rows = self.conformed(batch)
        if rows is not None:
            self._put(rows)

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch | None:
        """Return rows in the columns of the table; None where there are none."""
        if self._checked is None or not batch.schema.equals(self._checked):
            check_messages(self.target, Schema.of(batch.schema), self.stream.name)
            self._checked = batch.schema
            self._conformer = Conformer.check(
                batch.schema,
                self._declared,
                file=self.target.table,
                stream=self.stream.name,
                options=FileOptions(allow_missing_columns=True),
            )
        if not batch.num_rows or self._conformer is None:
            return None
        try:
            return self._conformer.apply(batch)
        except SchemaError as error:
            raise _misfit(error, self.target.table, self.stream.name) from error

    def _put(self, batch: pa.RecordBatch) -> None:
        if self.target.run_column:
            place = batch.schema.get_field_index(self.target.run_column)
            batch = batch.set_column(place, batch.schema.field(place), pa.repeat(self._prefix, batch.num_rows))
        columns = {
            column.id: for_file(batch.column(place), column, self.target.table)
            for place, column in enumerate(self.target.columns)
        }
        of_files = [columns[column.id] for column in self.target.columns_of_files]
        whole = pa.RecordBatch.from_arrays(of_files, schema=self._schema)
        for values, rows in split_rows(batch, self.target.partition_columns, whole):
            with storage_errors(path=str(self._folder), stream=self.stream.name, doing="write"):
                self._check(values)
                self._write(values, rows)

    def _check(self, values: tuple[Any, ...]) -> None:
        """Reject an empty text that would be null: where files lack the columns of partitions, it is as null."""
        for (_, column), value in zip(self.target.partition_columns, values, strict=True):
            if value == "" and column.required and not self.target.in_files:
                raise null_error(column.name, self.target.table)

    def _write(self, values: tuple[Any, ...], rows: pa.RecordBatch) -> None:
        file = self._open.pop(values, None)
        if file is None:
            if len(self._open) >= OPEN_FILES:
                self._close(next(iter(self._open)))
            file = self._new_file()
        self._open[values] = file  # the one that was written last stands last
        file.write(rows)
        if sum(one.held for one in self._open.values()) > HELD_BYTES:
            largest = max(self._open, key=lambda one: self._open[one].held)
            if self.target.sort:
                self._close(largest)
            else:
                self._open[largest].flush()
        if values in self._open and (file.is_full or file.size >= self.target.file_bytes):
            self._close(values)

    def _new_file(self) -> DataFileWriter:
        name = f"{self._prefix}{uuid.uuid4().hex}.parquet"
        place = self._folder / name
        if not self._places:
            make_directory(place.parent)
        self._places.append(place)
        path = f"{self.target.data}/{name}" if self.target.data else name
        return DataFileWriter(place, path, self._schema, self.target)

    def _close(self, values: tuple[Any, ...]) -> None:
        file = self._open.pop(values)
        self._files.append(file.finish(values))

    def finish(self) -> dict[str, Any]:
        """Close the files; describe the table, its columns and partitions as they were taken for, and the files."""
        if self._described is None:
            with storage_errors(path=str(self._folder), stream=self.stream.name, doing="write"):
                for values in list(self._open):
                    self._close(values)
                if self._places:
                    sync_directory(self._places[0].parent)
            self._described = {
                "table": self.target.uuid,
                "prefix": self._prefix,
                "spec": self.target.spec,
                "columns": [[one.id, one.type.word, one.required, one.name] for one in self.target.columns],
                "inner": [
                    [key, field.type.word, field.required, path]
                    for key, path, field in inner_fields(self.target.columns)
                    if path != field.name
                ],
                "files": self._files,
                "rows": sum(int(file["rows"]) for file in self._files),
                "bytes": sum(int(file["bytes"]) for file in self._files),
            }
        return self._described

    def abort(self) -> None:
        """Remove the files of this try; an abort ignores errors of the storage."""
        for file in self._open.values():
            file.abort()
        for place in self._places:
            with suppress(OSError):
                place.filesystem.delete_file(place.path)


def _misfit(error: SchemaError, table: str, stream: str) -> SchemaError:
    """Return the error of a value that does not fit, told of messages and not of the file that it would be in."""
    column, declared = error.facts.get("column"), error.facts.get("declared")
    found, reason = error.facts.get("found"), error.sentence.rpartition(": ")[2]
    return SchemaError(
        f"Column {column!r} of the output {stream!r} ({found}) has values that do not fit the table {table}, where it "
        f"is {declared}: {reason}",
        hint=f"Cast it with select, or leave out what does not fit: cast({column} as {declared}) as {column}.",
        table=table,
        stream=stream,
        column=str(column),
    )
