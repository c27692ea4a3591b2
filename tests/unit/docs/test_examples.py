"""Properties of all pages: examples that are modules have tests, and these pass; links lead to files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.documentation_pages import DOCS, examples, loaded, text_of

PAGES = sorted(
    path.relative_to(DOCS).as_posix()
    for folder in ("concepts", "how-to", "operate")
    for path in (DOCS / folder).glob("*.md")
)
RUN_BY_COMMANDS = {
    *(
        (page, name)
        for page in ("how-to/iceberg.md", "how-to/delta.md")
        for name in ("make_views.py", "dutch_views.py")
    ),
    ("how-to/iceberg.md", "per_country.py"),
    ("how-to/delta.md", "per_country.py"),
    ("how-to/delta.md", "audited_views.py"),
    ("how-to/delta.md", "audit.py"),
}
"""A script and an application that a page runs by commands, as its own test does (such as ``test_iceberg_page.py``)."""

EXAMPLES = [
    (page, name)
    for page in PAGES
    for name in examples(page)
    if not name.endswith("dag.py") and (page, name) not in RUN_BY_COMMANDS
]  # Dag files: tests/unit/provider


@pytest.mark.parametrize(("page", "name"), EXAMPLES)
def test_the_tests_of_an_example_pass(page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    module = loaded(page, name, tmp_path, monkeypatch)
    tests = [function for word, function in vars(module).items() if word.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_each_everyday_question_leads_to_a_page_with_code() -> None:
    places = re.findall(r"^\| .+\? (?:What now\? )?\| \[.*?\]\((.+?)\) \|$", text_of("how-to/README.md"), re.MULTILINE)
    assert len(places) == 11
    pages = [(DOCS / "how-to" / place.partition("#")[0]).read_text(encoding="utf-8") for place in places]
    assert [
        place for place, page in zip(places, pages, strict=True) if not re.search("```(python|console)", page)
    ] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files(page: str) -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page)) if "://" not in link]
    assert [link for link in links if not ((DOCS / page).parent / link).exists()] == []
