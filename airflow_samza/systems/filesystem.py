"""The few things asked of the storage under a root, and the local filesystem that does them.

Everything that decides something is written by :meth:`Filesystem.put_if_absent`: the first writer wins, whatever dies.
Paths are relative to the root, with ``/``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NoReturn, Protocol
from urllib.parse import unquote, urlsplit

from airflow_samza.errors import ConfigError, StorageFull, TopicError

if TYPE_CHECKING:
    import pyarrow as pa

TEMPORARY_PREFIX = ".tmp-"
"""Files that start so are half written and belong to nobody; ``list`` leaves them out."""


class Filesystem(Protocol):
    """Storage under one root. A missing file raises FileNotFoundError; a full disk StorageFull; any other refusal TopicError."""

    @property
    def root(self) -> str:
        """The root, as messages show it."""
        ...

    def location(self, path: str) -> str:
        """The whole path of a file, as messages show it."""
        ...

    def local_path(self, path: str) -> str | None:
        """The path of a file for this machine's own calls; None where the storage is none of its filesystems."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes a file whole and durably, or not at all; False when one of this name exists already, which is then untouched."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Writes a file whole, in place of one that exists (status, heartbeat; never for what decides something)."""
        ...

    def read(self, path: str) -> bytes:
        """The content of a file."""
        ...

    def list(self, directory: str) -> list[str]:
        """The sorted names in a directory; none when there is no such directory."""
        ...

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """A new file to write; close makes it durable, when asked. One that exists already is an error."""
        ...

    def open_input(self, path: str) -> pa.NativeFile:
        """A file to read at any place, memory-mapped where the storage can."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Moves a file or directory; a file at the target is replaced."""
        ...

    def delete(self, path: str) -> None:
        """Deletes a file; none there is fine."""
        ...

    def delete_tree(self, directory: str) -> None:
        """Deletes a directory and all in it; none there is fine."""
        ...

    def delete_empty(self, directory: str) -> None:
        """Deletes a directory in which nothing is; one that holds something, or is not there, stays as it is."""
        ...

    def delete_temporary(self, directory: str, before: float) -> None:
        """Deletes what writers that died left half written in a directory before a time (seconds since 1970, UTC)."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        ...

    def size(self, path: str) -> int:
        """The bytes of a file."""
        ...

    def modified(self, path: str) -> float:
        """When a file was last written (seconds since 1970, UTC)."""
        ...

    def make_dirs(self, directory: str) -> None:
        """Makes a directory and those above it."""
        ...


def open_filesystem(root_url: str, options: Mapping[str, object] | None = None) -> Filesystem:
    """The filesystem of a root: a local path or ``file://`` URL, or a directory of an HDFS (``webhdfs://``, ``swebhdfs://``, ``hdfs://``).

    ``options`` say who asks HDFS (``user``, ``token``, ``ssl_verify``), or the environment does, as for Hadoop's own clients
    (:mod:`airflow_samza.systems.webhdfs.access`). Other schemes are refused: a root needs an atomic *put if absent*, which each of them
    gives in a way of its own.
    """
    if not root_url:
        raise ConfigError("The root is empty.", hint="Give an absolute path on a disk that all hosts of the run share.", value=root_url)
    parts = urlsplit(root_url)
    if "://" not in root_url:
        return LocalFilesystem(os.path.expanduser(root_url))
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return LocalFilesystem(unquote(parts.path))
    if parts.scheme in ("webhdfs", "swebhdfs", "hdfs"):
        from airflow_samza.systems.webhdfs.filesystem import open_webhdfs

        return open_webhdfs(root_url, options)
    shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"  # never user and password
    raise ConfigError(
        f"The root {shown} is neither on a local or mounted filesystem nor on HDFS.",
        hint="Use a path or a file:// URL that every host of the run can reach, such as a mounted share, or webhdfs://namenode:9870/path.",
        value=shown,
    )


@contextlib.contextmanager
def storage_errors(doing: str, location: str) -> Iterator[None]:
    """Turns the operating system's errors into ours, naming what was done to which path."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        refuse_storage(error, doing, location)


def refuse_storage(error: OSError, doing: str, location: str) -> NoReturn:
    """Raises our error for one of the operating system's."""
    reason = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise StorageFull(
            f"There is no room left to {doing} {location}.",
            hint="Free space under the root (airflow-samza topics expire) or point the root at a larger disk, then try again.",
            path=location,
        ) from error
    raise TopicError(
        f"The storage refused to {doing} {location}: {reason}.",
        hint="Check the disk and the permissions of the root; nothing that was committed is lost by trying again.",
        path=location,
        errno=error.errno,
    ) from error


class LocalFilesystem:
    """A directory of this machine, or of a share that is mounted and knows hard links."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(root))

    def __repr__(self) -> str:
        return f"LocalFilesystem({str(self._root)!r})"

    def step(self, operation: str, path: str) -> None:
        """Called before each change of the disk; a test's filesystem fails or dies here."""

    @property
    def root(self) -> str:  # noqa: D102
        return str(self._root)

    def location(self, path: str) -> str:  # noqa: D102
        return str(self._path(path))

    def local_path(self, path: str) -> str | None:  # noqa: D102
        return str(self._path(path))

    def _path(self, path: str) -> Path:
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            raise TopicError(f"The path {path!r} leaves the root {self._root}.", hint="Use a path below the root.", path=path)
        return self._root / pure

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
        # What was decided by the link stands: a temporary file that cannot be removed must not undo it. The sweeper takes it.
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
        target = self._path(path)
        with storage_errors("read", str(target)):
            self.step("read", path)
            return target.read_bytes()

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
    """A new file, with the directories above it; a sweep may delete an empty one at just this moment, so they are made again."""
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
            refuse_storage(error, "write", self._location)

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
        """Closes without making anything durable: the file is about to be deleted."""
        with contextlib.suppress(OSError):
            self._file.close()
