"""Folders below another one that are opened without following a link, in one call of the kernel."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

_OPENAT2 = 437
"""The number of Linux's call ``openat2``, one for all processors for which Python is built (Linux 5.6)."""
_NO_SYMLINKS, _BENEATH = 0x04, 0x08


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_call: ctypes._NamedFuncPointer | None = None
if sys.platform == "linux":
    _call = ctypes.CDLL(None, use_errno=True).syscall
    _call.restype = ctypes.c_long
    _call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_How), ctypes.c_size_t)

LOOK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
"""Open a directory only to go on from it: the right to enter it is enough."""

_LOOK_WITHOUT_LINKS = _How(LOOK, 0, _NO_SYMLINKS | _BENEATH)


def open_linkless(folder: int, path: str) -> int | None:
    """Open a folder below an open one, through no link; None where the kernel cannot, or rejects the path.

    The caller then goes part by part, which finds out why, and works on other systems.

    Raises:
        FileNotFoundError: If a part of the path does not exist.
    """
    if _call is None:
        return None
    how = ctypes.byref(_LOOK_WITHOUT_LINKS)
    opened = int(_call(_OPENAT2, folder, os.fsencode(path), how, ctypes.sizeof(_How)))
    if opened >= 0:
        return opened
    if ctypes.get_errno() == errno.ENOENT:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return None
