"""The beginning of a CSV file: its header, where its records begin, and what ends its lines."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

from airflow_samza.systems.files.formats.csv_records import Dialect
from airflow_samza.systems.files.formats.file_format import InputFile, damaged
from airflow_samza.systems.files.formats.lines import line_end
from airflow_samza.systems.files.formats.signatures import reject_binary

_PIECE_BYTES = 64 * 2**10

_LONGEST = 2**20
"""Bytes of blank lines and a header that are read."""

_BOM = b"\xef\xbb\xbf"


class Head(NamedTuple):
    """Head of a file: the first record's values, the offset of records (behind a header), the byte that ends lines."""

    names: list[str]
    body: int
    line_end: bytes


def read_head(file: InputFile, dialect: Dialect, *, header: bool, named: bool) -> Head:
    """Read up to the end of the first record that is not blank; blank lines before a header are no rows.

    Without ``named`` the first record is none of the head's business, and may be a bad one.
    """
    data = b""
    with file.sequential() as source:
        while True:
            more = source.read(_PIECE_BYTES)
            data += more
            reject_binary(file, "csv", data)
            begin = len(_BOM) if data.startswith(_BOM) else 0
            place, record = _first_record(data, begin, dialect)
            is_whole = place + len(record) < len(data) and dialect.has_ended(record)
            if is_whole or not more or not named:
                break
            if len(data) > _LONGEST:
                raise damaged(
                    file,
                    "csv",
                    f"its first record has more than {_LONGEST // 2**20} MiB, or a quote that is never closed",
                )
    if not record or not named:
        return Head([], len(data) if header else begin, line_end(data))
    if not dialect.is_closed(record):
        raise damaged(file, "csv", "its first record has a quote that is never closed")
    return Head(_values(file, record, dialect), place + len(record) if header else begin, line_end(data))


def _first_record(data: bytes, begin: int, dialect: Dialect) -> tuple[int, bytes]:
    place = begin
    for record in dialect.records(data[begin:]):
        if record.strip():
            return place, record
        place += len(record)
    return place, b""


def _values(file: InputFile, record: bytes, dialect: Dialect) -> list[str]:
    reader = csv.reader(
        io.StringIO(record.decode(), newline=""),
        delimiter=dialect.delimiter,
        quotechar=dialect.quote or None,
        quoting=csv.QUOTE_MINIMAL if dialect.quote else csv.QUOTE_NONE,
        escapechar=dialect.escape or None,
    )
    try:
        return next(reader)
    except csv.Error as error:
        raise damaged(file, "csv", f"its first record is none ({error})") from error
