"""Docstrings begin with a verb phrase or a noun, words that newcomers cannot guess are retired, and no text is torn."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

from tests.support.statements import statements
from tests.support.syntax_trees import parsed

REPOSITORY = Path(__file__).parents[2]
PACKAGE = REPOSITORY / "airflow_samza"
FOLDERS = ("airflow_samza", "benchmarks", "dags", "demo", "docs", "scripts", "tests")

QUESTION = re.compile(r"(?:What|Whether|Where|Who|How|Which|When|Why)\b")
QUOTED_QUESTION = re.compile(rf"[\"']\\?\s*{QUESTION.pattern}")
"""A text that may be such a docstring: only modules with one are parsed."""
RETIRED = re.compile(r"\b(?:at_hand|not_here|waits_for_news|telling_line|hindrance\w*)\b", re.IGNORECASE)
REPLACED = re.compile(r"refus|\bmend(?:s|ed|ing)?\b", re.IGNORECASE)
"""Words of which the field has others, reject and fix; "connection refused" is the operating system's own text."""
SYSTEMS_TEXT = re.compile(r"connection ?refused", re.IGNORECASE)

GAP = re.compile(r"\S {3,}\S")
LITERAL = re.compile(r"""f?(["'])(?P<text>(?:(?!\1).)*)\1[,)]*""")
"""A literal that has a line to itself; no raw one: parts of a pattern are broken where its groups end."""
ONE_WORD = re.compile(r"\s*(?!-)[^\s{}]+\s*")
"""Neither a value in its place, ``{name}``, nor an option of a command, ``-Xshare:dump``."""
SHORT_SENTENCE = re.compile(r"(?![-:*>|`=\d]|\w+:\n)(?:(?![.!?]\s).)*[.!?]", re.DOTALL)
"""A paragraph of one; no item of a list, no field (``:param``), no section (``Raises:``)."""
LONGEST_SHORT_SENTENCE = 200


def sources(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in (REPOSITORY / folder).rglob("*.py") if "node_modules" not in path.parts)


@cache
def docstrings(source: str) -> list[tuple[int, str]]:
    """Those of modules, classes and functions, and the texts below constants and attributes."""
    return list(_docstrings(parsed(source)))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in statements(tree):
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
        if QUOTED_QUESTION.search(source := path.read_text(encoding="utf-8"))
        for line, text in docstrings(source)
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


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a docstring that are neither doctests with their results, nor blocks of code (``::``)."""
    examples = code = False
    margin, last = 0, ""
    for number, line in enumerate(text.splitlines()):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            examples = False
            code = code or last.endswith("::")
        else:
            examples = examples or line.lstrip().startswith(">>>")
            code = code and indent > margin
            if not examples and not code:
                yield number, line
                margin, last = (indent if number else margin), line.rstrip()


def comments(source: str) -> Iterator[tuple[int, str]]:
    if not any("#" in line and GAP.search(line) for line in source.splitlines()):
        return  # reading tokens takes long
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def lines_with_two_columns(source: str) -> Iterator[int]:
    for first, text in docstrings(source):
        yield from (first + number for number, line in prose(text) if GAP.search(line))
    yield from (number for number, line in comments(source) if GAP.search(line))


def lines_of_one_word(source: str) -> Iterator[int]:
    """The lines of texts of several literals on which one of these stands alone and has one word."""
    lines = source.splitlines()
    if not any((literal := LITERAL.fullmatch(line.strip())) and ONE_WORD.fullmatch(literal["text"]) for line in lines):
        return
    nodes = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.JoinedStr | ast.Constant)]
    spans = {(node.lineno, node.end_lineno or node.lineno) for node in nodes}
    for first, last in sorted(spans):
        if first < last and '"""' not in lines[first - 1]:
            for number in range(first, last + 1):
                literal = LITERAL.fullmatch(lines[number - 1].strip())
                if literal and ONE_WORD.fullmatch(literal["text"]):
                    yield number


def scattered_docstrings(source: str) -> Iterator[int]:
    """The lines of docstrings with three paragraphs on end of one short sentence each."""
    for line, text in docstrings(source):
        paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text)]
        short = [len(part) < LONGEST_SHORT_SENTENCE and bool(SHORT_SENTENCE.fullmatch(part)) for part in paragraphs]
        if any(one and len(list(on_end)) > 2 for one, on_end in groupby(short)):
            yield line


@pytest.mark.parametrize("torn_lines", [lines_with_two_columns, lines_of_one_word, scattered_docstrings])
def test_no_text_is_torn(torn_lines: Callable[[str], Iterator[int]]) -> None:
    found = []
    for path in sources(PACKAGE.name):
        source = path.read_text(encoding="utf-8")
        lines = source.splitlines()
        found += [f"{path.relative_to(REPOSITORY)}:{line}: {lines[line - 1].strip()}" for line in torn_lines(source)]
    assert not found, "\n".join(found)


def test_torn_texts_are_found() -> None:
    columns = 'def f():\n    """Return it.\n\n    the counts     of them\n    """\n    # so     much\n'
    code = '"""The file::\n\n    a = 1    # one\n\nSays so.\n\n>>> f()\na     b\n"""\n'
    assert (list(lines_with_two_columns(columns)), list(lines_with_two_columns(code))) == ([4, 6], [])

    word = 'raise E(\n    f"{a} has no room for the state of the "\n    "task."\n)\n'
    value = 'raise E(\n    "There is no room for the state of "\n    f"{task}."\n)\n'
    assert (list(lines_of_one_word(word)), list(lines_of_one_word(value))) == ([3], [])

    scattered = '"""The offsets.\n\nThey are sorted.\n\nNone is missing.\n"""\n'
    assert (list(scattered_docstrings(scattered)), list(scattered_docstrings(scattered[:34] + '"""'))) == ([1], [])
