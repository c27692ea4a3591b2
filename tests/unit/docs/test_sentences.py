"""Sentences of the pages for users and contributors are short: at most 25 words.

Words are counted as a reader meets them: a piece of code is one, the text of a link counts, and its address does not.
Tables, headings and blocks of code are left out. What follows a colon or semicolon with a capital letter is a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.documentation_pages import DOCS, text_of

LONGEST = 25
FOLDERS = ("get-started", "how-to", "operate", "concepts", "reference", "how-to-add")
PAGES = sorted(path.relative_to(DOCS).as_posix() for folder in FOLDERS for path in (DOCS / folder).glob("*.md"))
BLOCK = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
END = re.compile(r"(?<=[.?!:;])[\"”)]*\s+(?=[\"“(]*[A-Z\d])")
PARAGRAPH = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )")


def prose(text: str) -> str:
    """Return a page without code, comments, tables, headings, pictures and addresses; a piece of code is a word."""
    text = re.sub(r"<!--.*?-->|!\[[^\]]*\]\([^)]*\)", "", BLOCK.sub("", text), flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", "Code", text, flags=re.DOTALL))
    return "\n".join("" if re.match(r"\s*\||#", line) else line for line in text.splitlines()).replace("*", "")


def sentences(text: str) -> Iterator[str]:
    for paragraph in PARAGRAPH.split(prose(text)):
        yield from END.split(" ".join(re.sub(r"^\s*(?:- |\d+\. )", "", paragraph).split()))


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_is_long(page: str) -> None:
    assert [found for found in sentences(text_of(page)) if len(found.split()) > LONGEST] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Set `a b c`. Then run it.", ["Set Code.", "Then run it."]),
        ("Read [the page](x.md#a). It is [short](y.md).", ["Read the page.", "It is short."]),
        ("- One.\n- Two: a, b.\n\n| a table | is none |\n|---|---|\n", ["One.", "Two: a, b.", ""]),
        ("# Head\n\nIt says:\n\n```python\nx = 1\n```\n", ["", "It says:", ""]),
    ],
)
def test_a_reader_counts_sentences_like_this(text: str, found: list[str]) -> None:
    assert list(sentences(text)) == found


def test_every_page_has_sentences() -> None:
    assert sum(len(list(sentences(text_of(page)))) for page in PAGES) > 2_000
