"""An object store as a filesystem of Arrow that has a version of each file (an ETag), and lists in order.

Used where files of streams lie in buckets.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.systems.filesystems.arrow_handler import RemoteHandler, info_of, key_of
from airflow_samza.systems.filesystems.filesystem import as_os_errors
from airflow_samza.systems.filesystems.object_store.client import ObjectClient


class ObjectStoreHandler(RemoteHandler):
    """Handler of Arrow's calls of a filesystem over a bucket. A folder exists while an object lies below it."""

    _client: ObjectClient

    def list_folder(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return the files and folders in a folder, each file with its version, by one list; none without a folder."""
        return self._entries(path, recursive=False)

    def list_all(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return all files and folders below a folder, each file with its version, by one list."""
        return self._entries(path, recursive=True)

    @as_os_errors()
    def list_in_order(self, path: str, behind: str, more: Callable[[pafs.FileInfo], bool]) -> list[pafs.FileInfo]:
        """Return the files of a folder whose names come behind a text, in order, until one that is no more."""
        found = self._client.in_order(key_of(path), behind, lambda each: more(info_of(f"/{each.key}", each)))
        return [info_of(f"/{each.key}", each) for each in found]

    @as_os_errors()
    def info_and_version(self, path: str) -> tuple[pafs.FileInfo, str | None]:
        """Return a file and its version, by one request; what is no file is not found."""
        status = self._client.status(key_of(path))
        return info_of(path, status), None if status is None else status.tag

    @as_os_errors()
    def open_version(self, path: str, version: str) -> pa.NativeFile:
        """Return an object to read at any place, which has this version whenever it is asked for bytes."""
        return self._client.open(key_of(path), version)
