"""A storage that is reached over a network: the calls that its client has, and a root over any such client.

A new storage is a client with these calls. Files of streams are read and written by the same client, through
:class:`~airflow_samza.systems.filesystems.arrow_handler.RemoteHandler`.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.contents import WholeFileWriter
from airflow_samza.systems.filesystems.filesystem import TEMPORARY_PREFIX, check_below
from airflow_samza.systems.filesystems.pace import Pace

if TYPE_CHECKING:
    import pyarrow as pa


class RemoteStatus(NamedTuple):
    """Status of a file or folder. ``key`` is its path in the storage, without slashes at its ends."""

    key: str
    size: int
    modified_ns: int | None = None
    """Nanoseconds since 1970, UTC; None of a folder that is but the beginning of keys."""
    tag: str | None = None
    """The storage's mark of the content, if it has one."""
    is_folder: bool = False


class RemoteAddress(Protocol):
    """Address of a storage."""

    @property
    def shown(self) -> str:
        """The URL of its top, as messages show it."""

    def url(self, key: str, /) -> str:
        """Return the URL of a file."""


class RemoteClient(Protocol):
    """Client of one storage as one user, whose errors are ours. One that is unpickled connects anew.

    A missing file is FileNotFoundError where nothing else is said.
    """

    pace: Pace
    has_folders: bool
    """True where a folder is there without files, and moves in one step."""

    @property
    def address(self) -> RemoteAddress:
        """The storage."""

    def status(self, key: str, /) -> RemoteStatus | None:
        """Return the status of a file or folder; None when nothing lies there."""

    def list(self, folder: str, /) -> tuple[RemoteStatus, ...]:
        """Return what lies in a folder; a missing one is empty where there are no folders."""

    def below(self, folder: str, limit: int | None = None, /) -> tuple[RemoteStatus, ...]:
        """Return all that lies in a folder and in those below it; with a limit only the first ones may come."""

    def read(self, key: str, /) -> bytes:
        """Return the content of a file."""

    def open(self, key: str, /) -> pa.NativeFile:
        """Return a file to read at any place."""

    def put_new(self, key: str, content: bytes | BinaryIO, /, *, durable: bool) -> bool:
        """Write a file whole, or not at all; return False when one is there, untouched."""

    def put(self, key: str, data: bytes, /) -> object:
        """Write a file whole, in place of one that is there: readers see the one or the other."""

    def write(self, key: str, content: BinaryIO, /) -> None:
        """Write a file that nobody reads before it is there, in place of one that is there."""

    def move(self, source: str, target: str, /) -> None:
        """Move a file or folder, in place of a file at the target."""

    def delete(self, keys: Sequence[str], /, *, recursive: bool = False) -> None:
        """Delete files, or folders with all in them; none there is fine."""

    def make_dirs(self, folder: str, /) -> None:
        """Make a folder and those above it, where there are folders."""


class RemoteFilesystem:
    """A folder of a remote storage as a :class:`~airflow_samza.systems.filesystems.filesystem.Filesystem`."""

    def __init__(self, client: RemoteClient, folder: str) -> None:
        self.client = client
        self._folder = PurePosixPath(folder.strip("/"))
        self.root = client.address.url("/".join(self._folder.parts))
        self.pace, self.renames_folders = client.pace, client.has_folders

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root!r})"

    def key(self, path: str) -> str:
        """Return the key of the file that a path names."""
        check_below(self, path)
        return "/".join((self._folder / path).parts)

    def location(self, path: str) -> str:
        return self.client.address.url(self.key(path))

    def local_path(self, path: str) -> str | None:
        self.key(path)
        return None

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        return self.client.put_new(self.key(path), data, durable=durable)

    def put(self, path: str, data: bytes) -> None:
        self.client.put(self.key(path), data)

    def read(self, path: str) -> bytes:
        return self.client.read(self.key(path))

    def list(self, directory: str) -> list[str]:
        names = {name_of(each.key) for each in self._entries(directory)}
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def _entries(self, directory: str) -> tuple[RemoteStatus, ...]:
        try:
            return self.client.list(self.key(directory))
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """Return a new file, which appears as a whole when it is closed.

        One that exists already is an error at that time: to look before would cost a request for each file.
        """
        key = self.key(path)

        def store(content: BinaryIO) -> None:
            if not self.client.put_new(key, content, durable=durable):
                raise FileExistsError(17, "File exists", self.client.address.url(key))

        return WholeFileWriter(store)  # type: ignore[return-value]  # the part of a file that writers use

    def open_input(self, path: str) -> pa.NativeFile:
        return self.client.open(self.key(path))

    def rename(self, source: str, target: str) -> None:
        self.client.move(self.key(source), self.key(target))

    def delete(self, path: str) -> None:
        self.client.delete([self.key(path)])

    def delete_tree(self, directory: str) -> None:
        self.client.delete([self.key(directory)], recursive=True)

    def delete_empty(self, directory: str) -> None:
        if self.client.has_folders and not self._entries(directory):
            with contextlib.suppress(TopicError):  # it is not empty any more
                self.client.delete([self.key(directory)])

    def delete_temporary(self, directory: str, before: float) -> None:
        self.client.delete(
            [
                each.key
                for each in self._entries(directory)
                if name_of(each.key).startswith(TEMPORARY_PREFIX)
                and each.modified_ns is not None
                and each.modified_ns < before * 1_000_000_000
            ]
        )

    def exists(self, path: str) -> bool:
        return self.client.status(self.key(path)) is not None

    def size(self, path: str) -> int:
        return self._status_of(path).size

    def modified(self, path: str) -> float:
        return (self._status_of(path).modified_ns or 0) / 1_000_000_000

    def _status_of(self, path: str) -> RemoteStatus:
        status = self.client.status(self.key(path))
        if status is None:
            raise FileNotFoundError(2, "No such file or directory", self.location(path))
        return status

    def make_dirs(self, directory: str) -> None:
        self.client.make_dirs(self.key(directory))


def all_below(client: RemoteClient, folder: str) -> tuple[RemoteStatus, ...]:
    """Return all in a folder and in those below it, folder by folder; one that goes meanwhile is empty."""
    found = [*client.list(folder)]
    for each in found:  # which grows
        if each.is_folder:
            with contextlib.suppress(FileNotFoundError):
                found += client.list(each.key)
    return tuple(found)


def temporary_key(key: str) -> str:
    """Return a new key beside one, for what is half written."""
    return f"{key.rpartition('/')[0]}/{TEMPORARY_PREFIX}{uuid.uuid4().hex}".lstrip("/")


def name_of(key: str) -> str:
    """Return the last part of a key."""
    return key.rpartition("/")[2]
