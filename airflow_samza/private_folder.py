"""Folders on a host's own disk that nobody but their owner may enter: for what is loaded, run or believed later.

A folder for temporary files is shared by all users of a machine. Whoever makes a folder of a known name there first
owns it, and could plant state, code or settings; so each is looked at every time that it is used. So is a file that was
found, not named: :func:`planted_by` says who else could have written it. Every process that keeps such things makes its
folder here: launchers, runners, warm runners, stores of hosts.
"""

from __future__ import annotations

import errno
import getpass
import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Callable
from typing import Any

from airflow_samza.errors import ConfigError

OURS_ONLY = 0o700

_LINKS = 40
"""Links that are followed from one to the next; the kernel has the same limit."""


def scratch_folder(*below: str) -> str:
    """Return the folder of this user among those for temporary files, or one below it; each is made, and is private."""
    top, name = tempfile.gettempdir(), f"airflow-samza-{os.geteuid()}"
    if f"{os.sep}{name}{os.sep}" in top:  # while Java starts, this process's temporary files go below it already
        top = top.partition(f"{os.sep}{name}{os.sep}")[0]
    folder = private_folder(os.path.join(top, name))
    for name in below:
        folder = private_folder(os.path.join(folder, name))
    return folder


def private_folder(path: str) -> str:
    """Return the folder at a path, made if it is missing: it is ours, no link, and of mode 0700.

    Raises:
        ConfigError: It is a link or a file, belongs to another user, or others could write into it until now.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        os.mkdir(path, OURS_ONLY)
    except FileExistsError:
        pass
    else:
        return path
    status = os.lstat(path)
    _reject_others(path, status, {os.geteuid()})
    if stat.S_IMODE(status.st_mode) & 0o077:  # made before this rule was: nobody else could write there
        os.chmod(path, OURS_ONLY)
    return path


def named_folder(path: str, *, may_be_roots: bool = False) -> str:
    """Return a folder that a setting names, made private if it is missing.

    One that is there stays as it is, and may be read by others, but not written; a link to it is followed.
    ``may_be_roots``: it may belong to root, who can write anywhere.

    Raises:
        ConfigError: It is no folder, belongs to another user, or others may write into it.
    """
    if not os.path.lexists(path):
        return private_folder(path)
    _reject_others(path, os.stat(path), {os.geteuid(), 0} if may_be_roots else {os.geteuid()})
    return path


def planted_by(path: str) -> str | None:
    """Return why a file at an absolute path could have been planted by somebody else, as the rest of a sentence.

    None: only this user and root can have put it there. A link is followed, and every file and folder on the way is
    looked at. A folder that others may write, but where nobody replaces another one's files (the sticky bit), is fine.

    Raises:
        OSError: It is not there, or cannot be looked at.
    """
    for _ in range(_LINKS):
        folder = os.path.realpath(os.path.dirname(path))
        for place, status in ((path, os.lstat(path)), (folder, os.stat(folder))):
            why = _foreign(status)
            if why is not None:
                return why if place == path else f"lies in {folder}, which {why}"
        if not os.path.islink(path):
            return None
        path = os.path.join(folder, os.readlink(path))
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def user_name() -> str | None:
    """Return the name of the user of this process; None where the host knows none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _reject_others(path: str, status: os.stat_result, owners: set[int]) -> None:
    if not stat.S_ISDIR(status.st_mode):
        why = "is a link" if stat.S_ISLNK(status.st_mode) else "is no folder"
    elif status.st_uid not in owners:
        why = "belongs to another user"
    elif status.st_mode & 0o022:
        why = "can be written by others"
    else:
        return
    raise ConfigError(
        f"The folder {path} {why}: what lies there could have been planted, and is not used.",
        hint="Look at it and delete it, or name a folder of your own (TMPDIR, or the setting that names this one).",
        key="folder",
        value=path,
    )


def _foreign(status: os.stat_result) -> str | None:
    """Return why somebody who is neither this user nor root may write a file, or names in a folder."""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to the user {_name_of(pwd.getpwuid, status.st_uid)}"
    shared = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX)
    if not shared and status.st_mode & stat.S_IWOTH:
        return "may be written by everybody"
    if not shared and status.st_mode & stat.S_IWGRP and not _is_own_group(status.st_gid):
        return f"may be written by the group {_name_of(grp.getgrgid, status.st_gid)}"
    return None


def _is_own_group(gid: int) -> bool:
    """Return whether a group has nobody but this user or root: where each user has one, files are often its group's."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return group.gr_name in (user.pw_name, "root") and set(group.gr_mem) <= {user.pw_name, "root"}


def _name_of(entry: Callable[[int], Any], number: int) -> str:
    """Return the name of a user or a group, with which its entry begins; its number where the host has none."""
    try:
        return str(entry(number)[0])
    except KeyError:
        return str(number)
