"""Folders on a host's own disk that nobody but their owner may enter: for what is loaded, run or believed later.

A folder for temporary files is shared by all users of a machine. Whoever makes a folder of a known name there first
owns it, and could plant state, code or settings; so each is looked at every time that it is used.
"""

from __future__ import annotations

import getpass
import os
import stat
import tempfile

from airflow_samza.errors import ConfigError

OURS_ONLY = 0o700


def scratch_folder(*below: str) -> str:
    """Return the folder of this user among those for temporary files, or one below it; each is made, and is private."""
    folder = private_folder(os.path.join(tempfile.gettempdir(), f"airflow-samza-{_user()}"))
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
    found = os.lstat(path)
    _reject_others(path, found, _owners())
    if stat.S_IMODE(found.st_mode) & 0o077:  # made before this rule was: nobody else could write there
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
    _reject_others(path, os.stat(path), _owners() | ({0} if may_be_roots else set()))
    return path


def is_ours_alone(path: str, *, may_be_roots: bool = False) -> bool:
    """Return whether a file is no link, ours (or root's), and written by nobody else."""
    found = os.lstat(path)
    owners = _owners() | ({0} if may_be_roots else set())
    return stat.S_ISREG(found.st_mode) and (not owners or found.st_uid in owners) and not found.st_mode & 0o022


def user_name() -> str | None:
    """Return the name of the user of this process; None where the host knows none, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return None


def _reject_others(path: str, found: os.stat_result, owners: set[int]) -> None:
    if not stat.S_ISDIR(found.st_mode):
        why = "is a link" if stat.S_ISLNK(found.st_mode) else "is no folder"
    elif owners and found.st_uid not in owners:
        why = "belongs to another user"
    elif owners and found.st_mode & 0o022:
        why = "can be written by others"
    else:
        return
    raise ConfigError(
        f"The folder {path} {why}: what lies there could have been planted, and is not used.",
        hint="Look at it and delete it, or name a folder of your own (TMPDIR, or the setting that names this one).",
        key="folder",
        value=path,
    )


def _owners() -> set[int]:
    """Us; empty on a system without users of this kind."""
    return {os.geteuid()} if hasattr(os, "geteuid") else set()


def _user() -> str:
    return str(os.geteuid()) if hasattr(os, "geteuid") else "user"
