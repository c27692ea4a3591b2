"""Docstrings begin with a verb phrase or a noun, and words that newcomers cannot guess are retired."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "airflow_samza"

QUESTION = re.compile(r"(?:What|Whether|Where|Who|How|Which|When|Why)\b")
RETIRED = re.compile(
    r"\b(?:at_hand|not_here|waits_for_news|telling_line|hindrance\w*|_?refus\w*|mended)\b", re.IGNORECASE
)


def sources() -> Iterator[Path]:
    yield from sorted(PACKAGE.rglob("*.py"))


def test_no_docstring_begins_with_a_question() -> None:
    found = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if QUESTION.match(text):
                    found.append(f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}")
    assert not found, "\n".join(found)


def test_retired_words_are_gone() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in sources()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if RETIRED.search(line)
    ]
    assert not found, "\n".join(found)
