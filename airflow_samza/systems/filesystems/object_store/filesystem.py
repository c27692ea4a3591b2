"""A root on an object store: a :class:`~airflow_samza.systems.filesystems.filesystem.Filesystem` over its objects.

A file that must not exist yet is one conditional request: the store decides which writer is the first. There are no
directories: a folder exists as long as an object lies below it. Renaming is copying and deleting.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from airflow_samza.systems.filesystems.contents import RangeReader, WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX, path_below
from airflow_samza.systems.filesystems.object_store.access import Access, find_access
from airflow_samza.systems.filesystems.object_store.address import Address, parse_address
from airflow_samza.systems.filesystems.object_store.client import (
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    ObjectClient,
    ObjectStatus,
    upload_new,
)
from airflow_samza.systems.filesystems.pace import CHARGED, Pace

if TYPE_CHECKING:
    import pyarrow as pa

READ_WHOLE = 1 << 20
"""A file that is not longer comes in one request; of a longer one its end does, where formats keep their footer."""


def open_object_store(
    url: str,
    options: Mapping[str, object] | None = None,
    *,
    patience: float = PATIENCE_SECONDS,
    timeout: float = TIMEOUT_SECONDS,
) -> ObjectStoreFilesystem:
    """Return the filesystem of a root such as ``s3://bucket/samza``, without asking the store anything.

    ``options`` are those of :mod:`airflow_samza.systems.filesystems.object_store.access`; ``patience`` and ``timeout``
    (of one request) are seconds.
    """
    address, prefix = parse_address(url)
    return ObjectStoreFilesystem(shared_client(address, find_access(address, options), patience, timeout), prefix)


@functools.lru_cache(maxsize=32)
def shared_client(address: Address, access: Access, patience: float, timeout: float) -> ObjectClient:
    """Return the one client of a bucket and an identity in this process, whose connections stay open."""
    return ObjectClient(address, access, patience, timeout)


class ObjectStoreFilesystem:
    """A prefix in a bucket of an object store."""

    def __init__(self, client: ObjectClient, prefix: str) -> None:
        self.client = client
        self._prefix = PurePosixPath(prefix)

    def __repr__(self) -> str:
        return f"ObjectStoreFilesystem({self.root!r})"

    @property
    def root(self) -> str:
        return self.client.address.url(_text(self._prefix))

    @property
    def pace(self) -> Pace:
        return CHARGED

    @property
    def renames_folders(self) -> bool:
        return False

    def location(self, path: str) -> str:
        return self.client.address.url(self.key(path))

    def local_path(self, path: str) -> str | None:
        self.key(path)
        return None

    def link(self, path: str, seconds: float) -> str:
        """Return a signed URL of this one file."""
        return self.client.link(self.key(path), seconds)

    def key(self, path: str) -> str:
        """Return the key of the object that a path names."""
        return _text(self._prefix / path_below(self, path))

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        return self.client.create(self.key(path), data)

    def put(self, path: str, data: bytes) -> None:
        self.client.put(self.key(path), data)

    def read(self, path: str) -> bytes:
        return self.client.read(self.key(path))

    def list(self, directory: str) -> list[str]:
        folders, objects = self.client.entries(key := self.key(directory))
        names = {_name(each) for each in folders} | {_name(each.key) for each in objects if each.key != key}
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """Return a new file, which appears as a whole when it is closed, and then is durable.

        One that exists already is an error at that time: to look before would cost a request for each file.
        """
        key = self.key(path)
        return WholeFileWriter(lambda content: upload_new(self.client, key, content))  # type: ignore[return-value]  # the part of a file that writers use

    def open_input(self, path: str) -> pa.NativeFile:
        return open_object(self.client, self.key(path))

    def rename(self, source: str, target: str) -> None:
        """Copy a file, or every file below a folder, and delete the source; readers may see both, and half a folder."""
        begin, end = self.key(source), self.key(target)
        try:
            self.client.copy(begin, end)
            moved = [begin]
        except FileNotFoundError:
            below = self.client.below(begin)
            if not below:
                raise
            for each in below:
                self.client.copy(each.key, f"{end}{each.key[len(begin) :]}")
            moved = [each.key for each in below]
        self.client.delete(moved)

    def delete(self, path: str) -> None:
        self.client.delete([self.key(path)])

    def delete_tree(self, directory: str) -> None:
        key = self.key(directory)
        self.client.delete([each.key for each in self.client.below(key)] or [key])

    def delete_empty(self, directory: str) -> None:
        """Do nothing: a folder in which nothing is does not exist."""
        self.key(directory)

    def delete_temporary(self, directory: str, before: float) -> None:
        _, objects = self.client.entries(self.key(directory))
        old = [each.key for each in objects if _name(each.key).startswith(TEMPORARY_PREFIX) and each.modified < before]
        self.client.delete(old)

    def exists(self, path: str) -> bool:
        return self.client.status(self.key(path)) is not None

    def size(self, path: str) -> int:
        return self._status_of(path).size

    def modified(self, path: str) -> float:
        return self._status_of(path).modified

    def _status_of(self, path: str) -> ObjectStatus:
        status = self.client.status(self.key(path))
        if status is None:
            raise FileNotFoundError(2, "No such file or directory", self.location(path))
        return status

    def make_dirs(self, directory: str) -> None:
        """Do nothing: a folder is there with the first file in it."""
        self.key(directory)


def open_object(client: ObjectClient, key: str, tag: str | None = None) -> pa.NativeFile:
    """Return an object to read at any place: a small one comes whole, of a large one the end first.

    All bytes are of one version, which is that of the ``tag``, if one is given; else there is :class:`WrittenAgain`.
    """
    import pyarrow as pa

    end = client.read_end(key, READ_WHOLE, tag)
    if len(end.data) == end.size:
        return pa.BufferReader(end.data)
    reader = RangeReader(
        end.size,
        lambda offset, length: client.read_range(key, offset, length, end.tag),
        kept=(end.begin, end.data),
        grows=True,
    )
    return pa.PythonFile(reader, mode="r")


def _text(path: PurePosixPath) -> str:
    text = str(path)
    return "" if text == "." else text


def _name(key: str) -> str:
    return key.rpartition("/")[2]
