"""Text in blocks of whole lines. A line belongs to the byte range in which it starts, so ranges cut anywhere lose and double nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from airflow_samza.systems.files.formats import InputFile

BLOCK_BYTES = 4 * 2**20
"""Bytes read at once: some ten thousand lines, a few batches' worth."""


class Block(NamedTuple):
    """Whole lines, and the offset of the first in the (decompressed) file."""

    offset: int
    data: bytes


def line_blocks(file: InputFile, start: int = 0, end: int | None = None, *, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines that start in [start, end); the last one may lack its line end."""
    if start == 0 and end is None:
        with file.sequential() as source:
            yield from _blocks(source, 0, None, block_bytes)
    else:
        with file.random_access() as source:
            offset = start
            if start:
                # A line that starts exactly at `start` is ours: so look for the line end from the byte before it.
                source.seek(start - 1)
                offset = _skip_line(source, start - 1, block_bytes)
            if end is None or offset < end:
                source.seek(offset)
                yield from _blocks(source, offset, end, block_bytes)


def _skip_line(source: pa.NativeFile, offset: int, block_bytes: int) -> int:
    """The offset after the next line end; the file's end when there is none."""
    while data := source.read(block_bytes):
        place = data.find(b"\n")
        if place >= 0:
            return int(offset + place + 1)
        offset += len(data)
    return offset


def _blocks(source: pa.NativeFile, offset: int, end: int | None, block_bytes: int) -> Iterator[Block]:
    held = b""
    while data := source.read(block_bytes):
        held += data
        if end is not None and offset + len(held) >= end:
            # The range's last line ends at the first line end from the range's last byte on; until it is read, go on.
            place = held.find(b"\n", max(0, end - 1 - offset))
            if place >= 0:
                yield Block(offset, held[: place + 1])
                return
            continue
        place = held.rfind(b"\n")
        if place >= 0:
            yield Block(offset, held[: place + 1])
            offset, held = offset + place + 1, held[place + 1 :]
    if held:
        yield Block(offset, held)
