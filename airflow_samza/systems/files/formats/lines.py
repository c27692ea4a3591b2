"""Text in blocks of whole lines, and the first bytes of files that are no text.

A line belongs to the byte range in which it starts, so ranges cut anywhere lose and double nothing. Lines end with LF
or CRLF. A file whose first bytes have CR and no LF is one whose lines end with CR alone. The text formats read by it,
and the serde ``json`` checks its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from airflow_samza.errors import SamzaError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile, damaged

BLOCK_BYTES = 4 * 2**20
"""Bytes read at once: some ten thousand lines, a few batches' worth."""

LONGEST_LINE = 64 * 2**20
"""Bytes of a line that is read. A compressed file of a few kilobytes can hold one that no memory can."""

SHOWN_BYTES = 2**20
"""Number of bytes kept of a longer line."""

BOM = b"\xef\xbb\xbf"
"""The byte order mark with which a text in UTF-8 may begin."""

_PACKED = {
    b"\x1f\x8b": ("gzip", ".gz"),
    b"BZh": ("bzip2", ".bz2"),
    b"\x28\xb5\x2f\xfd": ("zstd", ".zst"),
    b"\x04\x22\x4d\x18": ("lz4", ".lz4"),
    b"\xfd7zXZ\x00": ("xz", ""),
    b"PK\x03\x04": ("zip", ""),
}

_OTHERS = {
    b"PAR1": "Parquet",
    b"ORC\x01": "ORC",
    b"Obj\x01": "Avro",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


class Block(NamedTuple):
    """Block of whole lines, and the offset of the first in the (decompressed) file.

    ``truncated``: the beginning of one that is too long to be read.
    """

    offset: int
    data: bytes
    truncated: bool = False


def reject_binary(file: InputFile, format_name: str, data: bytes) -> None:
    """Reject a text file whose first bytes are those of something else."""
    for magic, (name, ending) in _PACKED.items():
        if data.startswith(magic):
            way_out = (
                f"Name it {ending}, then it is decompressed while it is read."
                if ending
                else "Unpack it, or pack it with gzip (.gz)."
            )
            raise damaged(file, format_name, f"it is compressed with {name}", way_out)
    for magic, name in _OTHERS.items():
        if data.startswith(magic):
            way_out = f"Convert it to UTF-8, or {READ_BY_SPARK} with Spark's option encoding." if "UTF" in name else ""
            raise damaged(file, format_name, f"it is {name}", way_out)


def line_end(beginning: bytes) -> bytes:
    """Return the byte that ends the lines of a file that begins so."""
    return b"\r" if b"\r" in beginning and b"\n" not in beginning else b"\n"


def line_blocks(
    file: InputFile,
    start: int = 0,
    end: int | None = None,
    *,
    block_bytes: int = BLOCK_BYTES,
    ending: bytes = b"\n",
    longest: int = LONGEST_LINE,
) -> Iterator[Block]:
    """Yield the lines that start in [start, end); the last one may lack its line end.

    No more is held than a block and the longest line.
    """
    if start == 0 and end is None:
        with file.sequential() as source:
            yield from _Lines(source, 0, block_bytes, ending, longest).blocks(None)
    else:
        with file.random_access() as source:
            lines = _Lines(source, start, block_bytes, ending, longest)
            if start:
                # A line that starts exactly at `start` is ours: so look for the line end from the byte before it.
                source.seek(start - 1)
                lines.offset = start - 1
                lines.skip_line()
            if end is None or lines.offset < end:
                yield from lines.blocks(end)


class Place(NamedTuple):
    """Place of a record in a file: the line with which it begins, from 1 (None: not counted), and its offset."""

    line: int | None
    offset: int

    def __str__(self) -> str:
        if self.line is None:
            return f"in the line at byte {self.offset}"
        return f"in line {self.line:,} (at byte {self.offset})"


_MOST_COUNTED = 2**30
"""Bytes before a bad record in which lines are counted: whoever waits for the error waits for this, too."""


def place_of(file: InputFile, offset: int, ending: bytes) -> Place:
    """Return the place of a record in its file, of which only a range may have been read.

    The lines before it are counted from the start of the file, which is read once more for that.
    """
    if offset > _MOST_COUNTED:
        return Place(None, offset)
    line, left = 1, offset
    try:
        with file.sequential() as source:
            while left > 0 and (data := source.read(min(left, BLOCK_BYTES))):
                line, left = line + data.count(ending), left - len(data)
    except (OSError, EOFError, SamzaError, pa.ArrowException):  # the error of the record is the one that counts
        return Place(None, offset)
    return Place(line, offset)


class _Lines:
    """Window on a source, from ``offset`` on: ``held`` are the bytes that were read and not yet handed on."""

    def __init__(self, source: pa.NativeFile, offset: int, block_bytes: int, ending: bytes, longest: int) -> None:
        self.source = source
        self.offset = offset
        self.block_bytes = block_bytes
        self.ending = ending
        self.longest = longest
        self.held = b""

    def blocks(self, end: int | None) -> Iterator[Block]:
        """Yield blocks of lines that start before ``end``."""
        data = self.held or self.source.read(self.block_bytes)
        self.held = b""
        while data:
            self.held = self.held + data if self.held else data
            last = end is not None and self.offset + len(self.held) >= end
            # The range's last line ends at the first line end from the range's last byte on; until it is read, go on.
            place = (
                self.held.find(self.ending, max(0, end - 1 - self.offset))
                if last and end is not None
                else self.held.rfind(self.ending)
            )
            if place >= 0:
                yield self._next_block(place + 1)
                if last:
                    return
            elif len(self.held) > self.longest:
                if last and (place := self.held.rfind(self.ending)) >= 0:
                    yield self._next_block(place + 1)  # lines before the long one
                if len(self.held) > self.longest:
                    yield Block(self.offset, self.held[:SHOWN_BYTES], truncated=True)
                    self.skip_line()
                    if end is not None and self.offset >= end:
                        return
                    if self.held:
                        data, self.held = self.held, b""
                        continue
            data = self.source.read(self.block_bytes)
        if self.held:
            yield self._next_block(len(self.held))

    def _next_block(self, size: int) -> Block:
        block = Block(self.offset, self.held[:size])
        self.offset, self.held = self.offset + size, self.held[size:]
        return block

    def skip_line(self) -> None:
        """Skip to after the next line end, or to the end of the file."""
        data = self.held or self.source.read(self.block_bytes)
        while data:
            place = data.find(self.ending)
            if place >= 0:
                self.offset, self.held = self.offset + place + 1, data[place + 1 :]
                return
            self.offset += len(data)
            data = self.source.read(self.block_bytes)
        self.held = b""
