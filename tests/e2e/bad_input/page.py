"""docs/reference/errors.md as data.

Rows that tests provoke, cells that are compared with what was raised, and how they are written anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.bad_input.scene import Scene

PAGE = Path(__file__).parents[3] / "docs" / "reference/errors.md"
COLUMNS = "| what went wrong | raised | the error | what to do |\n|---|---|---|---|"
HINT = "\n  Hint: "


@dataclass(frozen=True)
class Row:
    """One way to go wrong. ``what`` names it on the page; ``provoke`` returns the text of the error, sentence and hint.

    Rows without it are provoked together, by one Spark.
    """

    section: str
    what: str
    when: str
    provoke: Callable[[Scene], str] | None

    def cells(self, text: str) -> str:
        """The row as the page has it."""
        several = " conflicts:\n" in text  # each has a hint of its own
        sentence, _, hint = (text, "", "") if several else text.rpartition(HINT)
        return f"| {_escaped(self.what)} | {self.when} | {_code(sentence)} | {_code(hint) or 'as each conflict says'} |"


ROWS: list[Row] = []


def row(section: str, what: str, when: str) -> Callable[[Callable[[Scene], str]], Callable[[Scene], str]]:
    """Enters a function that provokes an error as a row of the page."""

    def enter(provoke: Callable[[Scene], str]) -> Callable[[Scene], str]:
        assert all(known.what != what for known in ROWS), what
        ROWS.append(Row(section, what, when, provoke))
        return provoke

    return enter


def normalised(text: str, folder: Path) -> str:
    """The text with the test's folder left out, and what differs from run to run as dots."""
    text = text.replace(str(folder.resolve()), "").replace(str(folder), "")
    text = re.sub(r"\b\d\d:\d\d:\d\d UTC", "12:00:00 UTC", text)
    text = re.sub(r"(?<= \()2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\+00:00(?=\))", "2026-01-05 12:00:00+00:00", text)
    text = re.sub(r"\b[0-9a-f]{32}(-[0-9a-f]{8})?\b", "…", text)
    return re.sub(r"\bfingerprint [0-9a-f]{12,}", "fingerprint …", text)


def shown(what: str) -> str | None:
    """The line of the page for a row; None when it has none."""
    start = f"| {_escaped(what)} |"
    return next((line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(start)), None)


def table_rows() -> list[str]:
    """The first cells of all tables of the page, as the rows name themselves."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    return [
        re.split(r"(?<!\\) \| ", line)[0][2:].replace("\\|", "|") for line in lines if line not in COLUMNS.splitlines()
    ]


def write(row: Row, line: str) -> None:
    """Puts the line into the row's table, in the order of the rows; the page's other text stays."""
    page = PAGE.read_text(encoding="utf-8")
    marks = f"<!-- rows: {row.section} -->\n", f"<!-- end of rows: {row.section} -->"
    before, rest = page.split(marks[0])
    _, after = rest.split(marks[1])
    names = [known.what for known in ROWS if known.section == row.section]
    lines = {name: known for name in names if (known := shown(name)) is not None}
    lines[row.what] = line
    body = "\n".join([COLUMNS, *(lines[name] for name in names if name in lines)])
    PAGE.write_text(f"{before}{marks[0]}\n{body}\n\n{marks[1]}{after}", encoding="utf-8")


def compare(row: Row, text: str) -> None:
    """Sees that the page says what was raised, with a hint; ``WRITE_ERRORS_PAGE`` writes it anew instead."""
    line = row.cells(text)
    if os.environ.get("WRITE_ERRORS_PAGE"):
        write(row, line)
    assert shown(row.what) == line
    assert HINT in text


def _code(text: str) -> str:
    """Lines of code in one cell; what stands before a line (numbers, hints) is kept by no-break spaces."""
    return "<br>".join(
        f"`` {_escaped(line)} ``" if "`" in line else f"`{_escaped(line)}`" for line in text.splitlines()
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
