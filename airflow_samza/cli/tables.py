"""Aligned columns for terminals and pipes alike, and messages as JSON lines."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any


def columns(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows under a heading, columns aligned: numbers to the right, all else to the left.

    >>> print(columns(["topic", "messages"], [["a", 5], ["long-name", 12]]))
    topic      messages
    a                 5
    long-name        12
    """
    cells = [[str(cell) if not isinstance(cell, int) else f"{cell:,}" for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in [list(heading), *cells]) for place in range(len(heading))]
    right = [bool(rows) and all(isinstance(row[place], int) for row in rows) for place in range(len(heading))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            cell.rjust(width) if numeric else cell.ljust(width)
            for cell, width, numeric in zip(row, widths, right, strict=True)
        )

    return "\n".join(line(row).rstrip() for row in [heading, *cells])


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
