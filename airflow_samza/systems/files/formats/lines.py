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

_NAME_IT = "Name it {}, then it is decompressed while it is read."
_UNPACK = "Unpack it, or pack it with gzip (.gz)."
_CONVERT = f"Convert it to UTF-8, or {READ_BY_SPARK} with Spark's option encoding."

_NO_TEXT = {
    b"\x1f\x8b": ("compressed with gzip", _NAME_IT.format(".gz")),
    b"BZh": ("compressed with bzip2", _NAME_IT.format(".bz2")),
    b"\x28\xb5\x2f\xfd": ("compressed with zstd", _NAME_IT.format(".zst")),
    b"\x04\x22\x4d\x18": ("compressed with lz4", _NAME_IT.format(".lz4")),
    b"\xfd7zXZ\x00": ("compressed with xz", _UNPACK),
    b"PK\x03\x04": ("compressed with zip", _UNPACK),
    b"PAR1": ("Parquet", ""),
    b"ORC\x01": ("ORC", ""),
    b"Obj\x01": ("Avro", ""),
    b"\xff\xfe": ("text in UTF-16", _CONVERT),
    b"\xfe\xff": ("text in UTF-16", _CONVERT),
}
"""The first bytes of files that are no text in UTF-8: what each is, and the way out, if it is a special one."""


class Block(NamedTuple):
    """Block of whole lines, and the offset of the first in the (decompressed) file.

    ``truncated``: the beginning of one that is too long to be read.
    """

    offset: int
    data: bytes
    truncated: bool = False


def reject_binary(file: InputFile, format_name: str, data: bytes) -> None:
    """Reject a text file whose first bytes are those of something else."""
    for magic, (what, way_out) in _NO_TEXT.items():
        if data.startswith(magic):
            raise damaged(file, format_name, f"it is {what}", way_out)


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
    with file.sequential() as source:  # a range is one of a file that is not compressed
        offset, held = start, b""
        if start:
            # A line that starts exactly at `start` is ours: so look for the line end from the byte before it.
            source.seek(start - 1)
            offset, held = _behind_line(source, start - 1, held, ending, block_bytes)
        while end is None or offset < end:
            # The range's last line ends at the first line end from the range's last byte on; until it is read, go on.
            place = (
                held.rfind(ending)
                if end is None or offset + len(held) < end
                else held.find(ending, max(0, end - 1 - offset))
            )
            if place < 0 and len(held) > longest:
                place = held.rfind(ending)  # lines before the long one
            if place >= 0:
                yield Block(offset, held[: place + 1])
                offset, held = offset + place + 1, held[place + 1 :]
            elif len(held) > longest:
                yield Block(offset, held[:SHOWN_BYTES], truncated=True)
                offset, held = _behind_line(source, offset, held, ending, block_bytes)
            else:
                data = source.read(block_bytes)
                if not data:
                    break
                held += data
        if held and (end is None or offset < end):
            yield Block(offset, held)


def _behind_line(source: pa.NativeFile, offset: int, held: bytes, ending: bytes, block_bytes: int) -> tuple[int, bytes]:
    """Return the offset behind the next line end, or of the end of the file, and what was read beyond it."""
    place = held.find(ending)
    while place < 0:
        offset += len(held)
        held = source.read(block_bytes)
        if not held:
            return offset, held
        place = held.find(ending)
    return offset + place + 1, held[place + 1 :]


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
