"""Names of columns in SQL, as far as they are read without parsing it."""

from __future__ import annotations

NAME = r"(?:[A-Za-z_]\w*|`(?:[^`]|``)+`)"
"""The regular expression of a name, quoted or not."""


def unquoted(name: str) -> str:
    """Return a name without its quotes.

    >>> unquoted("a"), unquoted("`my ``a```")
    ('a', 'my `a`')
    """
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
