"""Reading of an input range of files: record batches of the stream's schema.

A file that is read is checked to be the one that the plan saw, before and all the while. On a disk that is a look at
size, time and inode for each batch, before anybody gets the batch. In an object store all ranges come of the version
that was there before the first. Elsewhere one more look follows behind the end. A file that is removed while it is read
is read to its end, if the storage lets it. The system of files reads by it; tables of lakes take its slice by a column,
and the rows that fit.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from pyarrow import types

from airflow_samza.errors import SamzaError, SchemaError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of, decoded
from airflow_samza.systems.files.failures import is_of_storage
from airflow_samza.systems.files.formats.casts import Conformer, cast, shown
from airflow_samza.systems.files.formats.file_format import (
    WHILE_READ,
    InputFile,
    TimeRange,
    Unreadable,
    changed,
    open_format,
    reading,
)
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.files.formats.limits import check_values
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.text_values import is_text, parse_text
from airflow_samza.systems.files.formats.times import unit_of
from airflow_samza.systems.files.listing import FileEntry
from airflow_samza.systems.files.location import Location, info_and_version
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.files.slicing import files_of, input_file, time_range
from airflow_samza.systems.files.split_reading import SplitConsumer, projected_schema
from airflow_samza.systems.system import ColumnBound, StreamSpec


class FilesConsumer(SplitConsumer):
    """Consumer of one input range of files."""

    def __init__(self, root: Location, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        super().__init__(stream, slice)
        self.root = root
        self.options = FileOptions.of(stream)
        self.format_name = str(slice["format"])
        self.files = files_of(slice)
        declared = stream.schema or slice["schema"]
        self.schema: pa.Schema = Schema.of(declared).to_arrow() if declared else pa.schema([])
        self.within = Within.of(stream, self.schema if self.files else None)

    @contextmanager
    def opened(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> Iterator[Iterator[pa.RecordBatch | Unreadable]]:
        """Let the batches of a split be read; the end of the ``with`` checks that the file is still the plan's."""
        listed = self.files[split.file]
        file = input_file(self.root, listed, self.stream.name)
        of_file = tuple(bound for bound in bounds if bound.column not in dict(listed.columns))  # which folders overrule
        file = dataclasses.replace(file, bounds=of_file, dictionaries=dictionaries, tolerant=self.stream.tolerant)
        with unchanged(self.root, file, listed, self.format_name) as watched:
            yield self._batches(watched, listed, split, projected_schema(self.schema, columns, self.stream.name))

    def _batches(
        self, watched: UnchangedFile, listed: FileEntry, split: Split, target: pa.Schema
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        columns = target if self.within is None else self.within.added_to(target, self.schema)
        for batch in self._split(watched.file, listed, split, columns):
            watched.check_batch()
            if isinstance(batch, Unreadable):
                yield batch
                continue
            if self.within is not None:
                batch = self.within.rows_of(batch)
            yield batch.select(target.names) if len(columns) > len(target) else batch

    def _split(
        self, file: InputFile, listed: FileEntry, split: Split, columns: pa.Schema
    ) -> Iterator[pa.RecordBatch | Unreadable]:
        hive = {name: value for name, value in listed.columns if name in columns.names}
        inside = pa.schema([field for field in columns if field.name not in hive])
        # Text is parsed by the declared types; the columns that are only declared, not asked for, are not parsed at
        # all.
        declared = pa.schema([field for field in self.schema if field.name not in dict(listed.columns)])
        within = self.within.range if self.within is not None and self.within.range.column not in hive else None
        with closing(open_format(self.format_name).open(file, declared, self.options)) as opened:
            conformer = Conformer.check(
                opened.schema,
                inside,
                file=file.shown,
                stream=file.stream,
                options=self.options,
                dictionaries=file.dictionaries,
                any_bytes=self.format_name in ("parquet", "orc"),
            )
            row = 0
            for batch in opened.batches(split.start, split.end, conformer.names, within):
                if isinstance(batch, Unreadable):
                    row += 1
                    yield batch
                    continue
                check_values(batch, row, file.shown, file.stream)
                row += batch.num_rows
                for conformed in fitting(conformer, batch) if file.tolerant else (conformer.apply(batch),):
                    complete = isinstance(conformed, Unreadable) or not hive
                    yield conformed if complete else _with_constants(conformed, columns, hive, file)


class Within(NamedTuple):
    """Slice by a column, and the microseconds of one unit of that column; integers are in milliseconds."""

    range: TimeRange
    unit: int

    @classmethod
    def of(cls, stream: StreamSpec, schema: pa.Schema | None) -> Within | None:
        """Return the slice by a column, if the stream has one; without a ``schema`` there is nothing to read."""
        within = time_range(stream)
        if within is None:
            return None
        return cls(within, 1 if schema is None else _unit(schema, within.column, stream.name))

    def added_to(self, target: pa.Schema, schema: pa.Schema) -> pa.Schema:
        """Return the columns that have to be read for those of ``target``."""
        column = self.range.column
        return target if column in target.names else target.append(schema.field(column))

    def rows_of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that lie in the slice."""
        column = batch.column(batch.schema.get_field_index(self.range.column))
        numbers = pc.cast(column, pa.int32()) if types.is_date(column.type) else column
        numbers = pc.cast(numbers, pa.int64())
        # Whole units: a value v lies in [start, end) exactly when v * unit does, so bounds round up.
        start, end = -(-self.range.start // self.unit), -(-self.range.end // self.unit)
        return batch.filter(pc.and_(pc.greater_equal(numbers, start), pc.less(numbers, end)))


def _unit(schema: pa.Schema, column: str, stream: str) -> int:
    """Return the microseconds of one unit of the timestamp column: integers are in milliseconds."""
    if column in schema.names:
        kind = schema.field(column).type
        unit = unit_of(kind)
        if unit is not None:
            return int(unit)
        raise SchemaError(
            f"Column {column!r} of stream {stream!r} is {shown(kind)}, which is no point in time to slice by.",
            hint="Declare it as timestamp, date or bigint (milliseconds since 1970 in UTC).",
            stream=stream,
            column=column,
        )
    raise SchemaError(
        f"Stream {stream!r} is sliced by column {column!r}, which it does not have.",
        hint=f"Set timestamp= to one of its columns: {', '.join(schema.names)}.",
        stream=stream,
        column=column,
    )


def _with_constants(
    batch: pa.RecordBatch, schema: pa.Schema, hive: Mapping[str, str | None], file: InputFile
) -> pa.RecordBatch:
    """Return the batch with the columns that the file's directories give."""
    columns = []
    for field in schema:
        if field.name not in hive:
            columns.append(batch.column(batch.schema.get_field_index(field.name)))
            continue
        value = pa.array([hive[field.name]], pa.string())
        try:
            parsed = parse_text(value, field.type) if not types.is_binary(field.type) else cast(value, field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"The directory {field.name}={hive[field.name]} of file {file.shown} of stream {file.stream!r} "
                f"is no {shown(field.type)}.",
                hint=f"Declare {field.name!r} as string, or rename the directory.",
                file=file.shown,
                stream=file.stream,
                column=field.name,
            ) from error
        columns.append(
            pa.repeat(parsed[0], batch.num_rows)
            if hive[field.name] is not None
            else pa.nulls(batch.num_rows, field.type)
        )
    return batch_of(columns, schema)


def fitting(conformer: Conformer, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch | Unreadable]:
    """Yield the rows of a batch that fit the stream's schema, in pieces, and between them those that do not, as JSON.

    A column that no row could fit is an error all the same.
    """
    try:
        conformed = conformer.apply(batch)
    except SchemaError as error:
        conformer.apply(batch.slice(0, 0))
        if batch.num_rows == 1:
            yield Unreadable(to_lines(_shown(decoded(batch))).decode().rstrip("\n"), error.sentence)
            return
        middle = batch.num_rows // 2
        yield from fitting(conformer, batch.slice(0, middle))
        yield from fitting(conformer, batch.slice(middle))
    else:
        yield conformed


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a row as it can be shown.

    Bytes that are no text are escaped, and nested values that hold some are left out.
    """
    columns = []
    for column in batch.columns:
        if is_text(column):
            columns.append(column)
        elif column.type.num_fields:
            columns.append(pa.array(["(text that is no UTF-8)"]))
        else:
            columns.append(pa.array([column.cast(pa.binary())[0].as_py().decode(errors="backslashreplace")]))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


class UnchangedFile:
    """A file of a plan that is being read. ``file`` is the one to open: in an object store it has its version."""

    def __init__(self, root: Location, file: InputFile, listed: FileEntry) -> None:
        self._is_local = isinstance(root.filesystem, pafs.LocalFileSystem)
        self._listed = listed
        self._inode = _inode(file.path) if self._is_local else None
        info, version = info_and_version(file.filesystem, file.path)
        self.file = dataclasses.replace(file, version=version)
        if not info.is_file:
            raise self._changed("it is gone")
        if int(info.size or 0) != listed.size:
            raise self._changed(f"it has {info.size} bytes instead of {listed.size}")
        if not self._is_same(info, version):
            raise self._changed("it was written again")

    def check_batch(self) -> None:
        """Reject a batch in which there may be bytes of another file than the plan's."""
        if self._is_local:
            self.check_end()

    def check_end(self) -> None:
        """Reject what was read where the file is another one by now."""
        if self.file.version is not None:
            return  # each request has checked it
        info = self.file.filesystem.get_file_info(self.file.path)
        if info.type == pafs.FileType.NotFound:
            return
        if not self._is_same(info) or (self._is_local and _inode(self.file.path) not in (self._inode, None)):
            raise self._changed(WHILE_READ)

    def _is_same(self, info: pafs.FileInfo, version: str | None = None) -> bool:
        if version is not None and self._listed.version is not None:
            return version == self._listed.version
        return is_as_listed(info, self._listed)

    def _changed(self, what: str) -> TopicError:
        return changed(self.file.shown, self.file.stream, what)


def is_as_listed(info: pafs.FileInfo, listed: FileEntry) -> bool:
    """Return whether a file has the size of a listing, and its time of change where the storage tells one."""
    same_time = listed.mtime is None or info.mtime_ns is None or int(info.mtime_ns) == listed.mtime
    return same_time and int(info.size or 0) == listed.size


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


@contextmanager
def unchanged(root: Location, file: InputFile, listed: FileEntry, format_name: str) -> Iterator[UnchangedFile]:
    """Let a file be read inside of the ``with``, which ends with an error where the plan's file is not there all along.

    What reading raises becomes our errors; a file that only seems damaged since somebody writes it is no damaged one.
    """
    with reading(file, format_name):
        watched = UnchangedFile(root, file, listed)
        try:
            yield watched
        except (SamzaError, OSError, pa.ArrowException, EOFError, ValueError, MemoryError) as error:
            if not (isinstance(error, OSError) and is_of_storage(error)):
                watched.check_end()
            raise
        watched.check_end()
