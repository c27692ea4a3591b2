"""A root in the memory of one process: folders are dictionaries, files their bytes and when they were written.

The test driver keeps its topics there.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import LOOK_WHO, cannot
from airflow_samza.systems.filesystems.pace import FREE
from airflow_samza.systems.filesystems.remote import RemoteFilesystem, RemoteStatus

if TYPE_CHECKING:
    import pyarrow as pa

_numbers = itertools.count(1)


class _File(NamedTuple):
    data: bytes
    modified_ns: int


_Folder = dict[str, "_File | _Folder"]


class MemoryFilesystem(RemoteFilesystem):
    """Storage that lives as long as this object; no other has its root."""

    def __init__(self) -> None:
        super().__init__(_MemoryClient(_Address(f"memory-{next(_numbers)}")), "")


class _Address(NamedTuple):
    shown: str

    def url(self, key: str) -> str:
        return f"{self.shown}/{key}".rstrip("/")


class _MemoryClient:
    """Client of that storage, as of one that is reached over a network."""

    pace = FREE
    has_folders = True

    def __init__(self, address: _Address) -> None:
        self.address = address
        self._top: _Folder = {}

    def status(self, key: str) -> RemoteStatus | None:
        node = self._find(key)
        return None if node is None else _status(key, node)

    def list(self, folder: str) -> tuple[RemoteStatus, ...]:
        node = self._find(folder)
        if not isinstance(node, dict):
            raise FileNotFoundError(2, "No such folder", folder)
        return tuple(_status(f"{folder}/{name}", inner) for name, inner in tuple(node.items()))

    def below(self, folder: str, limit: int | None = None) -> tuple[RemoteStatus, ...]:
        found = [*self.list(folder)]
        for each in found:  # which grows
            found += self.list(each.key) if each.is_folder else ()
        return tuple(found)

    def read(self, key: str) -> bytes:
        file = self._find(key)
        if not isinstance(file, _File):
            raise FileNotFoundError(2, "No such file", key)
        return file.data

    def open(self, key: str) -> pa.NativeFile:
        import pyarrow as pa

        return pa.BufferReader(self.read(key))

    def put_new(self, key: str, content: bytes | BinaryIO, *, durable: bool) -> bool:
        folder, name = self._place(key)
        file = _file(content)
        return folder.setdefault(name, file) is file

    def put(self, key: str, content: bytes | BinaryIO) -> None:
        folder, name = self._place(key)
        folder[name] = _file(content)

    write = put

    def move(self, source: str, target: str) -> None:
        """Move a file or a folder, in one step."""
        moved = self._find(source)
        if moved is None:
            raise FileNotFoundError(2, "No such file", source)
        self.delete([source])
        folder, name = self._place(target)
        folder[name] = moved

    def delete(self, keys: Sequence[str], *, recursive: bool = False) -> None:
        for key in keys:
            if self._find(key) is not None:
                folder, name = self._place(key)
                folder.pop(name, None)

    def make_dirs(self, folder: str) -> None:
        self._place(f"{folder}/none")

    def _find(self, key: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._top
        for part in _parts(key):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _place(self, key: str) -> tuple[_Folder, str]:
        """Return the folder of a file, which is made, and the name in it."""
        *above, name = _parts(key)
        folder = self._top
        for part in above:
            below = folder.setdefault(part, {})
            if not isinstance(below, dict):
                location = self.address.url(key)
                raise TopicError(cannot("write", location, "Not a directory"), hint=LOOK_WHO, path=location)
            folder = below
        return folder, name


def _file(content: bytes | BinaryIO) -> _File:
    return _File(content if isinstance(content, bytes) else content.read(), time.time_ns())


def _status(key: str, node: _File | _Folder) -> RemoteStatus:
    if isinstance(node, dict):
        return RemoteStatus(key.lstrip("/"), 0, is_folder=True)
    return RemoteStatus(key.lstrip("/"), len(node.data), node.modified_ns)


def _parts(key: str) -> list[str]:
    return [part for part in key.split("/") if part]
