"""A remote storage as a filesystem of Arrow, with which the file formats read and write it: the client of roots.

So files have the options, the identity and the counted requests of a root, and a footer, a row group or a column costs
its own bytes only (decision 82). pyarrow's own for HDFS needs libhdfs and a Java in every process. Locations of files
on HDFS and in object stores are opened with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.systems.filesystems.contents import WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import as_os_errors
from airflow_samza.systems.filesystems.remote import RemoteClient, RemoteStatus

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.object_store.client import ObjectClient


class RemoteHandler(pafs.FileSystemHandler):  # type: ignore[misc]  # Arrow has no types
    """Handler of Arrow's calls of a filesystem, over a client of the storage. Paths are absolute.

    Files are written whole, and what the top of the storage holds is never emptied.
    """

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._client is self._client

    def get_type_name(self) -> str:
        return self._client.address.shown

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return [self._info(path) for path in paths]

    @as_os_errors()
    def _info(self, path: str) -> pafs.FileInfo:
        key, has_folders = key_of(path), self._client.has_folders
        status = self._client.status(key) if key or has_folders else None
        if status is None and not has_folders and (self._client.below(key, 1) or not key):
            return pafs.FileInfo(path, pafs.FileType.Directory)
        return info_of(path, status)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = str(selector.base_dir)
        try:
            entries = self.entries(base, recursive=selector.recursive)
            if not entries and not self._client.has_folders and key_of(base):
                if self._info(base).type == pafs.FileType.File:
                    raise NotADirectoryError(20, "Not a directory", base)
                raise FileNotFoundError(2, "No such file or directory", base)
        except FileNotFoundError:
            if not selector.allow_not_found:
                raise
            return []
        return [info for info, _ in entries]

    @as_os_errors()
    def entries(self, path: str, *, recursive: bool) -> list[tuple[pafs.FileInfo, str | None]]:
        """Return what lies in a folder, or in it and below it, each file with its version if it has one.

        In a bucket it comes by one list, and a missing folder is an empty one.
        """
        key = key_of(path)
        listed = self._client.below(key) if recursive else self._client.list(key)
        found = [each for each in listed if each.key != key]
        above = {folder for each in found for folder in _folders_between(key, each.key)} - {each.key for each in found}
        folders = [RemoteStatus(folder, 0, is_folder=True) for folder in sorted(above)]
        return [(info_of(f"/{each.key}", each), each.tag) for each in (*folders, *found)]

    @as_os_errors()
    def create_dir(self, path: str, recursive: bool) -> None:
        self._client.make_dirs(key_of(path))

    @as_os_errors()
    def delete_dir(self, path: str) -> None:
        self._client.delete([key_of(path)], recursive=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for info in self.get_file_info_selector(pafs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self.delete_dir(info.path)

    def delete_root_dir_contents(self) -> None:
        """Reject it: emptying a whole storage is never meant."""
        raise NotImplementedError(f"{self._client.address.shown} is not emptied")

    @as_os_errors()
    def delete_file(self, path: str) -> None:
        if self._client.status(key_of(path)) is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        self._client.delete([key_of(path)])

    @as_os_errors()
    def move(self, src: str, dest: str) -> None:
        """Move a file; of a storage that copies and deletes, readers may see both."""
        self._client.move(key_of(src), key_of(dest))

    @as_os_errors()
    def copy_file(self, src: str, dest: str) -> None:
        self._client.write(key_of(dest), self._client.open(key_of(src)))

    @as_os_errors()
    def open_input_file(self, path: str) -> pa.NativeFile:
        return self._client.open(key_of(path))

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        @as_os_errors()
        def store(content: BinaryIO) -> None:
            self._client.write(key_of(path), content)

        return pa.PythonFile(WholeFileWriter(store), mode="w")

    def open_append_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        """Reject it: no file is appended to."""
        raise NotImplementedError(f"files of {self._client.address.shown} are written whole")


class ObjectStoreHandler(RemoteHandler):
    """Handler over a bucket, which has a version of each file (an ETag), and lists in order.

    A folder exists while an object lies below it.
    """

    _client: ObjectClient

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
        """Return an object to read at any place.

        One that has another version raises a :class:`~airflow_samza.systems.filesystems.contents.WrittenAgain`, also
        while it is read.
        """
        return self._client.open(key_of(path), version)


def key_of(path: str) -> str:
    """Return the key of a path of Arrow."""
    return path.strip("/")


def info_of(path: str, status: RemoteStatus | None) -> pafs.FileInfo:
    """Return a status as Arrow has it."""
    if status is None:
        return pafs.FileInfo(path, pafs.FileType.NotFound)
    if status.is_folder:
        return pafs.FileInfo(path, pafs.FileType.Directory, mtime_ns=status.modified_ns)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.size, mtime_ns=status.modified_ns)


def _folders_between(key: str, below: str) -> set[str]:
    """Return the folders below a key in which a file lies.

    >>> sorted(_folders_between("a", "a/b/c/d"))
    ['a/b', 'a/b/c']
    """
    parts = below[len(key) :].strip("/").split("/")[:-1]
    begin = f"{key}/" if key else ""
    return {begin + "/".join(parts[: count + 1]) for count in range(len(parts))}
