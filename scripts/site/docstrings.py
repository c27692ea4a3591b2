"""Docstrings as the site shows them: Sphinx's roles, doctests and citations of rules become plain Markdown."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":[a-z]+:`(?:~[\w.]*\.)?([^`]+)`")
DOCTEST = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
CITATION = re.compile(r" \((?:see )?rules? [PCMS]\d[^)]*\)")


class PlainDocstrings(Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring is not None:
            text = CITATION.sub("", ROLE.sub(r"`\1`", obj.docstring.value))
            # The style is recognized by a field that a line break follows, also where it is the last line.
            obj.docstring.value = DOCTEST.sub(lambda lines: f"```pycon\n{lines[0]}\n```", text) + "\n"
