"""Checks of a block of lines before Arrow's JSON parser sees it.

That parser takes more than lines of objects: several values on a line, one over several lines, ``null`` for an object,
bytes that are no UTF-8. It dies of a signal when the first value of a block is ``null``, and, looking for types, of too
many values inside of one another. Whether a line is read may not depend on the parser, so everything that Python's
parser would reject goes to that one. The format of lines and the serde ``json`` check by it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

DEEPEST = 500
"""Arrays and objects inside of one another that are read.

Python's parser ends somewhere below a thousand, depending on its caller.
"""

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)', re.DOTALL)

_LF, _CR = 10, 13

_OPENS, _OPENS_MASK = np.uint8(ord("[")), np.uint8(0xDF)
"""The opening bracket and brace differ in one bit."""

_STEP = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1


def count_objects(data: bytes) -> int | None:
    """Return the lines of a block that are not blank, if Arrow may read it.

    When it finds as many rows, each line was one object.
    """
    body = data.strip(b" \t\r\n")
    array = np.frombuffer(body, np.uint8)
    ends = np.flatnonzero(array == _LF)
    count = len(ends) + 1
    if not _are_objects(array, ends):
        lines = [line for line in (line.strip(b" \t\r") for line in body.split(b"\n")) if line]
        if not all(line.startswith(b"{") and line.endswith(b"}") for line in lines):
            return None
        count = len(lines)
    if not is_utf8(data):
        return None
    opened = np.count_nonzero((array & _OPENS_MASK) == _OPENS)
    if opened - count >= DEEPEST and any(is_too_deep(line) for line in body.split(b"\n")):
        return None
    return count


def _are_objects(array: Any, ends: Any) -> bool:
    """Return whether each line begins and ends like an object.

    Then no value goes on over a line end, and ``null`` is no line.
    """
    if not len(array) or array[0] != ord("{") or array[-1] != ord("}"):
        return False
    last = array[ends - 1]
    if len(last) and last[0] == _CR:
        last = np.where(last == _CR, array[ends - 2], last)
    return bool((last == ord("}")).all() and (array[ends + 1] == ord("{")).all())


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are text in UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_too_deep(line: bytes) -> bool:
    """Return whether a line has more than ``DEEPEST`` arrays and objects inside of one another."""
    if len(line) <= DEEPEST or line.count(b"{") + line.count(b"[") <= DEEPEST:
        return False
    steps = _STEP[np.frombuffer(_STRING.sub(b"", line), np.uint8)]
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > DEEPEST)
