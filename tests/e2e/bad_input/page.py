"""docs/reference/errors.md as data.

Rows that tests provoke, entries that are compared with what was raised, and how they are written anew.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.bad_input.scene import Scene

PAGE = Path(__file__).parents[3] / "docs" / "reference/errors.md"
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

    def entry(self, text: str) -> str:
        """The entry as the page has it: cause, sentence, remedy, and when it is raised."""
        several = " conflicts:\n" in text  # each has a hint of its own
        sentence, _, hint = (text, "", "") if several else text.rpartition(HINT)
        remedy = _code(hint) or "as each conflict says"
        return f"### {self.what}\n\n{_code(sentence)}\n\n**What to do:** {remedy}\n\nRaised {self.when}."


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


ENTRY = re.compile(r"^### (.+)\n\n(?s:.+?)(?=\n\n(?:###? |<!-- )|\n*\Z)", re.MULTILINE)


def entries() -> dict[str, str]:
    """The entries of errors on the page, by what went wrong; those of rules are no part of it."""
    text = PAGE.read_text(encoding="utf-8").partition("\n## Rules\n")[0]
    return {found[1]: found[0] for found in ENTRY.finditer(text)}


def shown(what: str) -> str | None:
    """The entry of the page for a row; None when it has none."""
    return entries().get(what)


def write(row: Row, entry: str) -> None:
    """Puts the entry into the row's section, in the order of the rows; the page's other text stays."""
    page = PAGE.read_text(encoding="utf-8")
    marks = f"<!-- rows: {row.section} -->\n", f"<!-- end of rows: {row.section} -->"
    before, rest = page.split(marks[0])
    _, after = rest.split(marks[1])
    names = [known.what for known in ROWS if known.section == row.section]
    known = {**entries(), row.what: entry}
    body = "\n\n".join(known[name] for name in names if name in known)
    PAGE.write_text(f"{before}{marks[0]}\n{body}\n\n{marks[1]}{after}", encoding="utf-8")


def compare(row: Row, text: str) -> None:
    """Sees that the page says what was raised, with a hint; ``WRITE_ERRORS_PAGE`` writes it anew instead."""
    entry = row.entry(text)
    if os.environ.get("WRITE_ERRORS_PAGE"):
        write(row, entry)
    assert shown(row.what) == entry
    assert HINT in text


def _code(text: str) -> str:
    """Lines of code; what stands before a line (numbers, hints) is kept by no-break spaces."""
    return "<br>\n".join(f"`` {line} ``" if "`" in line else f"`{line}`" for line in text.splitlines())
