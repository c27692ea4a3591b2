"""Code on pages is tried: Python is executed or part of a file that tests run, data can be read, targets exist."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from scripts.site.generated import by_hand

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(
    r"(?:^<!-- (example|part of|on Spark): ?(\S+) -->\n|^<!-- (part of) (\S+) -->\n)?^```(\w+)\n(.*?)^```$", re.M | re.S
)
EXECUTED = {
    f"docs/{page}"
    for test in (ROOT / "tests").rglob("*.py")
    for page in re.findall(r"\bexecuted\(\s*\"([\w./-]+)\"", test.read_text(encoding="utf-8"))
}
"""Pages of which a test executes all blocks one after the other."""
READERS = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[tuple[str, str, str, str]]:
    """Return mark, what the mark names, language and text of each block of a page that no code has made."""
    return [
        (first or second, named or file, language, text)
        for first, named, second, file, language, text in BLOCK.findall(by_hand(page.read_text(encoding="utf-8")))
    ]


def test_python_on_pages_is_executed_or_part_of_a_file() -> None:
    found = {name(page) for page in PAGES for mark, _, language, _ in blocks(page) if language == "python" and not mark}
    assert sorted(found - EXECUTED) == []  # docstrings have tests of their own: test_reference_examples.py


def test_parts_of_files_are_in_these_files() -> None:
    parts = [(name(page), file, text) for page in PAGES for mark, file, _, text in blocks(page) if mark == "part of"]
    assert parts
    assert [(page, file) for page, file, text in parts if text not in (ROOT / file).read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("language", READERS)
def test_data_on_pages_can_be_read(language: str) -> None:
    texts = [text for page in PAGES for _, _, written, text in blocks(page) if written == language]
    assert texts
    for text in texts:
        READERS[language](text)


def test_every_block_names_its_language_and_none_is_indented() -> None:
    found = []
    for page in PAGES:
        prose = re.sub(r"^( *)```\w+\n.*?^\1```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        found += [(name(page), line) for line in re.findall(r"^ *```.*|(?<=\n\n)    (?![-*\d|]).*", prose, flags=re.M)]
    assert found == []


def test_every_target_of_make_on_a_page_is_one() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    named = {
        (name(page), target)
        for page in PAGES
        for target in re.findall(
            r"(?:^|`)(?:[A-Z_]+=\S+ )*make ([a-z-]+)", page.read_text(encoding="utf-8"), flags=re.M
        )
    }
    assert len(named) > 20
    assert sorted((page, target) for page, target in named if target not in targets) == []
