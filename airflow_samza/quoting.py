"""Quoting of messages in errors, reports and logs.

Quotations have no control characters and are short; a setting turns them off.

Messages come from anywhere. One that is quoted as it is could move the cursor of whoever reads the log, colour what is
not ours, or add lines that look like ours. Used wherever a message is shown: by tasks and readers of files that reject
one, in logs, on the page.
"""

from __future__ import annotations

import re

MOST = 300
"""Characters of a message in an error: enough to recognise it, and logs stay readable."""

NOT_SHOWN = "(not shown)"
"""The text in place of a message where none is shown."""

_UNSEEN = "\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u2069\\ufeff\\ud800-\\udfff"
_IN_TEXTS = re.compile(f"[{_UNSEEN}]")
_IN_LINES = re.compile(f"[\\n\\t{_UNSEEN}]")
"""Control characters, what turns the direction of writing, what has no width, and halves of characters."""


_hidden = False
"""Of the process: a worker runs the tasks of one application at a time."""


def are_shown() -> bool:
    """Return whether messages may be quoted."""
    return not _hidden


def show_messages(shown: bool) -> None:
    """Have messages quoted from now on in this process, or not; every task says so as its application is configured."""
    global _hidden
    _hidden = not shown


def printable(text: str) -> str:
    r"""Return a text of one or several lines without characters that do something to a terminal.

    >>> printable("a\x1b[31mb\nc")
    'a\\x1b[31mb\nc'
    """
    return _IN_TEXTS.sub(_escaped, text)


def one_line(text: str, most: int = MOST) -> str:
    r"""Return a text as one line, escaped and cut when it is long.

    >>> one_line("a\r\nERROR b", 9)
    'a\\r\\nERR…'
    """
    text = _IN_LINES.sub(_escaped, text[: most + 1])
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(message: object, most: int = MOST) -> str:
    """Return a message or a part of one for people; one whose ``repr`` raises is named by its type."""
    if not are_shown():
        return NOT_SHOWN
    try:
        text = repr(message)
    except Exception:  # a repr of the user's
        text = f"<{type(message).__name__}>"
    return one_line(text, most)


def plainly(text: object, most: int = MOST) -> str:
    """Return what holds a value of a message, as the text that it is."""
    return one_line(str(text), most) if are_shown() else NOT_SHOWN


def error_text(error: BaseException, most: int) -> str:
    """Return what an exception of a user's code says, which mostly quotes the message.

    Its kind alone where messages are not shown.
    """
    text = str(error) if are_shown() else ""
    return printable(
        f"{type(error).__name__}: {text[:most]}{'…' if len(text) > most else ''}" if text else type(error).__name__
    )


def _escaped(character: re.Match[str]) -> str:
    number = ord(character[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(number) or (f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}")
