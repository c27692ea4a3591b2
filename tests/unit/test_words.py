"""Docstrings begin with a verb phrase or a noun, and words that newcomers cannot guess are retired."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_samza"
FOLDERS = ("airflow_samza", "benchmarks", "dags", "demo", "docs", "scripts", "tests")

QUESTION = re.compile(r"(?:What|Whether|Where|Who|How|Which|When|Why)\b")
RETIRED = re.compile(r"\b(?:at_hand|not_here|waits_for_news|telling_line|hindrance\w*)\b", re.IGNORECASE)
REPLACED = re.compile(r"refus|\bmend(?:s|ed|ing)?\b", re.IGNORECASE)
"""Words of which the field has others, reject and fix; "connection refused" is the operating system's own text."""
SYSTEMS_TEXT = re.compile(r"connection ?refused", re.IGNORECASE)


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (REPOSITORY / folder).rglob("*.py") if "node_modules" not in path.parts)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Those of modules, classes and functions, and the texts below constants and attributes."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        owners = [
            node if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else None
        ]
        for owner, text in zip([*owners, *body], body, strict=False):
            match owner, text:
                case (
                    ast.Module()
                    | ast.ClassDef()
                    | ast.FunctionDef()
                    | ast.AsyncFunctionDef()
                    | ast.Assign()
                    | ast.AnnAssign(),
                    ast.Expr(value=ast.Constant(value=str(said))),
                ):
                    yield text.lineno, said.strip()


def test_no_docstring_begins_with_a_question() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}: {text.splitlines()[0]}"
        for path in sources(*FOLDERS)
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if QUESTION.match(text)
    ]
    assert not found, "\n".join(found)


def test_retired_words_are_gone() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()}"
        for path in sources(PACKAGE.name)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if RETIRED.search(line)
    ]
    assert not found, "\n".join(found)


def test_the_fields_words_stand_wherever_people_read() -> None:
    pages = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")]
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:200]}"
        for path in (*pages, *sources(*FOLDERS))
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if REPLACED.search(SYSTEMS_TEXT.sub("", line))
    ]
    assert not found, "\n".join(found)
