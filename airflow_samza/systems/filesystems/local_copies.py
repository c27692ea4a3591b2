"""Files of a root that programs of this machine need by path.

Spark, which ships code, and a process, which writes its log.

Where the root is a local or mounted folder they are used as they lie. Files of another root are copied to a folder that
only their owner can enter; they are named after their content, so a copy never grows old. The launcher, warm runners
and stage runners take them.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from pathlib import Path

from airflow_samza.private_folder import scratch_folder
from airflow_samza.systems.filesystems.filesystem import Filesystem

_SHOWN = 4 << 20
"""Greatest number of a log's bytes that go to the root: its end."""


def local_copy(files: Filesystem, path: str) -> str:
    """Return the path on this machine of a file that is named after its content: its own, or that of a copy."""
    copy = Path(scratch_path(files, path))
    if files.local_path(path) is None and not copy.exists():
        new = copy.with_name(f".{copy.name}-{uuid.uuid4().hex}")
        new.write_bytes(files.read(path))
        os.replace(new, copy)
    return str(copy)


def scratch_path(files: Filesystem, path: str) -> str:
    """Return a local path at which a file of the root can be written: where it lies, or a place of its own."""
    here = files.local_path(path)
    if here is not None:
        return here
    folder = scratch_folder("roots", hashlib.sha256(files.location(path).encode()).hexdigest()[:16])
    return os.path.join(folder, path.rpartition("/")[2])


def carry(files: Filesystem, written: str, path: str, before: int = -1) -> int:
    """Copy a log that was written here to the root if it has grown beyond ``before`` bytes; return its size."""
    if files.local_path(path) is not None:
        return before
    try:
        size = os.path.getsize(written)
        if size <= before:
            return before
        with open(written, "rb") as log:
            log.seek(max(0, size - _SHOWN))
            files.put(path, log.read())
    except FileNotFoundError:
        return before
    return size
