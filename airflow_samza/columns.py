"""Rows as lines of equal columns, for pipes of any width and for terminals of one; long lines folded for these.

The command line, the text of plans and the failures that Airflow's log shows lay out their rows by it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence

_COMMAND_LINE = re.compile(r"\s*(?:Next|More|Example): ")
"""A line with a command or an address, which people copy: it is not folded, so that no line break is in the copy."""

_COMMAND = re.compile(r"\bairflow(?:-samza)? [a-z].*?(?=[;,)]|\.?\s*$|\.\s)")
"""A command within a sentence; it ends at a punctuation mark."""

_HELD = "\ufffc"
"""Stands for a space at which no line is broken."""


def aligned(
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    *,
    margin: str = "",
    further: str = "  ",
    right: Collection[int] = (),
    least: Sequence[int] = (),
) -> list[str]:
    r"""Return the text of each row, its columns as wide as their longest cell, those in ``right`` to the right.

    Columns for which a line of ``width`` has no room are on further lines of their row, behind ``margin`` and
    ``further``; nothing is cut. Columns without any text are left out. ``least`` are least widths of the first columns.

    >>> print("\n".join(aligned([["views", "2 partitions", "declared"], ["out", "1 partition"]])))
    views  2 partitions  declared
    out    1 partition
    >>> print("\n".join(aligned([["views", "2 partitions", "declared"], ["out", "1 partition"]], 20)))
    views  2 partitions
      declared
    out    1 partition
    """
    cells = max(map(len, rows), default=0)
    widths = [max((len(row[place]) for row in rows if place < len(row)), default=0) for place in range(cells)]
    shown = [place for place, longest in enumerate(widths) if longest]
    widths = [
        max([longest, *least[place : place + 1]]) if place in shown else 0 for place, longest in enumerate(widths)
    ]
    lines: list[list[int]] = [[]]
    used = len(margin)
    for place in shown:
        needed = widths[place] + (2 if lines[-1] else 0)
        if width is not None and lines[-1] and used + needed > width:
            lines.append([])
            used, needed = len(margin) + len(further), widths[place]
        lines[-1].append(place)
        used += needed
    return ["\n".join(_lines_of(row, lines, widths, margin, further, right)) for row in rows]


def _lines_of(
    row: Sequence[str],
    lines: Sequence[Sequence[int]],
    widths: Sequence[int],
    margin: str,
    further: str,
    right: Collection[int],
) -> Iterator[str]:
    for number, places in enumerate(lines):
        cells = [
            row[place].rjust(widths[place]) if place in right else row[place].ljust(widths[place])
            for place in places
            if place < len(row)
        ]
        text = "  ".join(cells).rstrip()
        if text or not number:
            yield f"{margin}{further if number else ''}{text}".rstrip()


def folded(text: str, width: int) -> str:
    r"""Return a text whose lines are at most so wide, as far as words are; a command stays in one line.

    >>> print(folded("  Error: what cannot be read\n  Next: airflow-samza run page_views:page_views", 20))
      Error: what cannot
        be read
      Next: airflow-samza run page_views:page_views
    >>> print(folded("  Hint: Free space: airflow-samza gc --root /data, then clear it.", 24))
      Hint: Free space:
        airflow-samza gc --root /data,
        then clear it.
    """
    return "\n".join(
        line if len(line) <= width or _COMMAND_LINE.match(line) else _folded_line(line, width)
        for line in text.split("\n")
    )


def _folded_line(line: str, width: int) -> str:
    margin = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        _COMMAND.sub(lambda match: match[0].replace(" ", _HELD), line.lstrip()),
        width,
        initial_indent=margin,
        subsequent_indent=f"{margin}  ",
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    ).replace(_HELD, " ")
