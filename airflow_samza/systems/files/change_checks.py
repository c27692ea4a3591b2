"""Checks that a file is the one that the plan saw, before it is read and while it is.

On a disk that is a look at size, time and inode for each batch, before anybody gets the batch. In an object store all
ranges come of the version that was there before the first. Elsewhere one more look follows behind the end. A file that
is removed while it is read is read to its end, if the storage lets it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.systems.files.failures import is_of_storage
from airflow_samza.systems.files.formats.file_format import WHILE_READ, InputFile, changed, reading
from airflow_samza.systems.files.listing import FileEntry
from airflow_samza.systems.files.location import Location, storage_with_versions


class UnchangedFile:
    """A file of a plan that is being read. ``file`` is the one to open: in an object store it has its version."""

    def __init__(self, root: Location, file: InputFile, listed: FileEntry) -> None:
        self._is_local = isinstance(root.filesystem, pafs.LocalFileSystem)
        self._storage = storage_with_versions(root.filesystem)
        self._listed = listed
        self._inode = _inode(file.path) if self._is_local else None
        self.file = file
        version = None
        if self._storage is not None:
            info, version = self._storage.info_and_version(file.path)
            self.file = dataclasses.replace(file, version=version)
        else:
            info = file.filesystem.get_file_info(file.path)
        if not info.is_file:
            raise self._changed("it is gone")
        if int(info.size or 0) != listed.size:
            raise self._changed(f"it has {info.size} bytes instead of {listed.size}")
        if not self._is_same(info, version):
            raise self._changed("it was written again")

    def check_batch(self) -> None:
        """Reject a batch in which there may be bytes of another file than the plan's."""
        if self._is_local:
            self.check_end()

    def check_end(self) -> None:
        """Reject what was read where the file is another one by now."""
        if self._storage is not None:
            return  # each request has checked it
        info = self.file.filesystem.get_file_info(self.file.path)
        if info.type == pafs.FileType.NotFound:
            return
        if not self._is_same(info) or (self._is_local and _inode(self.file.path) not in (self._inode, None)):
            raise self._changed(WHILE_READ)

    def _is_same(self, info: pafs.FileInfo, version: str | None = None) -> bool:
        if version is not None and self._listed.version is not None:
            return version == self._listed.version
        return is_as_listed(info, self._listed)

    def _changed(self, what: str) -> TopicError:
        return changed(self.file.shown, self.file.stream, what)


def is_as_listed(info: pafs.FileInfo, listed: FileEntry) -> bool:
    """Return whether a file has the size of a listing, and its time of change where the storage tells one."""
    same_time = listed.mtime is None or info.mtime_ns is None or int(info.mtime_ns) == listed.mtime
    return same_time and int(info.size or 0) == listed.size


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


@contextmanager
def unchanged(root: Location, file: InputFile, listed: FileEntry, format_name: str) -> Iterator[UnchangedFile]:
    """Let a file be read inside of the ``with``, which ends with an error where the plan's file is not there all along.

    What reading raises becomes our errors; a file that only seems damaged since somebody writes it is no damaged one.
    """
    with reading(file, format_name):
        watched = UnchangedFile(root, file, listed)
        try:
            yield watched
        except (SamzaError, OSError, pa.ArrowException, EOFError, ValueError, MemoryError) as error:
            if not (isinstance(error, OSError) and is_of_storage(error)):
                watched.check_end()
            raise
        watched.check_end()
