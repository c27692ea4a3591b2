"""Removal of folders of a host that other processes look for."""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid


def remove_at_once(path: str, mark: str) -> None:
    """Remove a folder, its name first, so that whoever looks for it finds all of it or nothing.

    Until its files are deleted it has a name with ``mark`` in it, by which a sweep knows what a dead process left.
    """
    gone = f"{path}{mark}{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):  # somebody else has removed it
        os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
