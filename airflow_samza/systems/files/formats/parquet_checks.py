"""Checks of a Parquet file's footer and pages: a mistake is an error here, while Arrow would end the process.

``metadata.row_group(…).column(…)`` calls code that throws at a damaged or encrypted column, and pyarrow does not catch
that. The reader of batches does. So a reader is made over a file that holds nothing: it takes all columns into account,
and fails when it asks for bytes. How large the pages of a column are when they are unpacked say only their headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.systems.files.formats.varints import read_varint, read_zigzag


def check_columns(metadata: pq.FileMetaData, size: int) -> None:
    """Raise the ``OSError`` that Arrow has for a footer that describes columns that cannot be."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return
    nothing = _Nothing(size)
    try:
        opened = pq.ParquetFile(pa.PythonFile(nothing, mode="r"), metadata=metadata, pre_buffer=True)
        next(opened.iter_batches(1, row_groups=list(range(metadata.num_row_groups)), use_threads=False), None)
    except OSError as error:
        if not nothing.was_asked:
            raise
        # Arrow keeps the error with what it has read ahead, and the frames of its traceback keep that: a circle that
        # nobody would open.
        error.__traceback__ = None


def check_counts(metadata: pq.FileMetaData, schema: pq.ParquetSchema) -> None:
    """Raise a ``ValueError`` where the counts of rows that a footer has at several places differ."""
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    rows = sum(group.num_rows for group in groups)
    if metadata.num_rows not in (rows, 0):  # 0: some writers leave it out, and it is not what is read
        raise ValueError(f"its footer has {metadata.num_rows} rows, and its row groups have {rows}")
    flat = [place for place in range(metadata.num_columns) if not schema.column(place).max_repetition_level]
    for number, group in enumerate(groups):
        for place in flat:
            values = group.column(place).num_values
            if values != group.num_rows:
                raise ValueError(
                    f"row group {number} has {group.num_rows} rows, and {values} "
                    f"values of column {group.column(place).path_in_schema!r}"
                )


class _Nothing:
    """A file of a size, of which no byte can be read.

    It is too short then. Of an error of Python's Arrow would keep the traceback as text, which takes as long again.
    """

    closed = False
    was_asked = False

    def __init__(self, size: int) -> None:
        self._size = size
        self._place = 0

    def seek(self, place: int, whence: int = 0) -> int:
        self._place = place + (0, self._place, self._size)[whence]
        return self._place

    def tell(self) -> int:
        return self._place

    def read(self, size: int = -1) -> bytes:
        self.was_asked = True
        return b""

    def close(self) -> None:
        """Do nothing: no file is open."""


_HEADERS = (256, 64 * 2**10, 16 * 2**20)
"""Bytes in which a header is looked for: most are short, and some have statistics with long texts."""

_HOLDER = "the header of a page has"

_DICTIONARY = 2


class Page(NamedTuple):
    """A page: its bytes when it is unpacked, how many values it has, and whether it is a dictionary."""

    size: int
    values: int
    is_dictionary: bool


def pages_of(source: pa.NativeFile, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """Yield the pages of a column of a row group; a header that is none is a ``ValueError``."""
    place = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset is not None:
        place = min(place, column.dictionary_page_offset) if column.dictionary_page_offset > 0 else place
    end = place + column.total_compressed_size
    left = column.num_values
    while place < end and left > 0:
        header, length = _header(source, place)
        packed, size = int(header.get(3, 0)), int(header.get(2, 0))
        if packed < 0 or size < 0:
            raise ValueError(f"a page of column {column.path_in_schema!r} claims {size} bytes")
        inner = header.get(5) or header.get(8) or header.get(7) or {}
        page = Page(size, int(inner.get(1, 0)), header.get(1) == _DICTIONARY)
        yield page
        left -= 0 if page.is_dictionary else page.values
        place += length + packed


def _header(source: pa.NativeFile, place: int) -> tuple[dict[int, Any], int]:
    for size in _HEADERS:
        data = source.read_at(size, place)
        try:
            return _struct(data, 0)
        except IndexError:
            if len(data) < size:
                break
    raise ValueError(f"the header of a page at byte {place} cannot be read")


def _struct(data: bytes, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct in Thrift's compact form, and the place behind it."""
    fields: dict[int, Any] = {}
    number = 0
    while (head := data[place]) != 0:
        place += 1
        if head >> 4:
            number += head >> 4
        else:
            number, place = read_zigzag(data, place, _HOLDER)
        fields[number], place = _value(data, place, head & 15, depth)
    return fields, place + 1


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > 8:
        raise ValueError("the header of a page is too deep")
    if kind in (1, 2):
        return kind == 1, place
    if kind == 3:
        return data[place], place + 1
    if kind in (4, 5, 6):
        return read_zigzag(data, place, _HOLDER)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        size, place = read_varint(data, place, _HOLDER)
        if place + size > len(data):
            raise IndexError
        return None, place + size
    if kind == 12:
        return _struct(data, place, depth + 1)
    raise ValueError("the header of a page has a field of an unknown kind")
