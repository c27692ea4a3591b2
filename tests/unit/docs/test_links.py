"""Links between pages lead to files, and to headings that are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: of its headings, as Markdown is shown on the web, and those that it names itself."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {*map(slug, headings), *re.findall(r'<a (?:id|name)="([^"]+)"', text)}


def slug(heading: str) -> str:
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", "-")


def broken_links(page: Path) -> Iterator[str]:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: {link} leads to no file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{page.relative_to(ROOT)}: {link} leads to no heading"


def test_links_lead_to_files_and_headings() -> None:
    assert [broken for page in PAGES for broken in broken_links(page)] == []
