"""Folders of RocksDB stores on a host: versions that do not change, and the clones that attempts work on.

``<lineage>/<version>`` is what a task's store held when it was kept (hard links, so a version costs what has changed
since the one before); ``<lineage>/work-…`` is a clone that one process writes. The truth is the snapshot under the
root: a version that is gone, damaged or of another format is made again of that, so everything here may be deleted at
any time.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import uuid
from dataclasses import dataclass

from airflow_samza.storage.host_files import (
    CHECKED,
    Described,
    are_checked,
    described,
    note_checked,
    of_another_version,
    remove_at_once,
)

logger = logging.getLogger(__name__)

FORMAT = 2
"""Of keys and values: raised whenever a former version of this package wrote them in another way."""

_RECORD = "store.json"
_NEVER_CHANGES = (".sst", ".blob")
_KEPT = 3
"""Versions: the newest, that of an attempt beside it, and the one from which a retry of the last epoch goes on."""
_OLD_SECONDS = 86_400.0
"""Seconds after which a folder that no task has come back to is deleted: a day."""
_WORK_SECONDS = 3600.0
_DISCARDED = ".gone-"


@dataclass(frozen=True)
class RocksFolder:
    """The stores below ``folder``; a lineage is one store of one task."""

    folder: str

    def version(self, lineage: str, version: str) -> str | None:
        """Return the path of a version that is here, in a form that this package reads; else None."""
        path = os.path.join(self.folder, lineage, version)
        if not os.path.isdir(path):
            return None
        wrong = _wrong(path)
        if wrong is not None:
            logger.warning("The local store %s %s. It is built again.", path, wrong)
            self.discard(path)
            return None
        return path

    def new_work(self, lineage: str) -> str:
        """Return a path for a clone of one attempt; nothing is there yet."""
        return os.path.join(self.folder, lineage, f"work-{os.getpid()}-{uuid.uuid4().hex[:12]}")

    def clone(self, version: str, work: str) -> None:
        """Make a working folder of a version: hard links of what never changes, copies of the rest."""
        os.makedirs(work)
        for entry in os.scandir(version):
            if entry.name.endswith(_NEVER_CHANGES):
                os.link(entry.path, os.path.join(work, entry.name))
            elif entry.name not in (_RECORD, CHECKED, "LOCK") and not entry.name.startswith("LOG"):
                shutil.copyfile(entry.path, os.path.join(work, entry.name))

    def adopt(self, checkpoint: str, lineage: str, version: str) -> None:
        """Make a version of a finished checkpoint; of a lineage the newest ones stay."""
        files = _files(checkpoint)
        with open(os.path.join(checkpoint, _RECORD), "w", encoding="utf-8") as file:
            json.dump({"format": FORMAT, "files": files}, file)
        note_checked(checkpoint, files)
        os.rename(checkpoint, os.path.join(self.folder, lineage, version))
        self.sweep(lineage)

    def discard(self, path: str) -> None:
        """Remove a version or a clone."""
        remove_at_once(path, _DISCARDED)

    def sweep(self, lineage: str) -> None:
        """Remove older versions of a lineage, what dead processes left, and lineages that no task has come back to."""
        now, place = time.time(), os.path.join(self.folder, lineage)
        folders = [(entry, _used(entry)) for entry in os.scandir(place)]
        versions = [(entry, used) for entry, used in folders if _is_version(entry.name)]
        for entry, _ in sorted(versions, key=lambda pair: -pair[1])[_KEPT:]:
            self.discard(entry.path)
        for entry, used in folders:
            if not _is_version(entry.name) and now - used > _WORK_SECONDS and not _is_at_work(entry.name):
                shutil.rmtree(entry.path, ignore_errors=True)
        for entry in os.scandir(self.folder):
            if (
                entry.name != lineage
                and now - _used(entry) > _OLD_SECONDS
                and not any(map(_is_at_work, _names(entry.path)))
            ):
                self.discard(entry.path)


def _files(path: str) -> dict[str, Described]:
    """Return the files of a folder that never change."""
    return {entry.name: described(entry.path) for entry in os.scandir(path) if entry.name.endswith(_NEVER_CHANGES)}


def _wrong(path: str) -> str | None:
    """Return the reason why a version cannot be used; None when there is none."""
    try:
        with open(os.path.join(path, _RECORD), encoding="utf-8") as file:
            record = json.load(file)
        if record["format"] != FORMAT:
            return of_another_version(record["format"], FORMAT)
        are_checked(path, record["files"])  # then no file is read
        files = _files(path)
        changed = sorted(
            name for name in record["files"].keys() | files.keys() if record["files"].get(name) != files.get(name)
        )
        if changed:
            return f"is damaged: {', '.join(changed)} is not what was written"
        note_checked(path, files)
        os.utime(path)  # it is in use; a sweep may have taken it at this moment
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"is damaged: {_RECORD} cannot be read ({error})"


def _is_version(name: str) -> bool:
    return not name.startswith(("work-", "keep-")) and _DISCARDED not in name


def _is_at_work(name: str) -> bool:
    """Return whether the process that a folder is named after is there.

    Those of other containers cannot be asked: only old ones are.
    """
    process = name.split("-")[1] if name.startswith(("work-", "keep-")) else ""
    return process.isdigit() and os.path.exists(f"/proc/{process}")


def _used(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
