"""Parts of pages that are made from the code, and committed, so that they can be read on code hosts.

A part stands between ``<!-- generated: NAME -->`` and ``<!-- end of generated -->``. The name is one of
:data:`scripts.site.reference.GENERATED`, or a public name of the package (:mod:`scripts.site.public_names`).
``make reference`` writes all parts anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from scripts.site.public_names import entry
from scripts.site.reference import GENERATED

DOCS = Path(__file__).parents[2] / "docs"
END = "<!-- end of generated -->"
PART = re.compile(rf"^<!-- generated: ([^\n]+) -->\n(.*?)^{END}$", re.MULTILINE | re.DOTALL)


def made(name: str) -> str:
    """Return what stands under a name."""
    return GENERATED[name]() if name in GENERATED else entry(name)


def parts(text: str) -> list[tuple[str, str]]:
    """Return the names of the parts of a page, each with what stands there."""
    return [(name, said.strip("\n")) for name, said in PART.findall(text)]


def by_hand(text: str) -> str:
    """Return a page's text without the parts that are made."""
    return PART.sub("", text)


def current(text: str) -> str:
    """Return a page's text with its parts as the code has them now."""
    return PART.sub(lambda part: f"<!-- generated: {part[1]} -->\n\n{made(part[1])}\n\n{END}", text)


def pages() -> Iterator[Path]:
    """Yield the pages with such parts."""
    for page in sorted(DOCS.rglob("*.md")):
        if PART.search(page.read_text(encoding="utf-8")):
            yield page


def main() -> None:
    """Write all parts anew."""
    for page in pages():
        page.write_text(current(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
