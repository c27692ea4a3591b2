"""Reading of an input range of files: record batches of the stream's schema.

The system of files reads by it; tables of lakes take its slice by a column, and the rows that fit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import batch_of, decoded
from airflow_samza.systems.files.change_checks import UnchangedFile, unchanged
from airflow_samza.systems.files.formats.casts import Conformer, cast, shown
from airflow_samza.systems.files.formats.file_format import InputFile, TimeRange, Unreadable, open_format
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.files.formats.limits import check_values
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.text_values import is_text, parse_text
from airflow_samza.systems.files.formats.times import unit_of
from airflow_samza.systems.files.listing import FileEntry
from airflow_samza.systems.files.location import Location
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
