"""Beginnings and ends of CSV records, exactly as Arrow's parser sees them, and the header of a file.

A quote opens a quoted value only where a value begins; twice, it stands for itself; what follows the closing one
belongs to the value. An escape takes the next character as it is. CR, LF and CRLF end a record outside of quotes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from airflow_samza.systems.files.formats.file_format import InputFile, damaged
from airflow_samza.systems.files.formats.lines import BOM, Block, line_end, reject_binary
from airflow_samza.systems.files.formats.options import FileOptions

_PIECE_BYTES = 64 * 2**10

_LONGEST = 2**20
"""Bytes of blank lines and a header that are read."""


class Dialect:
    """Delimiter, quote and escape of a file; an escape that is the quote is what doubled quotes are anyway."""

    def __init__(self, options: FileOptions) -> None:
        self.delimiter = options.delimiter
        self.quote = options.quote
        self.escape = options.escape if options.escape != options.quote else ""

    @cached_property
    def _record(self) -> re.Pattern[bytes]:
        """One record with its line end; group ``end`` is empty where the data end before it does."""
        d, q, e = (re.escape(text.encode()) for text in (self.delimiter, self.quote, self.escape))
        # Loops are unrolled, so that a record that never ends takes linear time.
        plain = rb"[^" + d + rb"\r\n" + e + rb"]*"
        plain += rb"(?:" + e + rb"[\s\S]" + plain + rb")*" if e else b""
        value = plain
        if q:
            text, pair = rb"[^" + q + e + rb"]*", q + q + (rb"|" + e + rb"[\s\S]" if e else b"")
            quoted = q + text + rb"(?:(?:" + pair + rb")" + text + rb")*" + q + rb"(?!" + q + rb")" + plain
            value = rb"(?:" + quoted + rb"|(?!" + q + rb")" + plain + rb")"
        return re.compile(value + rb"(?:" + d + value + rb")*(?P<end>\r\n|[\r\n]|\Z)")

    def records(self, block: Block) -> Iterator[Block]:
        """Yield the records of a block with their line ends and offsets, blank lines too.

        The last one may lack its line end, or be open: then it is all that is left.
        """
        for start, end, _ in self._spans(block.data):
            yield Block(block.offset + start, block.data[start:end])

    def _spans(self, data: bytes) -> Iterator[tuple[int, int, bool]]:
        """Yield start and end of each record, and whether it has ended."""
        place, size = 0, len(data)
        while place < size:
            match = self._record.match(data, place)
            end = match.end() if match is not None else size
            yield place, end, match is not None and bool(match["end"])
            place = end

    def is_closed(self, record: bytes) -> bool:
        """Return whether the last value of a record is at its end: no quote is open, no escape is waiting."""
        return self._record.fullmatch(record) is not None

    def has_ended(self, line: bytes) -> bool:
        """Return whether a line is a record by itself: its end is not part of a value."""
        match = self._record.fullmatch(line)
        return match is not None and (bool(match["end"]) or not line.endswith((b"\r", b"\n")))

    def closed(self, data: bytes) -> int:
        """Return the bytes of data up to the end of the last record that has ended; what is left may go on."""
        quote = self.quote.encode()
        if not self.escape and (not quote or quote not in data):
            return _last_line_end(data, len(data))
        if not self.escape and (plain := self._plain_quotes(data)) is not None:
            places, opening = plain
            record_end = _last_line_end(data, len(data))
            # A line end lies outside of values where the quotes before it are even; inside, its record began before the
            # last that opened.
            while np.searchsorted(places, record_end) % 2:
                record_end = _last_line_end(data, int(opening[np.searchsorted(opening, record_end) - 1]))
            return record_end
        return max((end for _, end, ended in self._spans(data) if ended), default=0)

    def _plain_quotes(self, data: bytes) -> tuple[Any, Any] | None:
        """Return the places of all quotes and of those that open a value.

        None unless each opens or ends a value or is one of a pair.
        """
        array = np.frombuffer(data, np.uint8)
        places = np.flatnonzero(array == ord(self.quote))
        border = np.zeros(256, bool)
        border[[ord(self.delimiter), ord("\r"), ord("\n"), ord(self.quote)]] = True
        opening, closing = places[0::2], places[1::2]
        before = np.where(opening > 0, array[opening - 1], ord("\n"))
        closes = (closing + 1 == len(array)) | border[array[np.minimum(closing + 1, len(array) - 1)]]
        if not (border[before].all() and closes.all()):
            return None
        return places, opening[before != ord(self.quote)]


def _last_line_end(data: bytes, before: int) -> int:
    return max(data.rfind(b"\n", 0, before), data.rfind(b"\r", 0, before)) + 1


def lines_of(block: Block) -> list[Block]:
    """Return the lines of a block with their ends and offsets, blank ones too."""
    found = re.finditer(rb"[^\r\n]*(?:\r\n|[\r\n])|[^\r\n]+", block.data)
    return [Block(block.offset + line.start(), line[0]) for line in found]


def count_lines(data: bytes, *, blank: bool) -> int:
    """Return the lines of data, with or without blank ones."""
    if not blank:
        return len(re.findall(rb"[^\r\n]+", data))
    ends = int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
    ends += data.count(b"\r") - data.count(b"\r\n") if b"\r" in data else 0
    return ends + (0 if data.endswith((b"\n", b"\r")) or not data else 1)


def last_line(data: bytes) -> bytes:
    """Return the last line that is not blank, with its end."""
    size = len(data.rstrip(b"\r\n"))
    start = _last_line_end(data, size)
    end = size + (2 if data.startswith(b"\r\n", size) else 1)
    return data[start:end]


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
            begin = len(BOM) if data.startswith(BOM) else 0
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
    for record in dialect.records(Block(begin, data[begin:])):
        if record.data.strip():
            return record.offset, record.data
    return len(data), b""


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
