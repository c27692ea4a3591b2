"""An object store as a filesystem of Arrow, with which the file formats read and write it: the client of roots.

So files have the options, the credentials and the counted requests of a root, and a footer, a row group or a column
costs its own bytes only (decision 82).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.systems.filesystems.arrow_handler import RemoteHandler
from airflow_samza.systems.filesystems.contents import WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import as_os_errors
from airflow_samza.systems.filesystems.object_store.access import find_access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from airflow_samza.systems.filesystems.object_store.client import (
    ONE_REQUEST,
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    ObjectClient,
    ObjectStatus,
)
from airflow_samza.systems.filesystems.object_store.filesystem import open_object, shared_client

if TYPE_CHECKING:
    from typing import BinaryIO


def open_arrow_store(url: str, options: Mapping[str, Any] | None = None) -> tuple[pafs.FileSystem, str, str]:
    """Return the filesystem of a bucket, the path in it, and how the URL of the bucket is written."""
    address, prefix = parse_address(url)
    client = shared_client(address, find_access(address, options), PATIENCE_SECONDS, TIMEOUT_SECONDS)
    return pafs.PyFileSystem(ObjectStoreHandler(client)), f"/{prefix}", address.shown


class ObjectStoreHandler(RemoteHandler):
    """Handler of Arrow's calls of a filesystem. Paths are absolute; a folder exists while an object lies below it."""

    kind = "object-store"
    _client: ObjectClient

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (self._client.address, self._client.access))

    def list_folder(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return the files and folders in a folder, each file with its version, by one list; none without a folder."""
        key = _key(path)
        with as_os_errors():
            folders, objects = self._client.entries(key)
        entries: list[tuple[pafs.FileInfo, str | None]] = [
            (pafs.FileInfo(f"/{name}", pafs.FileType.Directory), None) for name in folders
        ]
        return entries + [(_info_of(f"/{each.key}", each), each.tag) for each in objects if each.key != key]

    def list_all(self, path: str) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return all files and folders below a folder, each file with its version, by one list."""
        key = _key(path)
        with as_os_errors():
            objects = [each for each in self._client.below(key) if each.key != key]
        folders = {above for each in objects for above in _folders_between(key, each.key)}
        entries: list[tuple[pafs.FileInfo, str | None]] = [
            (pafs.FileInfo(f"/{name}", pafs.FileType.Directory), None) for name in sorted(folders)
        ]
        return entries + [(_info_of(f"/{each.key}", each), each.tag) for each in objects]

    def list_in_order(self, path: str, behind: str, more: Callable[[pafs.FileInfo], bool]) -> list[pafs.FileInfo]:
        """Return the files of a folder whose names come behind a text, in order, until one that is no more."""
        with as_os_errors():
            found = self._client.in_order(_key(path), behind, lambda each: more(_info_of(f"/{each.key}", each)))
        return [_info_of(f"/{each.key}", each) for each in found]

    def info_and_version(self, path: str) -> tuple[pafs.FileInfo, str | None]:
        """Return a file and its version, by one request; what is no file is not found."""
        with as_os_errors():
            status = self._client.status(_key(path))
        if status is None:
            return pafs.FileInfo(path, pafs.FileType.NotFound), None
        return _info_of(path, status), status.tag

    def _info(self, path: str) -> pafs.FileInfo:
        key = _key(path)
        with as_os_errors():
            status = self._client.status(key) if key else None
            if status is not None:
                return _info_of(path, status)
            is_folder = bool(self._client.below(key, 1))
        return pafs.FileInfo(path, pafs.FileType.Directory if is_folder or not key else pafs.FileType.NotFound)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = str(selector.base_dir)
        key = _key(base)
        with as_os_errors():
            if selector.recursive:
                folders, objects = tuple[str, ...](), self._client.below(key)
            else:
                folders, objects = self._client.entries(key)
        objects = tuple(each for each in objects if each.key != key)
        if not folders and not objects and key:
            if self._info(base).type == pafs.FileType.File:
                raise NotADirectoryError(20, "Not a directory", base)
            if not selector.allow_not_found:
                raise FileNotFoundError(2, "No such file or directory", base)
        above = {above for each in objects for above in _folders_between(key, each.key)} if selector.recursive else ()
        entries = [pafs.FileInfo(f"/{name}", pafs.FileType.Directory) for name in (*folders, *sorted(above))]
        return entries + [_info_of(f"/{each.key}", each) for each in objects]

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a folder is there with the first object in it."""

    def delete_dir(self, path: str) -> None:
        with as_os_errors():
            self._client.delete([each.key for each in self._client.below(_key(path))])

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        self.delete_dir(path)

    def delete_file(self, path: str) -> None:
        with as_os_errors():
            if self._client.status(_key(path)) is None:
                raise FileNotFoundError(2, "No such file or directory", path)
            self._client.delete([_key(path)])

    def move(self, src: str, dest: str) -> None:
        """Copy and delete: readers may see both."""
        with as_os_errors():
            self._client.copy(_key(src), _key(dest))
            self._client.delete([_key(src)])

    def copy_file(self, src: str, dest: str) -> None:
        with as_os_errors():
            self._client.copy(_key(src), _key(dest))

    def open_input_file(self, path: str) -> pa.NativeFile:
        with as_os_errors():
            return open_object(self._client, _key(path))

    def open_version(self, path: str, version: str) -> pa.NativeFile:
        """Return an object to read at any place, which has this version whenever it is asked for bytes."""
        with as_os_errors():
            return open_object(self._client, _key(path), version)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        key = _key(path)

        def store(content: BinaryIO) -> None:
            size = content.seek(0, os.SEEK_END)
            content.seek(0)
            with as_os_errors():
                if size > ONE_REQUEST:
                    self._client.upload(key, content, size)
                else:
                    self._client.put(key, content.read())

        return pa.PythonFile(WholeFileWriter(store), mode="w")


def _again(address: Any, access: Any) -> ObjectStoreHandler:
    return ObjectStoreHandler(shared_client(address, access, PATIENCE_SECONDS, TIMEOUT_SECONDS))


def _key(path: str) -> str:
    return path.strip("/")


def _folders_between(key: str, below: str) -> set[str]:
    """Return the folders below a key in which an object lies.

    >>> sorted(_folders_between("a", "a/b/c/d"))
    ['a/b', 'a/b/c']
    """
    parts = below[len(key) :].strip("/").split("/")[:-1]
    begin = f"{key}/" if key else ""
    return {begin + "/".join(parts[: count + 1]) for count in range(len(parts))}


def _info_of(path: str, status: ObjectStatus) -> pafs.FileInfo:
    modified = int(status.modified * 1_000_000_000)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.size, mtime_ns=modified)
