"""HDFS as a filesystem of Arrow, with which the file formats read and write it.

pyarrow's own needs libhdfs and a Java in every process. This one speaks WebHDFS: a file is read in ranges, so a footer,
a row group or a column costs its own bytes only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.systems.filesystems.arrow_handler import RemoteHandler
from airflow_samza.systems.filesystems.contents import RangeReader, WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import as_os_errors
from airflow_samza.systems.filesystems.webhdfs.access import find_access
from airflow_samza.systems.filesystems.webhdfs.address import parse_address
from airflow_samza.systems.filesystems.webhdfs.client import PATIENCE_SECONDS, FileStatus, WebHdfsClient
from airflow_samza.systems.filesystems.webhdfs.filesystem import shared_client

if TYPE_CHECKING:
    from typing import BinaryIO


def open_arrow_hdfs(url: str, options: Mapping[str, Any] | None = None) -> tuple[pafs.FileSystem, str, str]:
    """Return the filesystem of an HDFS URL, the path in it, and how the URL of its root is written."""
    address, path = parse_address(url)
    client = shared_client(address, find_access(options), PATIENCE_SECONDS, os.getpid())
    return pafs.PyFileSystem(HdfsHandler(client)), path, address.shown


class HdfsHandler(RemoteHandler):
    """Handler of Arrow's calls of a filesystem. Paths are absolute."""

    kind = "webhdfs"
    _client: WebHdfsClient

    def __reduce__(self) -> tuple[object, ...]:
        return (_again, (self._client.address, self._client.access))

    def _info(self, path: str) -> pafs.FileInfo:
        with as_os_errors():
            status = self._client.status(_absolute(path))
        return pafs.FileInfo(path, pafs.FileType.NotFound) if status is None else _info_of(path, status)

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        base = str(selector.base_dir)
        try:
            with as_os_errors():
                statuses = self._client.list(_absolute(base))
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        if any(not status.name for status in statuses):
            raise NotADirectoryError(20, "Not a directory", base)
        entries = [_info_of(f"{base.rstrip('/')}/{status.name}", status) for status in statuses]
        for info in list(entries) if selector.recursive else ():
            if info.type == pafs.FileType.Directory:
                entries += self.get_file_info_selector(
                    pafs.FileSelector(info.path, allow_not_found=True, recursive=True)
                )
        return entries

    def create_dir(self, path: str, recursive: bool) -> None:
        with as_os_errors():
            self._client.make_dirs(_absolute(path))

    def delete_dir(self, path: str) -> None:
        with as_os_errors():
            self._client.delete(_absolute(path), recursive=True)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        for info in self.get_file_info_selector(pafs.FileSelector(path, allow_not_found=missing_dir_ok)):
            self.delete_dir(info.path)

    def delete_file(self, path: str) -> None:
        if self._info(path).type == pafs.FileType.NotFound:
            raise FileNotFoundError(2, "No such file or directory", path)
        with as_os_errors():
            self._client.delete(_absolute(path))

    def move(self, src: str, dest: str) -> None:
        """Rename; something at the target that cannot be replaced, or a missing source, is an error."""
        with as_os_errors():
            self._client.make_dirs(str(PurePosixPath(_absolute(dest)).parent))
            self._client.rename(_absolute(src), _absolute(dest), overwrite=True)

    def copy_file(self, src: str, dest: str) -> None:
        with self.open_input_file(src) as source, self.open_output_stream(dest, None) as target:
            while block := source.read(1 << 20):
                target.write(block)

    def open_input_file(self, path: str) -> pa.NativeFile:
        info = self._info(path)
        if info.type == pafs.FileType.NotFound:
            raise FileNotFoundError(2, "No such file or directory", path)
        if info.type == pafs.FileType.Directory:
            raise IsADirectoryError(21, "Is a directory", path)
        return pa.PythonFile(
            RangeReader(int(info.size), lambda offset, length: self._read(path, offset, length)), mode="r"
        )

    def _read(self, path: str, offset: int, length: int) -> bytes:
        with as_os_errors():
            return self._client.read(_absolute(path), offset, length)

    def open_output_stream(self, path: str, metadata: Mapping[str, str] | None) -> pa.NativeFile:
        def store(content: BinaryIO) -> None:
            with as_os_errors():
                self._client.create(_absolute(path), content, durable=True)

        return pa.PythonFile(WholeFileWriter(store), mode="w")


def _again(address: Any, access: Any) -> HdfsHandler:
    return HdfsHandler(shared_client(address, access, PATIENCE_SECONDS, os.getpid()))


def _absolute(path: str) -> str:
    return f"/{path.strip('/')}"


def _info_of(path: str, status: FileStatus) -> pafs.FileInfo:
    if status.is_directory:
        return pafs.FileInfo(path, pafs.FileType.Directory, mtime_ns=status.modified_ms * 1_000_000)
    return pafs.FileInfo(path, pafs.FileType.File, size=status.length, mtime_ns=status.modified_ms * 1_000_000)
