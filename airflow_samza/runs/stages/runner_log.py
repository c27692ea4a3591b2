"""The log of a stage runner: its end, for the log of the task that waited for it and for the page; all of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from airflow_samza.quoting import printable
from airflow_samza.secrecy import without
from airflow_samza.systems.filesystems.filesystem import Filesystem

LINES = 40
"""Lines that a task's log gets: a failure of Spark's with its cause, and what led to it."""

LONGEST_LINE = 500
"""Characters of a line; Spark prints whole plans on one."""

FRAMES = 3
"""Frames of Java that stay of each stack; thirty of Spark's own say nothing."""

_FRAME = re.compile(r"\s+at [\w.$/]+\(")

_BYTES = 1 << 18
"""Bytes of a log's end that are read."""


@dataclass(frozen=True)
class LogEnd:
    """The end of a log of ``bytes``, in whole lines from ``from_byte`` on."""

    text: str
    bytes: int
    from_byte: int


def log_end(files: Filesystem, log: str, secrets: Iterable[object] = (), most: int = _BYTES) -> LogEnd | None:
    """Return the end of a log under the root, ``most`` bytes of it, without secrets and passwords; None: there is none.

    No more than that is read, however long the log is.
    """
    try:
        with files.open_input(log) as file:
            size = int(file.size())
            begin = max(0, size - most)
            file.seek(begin)
            data: bytes = file.read(most)
    except FileNotFoundError:
        return None
    if begin and b"\n" in data.rstrip(b"\n"):  # the first line is only a part
        line_begin = data.index(b"\n") + 1
        data, begin = data[line_begin:], begin + line_begin
    return LogEnd(without(data.decode(errors="replace"), secrets), size, begin)


def log_lines(files: Filesystem, log: str, lines: int) -> str | None:
    """Return the last lines of a log as they are, all with 0; None when there is none."""
    try:
        text = files.read(log).decode(errors="replace").rstrip("\n")
    except FileNotFoundError:
        return None
    return "\n".join(text.splitlines()[-lines:]) if lines else text


def last_lines(files: Filesystem, log: str, secrets: Iterable[object] = (), most: int = LINES) -> list[str]:
    """Return the last lines of a log under the root, without secrets and passwords; [] when there is none.

    At most ``most`` of them, of at most :data:`LONGEST_LINE` characters each.
    """
    end = log_end(files, log, secrets)
    shown = (line.rstrip() for line in end.text.splitlines()) if end is not None else ()
    return [_short(printable(line)) for line in _without_frames(shown) if line.strip()][-most:]


def _without_frames(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, of each stack of Java the first :data:`FRAMES` frames, and how many more there were."""
    frames = 0
    for line in lines:
        frames, before = frames + 1 if _FRAME.match(line) else 0, frames
        if not frames and before > FRAMES:
            yield _left_out(before)
        if frames <= FRAMES:
            yield line
    if frames > FRAMES:
        yield _left_out(frames)


def _left_out(frames: int) -> str:
    return f"\t… {frames - FRAMES} more"


def _short(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
