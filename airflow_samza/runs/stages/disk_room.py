"""Room on the disks that a stage needs, as whoever waits for it can see: a full disk looks like a frozen runner.

A runner whose disk is full can write neither that it lives nor why its stage failed. So its silence is explained by a
look at the disks themselves, of the root and of the folder for temporary files. The launcher and the heartbeat of a
runner look.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

from airflow_samza.errors import StorageFull
from airflow_samza.figures import size
from airflow_samza.systems.filesystems.filesystem import Filesystem

SILENT_SECONDS = 5.0
"""Seconds after which a silence is worth a look at the disks, and after which a runner gives up on a full one.

Signs of life come every second; whoever waits looks every few seconds, and says within ten why nothing happens.
"""

LEAST_BYTES = 1 << 20
"""A disk with less is full: no epoch can be staged in it, and some filesystems never fill up to the last byte."""


def full_disk(files: Filesystem, *, is_here: bool, why: str = "") -> StorageFull | None:
    """Return the error of the disk that is full; None when there is room, or that cannot be seen from here.

    ``is_here``: the work is done on this host, so the disk of its folder for temporary files counts, too. ``why`` is
    what has been noticed, as the rest of the sentence.
    """
    for what, path, hint in _places(files, is_here=is_here):
        free = _free_bytes(path)
        if free is not None and free < LEAST_BYTES:
            return StorageFull(
                f"The disk of {what} {path} is full ({size(free)} free){why}.",
                hint=f"{hint}, then try again.",
                path=path,
                free=free,
            )
    return None


def _places(files: Filesystem, *, is_here: bool) -> Iterator[tuple[str, str, str]]:
    root = files.local_path("")
    if root is not None:
        yield "the root", root, "Free space under the root (airflow-samza gc), or point the root at a larger disk"
    if is_here:
        try:
            folder = tempfile.gettempdir()
        except OSError:  # there is none, which is said elsewhere
            return
        yield "the folder for temporary files", folder, "Free space there, or set TMPDIR to a folder with more room"


def _free_bytes(path: str) -> int | None:
    """Return the bytes that this user may still write; 0 where no file can be made. None: it cannot be seen."""
    try:
        stats = os.statvfs(path)
    except OSError:
        return None
    if not stats.f_blocks:  # some network filesystems do not say
        return None
    is_root = os.geteuid() == 0
    if stats.f_files and not (stats.f_ffree if is_root else stats.f_favail):
        return 0
    return (stats.f_bfree if is_root else stats.f_bavail) * stats.f_frsize
