"""The filesystem of this machine, or of a mounted share with hard links."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import stat
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.contents import LocalOutput
from airflow_samza.systems.filesystems.filesystem import (
    LOOK_WHO,
    TEMPORARY_PREFIX,
    check_below,
    raise_storage_error,
    storage_errors,
)
from airflow_samza.systems.filesystems.pace import FREE

if TYPE_CHECKING:
    import pyarrow as pa


_READ_BYTES = 1 << 20
"""The greatest number of bytes that are read at once; most files are smaller by far."""

_LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Open a directory only to go on from it: the right to enter it is enough."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_PRIVATE = "runs/"
"""The folder of a root in which nobody reads but who may write there: the code and the records of runs."""


class LocalFilesystem:
    """A directory of this machine, or of a share that is mounted and knows hard links.

    The root may be a link; below it none is followed, and only regular files are read: several users may write there,
    and what one of them plants must not lead another one out of the root. So each path is opened part by part.
    """

    pace = FREE
    renames_folders = True

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(root)

    def __repr__(self) -> str:
        return f"LocalFilesystem({self.root!r})"

    def step(self, operation: str, path: str) -> None:
        """Do nothing before a change of the disk; a test's filesystem fails or dies here."""

    def location(self, path: str) -> str:
        check_below(self, path)
        return os.path.normpath(os.path.join(self.root, path))  # a third of what a Path costs, thousands of times

    def local_path(self, path: str) -> str | None:
        where = self.location(path)
        with contextlib.suppress(FileNotFoundError), self._inside("look at", path) as (inside, name):
            self._reject_link(inside, name, path)  # which other programs would follow
        return where

    # -- directories and files, without following a link ------------------------------------------------------------

    def _folder(self, directory: str, *, make: bool = False) -> int:
        """Open a directory; no part of its path below the root may be a link (decision 106).

        ``make`` makes the parts that lack. Who may write a part of the root could otherwise have all others read, write
        and delete elsewhere.
        """
        try:
            folder = os.open(self.root, _LOOK)
        except FileNotFoundError:
            if not make:
                raise
            os.makedirs(self.root, exist_ok=True)
            folder = os.open(self.root, _LOOK)
        try:
            for part in directory.split("/"):
                if part in ("", "."):
                    continue
                try:
                    inner = os.open(part, _LOOK | os.O_NOFOLLOW, dir_fd=folder)
                except FileNotFoundError:
                    if not make:
                        raise
                    inner = _make_directory(folder, part, is_private=f"{directory}/".startswith(_PRIVATE))
                except OSError as error:
                    if error.errno in (errno.ENOTDIR, errno.ELOOP):
                        self._reject_link(folder, part, directory)
                    raise
                os.close(folder)
                folder = inner
        except BaseException:
            os.close(folder)
            raise
        return folder

    @contextlib.contextmanager
    def _inside(self, doing: str, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the directory of a path, yield it and the name in it; errors say what was done to the path."""
        check_below(self, path)
        directory, _, name = path.rstrip("/").rpartition("/")
        try:
            folder = self._folder(directory, make=make)
            try:
                yield folder, name or "."
            finally:
                os.close(folder)
        except (FileNotFoundError, FileExistsError) as error:
            error.filename, error.filename2 = self.location(path), None
            raise
        except OSError as error:
            raise_storage_error(error, doing, self.location(path))

    def _stat(self, doing: str, path: str) -> os.stat_result:
        """Return what lies at a path; of a link itself."""
        with self._inside(doing, path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def _created(self, path: str, name: str) -> tuple[int, BinaryIO]:
        """Return the directory of a path, opened, and a new file of this name in it.

        A sweep may delete an empty directory at just this moment, so they are made again.
        """
        directory = path.rpartition("/")[0]
        left = 5
        while True:
            left -= 1
            folder = -1
            try:
                folder = self._folder(directory, make=True)
                mode = 0o600 | _writers(folder) << 1 if path.startswith(_PRIVATE) else 0o666
                file = os.open(name, _NEW, mode, dir_fd=folder)
                if mode & ~os.fstat(file).st_mode & 0o044 and path.startswith(_PRIVATE):
                    os.fchmod(file, mode)
                return folder, os.fdopen(file, "wb")
            except BaseException as error:
                if folder >= 0:
                    os.close(folder)
                if not left or not isinstance(error, FileNotFoundError):
                    raise

    def _reject_link(self, folder: int, name: str, path: str) -> None:
        """Reject a link; what is none, or not there, is fine."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                where = self.location(path)
                raise TopicError(
                    f"{where} is a link, and links below a root are not followed.",
                    hint=f"{LOOK_WHO} To keep files on another disk, mount that, or let {self.root} be the link.",
                    path=where,
                    link=True,
                )

    def _opened(self, folder: int, name: str, path: str) -> int:
        """Open a regular file to read; a pipe that somebody has put there would wait for ever."""
        try:
            file = os.open(name, _READ, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                self._reject_link(folder, name, path)
            raise
        mode = os.fstat(file).st_mode
        if stat.S_ISREG(mode):
            return file
        os.close(file)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        where = self.location(path)
        raise TopicError(
            f"{where} is no regular file, and is not read.",
            hint=LOOK_WHO,
            path=where,
        )

    # -- what is asked of a filesystem -----------------------------------------------------------------------------

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        if durable and self.exists(path):  # which saves a wait for the disk
            return False
        with storage_errors("write", self.location(path)), self._temporary(path, data, durable) as (folder, temporary):
            self.step("link", path)
            try:
                os.link(temporary, path.rpartition("/")[2], src_dir_fd=folder, dst_dir_fd=folder)
            except FileExistsError:
                return False
            if durable:
                _sync_directory(folder)
        return True

    def put(self, path: str, data: bytes) -> None:
        with storage_errors("write", self.location(path)), self._temporary(path, data, True) as (folder, temporary):
            self.step("replace", path)
            os.replace(temporary, path.rpartition("/")[2], src_dir_fd=folder, dst_dir_fd=folder)

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes, durable: bool) -> Iterator[tuple[int, str]]:
        """Yield the directory of a path, opened, and the name of a new file in it that holds the data until the end."""
        self.step("create", path)
        temporary = f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        folder, file = self._created(path, temporary)
        try:
            with file:
                self.step("write", path)
                file.write(data)
                file.flush()
                if durable:
                    self.step("sync", path)
                    os.fsync(file.fileno())
            yield folder, temporary
        finally:
            # What was decided by the link stands: a temporary file that cannot be removed must not undo it. The sweeper
            # takes it.
            with contextlib.suppress(OSError):
                self.step("unlink", path)
                os.unlink(temporary, dir_fd=folder)
            os.close(folder)

    def read(self, path: str) -> bytes:
        with self._inside("read", path) as (folder, name):
            self.step("read", path)
            file = self._opened(folder, name, path)
            try:
                return b"".join(iter(lambda: os.read(file, _READ_BYTES), b""))
            finally:
                os.close(file)

    def list(self, directory: str) -> list[str]:
        names: list[str] = []
        with _missing_or_below_a_file(), self._inside("list", f"{directory or '.'}/.") as (folder, _):
            names = _names(folder)
        return sorted(name for name in names if not name.startswith(TEMPORARY_PREFIX))

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        with storage_errors("write", self.location(path)):
            self.step("create", path)
            folder, file = self._created(path, path.rpartition("/")[2])
            os.close(folder)
        return LocalOutput(file, self.step, path, self.location(path), durable)  # type: ignore[return-value]  # the part of a file that writers use

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        with self._inside("read", path) as (folder, name):
            self.step("read", path)
            file = self._opened(folder, name, path)
            try:
                if os.fstat(file).st_size == 0:  # an empty file cannot be mapped
                    return pa.BufferReader(b"")
                return pa.BufferReader(pa.py_buffer(mmap.mmap(file, 0, access=mmap.ACCESS_READ)))
            finally:
                os.close(file)

    def rename(self, source: str, target: str) -> None:
        with self._inside("rename", source) as (folder, name):
            self.step("rename", source)
            with self._inside("rename", target, make=True) as (other, new):
                os.replace(name, new, src_dir_fd=folder, dst_dir_fd=other)

    def delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._inside("delete", path) as (folder, name):
            self.step("delete", path)
            os.unlink(name, dir_fd=folder)

    def delete_tree(self, directory: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._inside("delete", directory) as (folder, name):
            self.step("delete", directory)
            _delete_tree(folder, name)

    def delete_empty(self, directory: str) -> None:
        with contextlib.suppress(OSError, TopicError), self._inside("delete", directory) as (folder, name):
            self.step("delete", directory)
            os.rmdir(name, dir_fd=folder)

    def delete_temporary(self, directory: str, before: float) -> None:
        with contextlib.suppress(FileNotFoundError), self._inside("delete", f"{directory or '.'}/.") as (folder, _):
            for name in _names(folder):
                if not name.startswith(TEMPORARY_PREFIX):
                    continue
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime < before:
                        os.unlink(name, dir_fd=folder)

    def exists(self, path: str) -> bool:
        found = False
        with _missing_or_below_a_file():
            self._stat("look at", path)
            found = True
        return found

    def size(self, path: str) -> int:
        return self._stat("read", path).st_size

    def modified(self, path: str) -> float:
        return self._stat("read", path).st_mtime

    def make_dirs(self, directory: str) -> None:
        with self._inside("write", f"{directory or '.'}/.", make=True):
            pass


@contextlib.contextmanager
def _missing_or_below_a_file() -> Iterator[None]:
    """Pass over the error of what is not there, or would be below a file."""
    try:
        yield
    except FileNotFoundError:
        pass
    except TopicError as error:
        if error.facts.get("errno") != errno.ENOTDIR:
            raise


def _writers(folder: int) -> int:
    """Return the permissions by which others than its owner write in a directory."""
    return os.fstat(folder).st_mode & 0o022


def _make_directory(folder: int, name: str, *, is_private: bool) -> int:
    """Make a directory in another one, and open it.

    Nobody enters a private one but its owner, and who may write in the other one: a root that several users share is
    one that all of them may write.
    """
    writers = _writers(folder) if is_private else 0o022
    mode, is_made = 0o700 | writers << 1 | writers | writers >> 1, False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, mode if is_private else 0o777, dir_fd=folder)
        is_made = True
    inner = os.open(name, _LOOK | os.O_NOFOLLOW, dir_fd=folder)
    made = stat.S_IMODE(os.fstat(inner).st_mode)
    if is_made and is_private and mode & ~made:  # by this process's umask, which knows no root
        os.chmod(".", made | mode, dir_fd=inner)
    return inner


def _readable(folder: int) -> int:
    """Open a directory that was only looked up."""
    return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)


def _names(folder: int) -> list[str]:
    handle = _readable(folder)
    try:
        return os.listdir(handle)
    finally:
        os.close(handle)


def _sync_directory(folder: int) -> None:
    # Some network filesystems cannot sync a directory; the link is there all the same.
    with contextlib.suppress(OSError):
        handle = _readable(folder)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _delete_tree(folder: int, name: str) -> None:
    """Delete a directory and all in it; of a link only itself. What vanishes meanwhile is fine."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=folder)
        return

    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for _, folders, files, inside in os.fwalk(name, topdown=False, onerror=fail, dir_fd=folder):
        for inner in files:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(inner, dir_fd=inside)
        for inner in folders:
            with contextlib.suppress(FileNotFoundError):
                try:
                    os.rmdir(inner, dir_fd=inside)
                except NotADirectoryError:  # a link to a folder
                    os.unlink(inner, dir_fd=inside)
    os.rmdir(name, dir_fd=folder)
