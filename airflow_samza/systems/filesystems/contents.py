"""Files as Python file objects: new ones of a local filesystem, and those of a remote storage.

Of the latter one is read in ranges, one is written as a whole when it is closed; the clients of HDFS and of object
stores return them. A new local file waits for the disk when it is closed, if it shall be durable.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from typing import BinaryIO, cast

from airflow_samza.systems.filesystems.filesystem import raise_storage_error, storage_errors

READ_AT_LEAST = 512 * 1024
"""Bytes that one request brings: two round trips cost more than half a megabyte of transfer."""
READ_AHEAD = 8 << 20
"""Bytes that one request brings at most of a file that is read from its beginning to its end."""
KEPT_BYTES = 4 << 20
"""Bytes that a file that is read keeps, so that a batch is fetched once though it is checked first and decoded then."""
HELD_IN_MEMORY = 16 << 20
"""Bytes that a file that is written holds in memory before it goes to a temporary file of this machine."""


class WrittenAgain(OSError):
    """Error for a file of which the storage has another version than the one that is being read."""


class RangeReader(io.RawIOBase):
    """A file that is read at any place, by requests for ranges. ``fetch`` gets an offset and a length.

    ``kept`` is what is there already, an offset and bytes. A request that goes on where the last one ended brings twice
    as much, up to :data:`READ_AHEAD`.
    """

    def __init__(self, size: int, fetch: Callable[[int, int], bytes], *, kept: tuple[int, bytes] | None = None) -> None:
        self._size = size
        self._fetch = fetch
        self._at = 0
        self._kept: list[tuple[int, bytes]] = [kept] if kept is not None else []
        self._last, self._ahead = (0, -1), READ_AT_LEAST

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return the next bytes, as many as asked for, or up to the end."""
        end = self._size if size is None or size < 0 else min(self._at + size, self._size)
        if self._at >= end:
            return b""
        begin, data = self._range(self._at, end)
        content = data[self._at - begin : end - begin]
        self._at = end
        return content

    def _range(self, start: int, end: int) -> tuple[int, bytes]:
        """Return bytes that hold a range, and the offset of the first."""
        for place, (begin, data) in enumerate(self._kept):
            if begin <= start and end <= begin + len(data):
                self._kept.append(self._kept.pop(place))
                return begin, data
        goes_on = self._last[0] < start <= self._last[1]
        self._ahead = min(2 * self._ahead, READ_AHEAD) if goes_on else READ_AT_LEAST
        begin, stop = start, min(max(end, start + self._ahead), self._size)
        if stop == self._size:  # the footer of a file is read first, and what stands before it next
            begin = min(start, max(0, self._size - READ_AT_LEAST))
        data = self._fetch(begin, stop - begin)
        if len(data) != stop - begin:
            raise OSError(f"{len(data)} bytes came instead of {stop - begin}")
        self._last = (begin, stop)
        self._kept.append((begin, data))
        while len(self._kept) > 1 and sum(len(kept) for _, kept in self._kept) > KEPT_BYTES:
            self._kept.pop(0)
        return begin, data

    def close(self) -> None:
        self._kept.clear()
        super().close()


class NewFile:
    """A file object that is written from its beginning to its end, and never read."""

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def flush(self) -> None:
        """Do nothing: closing keeps the bytes."""


class WholeFileWriter(NewFile):
    """A new file, kept on this machine until it is closed; then it goes to the storage, which can be tried again."""

    def __init__(self, store: Callable[[BinaryIO], None]) -> None:
        self._store = store
        self._file = cast(BinaryIO, tempfile.SpooledTemporaryFile(HELD_IN_MEMORY))  # noqa: SIM115 - close() closes it
        self.closed = False

    def write(self, data: bytes) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """Send the file; readers see it whole from now on."""
        if self.closed:
            return
        self.closed = True
        with contextlib.closing(self._file):
            self._file.seek(0)
            self._store(self._file)

    def discard(self) -> None:
        """Throw away what was written."""
        self.closed = True
        self._file.close()

    def __enter__(self) -> WholeFileWriter:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


class LocalOutput(NewFile):
    """A new local file; writes larger than the buffer go straight to the disk.

    ``step`` is called with the name of an operation and the path before it is done.
    """

    def __init__(
        self, file: BinaryIO, step: Callable[[str, str], None], path: str, location: str, durable: bool
    ) -> None:
        self._file = file
        self._step = step
        self._path = path
        self._location = location
        self._durable = durable

    @property
    def closed(self) -> bool:
        return self._file.closed

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        with storage_errors("write", self._location):
            self._file.flush()

    def write(self, data: bytes) -> int:
        try:  # called for every buffer of every batch
            self._step("write", self._path)
            return self._file.write(data)
        except OSError as error:
            raise_storage_error(error, "write", self._location)

    def close(self) -> None:
        if self._file.closed:
            return
        with storage_errors("write", self._location):
            try:
                self._step("sync", self._path)
                self._file.flush()
                if self._durable:
                    os.fsync(self._file.fileno())
            finally:
                with contextlib.suppress(OSError):  # a close that fails has still given the handle back
                    self._file.close()

    def __enter__(self) -> LocalOutput:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def discard(self) -> None:
        """Close without making anything durable: the file is about to be deleted."""
        with contextlib.suppress(OSError):
            self._file.close()
