"""Pages of docs/decisions are numbered, have three parts and a line in the index, and are named where they count."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(path.name for path in DECISIONS.glob("*.md") if path.name != "README.md")
TEXTS = {name: (DECISIONS / name).read_text(encoding="utf-8") for name in PAGES}
INDEX = (DECISIONS / "README.md").read_text(encoding="utf-8")


NUMBERS = {int(name.split("-")[0]) for name in PAGES}


def named_in_code() -> dict[int, set[str]]:
    """Return the decisions that code names (``decision 12``, ``decisions 57 and 60``), with the files that do."""
    files = [path for folder in ("airflow_samza", "scripts", "tests") for path in (ROOT / folder).rglob("*.py")]
    found: dict[int, set[str]] = {}
    for path in files:
        if "node_modules" in path.parts or path == Path(__file__):
            continue
        for numbers in re.findall(
            r"\b[Dd]ecisions?\s+(\d+(?:(?:,| and|, and)\s+\d+)*)", path.read_text(encoding="utf-8")
        ):
            for number in re.findall(r"\d+", numbers):
                found.setdefault(int(number), set()).add(str(path.relative_to(ROOT)))
    return found


def named_on_pages() -> set[int]:
    pages = [path for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if DECISIONS not in path.parents]
    return {
        int(number) for path in pages for number in re.findall(r"decisions/(\d{4})-", path.read_text(encoding="utf-8"))
    }


def test_numbers_are_unique() -> None:
    assert len(NUMBERS) == len(PAGES)


def test_every_decision_is_named_where_it_counts() -> None:
    assert NUMBERS - named_in_code().keys() - named_on_pages() == set()


def test_no_comment_names_a_decision_that_does_not_exist() -> None:
    assert {number: files for number, files in named_in_code().items() if number not in NUMBERS} == {}


def test_a_decision_has_its_three_parts_and_is_short() -> None:
    parts = {name: re.findall(r"^## (.+)\n\n(?=\S)", text, flags=re.MULTILINE) for name, text in TEXTS.items()}
    assert not {name for name, found in parts.items() if found != ["Context", "Decision", "Consequence"]}
    assert not {name for name, text in TEXTS.items() if text.count("\n") > 60}


def test_the_index_names_every_decision_by_its_title() -> None:
    titles = {name: re.match(rf"# ({int(name.split('-')[0])}\. .+)\n", text) for name, text in TEXTS.items()}
    listed = re.findall(r"^- \[(.+)\]\((\d{4}-.+\.md)\)$", INDEX, flags=re.MULTILINE)
    assert sorted(listed, key=lambda line: line[1]) == [(title and title[1], name) for name, title in titles.items()]
