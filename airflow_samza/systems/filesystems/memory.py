"""A root in the memory of one process: dictionaries of files, their bytes and when they were written.

The test driver keeps its topics there.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from airflow_samza.systems.filesystems.pace import FREE
from airflow_samza.systems.filesystems.remote import RemoteFilesystem, RemoteStatus, all_below

if TYPE_CHECKING:
    import pyarrow as pa

_numbers = itertools.count(1)


class _File(NamedTuple):
    data: bytes
    modified_ns: int


class MemoryFilesystem(RemoteFilesystem):
    """Storage that lives as long as this object; no other has its root."""

    def __init__(self) -> None:
        super().__init__(_MemoryClient(_Address(f"memory-{next(_numbers)}")), "")


class _Address(NamedTuple):
    shown: str

    def url(self, key: str) -> str:
        return f"{self.shown}/{key}".rstrip("/")


class _MemoryClient:
    """Client of that storage, as of a bucket: a folder is there as long as files are."""

    pace = FREE
    has_folders = False

    def __init__(self, address: _Address) -> None:
        self.address = address
        self._folders: dict[str, dict[str, _File]] = {}
        """Files by their folders and names."""

    def status(self, key: str) -> RemoteStatus | None:
        files, name = self._place(key)
        return _status(key, files[name]) if name in files else None

    def list(self, folder: str) -> tuple[RemoteStatus, ...]:
        begin = f"{folder}/" if folder else ""
        below = [other for other, files in tuple(self._folders.items()) if files and other.startswith(begin)]
        inner = dict.fromkeys(begin + other[len(begin) :].partition("/")[0] for other in below if other != folder)
        files = tuple(self._folders.get(folder, {}).items())
        return (
            *(RemoteStatus(each, 0, is_folder=True) for each in inner),
            *(_status(begin + name, file) for name, file in files),
        )

    def below(self, folder: str, limit: int | None = None) -> tuple[RemoteStatus, ...]:
        return tuple(each for each in all_below(self, folder) if not each.is_folder)

    def read(self, key: str) -> bytes:
        files, name = self._place(key)
        if name not in files:
            raise FileNotFoundError(2, "No such file", key)
        return files[name].data

    def open(self, key: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.BufferReader(self.read(key))

    def put_new(self, key: str, content: bytes | BinaryIO, *, durable: bool) -> bool:
        files, name = self._place(key, made=True)
        file = _file(content)
        return files.setdefault(name, file) is file

    def put(self, key: str, content: bytes | BinaryIO) -> None:
        files, name = self._place(key, made=True)
        files[name] = _file(content)

    write = put

    def move(self, source: str, target: str) -> None:
        moved = [source] if self.status(source) is not None else [each.key for each in self.below(source)]
        if not moved:
            raise FileNotFoundError(2, "No such file", source)
        for key in moved:
            self.put(f"{target}{key[len(source) :]}", self.read(key))
        self.delete(moved)

    def delete(self, keys: Sequence[str], *, recursive: bool = False) -> None:
        for key in [*keys, *(each.key for folder in keys if recursive for each in self.below(folder))]:
            files, name = self._place(key)
            files.pop(name, None)

    def make_dirs(self, folder: str) -> None:
        """Do nothing: there are no folders without files."""

    def _place(self, key: str, *, made: bool = False) -> tuple[dict[str, _File], str]:
        """Return the files of a folder, and the name of one; ``made`` makes a folder that is not there."""
        folder, _, name = key.rpartition("/")
        return self._folders.setdefault(folder, {}) if made else self._folders.get(folder, {}), name


def _file(content: bytes | BinaryIO) -> _File:
    return _File(content if isinstance(content, bytes) else content.read(), time.time_ns())


def _status(key: str, file: _File) -> RemoteStatus:
    return RemoteStatus(key, len(file.data), file.modified_ns)
