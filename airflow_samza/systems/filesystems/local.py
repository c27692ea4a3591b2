"""The filesystem of this machine, or of a mounted share with hard links."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from airflow_samza.systems.filesystems.filesystem import (
    TEMPORARY_PREFIX,
    check_below,
    raise_storage_error,
    storage_errors,
)
from airflow_samza.systems.filesystems.pace import FREE, Pace

if TYPE_CHECKING:
    import pyarrow as pa


class LocalFilesystem:
    """A directory of this machine, or of a share that is mounted and knows hard links."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(root))

    def __repr__(self) -> str:
        return f"LocalFilesystem({str(self._root)!r})"

    def step(self, operation: str, path: str) -> None:
        """Do nothing before a change of the disk; a test's filesystem fails or dies here."""

    @property
    def root(self) -> str:  # noqa: D102
        return str(self._root)

    @property
    def pace(self) -> Pace:  # noqa: D102
        return FREE

    @property
    def renames_folders(self) -> bool:  # noqa: D102
        return True

    def location(self, path: str) -> str:  # noqa: D102
        check_below(self, path)
        return os.path.normpath(os.path.join(self._root, path))  # a third of what a Path costs, thousands of times

    def local_path(self, path: str) -> str | None:  # noqa: D102
        return self.location(path)

    def _path(self, path: str) -> Path:
        check_below(self, path)
        return self._root / path

    def put_if_absent(self, path: str, data: bytes) -> bool:  # noqa: D102
        target = self._path(path)
        if target.exists():
            return False
        with storage_errors("write", str(target)):
            temporary = self._write_temporary(target, data)
            try:
                self.step("link", path)
                os.link(temporary, target)
            except FileExistsError:
                return False
            finally:
                self._remove_temporary(temporary, path)
            self._sync_directory(target.parent)
        return True

    def put(self, path: str, data: bytes) -> None:  # noqa: D102
        target = self._path(path)
        with storage_errors("write", str(target)):
            temporary = self._write_temporary(target, data)
            try:
                self.step("replace", path)
                os.replace(temporary, target)
            except BaseException:
                self._remove_temporary(temporary, path)
                raise

    def _write_temporary(self, target: Path, data: bytes) -> Path:
        temporary = target.parent / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        self.step("create", str(temporary))
        file = _created(temporary)
        try:
            with file:
                self.step("write", str(temporary))
                file.write(data)
                file.flush()
                self.step("sync", str(temporary))
                os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return temporary

    def _remove_temporary(self, temporary: Path, path: str) -> None:
        # What was decided by the link stands: a temporary file that cannot be removed must not undo it. The sweeper
        # takes it.
        with contextlib.suppress(OSError):
            self.step("unlink", path)
            temporary.unlink(missing_ok=True)

    @staticmethod
    def _sync_directory(directory: Path) -> None:
        # Some network filesystems cannot sync a directory; the link is there all the same.
        with contextlib.suppress(OSError):
            handle = os.open(directory, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def read(self, path: str) -> bytes:  # noqa: D102
        target = self.location(path)
        with storage_errors("read", target):
            self.step("read", path)
            with open(target, "rb") as file:
                return file.read()

    def list(self, directory: str) -> list[str]:  # noqa: D102
        target = self._path(directory)
        with storage_errors("list", str(target)):
            try:
                return sorted(name for name in os.listdir(target) if not name.startswith(TEMPORARY_PREFIX))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:  # noqa: D102
        target = self._path(path)
        with storage_errors("write", str(target)):
            self.step("create", path)
            file = _created(target)
        return _Output(file, self, path, durable)  # type: ignore[return-value]

    def open_input(self, path: str) -> pa.NativeFile:  # noqa: D102
        import pyarrow as pa

        target = self._path(path)
        with storage_errors("read", str(target)):
            self.step("read", path)
            if target.stat().st_size == 0:  # an empty file cannot be mapped
                return pa.BufferReader(b"")
            return pa.memory_map(str(target), "r")

    def rename(self, source: str, target: str) -> None:  # noqa: D102
        with storage_errors("rename", str(self._path(source))):
            self.step("rename", source)
            self._path(target).parent.mkdir(parents=True, exist_ok=True)
            os.replace(self._path(source), self._path(target))

    def delete(self, path: str) -> None:  # noqa: D102
        with storage_errors("delete", str(self._path(path))):
            self.step("delete", path)
            self._path(path).unlink(missing_ok=True)

    def delete_tree(self, directory: str) -> None:  # noqa: D102
        with storage_errors("delete", str(self._path(directory))):
            self.step("delete", directory)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self._path(directory))

    def delete_empty(self, directory: str) -> None:  # noqa: D102
        with contextlib.suppress(OSError):
            self.step("delete", directory)
            self._path(directory).rmdir()

    def delete_temporary(self, directory: str, before: float) -> None:  # noqa: D102
        with storage_errors("delete", str(self._path(directory))), contextlib.suppress(FileNotFoundError):
            for path in self._path(directory).glob(f"{TEMPORARY_PREFIX}*"):
                if path.stat().st_mtime < before:
                    path.unlink(missing_ok=True)

    def exists(self, path: str) -> bool:  # noqa: D102
        return self._path(path).exists()

    def size(self, path: str) -> int:  # noqa: D102
        with storage_errors("read", str(self._path(path))):
            return self._path(path).stat().st_size

    def modified(self, path: str) -> float:  # noqa: D102
        with storage_errors("read", str(self._path(path))):
            return self._path(path).stat().st_mtime

    def make_dirs(self, directory: str) -> None:  # noqa: D102
        with storage_errors("write", str(self._path(directory))):
            self._path(directory).mkdir(parents=True, exist_ok=True)


def _created(target: Path) -> BinaryIO:
    """Return a new file, with the directories above it.

    A sweep may delete an empty one at just this moment, so they are made again.
    """
    for _ in range(5):
        try:
            return open(target, "xb")
        except FileNotFoundError:
            target.parent.mkdir(parents=True, exist_ok=True)
    return open(target, "xb")


class _Output:
    """A new local file; writes larger than the buffer go straight to the disk."""

    def __init__(self, file: BinaryIO, filesystem: LocalFilesystem, path: str, durable: bool) -> None:
        self._file = file
        self._filesystem = filesystem
        self._path = path
        self._location = filesystem.location(path)
        self._durable = durable

    @property
    def closed(self) -> bool:
        return self._file.closed

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        with storage_errors("write", self._location):
            self._file.flush()

    def write(self, data: bytes) -> int:
        try:  # called for every buffer of every batch
            self._filesystem.step("write", self._path)
            return self._file.write(data)
        except OSError as error:
            raise_storage_error(error, "write", self._location)

    def close(self) -> None:
        if self._file.closed:
            return
        with storage_errors("write", self._location):
            try:
                self._filesystem.step("sync", self._path)
                self._file.flush()
                if self._durable:
                    os.fsync(self._file.fileno())
            finally:
                with contextlib.suppress(OSError):
                    self._file.close()
                if not self._file.closed:  # pragma: no cover - a close that failed has still given the handle back
                    os.close(self._file.fileno())

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def discard(self) -> None:
        """Close without making anything durable: the file is about to be deleted."""
        with contextlib.suppress(OSError):
            self._file.close()
