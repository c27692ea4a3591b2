"""Reading of a partition of a table: the rows of its files as the plan has fixed them, then end-of-stream."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.formats.casts import Conformer
from airflow_samza.systems.files.formats.file_format import InputFile, Unreadable, reading
from airflow_samza.systems.files.formats.limits import check_values
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.packing import Split
from airflow_samza.systems.files.reading import (
    Within,
    chunks_of,
    fitting,
    projected_schema,
    read_chunks,
    reject_partition,
)
from airflow_samza.systems.system import (
    ColumnBound,
    Envelope,
    OffsetRange,
    StreamSpec,
    SystemStreamPartition,
)
from airflow_samza.systems.tables.columns import columns_of, data_type
from airflow_samza.systems.tables.projection import FileField
from airflow_samza.systems.tables.rows import TableRows
from airflow_samza.systems.tables.vectors import Positions


class TableConsumer(ABC):
    """Consumer of one input range. Offsets count the rows of a partition in the order of its files, without deleted."""

    def __init__(self, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        self.stream = stream
        self.partitions = int(slice["partitions"])
        self.schema: pa.Schema = Schema.of(stream.schema or slice["schema"]).to_arrow()
        self._table = str(slice["table"])
        self._columns = {column.name: column for column in columns_of(slice["columns"])}
        self._files = slice["files"]
        self._chunks = chunks_of(slice)
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
        yield from read_chunks(
            ssp,
            self._chunks,
            offsets,
            self.stream.name,
            lambda split: closing(self._split(split, columns, skipping, dictionaries)),
        )

    def close(self) -> None:  # noqa: B027  # kinds of tables have nothing to close, either
        """Do nothing: files are open only while they are read."""

    def _split(
        self, split: Split, columns: Sequence[str] | None, bounds: tuple[ColumnBound, ...], dictionaries: bool
    ) -> Generator[pa.RecordBatch | Unreadable, None, None]:
        target = projected_schema(self.schema, columns, self.stream.name)
        wanted = target if self._within is None else self._within.added_to(target, self.schema)
        listed = self._files[split.file]
        file = dataclasses.replace(self.input_file(listed), dictionaries=dictionaries)
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
        deleted = self.deleted(listed)
        with closing(TableRows(file, split, lambda schema: self.file_fields(schema, file, listed))) as rows:
            rows.skip_by(bounds, self._columns)
            row = 0
            for batch in rows.batches(columns, listed.get("constants", {}), deleted):
                check_values(batch, row, file.shown, file.stream)
                row += batch.num_rows
                yield from fitting(conformer, batch) if self.stream.tolerant else (conformer.apply(batch),)

    @abstractmethod
    def input_file(self, listed: Mapping[str, Any]) -> InputFile:
        """Return a data file of the range, ready to be opened."""

    @abstractmethod
    def file_fields(self, schema: pa.Schema, file: InputFile, listed: Mapping[str, Any]) -> tuple[FileField, ...]:
        """Return the columns of a data file that are columns of the table, with their ids."""

    @abstractmethod
    def deleted(self, listed: Mapping[str, Any]) -> Positions:
        """Return the positions of the deleted rows of a data file."""

    @abstractmethod
    def removal(self) -> tuple[str, str, dict[str, Any]]:
        """Return why a planned file may be gone (behind a colon), what to do about it, and the facts."""

    def _gone(self, file: InputFile) -> TopicError:
        why, hint, facts = self.removal()
        return TopicError(
            f"File {file.shown} of the table {self._table} (stream {file.stream!r}) is gone: {why}.",
            hint=f"Clear the plan task, so that a new plan reads {hint}.",
            file=file.shown,
            stream=file.stream,
            **facts,
        )
