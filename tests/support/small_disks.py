"""Small disks of their own, where the user who runs the tests may mount one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[bool]:
    """Mount a disk of that size on a folder; give whether that was possible."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def filled(place: Path, free: int) -> Iterator[None]:
    """Fill a disk up to some free bytes."""
    room = os.statvfs(place)
    filler = place / "filler"
    filler.write_bytes(b"x" * max(room.f_bavail * room.f_frsize - free, 0))
    yield
    filler.unlink()
