"""Blocks of an Avro file, of which none may unpack to more than memory holds: the library unpacks each as a whole."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa

LARGEST_BLOCK = 128 * 2**20
"""Bytes of a block. Writers end one after some ten kilobytes, or behind the record that is larger."""

_DEFLATE_RATIO = 1032
"""More than this deflate cannot pack: what is short enough need not be looked at."""

_SMALL = 64
"""Reads of lengths and marks are no blocks."""

_STEP = 2**20


class BlockSource:
    """A file as the library reads it.

    A block that would unpack to too much is a ``ValueError`` before it is unpacked.
    """

    def __init__(self, source: pa.NativeFile) -> None:
        self.source = source
        self.codec = ""

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; a block is read at once, as a whole."""
        data: bytes = self.source.read(size) if size >= 0 else self.source.read()
        if self.codec and len(data) > _SMALL and unpacks_to_more(data, self.codec, LARGEST_BLOCK):
            raise ValueError(f"a block of {len(data)} bytes unpacks to more than {LARGEST_BLOCK // 2**20} MiB")
        return data

    def close(self) -> None:
        """Give the file back."""
        self.source.close()


def unpacks_to_more(data: bytes, codec: str, limit: int) -> bool:
    """Return whether packed bytes unpack to more than a limit; what they unpack to is thrown away.

    The library rejects damaged ones.
    """
    if codec == "deflate":
        return len(data) * _DEFLATE_RATIO > limit and _grows(
            zlib.decompressobj(-15), data, limit, lambda found: found.unconsumed_tail
        )
    if codec == "bzip2":
        return _grows(bz2.BZ2Decompressor(), data, limit, lambda found: b"")
    if codec == "xz":
        return _grows(lzma.LZMADecompressor(), data, limit, lambda found: b"")
    if codec == "zstandard":
        return _stream_grows(data, limit)
    return False  # the others pack little, and say at the beginning how much it is


def _grows(unpacker: Any, data: bytes, limit: int, left: Callable[[Any], bytes]) -> bool:
    total = 0
    try:
        while not unpacker.eof:
            found = unpacker.decompress(data, _STEP)
            total += len(found)
            data = left(unpacker)
            if total > limit or not (found or data):
                break
    except (zlib.error, OSError, lzma.LZMAError):
        return False
    return total > limit


def _stream_grows(data: bytes, limit: int) -> bool:
    total = 0
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            while total <= limit and (found := stream.read(_STEP)):
                total += len(found)
    except OSError:
        return False
    return total > limit
