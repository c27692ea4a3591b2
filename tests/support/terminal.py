"""A pseudo-terminal for tests: what a program writes to it is kept, and may be seen as text or with its control codes."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

VARIABLES = ("CI", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""The variables by which an environment says what its terminal can do."""


class Terminal:
    """A terminal of so many columns; ``stream`` writes to it."""

    def __init__(self, columns: int) -> None:
        self._leader, follower = pty.openpty()
        fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream: TextIO = os.fdopen(follower, "w", encoding="utf-8")
        self._read = b""
        self._reader = threading.Thread(target=self._keep, daemon=True)
        self._reader.start()

    def _keep(self) -> None:
        with suppress(OSError):  # nobody has the other side open any more
            while data := os.read(self._leader, 65536):
                self._read += data

    def close(self) -> None:
        """Close it; all that was written has been read then."""
        self.stream.close()
        self._reader.join(10)
        os.close(self._leader)

    @property
    def raw(self) -> str:
        """The output, with control codes."""
        return self._read.decode()

    @property
    def text(self) -> str:
        """The output, line by line, without control codes."""
        return CODES.sub("", self.raw).replace("\r\n", "\n")


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, columns: int = 80) -> Iterator[Terminal]:
    """Yield a terminal whose environment says nothing but what it is."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    made = Terminal(columns)
    try:
        yield made
    finally:
        made.close()
