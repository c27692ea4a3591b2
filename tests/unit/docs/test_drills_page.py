"""The page "What failed?" quotes texts that the package has."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documentation_pages import text_of
from tests.support.syntax_trees import parsed

PACKAGE = Path(__file__).parents[3] / "airflow_samza"
OF_OTHERS = {"database is locked", "OutOfMemoryError"}
"""Texts of SQLite and of Java."""


def quoted() -> list[str]:
    """Return what the first cells of the page's tables quote of logs; commands and names are not among it."""
    cells = re.findall(r"^\| (.*?) \| ", text_of("operate/drills.md"), flags=re.MULTILINE)
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return [span for span in spans if " " in span and not span.startswith("airflow-samza")]


def texts() -> Iterator[str]:
    """Yield the errors that a page lists word for word, and texts in the code, with ``…`` for a value."""
    yield text_of("reference/errors.md")
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"%(?:s|\.0f)", "…", node.value)


@pytest.fixture(scope="module")
def known() -> str:
    return "\n".join(dict.fromkeys(text for text in texts() if " " in text))


@pytest.mark.parametrize("quote", sorted(set(quoted()) - OF_OTHERS))
def test_a_text_of_the_log_is_one_of_the_package(quote: str, known: str) -> None:
    words = re.sub(r"\b[A-Z]{3,}\b|\d+ s\b", "…", quote).split("…")
    assert re.search("[^\n]*?".join(map(re.escape, words)), known)


def test_the_page_quotes_many() -> None:
    assert len(quoted()) > 20
