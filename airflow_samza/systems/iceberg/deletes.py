"""Rows of data files that are deleted by their positions: files of deletes, and deletion vectors in Puffin files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import ColumnBound

Positions = npt.NDArray[np.int64]
"""Positions of rows in a file, from 0, sorted; none twice."""

NONE: Positions = np.empty(0, np.int64)

_MAGIC = b"PFA1"
_TAIL = 12
"""Bytes behind the footer of a Puffin file: its size, flags, and the magic."""
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_WITHOUT_RUNS, _WITH_RUNS = 12346, 12347
_RUNS_WITH_OFFSETS = 4
_ARRAY_MOST = 4096


class DeleteFile(NamedTuple):
    """File of deletes. With ``offset`` and ``length`` it is the part of a Puffin file that is one file's vector."""

    path: str
    size: int
    offset: int | None = None
    length: int | None = None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> DeleteFile:
        """Return the file that an input range describes."""
        return cls(str(data["path"]), int(data["size"]), data.get("offset"), data.get("length"))

    def plain(self) -> dict[str, Any]:
        """Return its description in an input range."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def deleted_positions(place: Location, file: DeleteFile, data_file: str, stream: str) -> Positions:
    """Return the positions that a file of deletes has of a data file, by the path that the metadata has for that."""
    opened = InputFile(place.filesystem, place.path, file.size, str(place), stream)
    if file.offset is None or file.length is None:
        with reading(opened, "parquet"):
            return _of_rows(opened, data_file)
    with reading(opened, "puffin"), opened.random_access() as source:
        return vector_positions(source.read_at(file.length, file.offset))


def _of_rows(file: InputFile, data_file: str) -> Positions:
    bounds = (ColumnBound("file_path", "=", data_file),)
    opened = ParquetInput(InputFile(file.filesystem, file.path, file.size, file.shown, file.stream, bounds))
    try:
        found = [NONE]
        for batch in opened.batches(0, None, ("file_path", "pos"), None):
            paths = batch.column(batch.schema.get_field_index("file_path")).cast(pa.string())
            positions = batch.column(batch.schema.get_field_index("pos"))
            found.append(positions.filter(pa.compute.equal(paths, data_file)).to_numpy(zero_copy_only=False))
        return np.unique(np.concatenate(found).astype(np.int64))
    finally:
        opened.close()


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


def vector_positions(blob: bytes) -> Positions:
    """Return the positions in a deletion vector: a roaring bitmap for each 32 bits of the upper half of positions."""
    length = int.from_bytes(blob[:4], "big")
    if blob[4:8] != _VECTOR_MAGIC or length + 8 != len(blob):
        raise ValueError("it has no deletion vector where its footer says so")
    data, place = memoryview(blob)[8:-4], 8
    found = [NONE]
    for _ in range(int.from_bytes(data[:8], "little")):
        upper = int.from_bytes(data[place : place + 4], "little") << 32
        place += 4
        containers, place = _containers(data, place)
        found += [low + (upper + (key << 16)) for key, low in containers]
    return np.concatenate(found)


def _containers(data: memoryview, place: int) -> tuple[list[tuple[int, Positions]], int]:
    """Return the containers of a roaring bitmap (the upper 16 bits, and the lower ones), and the place behind it."""
    cookie = int.from_bytes(data[place : place + 4], "little")
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, (count + 7) // 8, place + 4), bitorder="little")
        place += 4 + (count + 7) // 8
        offsets = count >= _RUNS_WITH_OFFSETS
    elif cookie == _WITHOUT_RUNS:
        count = int.from_bytes(data[place + 4 : place + 8], "little")
        flags, offsets = np.zeros(count, np.uint8), True
        place += 8
    else:
        raise ValueError("its deletion vector is no roaring bitmap")
    heads = np.frombuffer(data, "<u2", 2 * count, place).astype(np.int64)
    place += 4 * count + (4 * count if offsets else 0)
    containers = []
    for number in range(count):
        key, size = int(heads[2 * number]), int(heads[2 * number + 1]) + 1
        if flags[number]:
            runs = np.frombuffer(data, "<u2", 2 * int.from_bytes(data[place : place + 2], "little"), place + 2)
            starts, more = runs[::2].astype(np.int64), runs[1::2].astype(np.int64)
            low = np.concatenate([NONE, *(np.arange(a, a + b + 1) for a, b in zip(starts, more, strict=True))])
            place += 2 + runs.nbytes
        elif size <= _ARRAY_MOST:
            low = np.frombuffer(data, "<u2", size, place).astype(np.int64)
            place += 2 * size
        else:
            bits = np.frombuffer(data, np.uint8, 8192, place)
            low = np.flatnonzero(np.unpackbits(bits, bitorder="little")).astype(np.int64)
            place += 8192
        containers.append((key, low))
    return containers, place


def kept_rows(deleted: Positions, first: int, rows: int) -> pa.BooleanArray | None:
    """Return which of the rows from position ``first`` on are not deleted; None: all."""
    start, end = np.searchsorted(deleted, (first, first + rows))
    if start == end:
        return None
    kept = np.ones(rows, bool)
    kept[deleted[start:end] - first] = False
    return pa.array(kept)
