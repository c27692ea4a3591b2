"""Aligned columns for terminals and pipes alike, and messages as JSON lines."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from airflow_samza.cli.terminal import width_of
from airflow_samza.columns import aligned


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
