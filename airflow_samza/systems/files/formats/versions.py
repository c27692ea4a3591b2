"""Storages that have a version of each file: an object store's ETag."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.fs as pafs


@runtime_checkable
class HasVersions(Protocol):
    """A storage that lists all below a folder at once, and has a version of each file (an ETag)."""

    def list_folder(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return the files and folders in a folder, each file with its version, by one list; none without a folder."""
        ...

    def list_all(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return all files and folders below a folder, each file with its version, by one list."""
        ...

    def info_and_version(self, path: str) -> tuple[pafs.FileInfo, str | None]:
        """Return a file and its version, by one request."""
        ...

    def open_version(self, path: str, version: str) -> pa.NativeFile:
        """Return a file to read at any place.

        :class:`~airflow_samza.systems.filesystems.contents.WrittenAgain`, also while it is read, when it has another
        version.
        """
        ...


def storage_with_versions(filesystem: pafs.FileSystem) -> HasVersions | None:
    """Return the storage behind a filesystem, if it has versions."""
    handler = getattr(filesystem, "handler", None)
    return handler if isinstance(handler, HasVersions) else None
