"""The Python of docstrings that the reference shows."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from scripts.site.docstrings import SHOWN
from tests.support.documentation_pages import DOCS


def shown_on(page: str) -> list[str]:
    """Return the names that a page of the reference shows."""
    return SHOWN.findall((DOCS / "reference" / page).read_text(encoding="utf-8"))


def docstring_examples(*pages: str) -> Iterator[tuple[str, str]]:
    """Yield the blocks of Python in the docstrings that pages show, with the names of their objects."""
    for page in pages:
        for place in shown_on(page):
            module, _, name = place.rpartition(".")
            found: Any = getattr(importlib.import_module(module), name)
            members = inspect.getmembers(found, callable) if isinstance(found, type) else []
            public = [(f"{name}.{member}", value) for member, value in members if not member.startswith("_")]
            for called, value in [(name, found), *public]:
                text = inspect.getdoc(value) or ""
                for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
                    yield called, textwrap.dedent(block)
