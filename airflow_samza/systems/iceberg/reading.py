"""Reading of data files of Iceberg: columns by field ids, rows less those that are deleted by their positions.

Deletes are files of positions, or deletion vectors in Puffin files, whose footers the plan looks at.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile, reading
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.file_columns import FileField, file_fields
from airflow_samza.systems.tables.inputs.consumer import TableConsumer
from airflow_samza.systems.tables.inputs.table_version import input_file
from airflow_samza.systems.tables.vectors import NONE, Positions, check_count, part_of, vector_positions

_MAGIC = b"PFA1"
_TAIL = 12
"""Bytes behind the footer of a Puffin file: its size, flags, and the magic."""


class DeleteFile(NamedTuple):
    """File of deletes. With ``offset`` and ``length`` it is the part of a Puffin file that is one file's vector."""

    path: str
    size: int
    offset: int | None = None
    length: int | None = None


class IcebergConsumer(TableConsumer):
    """Consumer of one input range. Offsets count the rows of a partition in the order of its files, without deleted."""

    def __init__(self, storage: TableStorage, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        super().__init__(stream, slice)
        self._storage = storage
        self._snapshot = slice["snapshot"]
        self._names = slice["names"]
        self._deletes = [DeleteFile(**one) for one in slice["deletes"]]

    def place(self, path: str) -> Location:
        """Return the place of a data file of the range."""
        return self._storage.at(path)

    def positions(self, places: Sequence[int], listed: Mapping[str, Any], rows: int) -> list[Positions]:
        """Return the positions of rows of a data file that some of the range's deletes have: of its ``rows``."""
        files = [self._deletes[place] for place in places]
        path, stream = listed["path"], self.stream.name
        return [deleted_positions(self._storage.at(one.path), one, path, rows, stream) for one in files]

    def file_fields(self, schema: pa.Schema, file: InputFile, listed: Mapping[str, Any]) -> tuple[FileField, ...]:
        """Return the columns of a data file by their field ids, or by the table's name mapping."""
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

    def removal(self) -> tuple[str, str, dict[str, Any]]:
        """Return what has become of the planned snapshot."""
        return (
            f"the plan reads the snapshot {self._snapshot}, which has been removed since",
            "a snapshot that is there; keep snapshots for longer than runs take (older_than of expire_snapshots)",
            {"snapshot": self._snapshot},
        )


def deleted_positions(place: Location, file: DeleteFile, data_file: str, rows: int, stream: str) -> Positions:
    """Return the positions that a file of deletes has of a data file, by the path that the metadata has for that.

    More than its ``rows`` are an error, before they are in memory.
    """
    opened = input_file(place, file.size, stream)
    if file.offset is None or file.length is None:
        with reading(opened, "parquet"):
            return _of_rows(opened, data_file, rows)
    with reading(opened, "puffin"), opened.random_access() as source:
        return vector_positions(part_of(source, file.offset, file.length), rows)


def _of_rows(file: InputFile, data_file: str, rows: int) -> Positions:
    of_file = dataclasses.replace(file, bounds=(ColumnBound("file_path", "=", data_file),))
    with closing(ParquetInput(of_file)) as opened:
        found, count = [NONE], 0
        for batch in opened.batches(0, None, ("file_path", "pos"), None):
            paths = batch.column(batch.schema.get_field_index("file_path")).cast(pa.string())
            positions = batch.column(batch.schema.get_field_index("pos"))
            found.append(positions.filter(pa.compute.equal(paths, data_file)).to_numpy(zero_copy_only=False))
            count += len(found[-1])
            check_count(count, rows)
        return np.unique(np.concatenate(found).astype(np.int64))


def puffin_vectors(source: pa.NativeFile, size: int) -> Iterator[tuple[str, int, int]]:
    """Yield the vectors of a Puffin file: the data file of each, and where its bytes begin and how many they are."""
    tail = source.read_at(_TAIL, size - _TAIL)
    length = int.from_bytes(tail[:4], "little")
    if tail[-4:] != _MAGIC or not 0 < length < size:
        raise ValueError("it is no Puffin file")
    if tail[4]:
        raise ValueError("its footer is compressed, which is not read here")
    for blob in json.loads(source.read_at(length, size - _TAIL - length))["blobs"]:
        if blob["type"] == "deletion-vector-v1":
            yield blob["properties"]["referenced-data-file"], int(blob["offset"]), int(blob["length"])
