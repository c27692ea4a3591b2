"""Checks that declarations and operators share: ids (rule P8), and texts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from airflow_samza.application.callables import name_of
from airflow_samza.application.rejections import did_you_mean, listed, reject
from airflow_samza.errors import BadId, InvalidApplication

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


_ID_REASON = "Its topic or state is kept under this name, which must stay the same when other operators are added"


def named(op: str, id: object) -> str:
    """Return an operator as errors name it: its kind and, when it has one, its id."""
    return op if is_blank(id) else f"{op} {id!r}"


def required_id(id: str | None, op: str) -> str:
    """Return the id of an operator on which a topic or state hangs (rule P8)."""
    if is_blank(id):
        reject(f"{op} needs id=. {_ID_REASON}", hint=f'Name it: {op}(…, id="by-member").', kind=BadId, operator=op)
    return checked_id(id, op)


def former_id(renamed_from: str | None, name: str, op: str, fact: str = "operator") -> str | None:
    """Return the former id of an operator, an input or a table (``op``) that was renamed; errors call it ``fact``."""
    if renamed_from is None:
        return None
    if renamed_from == name:
        reject(
            f"{op} {name!r} says that it was renamed from itself",
            hint="Leave renamed_from= out, or name the former id.",
            kind=InvalidApplication,
            **{fact: op if fact == "operator" else name},
        )
    return checked_id(renamed_from, f"former {op}")


def check_choice(word: str, value: object, choices: Sequence[str], where: str) -> None:
    """Reject an argument of an operator that is none of its values."""
    if value not in choices:
        reject(
            f"{where} has {word}={value!r}",
            hint=f"{did_you_mean(str(value), choices)}It is one of {listed(choices)}.",
            operator=where,
            value=repr(value),
        )


def checked_doc(doc: object, where: str) -> str:
    """Return a description for people in one line, "" for none; reject what is no text."""
    if doc is None:
        return ""
    if not isinstance(doc, str) or not doc.strip():
        reject(f"{where} has doc={doc!r}", hint="Write a sentence or two as a text, or leave doc out.")
    return " ".join(doc.split())


def check_sql(text: object, op: str, hint: str) -> None:
    """Reject what is no SQL text."""
    if not isinstance(text, str) or not text.strip():
        shown = "an empty text" if isinstance(text, str) else name_of(text) if callable(text) else repr(text)
        reject(f"{op} got {shown} instead of SQL", hint=hint, operator=op)
