"""Every rule of docs/reference/semantics.md has an anchor, and every citation of a rule, anywhere, names one of them.

Code and tests cite a rule as "rule P8" or "rules C2–C6, C9" in comments and docstrings; pages for contributors link it.
Pages for users say what the rule means and link to it. Texts that a user meets at run time cite none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.statements import statements
from tests.support.syntax_trees import parsed

ROOT = Path(__file__).parents[3]
RULES = ROOT / "docs" / "reference" / "semantics.md"
TEXT = RULES.read_text(encoding="utf-8")
ANCHORS = re.findall(r'^<a id="([a-z]\d+)"></a>$', TEXT, flags=re.MULTILINE)
IDS = [anchor.upper() for anchor in ANCHORS]

CODE = sorted(
    path
    for folder in ("airflow_samza", "tests", "benchmarks", "dags", "demo", "scripts")
    for path in (ROOT / folder).rglob("*.py")
)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
CONTRIBUTORS = (ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md")
CONTRIBUTORS_FOLDERS = ("reference", "decisions", "how-to-add")

ID = r"[PCMSO][1-9]\d?"
NUMBER = re.compile(rf"\b{ID}\b|SEMANTICS")
BARE = re.compile(rf"(?<![\w-])(?!S3\b){ID}\b(?!-)")
"""A rule's number by itself. S3 alone is the object store: as a rule it is found by the words before it."""
CITATION = re.compile(rf"\b[Rr]ules? ({ID}(?:(?:–|, | and | or |, and |, or ){ID})*)")
"""The form in which code cites rules."""


def named(citation: str) -> list[str]:
    """Return every rule that a citation names; a dash names all from the first to the last."""
    rules: list[str] = []
    for part in re.split(r", and |, or |, | and | or ", citation):
        first, _, last = part.partition("–")
        numbers = range(int(first[1:]), int((last or first)[1:]) + 1)
        rules += [f"{first[0]}{number}" for number in numbers] if not last or first[0] == last[0] else [first, last]
    return rules


def commentary(source: str) -> Iterator[tuple[int, str]]:
    """Return the comments and the docstrings of a module, each with its first line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    yield from strings(source)[0]


def strings(source: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return the docstrings (strings that are statements), and all other strings, with their lines."""
    tree = parsed(source)
    alone = {id(node.value) for node in statements(tree) if isinstance(node, ast.Expr)}
    found: tuple[list[tuple[int, str]], list[tuple[int, str]]] = ([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found[id(node) not in alone].append((node.lineno, " ".join(node.value.split())))
    return found


def uncited(text: str) -> list[str]:
    """Return the numbers of rules that stand in a text without the word "rule", except in ``code``."""
    return BARE.findall(CITATION.sub("", re.sub("``[^`]*``", "", text)))


def numbers(text: str) -> list[str]:
    """Return every mention of a rule by its number."""
    return [*BARE.findall(text), *CITATION.findall(text), *re.findall("SEMANTICS", text)]


def is_for_users(page: Path) -> bool:
    return page not in CONTRIBUTORS and not set(page.relative_to(ROOT).parts) & set(CONTRIBUTORS_FOLDERS)


def test_every_anchor_stands_above_the_heading_of_its_rule() -> None:
    headings = re.findall(r'^<a id="(\w+)"></a>\n### (\w+) — \S', TEXT, flags=re.MULTILINE)
    assert headings == [(anchor, anchor.upper()) for anchor in ANCHORS]


def test_rules_are_numbered_without_gaps() -> None:
    assert [
        f"{letter}{number}"
        for letter, last in (("P", 14), ("C", 10), ("M", 8), ("S", 10), ("O", 2))
        for number in range(1, last + 1)
    ] == IDS


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("rule P8", ["P8"]),
        ("rules C2–C4, C9 and S3", ["C2", "C3", "C4", "C9", "S3"]),
        ("Rules M1 and M2", ["M1", "M2"]),
        ("rules P2 or C99", ["P2", "C99"]),
    ],
)
def test_a_citation_names_its_rules(text: str, rules: list[str]) -> None:
    match = CITATION.search(text)
    assert match is not None
    assert named(match[1]) == rules


@pytest.mark.parametrize(
    ("text", "found"),
    [("as C9 has it", ["C9"]), ("(rule C9)", []), ("s3://bucket, S3 and rule S3", []), ("M0 A1 XC9", [])],
)
def test_a_number_without_the_word_is_found(text: str, found: list[str]) -> None:
    assert uncited(text) == found


def test_texts_that_users_meet_cite_no_rule() -> None:
    wrong = [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in CODE
        if path.is_relative_to(ROOT / "airflow_samza") and NUMBER.search(source := path.read_text(encoding="utf-8"))
        for line, text in strings(source)[1]
        if BARE.search(text) or CITATION.search(text) or "SEMANTICS" in text
    ]
    assert not wrong


def test_pages_link_to_rules_that_exist() -> None:
    wrong = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", text):
            if (page.parent / target if target else page).resolve() == RULES and anchor not in ANCHORS:
                wrong.append((page.name, f"{target}#{anchor}"))
        wrong += [
            (page.name, rule) for citation in CITATION.findall(text) for rule in named(citation) if rule not in IDS
        ]
    assert not wrong


def test_pages_for_users_say_what_a_rule_means_instead_of_its_number() -> None:
    wrong = [
        (page.name, found)
        for page in PAGES
        if is_for_users(page)
        for found in numbers(page.read_text(encoding="utf-8"))
    ]
    assert not wrong


def test_code_cites_rules_that_exist() -> None:
    wrong = []
    for path in CODE:
        source = path.read_text(encoding="utf-8")
        for line, text in commentary(source) if NUMBER.search(source) else ():
            place = f"{path.relative_to(ROOT)}:{line}"
            wrong += [
                (place, rule) for citation in CITATION.findall(text) for rule in named(citation) if rule not in IDS
            ]
            wrong += [(place, f"{rule} without the word rule") for rule in uncited(text)]
            wrong += [(place, "SEMANTICS") for _ in re.findall("SEMANTICS", text)]
    assert not wrong


def test_pages_for_contributors_link_the_rules_that_they_cite() -> None:
    wrong = []
    for page in PAGES:
        if not is_for_users(page) and page != RULES:
            text = re.sub(rf"\[{ID}\]\([^)]*semantics\.md#[a-z]\d+\)|`[^`]*`", "", page.read_text(encoding="utf-8"))
            wrong += [(page.name, found) for found in numbers(text)]
    assert not wrong
