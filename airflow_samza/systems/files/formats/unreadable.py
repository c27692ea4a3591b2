"""A record that cannot be read: its text, and the reason."""

from __future__ import annotations

from typing import NamedTuple

_LONGEST = 1 << 20
"""Bytes of a record that are kept: a quote that is never closed makes the rest of a file one record."""


class Unreadable(NamedTuple):
    """One record: its text, and why it cannot be read."""

    text: str
    error: str


def as_text(data: bytes) -> str:
    """Return a record's bytes as text without its line end, cut when it is very long, and bytes that are no UTF-8 escaped."""
    return data[:_LONGEST].rstrip(b"\r\n").decode(errors="backslashreplace")
