"""Local files and directories that survive a power cut: they are synced before a record names them.

Other filesystems decide that themselves: an object store and HDFS have a file when its writer has closed it. Outputs of
files and of tables write by it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pyarrow.fs as pafs

from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.location import Location


def sync_file(place: Location) -> None:
    """Wait until the disk has a file's bytes."""
    if isinstance(place.filesystem, pafs.LocalFileSystem):
        _sync(place.path)


def sync_directory(place: Location) -> None:
    """Wait until the disk has a directory's names.

    Some network filesystems have no such thing, and none is missed there.
    """
    if isinstance(place.filesystem, pafs.LocalFileSystem):
        with contextlib.suppress(OSError):
            _sync(place.path)


def make_directory(place: Location) -> None:
    """Make a directory and those above it, and sync the names of those that were not there."""
    if not isinstance(place.filesystem, pafs.LocalFileSystem):
        place.filesystem.create_dir(place.path, recursive=True)
        return
    path = Path(place.path)
    missing = [each for each in (path, *path.parents) if not os.path.isdir(each)]
    place.filesystem.create_dir(place.path, recursive=True)
    for directory in reversed(missing):
        sync_directory(place.at(str(directory.parent)))


def write_file(place: Location, content: bytes) -> None:
    """Write a file; the folder in which it lies is made if it is missing."""
    make_directory(place.parent)
    with place.filesystem.open_output_stream(place.path, compression=None) as sink:
        sink.write(content)


def delete_file(place: Location) -> None:
    """Delete a file, unless it is gone."""
    try:
        place.filesystem.delete_file(place.path)
    except OSError as error:
        if not is_missing(error) and place.filesystem.get_file_info(place.path).is_file:
            raise


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_probe(probe: Location) -> None:
    """Write a file and delete it again, to see whether its folder, which is made if it is missing, can be written."""
    write_file(probe, b"probe")
    delete_file(probe)
