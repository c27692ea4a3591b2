"""State files on a host's own disk.

Copies of what lies under the root, so that a task that comes back to the host reads nothing from afar.

The root has the truth; whatever is missing, damaged or too old here is read there. A copy is named after its file,
which is written once and never changes, so there is nothing to invalidate. Workers read their tasks' state by it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import logging
import os
import re
import shutil
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

log = logging.getLogger("airflow_samza.storage")

UNUSED_SECONDS = 7 * 24 * 3600.0
"""Copies of a stage that was not run here for so long are deleted by the next stage that comes to the host."""


_PART = ".part"


def of_another_version(written: object, read: object) -> str:
    """Return in words that a host's files are of a format that this version does not read."""
    return f"was written in the format {written!r} by another version, and this one reads {read}"


@dataclass(frozen=True)
class HostFiles:
    """The copies of one task's state files on this host (decision 45).

    ``folder`` is the host's, ``task`` the stage's folder and a number. What is not among the newest state files is
    deleted when newer ones come (:meth:`keep_only`), so it takes about what the state takes.
    """

    folder: str
    root: str
    task: str

    @property
    def place(self) -> Path:
        """Their paths."""
        return Path(self.folder) / "state" / _named(self.root) / _named(self.task)

    def read(self, path: str, size: int, is_content: Callable[[pa.Buffer], bool]) -> pa.Buffer | None:
        """Return the content of a state file, mapped into memory.

        None where there is no copy, or a damaged one (which is then deleted).
        """
        copy = self.place / _named(path)
        try:
            with pa.memory_map(str(copy)) as mapped:
                data = mapped.read_buffer()
        except (OSError, pa.ArrowInvalid):
            return None
        if data.size != size or not is_content(data):
            log.warning("The copy %s of the state file %s is damaged: it is read from the root again.", copy, path)
            with contextlib.suppress(OSError):
                copy.unlink()
            return None
        return data

    def has(self, path: str, size: int) -> bool:
        """Return whether there is a copy of a state file, of its size."""
        try:
            return (self.place / _named(path)).stat().st_size == size
        except OSError:
            return False

    def write(self, path: str, data: pa.Buffer | bytes) -> None:
        """Leave a copy; a full or read-only disk only costs what the copy would have saved."""
        copy = self.place / _named(path)
        part = copy.with_name(f"{copy.name}.{os.getpid()}{_PART}")
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            part.write_bytes(data)
            part.rename(copy)
        except OSError as error:
            log.warning("No copy of the state file %s is left on this host: %s", path, error)
            with contextlib.suppress(OSError):
                part.unlink()

    def keep_only(self, paths: Iterable[str]) -> None:
        """Delete all copies but those of these files."""
        kept = {_named(path) for path in paths}
        with contextlib.suppress(OSError):
            for copy in self.place.iterdir():
                if copy.name not in kept and not copy.name.endswith(_PART):
                    copy.unlink(missing_ok=True)
            os.utime(self.place)


CHECKED = "checked.json"
"""Beside files that never change: which they were when somebody compared their checksums, since the system started."""

_TICK_NS = 20_000_000
"""Nanoseconds within which a file may have been written twice at what is the same time to the file system."""

Described = list[int]
"""Size and CRC-32 of a file."""

_checksums: dict[tuple[int, int, int], int] = {}
"""The checksums of files that this process has read, by inode, size and time.

Hard links of them need not be read again.
"""


def described(path: str) -> Described:
    """Return size and CRC-32 of a file."""
    with open(path, "rb") as file:
        place = _place(os.fstat(file.fileno()))
        if place not in _checksums:
            _checksums[place] = _checksum(file)
        return [place[1], _checksums[place]]


def _checksum(file: BinaryIO) -> int:
    checksum = 0
    while block := file.read(1 << 20):
        checksum = zlib.crc32(block, checksum)
    return checksum


def are_checked(folder: str, files: Mapping[str, Described]) -> bool:
    """Return whether a process of this host has compared the checksums of a folder's files as they are now.

    What a power failure took is not there: a note counts until the system starts again. Whoever writes into a file
    changes its time.
    """
    try:
        with open(os.path.join(folder, CHECKED), encoding="utf-8") as file:
            note = json.load(file)
        places = {name: _place(os.stat(os.path.join(folder, name))) for name in files}
        if note["boot"] != _boot() or note["files"] != {name: list(place) for name, place in places.items()}:
            return False
        _checksums.update((place, files[name][1]) for name, place in places.items())
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return True


def note_checked(folder: str, names: Iterable[str]) -> None:
    """Note that the checksums of a folder's files are right, for other processes; where that fails, these compare."""
    part = os.path.join(folder, f"{CHECKED}.{uuid.uuid4().hex}{_PART}")
    try:
        files = {name: _place(os.stat(os.path.join(folder, name))) for name in names}
        if not _boot() or any(time.time_ns() - written < _TICK_NS for _, _, written in files.values()):
            return
        with open(part, "w", encoding="utf-8") as file:
            json.dump({"boot": _boot(), "files": files}, file)
        os.rename(part, os.path.join(folder, CHECKED))
    except OSError:
        with contextlib.suppress(OSError):
            os.remove(part)


def _place(status: os.stat_result) -> tuple[int, int, int]:
    """Return number, bytes and time (ns since 1970) of a file, which change when it is replaced or written to."""
    return status.st_ino, status.st_size, status.st_mtime_ns


@functools.cache
def _boot() -> str:
    """Return what names the time since the system started; "" where it has no name."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def sweep_host(folder: str, now: float | None = None) -> None:
    """Delete the copies of tasks that have not come to this host for long, and unfinished copies."""
    before = (time.time() if now is None else now) - UNUSED_SECONDS
    for place in Path(folder).glob("state/*/*"):
        with contextlib.suppress(OSError):
            if place.stat().st_mtime < before:
                shutil.rmtree(place, ignore_errors=True)
                continue
            for part in place.glob(f"*{_PART}"):
                if part.stat().st_mtime < before:
                    part.unlink()


def _named(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def safe_name(text: str) -> str:
    """Return a text as a part of a file's name; a hexadecimal escape keeps different texts apart."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: f"%{ord(match[0]):x}.", text)


def remove_at_once(path: str, mark: str) -> None:
    """Remove a folder, its name first, so that whoever looks for it finds all of it or nothing.

    Until its files are deleted it has a name with ``mark`` in it, by which a sweep knows what a dead process left.
    """
    discarded = f"{path}{mark}{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):  # somebody else has removed it
        os.rename(path, discarded)
        shutil.rmtree(discarded, ignore_errors=True)
