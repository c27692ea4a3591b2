"""The terminal that a command writes to: its width, the folding of long lines, aligned columns, and its colours.

In a pipe nothing is cut, folded or coloured; a program reads lines of JSON.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, TextIO

import typer

from airflow_samza.columns import aligned, folded

LEAST_COLUMNS = 40
"""Narrower terminals get lines of this width."""

_STATE = re.compile(r"((?:Stage|Run) [^:]+: )(running|queued|unfinished|succeeded|failed|cancelled|lost)\b")
_CELL = re.compile(r"(?<=  )(running|queued|unfinished|succeeded|failed|cancelled|lost)(?=  )")
_HEAD = re.compile(r"(\s*)(Error|Hint|Next|More)(?=: )")
COLOURS = {
    "queued": "yellow",
    "running": "cyan",
    "unfinished": "cyan",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "magenta",
    "lost": "red",
    "Error": "red",
}
"""The colours of states and of other words, by the names that Rich and Typer share."""


def width_of(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None of a pipe or a file."""
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(int(columns), LEAST_COLUMNS)
    with suppress(OSError, ValueError):
        return max(os.get_terminal_size(stream.fileno()).columns or 80, LEAST_COLUMNS)
    return 80


def is_live(stream: TextIO) -> bool:
    """Return whether lines can be drawn again on a stream: a terminal, and nobody's log of one (``CI``)."""
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown") and not os.environ.get("CI")


def say(text: str, *, err: bool = False) -> None:
    """Print a text; on a terminal long lines are folded, and states have colours unless ``NO_COLOR`` is set."""
    width = width_of(sys.stderr if err else sys.stdout)
    if width is not None:
        text = folded(text, width)
        if not os.environ.get("NO_COLOR"):
            text = "\n".join(map(_coloured, text.split("\n")))
    typer.echo(text, err=err)


def say_in_place(text: str, *, first: bool) -> None:
    """Print a text in the place of all that a terminal shows; elsewhere below the one before, after an empty line."""
    if is_live(sys.stdout):
        typer.echo("\x1b[2J\x1b[H", nl=False)
    elif not first:
        typer.echo("")
    say(text)


def _coloured(line: str) -> str:
    head = _HEAD.match(line)
    if head is not None:
        return f"{head[1]}{typer.style(head[2], fg=COLOURS.get(head[2]), bold=True)}{line[head.end() :]}"
    line = _CELL.sub(lambda found: typer.style(found[1], fg=COLOURS[found[1]]), line, count=1)
    return _STATE.sub(lambda found: found[1] + typer.style(found[2], fg=COLOURS[found[2]]), line, count=1)


def columns(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under a heading, columns aligned: numbers to the right, all else to the left.

    On a terminal empty columns are left out, and those for which it is too narrow are on further lines of their row.

    >>> print(columns(["topic", "messages"], [["a", 5], ["long-name", 12]]))
    topic      messages
    a                 5
    long-name        12
    """
    width = width_of(sys.stdout)
    cells = [[str(cell) if not isinstance(cell, int) else f"{cell:,}" for cell in row] for row in rows]
    shown = [place for place in range(len(heading)) if width is None or not rows or any(row[place] for row in cells)]
    right = [number for number, place in enumerate(shown) if rows and all(isinstance(row[place], int) for row in rows)]
    table = [[row[place] for place in shown] for row in [list(heading), *cells]]
    return "\n".join(aligned(table, width, right=right))


def say_json(values: Iterable[object]) -> None:
    """Print JSON objects, one a line."""
    for value in values:
        typer.echo(json_line(value))


def json_line(value: object) -> str:
    """Return one JSON object on one line; values without a JSON form are texts (bytes as base64)."""
    return json.dumps(value, default=_shown, ensure_ascii=False)


def moment(milliseconds: int | None) -> str:
    """Return a moment in UTC, to the second.

    >>> moment(1_767_225_600_000)
    '2026-01-01 00:00:00Z'
    """
    return (
        ""
        if milliseconds is None
        else f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%SZ}"
    )


def _shown(value: Any) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
