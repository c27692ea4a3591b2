"""A storage of the calls that every client of a remote storage has, in a dictionary: its keys are those of a bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from airflow_samza.systems.filesystems.pace import FREE
from airflow_samza.systems.filesystems.remote import RemoteStatus


@dataclass(frozen=True)
class DictionaryAddress:
    shown: str = "dictionary://test"

    def url(self, key: str) -> str:
        return f"{self.shown}/{key}"


class DictionaryClient:
    """The calls of a client over a dictionary of files by their keys; ``asked`` has the names of those made."""

    pace = FREE
    has_folders = False
    address = DictionaryAddress()

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def status(self, key: str) -> RemoteStatus | None:
        self.asked.append("status")
        return self._status(key) if key in self.files else None

    def list(self, folder: str) -> tuple[RemoteStatus, ...]:
        self.asked.append("list")
        begin = f"{folder}/" if folder else ""
        below = [key for key in sorted(self.files) if key.startswith(begin)]
        names = {begin + key[len(begin) :].partition("/")[0]: key for key in below}
        return tuple(
            self._status(name) if name in self.files else RemoteStatus(name, 0, is_folder=True) for name in names
        )

    def below(self, folder: str, limit: int | None = None) -> tuple[RemoteStatus, ...]:
        self.asked.append("below")
        begin = f"{folder}/" if folder else ""
        return tuple(self._status(key) for key in sorted(self.files) if key.startswith(begin))[:limit]

    def read(self, key: str) -> bytes:
        self.asked.append("read")
        return self._content(key)

    def open(self, key: str) -> pa.NativeFile:
        self.asked.append("open")
        return pa.BufferReader(self._content(key))

    def put_new(self, key: str, content: bytes | BinaryIO, *, durable: bool) -> bool:
        self.asked.append("put_new")
        file = (content if isinstance(content, bytes) else content.read(), time.time_ns())
        with self._lock:
            return self.files.setdefault(key, file) is file

    def put(self, key: str, data: bytes) -> None:
        self.asked.append("put")
        self.files[key] = (data, time.time_ns())

    def write(self, key: str, content: BinaryIO) -> None:
        self.asked.append("write")
        self.files[key] = (content.read(), time.time_ns())

    def move(self, source: str, target: str) -> None:
        self.asked.append("move")
        moved = [key for key in self.files if key == source or key.startswith(f"{source}/")]
        if not moved:
            raise FileNotFoundError(2, "No such file or directory", self.address.url(source))
        for key in moved:
            self.files[f"{target}{key[len(source) :]}"] = self.files.pop(key)

    def delete(self, keys: Sequence[str], *, recursive: bool = False) -> None:
        self.asked.append("delete")
        for key in keys:
            self.files.pop(key, None)
            for inner in [each for each in self.files if recursive and each.startswith(f"{key}/")]:
                del self.files[inner]

    def make_dirs(self, folder: str) -> None:
        self.asked.append("make_dirs")

    def _status(self, key: str) -> RemoteStatus:
        data, modified_ns = self.files[key]
        return RemoteStatus(key, len(data), modified_ns)

    def _content(self, key: str) -> bytes:
        if key not in self.files:
            raise FileNotFoundError(2, "No such file or directory", self.address.url(key))
        return self.files[key][0]
