"""The folder of one process among a host's temporary files: what its Java writes, with an owner by whom to sweep it.

Java's temporary files, Spark's blocks, artifacts and settings, and sockets of Python workers lie below it. It is
private, as rows lie there. A process that is killed cannot delete it, so a record in it says whose it is, and the next
process that starts Spark, ``airflow-samza gc`` and the end of a run delete what the dead have left.
Every process that starts Spark has one: stage runners, warm runners, Python workers.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from airflow_samza.errors import SamzaError
from airflow_samza.private_folder import OURS_ONLY, private_folder, scratch_folder
from airflow_samza.runs.records import liveness

_FOLDER = "p"
_OWNER = "owner.json"

STARTING_SECONDS = 60.0
"""Seconds for which a folder may be without a record of its owner."""

LONGEST_SOCKET_FOLDER = 60
"""A socket's path has at most 107 bytes, and Spark puts a name of about 45 behind the folder."""

_folders: dict[int, str] = {}
"""The folder of this process, by its id: a fork has its own."""


def own_scratch(*below: str) -> str:
    """Return the folder of this process, or one below it; each is made, is private, and goes when the process ends."""
    pid = os.getpid()
    if pid not in _folders:
        _folders[pid] = folder = _new_folder(scratch_folder(_FOLDER))
        Path(folder, _OWNER).write_text(json.dumps(liveness.identity()), encoding="utf-8")
        atexit.register(leave_scratch)
    folder = private_folder(_folders[pid])
    for name in below:
        folder = private_folder(os.path.join(folder, name))
    return folder


def own_local_dirs(named: str) -> str:
    """Return the folders for Spark's blocks: private ones, below each that is ``named`` (with commas), else our own.

    Spark makes folders there that every user of the host may read.
    """
    folders = []
    for place in filter(None, (part.strip() for part in named.split(","))):
        mine = private_folder(os.path.join(place, f"airflow-samza-{os.geteuid()}"))
        folders.append(private_folder(os.path.join(mine, os.path.basename(own_scratch()))))
        _note_place(mine)
    return ",".join(folders) or own_scratch("local")


def _new_folder(top: str) -> str:
    """Return a new private folder, of a name that is as short as paths of sockets have to be."""
    while True:
        folder = os.path.join(top, token_urlsafe(4)[:5])
        with suppress(FileExistsError):
            os.mkdir(folder, OURS_ONLY)
            return folder


def socket_folder() -> str | None:
    """Return a private folder for sockets; None where its path is too long for one."""
    folder = own_scratch()
    return folder if len(folder) <= LONGEST_SOCKET_FOLDER else None


def sweep_left_behind(*, dry: bool = False) -> list[str]:
    """Delete what dead processes of this user have left on this host, and return the paths; ``dry`` only finds them."""
    leftovers = []
    try:
        top = scratch_folder(_FOLDER)
        folders = [os.path.join(top, name) for name in sorted(os.listdir(top))]
        dead = [path for path in folders if _is_left(path)]
        used = liveness.named_by_processes([f"{path}/" for path in dead]) if dead else set()
        for path in dead:
            if f"{path}/" in used:  # by a Java whose starter has just died
                continue
            leftovers += [path, *(place for place in _local_dirs(path) if os.path.isdir(place))]
    except (SamzaError, OSError):  # nothing that anybody waits for
        return []
    for path in leftovers if not dry else ():
        shutil.rmtree(path, ignore_errors=True)
    return leftovers


def leave_scratch() -> None:
    """Delete the folder of this process, which ends; to be called where it ends at once, without Python's own end."""
    folder = _folders.pop(os.getpid(), None)
    for place in (*_local_dirs(folder), folder) if folder is not None else ():
        shutil.rmtree(place, ignore_errors=True)


def _is_left(folder: str) -> bool:
    owner = noted(os.path.join(folder, _OWNER))
    return is_abandoned(folder, owner, lambda: _is_of_earlier_boot(str(owner.get("place"))))


def is_abandoned(folder: str, owner: Mapping[str, Any], is_gone: Callable[[], bool]) -> bool:
    """Return whether the owner of a folder is gone for good; without one nobody was noted in time.

    ``is_gone`` says it of an owner of another container, or boot.
    """
    if owner:
        exists = liveness.process_is_there(owner)
        return exists is False or (exists is None and is_gone())
    with suppress(OSError):
        return time.time() - os.stat(folder).st_mtime > STARTING_SECONDS
    return False


def _is_of_earlier_boot(place: str) -> bool:
    """Return whether a place is this host's before its last start; containers that share a folder share a boot."""
    (host, boot), (mine, now) = (part.split("/")[:2] for part in (f"{place}/", f"{liveness.place()}/"))
    return host == mine and bool(boot) and boot != now


def noted(path: str) -> dict[str, Any]:
    """Return what a process has noted of itself in a file; empty before it has."""
    with suppress(OSError, ValueError):
        about = json.loads(Path(path).read_text(encoding="utf-8"))
        return about if isinstance(about, dict) else {}
    return {}


def _note_place(place: str) -> None:
    """Note beside the owner that a folder of this process lies in a place that a setting names, too."""
    noted = os.path.join(own_scratch(), "elsewhere")
    with open(noted, "a", encoding="utf-8") as file:
        file.write(f"{place}\n")


def _local_dirs(folder: str) -> list[str]:
    with suppress(OSError), open(os.path.join(folder, "elsewhere"), encoding="utf-8") as file:
        return sorted({os.path.join(line.strip(), os.path.basename(folder)) for line in file if line.strip()})
    return []
