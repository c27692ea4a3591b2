"""New files of a local filesystem, which wait for the disk when they are closed, if they shall be durable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import BinaryIO

from airflow_samza.systems.filesystems.contents import NewFile
from airflow_samza.systems.filesystems.filesystem import raise_storage_error, storage_errors


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
                with contextlib.suppress(OSError):
                    self._file.close()
                if not self._file.closed:  # pragma: no cover - a close that failed has still given the handle back
                    os.close(self._file.fileno())

    def __enter__(self) -> LocalOutput:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def discard(self) -> None:
        """Close without making anything durable: the file is about to be deleted."""
        with contextlib.suppress(OSError):
            self._file.close()
