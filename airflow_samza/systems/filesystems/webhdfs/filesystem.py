"""A root on HDFS: a :class:`~airflow_samza.systems.filesystems.filesystem.Filesystem` over WebHDFS.

A file that must not be there yet is written under a temporary name and renamed: HDFS decides under its lock whether the
target exists, and the boolean in its answer says which writer has won.
"""

from __future__ import annotations

import contextlib
import functools
import os
import uuid
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.filesystems.contents import RangeReader, WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import DELETED_MEANWHILE, TEMPORARY_PREFIX, path_below
from airflow_samza.systems.filesystems.pace import FREE, Pace
from airflow_samza.systems.filesystems.webhdfs.access import Access, find_access
from airflow_samza.systems.filesystems.webhdfs.address import Address, parse_address
from airflow_samza.systems.filesystems.webhdfs.client import PATIENCE_SECONDS, FileStatus, WebHdfsClient

if TYPE_CHECKING:
    import pyarrow as pa

_COLON = "%3A"
"""Text that stands for a colon, which HDFS allows in no name.

Names that we percent-encode keep theirs, so the two do not meet.
"""


def open_webhdfs(
    url: str, options: Mapping[str, object] | None = None, *, patience: float = PATIENCE_SECONDS
) -> WebHdfsFilesystem:
    """Return the filesystem of a root such as ``webhdfs://namenode:9870/samza``.

    Options are ``user``, ``token`` and ``ssl_verify``; ``namenodes`` are those of an ``hdfs://`` root (URLs with commas
    between them) where the process has no configuration of the cluster.
    """
    namenodes = str((options or {}).get("namenodes") or "")
    address, path = parse_address(url, fallback=namenodes.split(",") if namenodes else ())
    return WebHdfsFilesystem(shared_client(address, find_access(options), patience, os.getpid()), path)


@functools.lru_cache(maxsize=32)
def shared_client(address: Address, access: Access, patience: float, pid: int) -> WebHdfsClient:
    """Return the one client of an HDFS in this process, whose connections stay open."""
    return WebHdfsClient(address, access, patience)


class WebHdfsFilesystem:
    """A directory of an HDFS."""

    def __init__(self, client: WebHdfsClient, directory: str) -> None:
        self._client = client
        self._directory = PurePosixPath(directory)

    def __repr__(self) -> str:
        return f"WebHdfsFilesystem({self.root!r})"

    @property
    def root(self) -> str:
        return self._client.address.url(str(self._directory))

    @property
    def pace(self) -> Pace:
        return FREE

    @property
    def renames_folders(self) -> bool:
        return True

    def location(self, path: str) -> str:
        return self._client.address.url(self._path(path))

    def local_path(self, path: str) -> str | None:
        self._path(path)
        return None

    def link(self, path: str, seconds: float) -> str:
        """Return the URL for Hadoop's own client in Spark, or for any client of HTTP where the user is but a name."""
        client, target = self._client, quote(self._path(path))
        if client.address.shown.startswith("hdfs://"):
            return client.address.url(target)
        if client.access.token:
            raise ConfigError(
                f"Spark's hosts cannot fetch {self.location(path)}: its URL would show a delegation token.",
                hint="Write the root as hdfs://host:port/path, which Spark reads by itself.",
                key="root",
                value=self.root,
            )
        return f"{client.address.namenodes[0]}/webhdfs/v1{target}?op=OPEN&user.name={quote(client.access.user)}"

    def _path(self, path: str) -> str:
        return str(self._directory / path_below(self, path)).replace(":", _COLON)

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        target = self._path(path)
        for _ in range(3):
            if self._is_file(target):
                return False
            temporary = _temporary(target)
            self._client.create(temporary, data, durable=durable, shown=target)
            if self._client.rename(temporary, target, shown=target):
                return True
            self._client.delete(temporary)
            if self._is_file(target):
                return False
            # Neither renamed nor there: somebody deleted the directory, or the file, at this moment.
        raise TopicError(
            f"The storage cannot write {self.location(path)}: its directory is deleted again and again.",
            hint=DELETED_MEANWHILE,
            path=self.location(path),
        )

    def _is_file(self, target: str) -> bool:
        status = self._client.status(target)
        if status is not None and status.is_directory:
            location = self._client.address.url(target)
            raise TopicError(
                f"The storage cannot write {location}: Is a directory.", hint="Use another path.", path=location
            )
        return status is not None

    def put(self, path: str, data: bytes) -> None:
        target = self._path(path)
        temporary = _temporary(target)
        self._client.create(temporary, data, durable=False, shown=target)
        try:
            self._client.rename(temporary, target, overwrite=True, shown=target)
        except BaseException:
            with contextlib.suppress(TopicError):
                self._client.delete(temporary)
            raise

    def read(self, path: str) -> bytes:
        return self._client.read(self._path(path))

    def list(self, directory: str) -> list[str]:
        return sorted(
            status.name.replace(_COLON, ":")
            for status in self._entries(directory)
            if not status.name.startswith(TEMPORARY_PREFIX)
        )

    def _entries(self, directory: str) -> tuple[FileStatus, ...]:
        try:
            return tuple(status for status in self._client.list(self._path(directory)) if status.name)
        except FileNotFoundError:
            return ()

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        target = self._path(path)
        if self._client.status(target) is not None:
            raise FileExistsError(17, "File exists", self.location(path))
        return WholeFileWriter(lambda content: self._store(target, content, durable))  # type: ignore[return-value]  # the part of a file that writers use

    def _store(self, target: str, content: BinaryIO, durable: bool) -> None:
        temporary = _temporary(target)
        self._client.create(temporary, content, durable=durable, shown=target)
        if not self._client.rename(temporary, target, shown=target):
            self._client.delete(temporary)
            raise FileExistsError(17, "File exists", self._client.address.url(target))

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        size = self.size(path)
        if size == 0:
            return pa.BufferReader(b"")
        target = self._path(path)
        return pa.PythonFile(
            RangeReader(size, lambda offset, length: self._client.read(target, offset, length)), mode="r"
        )

    def rename(self, source: str, target: str) -> None:
        self._client.make_dirs(str(PurePosixPath(self._path(target)).parent))
        self._client.rename(self._path(source), self._path(target), overwrite=True)

    def delete(self, path: str) -> None:
        self._client.delete(self._path(path))

    def delete_tree(self, directory: str) -> None:
        self._client.delete(self._path(directory), recursive=True)

    def delete_empty(self, directory: str) -> None:
        if not self._entries(directory):
            with contextlib.suppress(TopicError):  # it is not empty any more
                self._client.delete(self._path(directory))

    def delete_temporary(self, directory: str, before: float) -> None:
        for status in self._entries(directory):
            if status.name.startswith(TEMPORARY_PREFIX) and status.modified_ms < before * 1000:
                self.delete(f"{directory}/{status.name}")

    def exists(self, path: str) -> bool:
        return self._client.status(self._path(path)) is not None

    def size(self, path: str) -> int:
        return self._status_of(path).length

    def modified(self, path: str) -> float:
        return self._status_of(path).modified_ms / 1000

    def _status_of(self, path: str) -> FileStatus:
        status = self._client.status(self._path(path))
        if status is None:
            raise FileNotFoundError(2, "No such file or directory", self.location(path))
        return status

    def make_dirs(self, directory: str) -> None:
        self._client.make_dirs(self._path(directory))


def _temporary(target: str) -> str:
    return str(PurePosixPath(target).parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
