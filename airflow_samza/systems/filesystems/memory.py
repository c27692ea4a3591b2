"""A root in the memory of one process: folders are dictionaries, files their bytes and when they were written.

The test driver keeps its topics there.
"""

from __future__ import annotations

import io
import itertools
import time
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import LOOK_WHO, TEMPORARY_PREFIX, cannot, check_below
from airflow_samza.systems.filesystems.pace import FREE

if TYPE_CHECKING:
    import pyarrow as pa

_numbers = itertools.count(1)


class _File(NamedTuple):
    data: bytes
    modified: float


_Folder = dict[str, "_File | _Folder"]


class MemoryFilesystem:
    """Storage that lives as long as this object; no other has its root."""

    pace = FREE
    renames_folders = True

    def __init__(self) -> None:
        self.root = f"memory-{next(_numbers)}"
        self._top: _Folder = {}

    def location(self, path: str) -> str:
        """Return the place of a file, as messages show it."""
        return f"{self.root}/{path}"

    def local_path(self, path: str) -> str | None:
        """Return None: the machine's own calls do not reach it."""
        return None

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        """Write a file, unless one of this name exists already."""
        folder, name = self._place(path)
        file = _File(bytes(data), time.time())
        return folder.setdefault(name, file) is file

    def put(self, path: str, data: bytes) -> None:
        """Write a file, in place of one that exists."""
        folder, name = self._place(path)
        folder[name] = _File(bytes(data), time.time())

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        return self._file(path).data

    def list(self, directory: str) -> list[str]:
        """Return the sorted names in a directory; none when there is no such directory."""
        return sorted(name for name in self._names(directory) if not name.startswith(TEMPORARY_PREFIX))

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """Return a new file to write, which is there when it is closed; one that exists already is FileExistsError."""
        return _Output(self, path)

    def open_input(self, path: str) -> pa.NativeFile:
        """Return a file to read at any place."""
        import pyarrow as pa

        return pa.BufferReader(self.read(path))

    def rename(self, source: str, target: str) -> None:
        """Move a file or a directory, in one step."""
        moved = self._find(source)
        if moved is None:
            raise FileNotFoundError(2, "No such file", source)
        self.delete_tree(source)
        folder, name = self._place(target)
        folder[name] = moved

    def delete(self, path: str) -> None:
        """Delete a file; none there is fine."""
        self.delete_tree(path)

    def delete_tree(self, directory: str) -> None:
        """Delete a directory and all in it; none there is fine."""
        if self._find(directory) is not None:
            folder, name = self._place(directory)
            folder.pop(name, None)

    def delete_empty(self, directory: str) -> None:
        """Delete a directory in which nothing is."""
        if self._find(directory) == {}:
            self.delete_tree(directory)

    def delete_temporary(self, directory: str, before: float) -> None:
        """Delete what writers that died left half written in a directory before a time (seconds since 1970, UTC)."""
        for name in self._names(directory):
            path = f"{directory}/{name}"
            if name.startswith(TEMPORARY_PREFIX) and self.modified(path) < before:
                self.delete(path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a directory."""
        return self._find(path) is not None

    def size(self, path: str) -> int:
        """Return the bytes of a file."""
        return len(self.read(path))

    def modified(self, path: str) -> float:
        """Return the time when a file was last written (seconds since 1970, UTC)."""
        return self._file(path).modified

    def make_dirs(self, directory: str) -> None:
        """Make a directory and those above it."""
        self._place(f"{directory}/none")

    def _parts(self, path: str) -> tuple[str, ...]:
        check_below(self, path)
        return tuple(part for part in path.split("/") if part not in ("", "."))

    def _names(self, directory: str) -> tuple[str, ...]:
        folder = self._find(directory)
        return tuple(folder) if isinstance(folder, dict) else ()

    def _find(self, path: str) -> _File | _Folder | None:
        node: _File | _Folder | None = self._top
        for part in self._parts(path):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    def _file(self, path: str) -> _File:
        file = self._find(path)
        if not isinstance(file, _File):
            raise FileNotFoundError(2, "No such file", path)
        return file

    def _place(self, path: str) -> tuple[_Folder, str]:
        """Return the folder of a path, which is made, and the name in it."""
        *above, name = self._parts(path)
        folder = self._top
        for part in above:
            below = folder.setdefault(part, {})
            if not isinstance(below, dict):
                location = self.location(path)
                raise TopicError(cannot("write", location, "Not a directory"), hint=LOOK_WHO, path=location)
            folder = below
        return folder, name


class _Output(io.BytesIO):
    def __init__(self, filesystem: MemoryFilesystem, path: str) -> None:
        super().__init__()
        self._filesystem = filesystem
        self._path = path

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            if not self._filesystem.put_if_absent(self._path, data):
                raise FileExistsError(17, "File exists", self._path)

    def discard(self) -> None:
        """Give the file up."""
        super().close()
