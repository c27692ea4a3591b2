"""Object containers of Avro: a header, and blocks, each checked against what it says of itself.

A block says how many records it has and how many bytes; a mark that the header names stands behind each. Codecs are
those of Python and Arrow, so that no file needs a further library. Of no block is more unpacked than a limit (decisions
107 and 134).
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import IO, Any, NamedTuple

import pyarrow as pa

from airflow_samza.systems.files.formats.varints import read_varint, read_zigzag

LARGEST_BLOCK = 64 * 2**20
"""Bytes of a block. Writers end one after some ten kilobytes, or behind the record that is larger."""

CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")

_MAGIC = b"Obj\x01"
_MARK = 16
_LONGEST = 10
"""Bytes of the longest whole number."""

BLOCK_BYTES = 64 * 2**10
"""Bytes after which a written block ends."""

_DICTIONARY_BYTES = 2**28
"""Bytes that xz may take beside what it unpacks: four times what its strongest setting needs."""


class Block(NamedTuple):
    """Block of a container: its number from 1, how many records it claims to have, and its bytes, unpacked."""

    number: int
    claimed: int
    data: bytes


class Container:
    """A container that is read from its start to its end. What is no container is a ``ValueError``."""

    def __init__(self, source: pa.NativeFile) -> None:
        self.source = source
        if source.read(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as Avro files do")
        metadata = self._metadata()
        self._mark = self._bytes(_MARK, "the header")
        self.codec = metadata.get("avro.codec", b"null").decode()
        if self.codec not in CODECS:
            raise ValueError(f"its codec is {self.codec!r}, and those that can be read are {', '.join(CODECS)}")
        if "avro.schema" not in metadata:
            raise ValueError("its header has no schema")
        self.schema: Any = json.loads(metadata["avro.schema"])

    def blocks(self) -> Iterator[Block]:
        """Yield all blocks up to the end of the file; one that is cut off, or has another mark, is a ``ValueError``."""
        number = 0
        while (first := self.source.read(1)) != b"":
            number += 1
            where = f"block {number}"
            count, size = self._long(where, first), self._long(where)
            if count < 0 or not 0 <= size <= LARGEST_BLOCK:
                raise ValueError(f"{where} claims {count} records in {size} bytes{_most(size)}")
            data = self._bytes(size, where)
            if self._bytes(_MARK, where) != self._mark:
                raise ValueError(f"{where} does not end with the mark of the file")
            yield Block(number, count, self._unpacked(data, where))

    def _unpacked(self, data: bytes, where: str) -> bytes:
        try:
            content = unpacked(data, self.codec, LARGEST_BLOCK)
        except (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError) as error:
            raise ValueError(f"{where} cannot be unpacked ({self.codec}): {error}") from error
        if content is None:
            raise ValueError(f"{where} of {len(data)} bytes unpacks to more than {LARGEST_BLOCK // 2**20} MiB")
        return content

    def _metadata(self) -> dict[str, bytes]:
        metadata: dict[str, bytes] = {}
        while (count := self._long("the header")) != 0:
            if count < 0:
                count = -count
                self._long("the header")  # the bytes of these entries
            for _ in range(count):
                name = self._sized().decode()
                metadata[name] = self._sized()
        return metadata

    def _sized(self) -> bytes:
        return self._bytes(self._long("the header"), "the header")

    def _bytes(self, size: int, where: str) -> bytes:
        if not 0 <= size <= LARGEST_BLOCK:
            raise ValueError(f"{where} claims {size} bytes{_most(size)}")
        data: bytes = self.source.read(size)
        if len(data) < size:
            raise ValueError(f"the file ends within {where}")
        return data

    def _long(self, where: str, first: bytes = b"") -> int:
        """Return the whole number that is next."""
        data = first or self._bytes(1, where)
        while data[-1] >= 0x80:
            if len(data) == _LONGEST:
                raise ValueError(f"{where} has a number of more than {_LONGEST} bytes")
            data += self._bytes(1, where)
        return read_zigzag(data, 0, where)[0]


def _most(size: int) -> str:
    return f", and at most {LARGEST_BLOCK // 2**20} MiB are read at once" if size > LARGEST_BLOCK else ""


def unpacked(data: bytes, codec: str, limit: int) -> bytes | None:
    """Return what packed bytes unpack to, None where that is more than a limit; a checksum that is there is compared.

    Damaged ones are a ``ValueError``, or the error of the codec.
    """
    if codec == "null":
        return data if len(data) <= limit else None
    if codec == "deflate":
        # Some writers leave a part of zlib's trailer behind the end, so that what follows it says nothing.
        content = zlib.decompressobj(-15).decompress(data, limit + 1)
        return content if len(content) <= limit else None
    if codec in ("bzip2", "xz"):
        xz = partial(lzma.LZMADecompressor, memlimit=_DICTIONARY_BYTES)
        return _whole(bz2.BZ2Decompressor if codec == "bzip2" else xz, data, limit)
    if codec == "snappy":
        return _from_snappy(data, limit)
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None


def _whole(unpacker: Callable[[], Any], data: bytes, limit: int) -> bytes | None:
    """Return what the streams unpack to, all of them up to their ends, where their checksums are."""
    content = b""
    while data:
        stream = unpacker()
        content += stream.decompress(data, limit + 1 - len(content))
        if len(content) > limit:
            return None
        if not stream.eof:
            raise ValueError("its bytes end before its end")
        data = stream.unused_data
    return content


def _from_snappy(data: bytes, limit: int) -> bytes | None:
    """Return what a block of snappy unpacks to; behind it stands the CRC-32 of that."""
    size, _ = read_varint(data[:5] + b"\0", 0, "its bytes begin with")
    if size > limit:
        return None
    packed, checksum = data[:-4], data[-4:]
    content: bytes = pa.decompress(packed, size, "snappy", asbytes=True) if size else b""
    if zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum is another one")
    return content


def _packed(data: bytes, codec: str) -> bytes:
    if codec == "null":
        return data
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(data) + packer.flush()
    if codec == "bzip2":
        return bz2.compress(data)
    if codec == "xz":
        return lzma.compress(data)
    packed: bytes = pa.compress(data, "snappy" if codec == "snappy" else "zstd", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big") if codec == "snappy" else packed


class ContainerWriter:
    """Writer of a container: records, as bytes, are gathered to blocks."""

    def __init__(self, sink: IO[bytes] | pa.NativeFile, schema: Any, codec: str) -> None:
        self._sink = sink
        self._codec = codec
        self._mark = os.urandom(_MARK)
        self._held = bytearray()
        self._count = 0
        metadata = {"avro.codec": codec.encode(), "avro.schema": json.dumps(schema).encode()}
        entries = [_sized(name.encode()) + _sized(value) for name, value in metadata.items()]
        sink.write(_MAGIC + long_bytes(len(entries)) + b"".join(entries) + long_bytes(0) + self._mark)

    def write(self, count: int, data: bytes) -> None:
        """Take encoded records, and write a block when there are enough."""
        self._held += data
        self._count += count
        if len(self._held) >= BLOCK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the records that are held back."""
        if self._count:
            packed = _packed(bytes(self._held), self._codec)
            self._sink.write(long_bytes(self._count) + _sized(packed) + self._mark)
        self._held, self._count = bytearray(), 0


def _sized(data: bytes) -> bytes:
    return long_bytes(len(data)) + data


def long_bytes(number: int) -> bytes:
    r"""Return a whole number of 64 bits as Avro writes it.

    >>> long_bytes(-1), long_bytes(64)
    (b'\x01', b'\x80\x01')
    """
    left = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while left > 0x7F:
        encoded.append((left & 0x7F) | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
