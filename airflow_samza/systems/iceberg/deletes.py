"""Rows of data files that are deleted by their positions: files of deletes, and deletion vectors in Puffin files."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import ColumnBound
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
