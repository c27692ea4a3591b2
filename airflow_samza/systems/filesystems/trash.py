"""Deletion of folders that readers never see half of, where a folder is renamed in one step.

It is renamed into the trash, at once and as a whole, and deleted there.

A process that dies in between leaves it there for the next sweep. The name of a place in the trash begins with the time
when it was made, so that a sweep leaves alone what another one has just put there and may give back. The trash itself
stays: on a full disk no folder can be made, and a rename into one that is there needs no room. Sweeps of runs and
topics delete by it.
"""

from __future__ import annotations

import time
import uuid
from contextlib import suppress

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import Filesystem

TRASH = "trash"

YOUNG_SECONDS = 600.0
"""Seconds for which what lies there, or is being deleted in its place, is its deleter's; then that one has stopped."""


def trash_place() -> str:
    """Return a new place in the trash."""
    return f"{TRASH}/{int(time.time() * 1000):020d}-{uuid.uuid4().hex}"


def make_trash(filesystem: Filesystem) -> None:
    """Make the folder of the trash, where folders are renamed; it is not needed before something is deleted."""
    if filesystem.renames_folders:
        with suppress(TopicError):
            filesystem.make_dirs(TRASH)


def move_to_trash(filesystem: Filesystem, path: str, place: str | None = None) -> str | None:
    """Move a folder or file out of sight; its place in the trash, or None when it is not there (any more)."""
    place = trash_place() if place is None else place
    if not filesystem.exists(path):
        return None
    try:
        filesystem.rename(path, place)
    except FileNotFoundError:
        return None
    except TopicError:
        if filesystem.exists(path):
            raise
        return None
    return place


def _names(filesystem: Filesystem) -> list[str]:
    try:
        return filesystem.list(TRASH)
    except TopicError as error:
        if not error.facts.get("link"):
            raise
        filesystem.delete(TRASH)  # the link alone: what it leads to is not the trash
        return []


def empty_trash(filesystem: Filesystem, now: float | None = None) -> int:
    """Delete what processes have left there; return the number of places."""
    if not filesystem.renames_folders:
        return 0
    now = time.time() if now is None else now
    emptied = 0
    for name in _names(filesystem):
        stamp = name.partition("-")[0]
        if len(stamp) == 20 and stamp.isdigit() and int(stamp) / 1000 > now - YOUNG_SECONDS:
            continue
        filesystem.delete_tree(f"{TRASH}/{name}")
        emptied += 1
    return emptied
