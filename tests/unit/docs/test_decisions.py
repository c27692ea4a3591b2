"""Pages of docs/decisions are numbered, have three parts, and a line in the index."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(path.name for path in DECISIONS.glob("*.md") if path.name != "README.md")
TEXTS = {name: (DECISIONS / name).read_text(encoding="utf-8") for name in PAGES}
INDEX = (DECISIONS / "README.md").read_text(encoding="utf-8")


def test_numbers_count_up_from_one() -> None:
    assert [int(name.split("-")[0]) for name in PAGES] == list(range(1, len(PAGES) + 1))


def test_a_decision_has_its_three_parts_and_is_short() -> None:
    parts = {name: re.findall(r"^## (.+)\n\n(?=\S)", text, flags=re.MULTILINE) for name, text in TEXTS.items()}
    assert not {name for name, found in parts.items() if found != ["Context", "Decision", "Consequence"]}
    assert not {name for name, text in TEXTS.items() if text.count("\n") > 60}


def test_the_index_names_every_decision_by_its_title() -> None:
    titles = {name: re.match(rf"# ({int(name.split('-')[0])}\. .+)\n", text) for name, text in TEXTS.items()}
    listed = re.findall(r"^- \[(.+)\]\((\d{4}-.+\.md)\)$", INDEX, flags=re.MULTILINE)
    assert sorted(listed, key=lambda line: line[1]) == [(title and title[1], name) for name, title in titles.items()]
