"""Ids: which are allowed, and which are made (rule P8)."""

from __future__ import annotations

import re

from airflow_samza.application.rejections import reject
from airflow_samza.errors import BadId

_ALLOWED = re.compile(r"[A-Za-z0-9_-]+")
_WORD_OF_SYSTEM_STREAM = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_.-]+)?")


def is_blank(value: object) -> bool:
    """Return whether a user gave no id: None, or a blank text."""
    return value is None or (isinstance(value, str) and not value.strip())


def checked_id(value: object, word: str) -> str:
    """Return the id, if it is one; ``word`` names the kind of thing.

    Ids become parts of topic names, task ids and file names, so only letters, digits, ``-`` and ``_`` are allowed.
    """
    if isinstance(value, str) and _ALLOWED.fullmatch(value):
        return value
    article = "an" if word[:1] in "aeio" else "a"
    if is_blank(value):
        reject(
            f"{article.capitalize()} {word} needs an id",
            hint=f'Name the {word}, for example "page-views".',
            kind=BadId,
            value=value,
        )
    if not isinstance(value, str):
        reject(
            f"The id of {article} {word} is a text, not {value!r}",
            hint='Write for example "page-views".',
            kind=BadId,
            value=repr(value),
        )
    reject(
        f"The {word} id {value!r} has characters other than letters, digits, - and _",
        hint=f'Call it for example "{re.sub("[^A-Za-z0-9_-]+", "-", value).strip("-") or "page-views"}".',
        kind=BadId,
        value=value,
    )


def is_system_stream(value: str) -> bool:
    """Return whether a text is a stream id or ``system.stream``, as the configuration writes side inputs (rule S8)."""
    return _WORD_OF_SYSTEM_STREAM.fullmatch(value) is not None


def parts_of(named: str) -> tuple[str, str, str | None]:
    """Return system ("": the default), stream id, and the topic where it has another name than the stream.

    The first dot ends the system: a topic's name may have dots, a system's and a stream id may not.

    >>> parts_of("kafka.page.views"), parts_of("views")
    (('kafka', 'page-views', 'page.views'), ('', 'views', None))
    """
    system, dot, name = named.strip().partition(".")
    if not dot:
        system, name = "", system
    return system, name.replace(".", "-"), name if "." in name else None
