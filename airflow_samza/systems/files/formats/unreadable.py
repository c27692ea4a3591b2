"""A record that cannot be read: its text, and the reason."""

from __future__ import annotations

from typing import NamedTuple

_LONGEST = 1 << 20
"""Bytes of a record that are kept: a quote that is never closed makes the rest of a file one record."""


class Unreadable(NamedTuple):
    """Record that cannot be read: its text, and the reason."""

    text: str
    error: str


def as_text(data: bytes) -> str:
    """Return a record's bytes as text without its line end, cut when it is long; other bytes than UTF-8 are escaped."""
    return data[:_LONGEST].rstrip(b"\r\n").decode(errors="backslashreplace")
