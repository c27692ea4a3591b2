"""Records that never change once they are written, kept in this process for a while where reading one is charged.

A run's folder may be deleted, and made again under the same name. Nobody deletes a run within the minute in which it is
read, so a record is kept no longer than that. On a disk nothing is kept: reading costs less than being wrong. Looks at
the state of a stage go through it.
"""

from __future__ import annotations

import threading
import time

from cachetools import TTLCache

from airflow_samza.systems.filesystems.filesystem import Filesystem

KEPT_SECONDS = 60.0

_MOST = 256
_LARGEST = 1 << 20


class KeptRecords:
    """Bytes of records by their whole path."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: TTLCache[str, bytes] = TTLCache(_MOST, KEPT_SECONDS, time.monotonic)

    def read(self, files: Filesystem, path: str) -> bytes:
        """Return the bytes of a record that never changes; FileNotFoundError when there is none yet."""
        if files.pace.is_free:
            return files.read(path)
        with self._lock:
            data = self._kept.get(files.location(path))
        if data is None:
            data = files.read(path)
            self.keep(files, path, data)
        return data

    def keep(self, files: Filesystem, path: str, data: bytes) -> None:
        """Remember a record that this process has just read or written."""
        if files.pace.is_free or len(data) > _LARGEST:
            return
        with self._lock:
            self._kept[files.location(path)] = data

    def forget(self, files: Filesystem, path: str) -> None:
        """Read a record anew the next time: it is deleted."""
        with self._lock:
            self._kept.pop(files.location(path), None)


KEPT = KeptRecords()
"""The records that this process keeps."""
