"""How wrong use is refused: at the call, with file and line of the user's code in the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from airflow_samza.application.source_location import SourceLocation
from airflow_samza.errors import InvalidApplication, SamzaError


def refuse(sentence: str, *, hint: str, kind: type[SamzaError] = InvalidApplication, **facts: object) -> NoReturn:
    """Raise ``kind`` with the sentence (given without its full stop), the place in the user's code, and the hint.

    The place is also a fact: ``error.facts["location"]``.
    """
    location = SourceLocation.of_caller()
    where = f" ({location})" if location is not None else ""
    raise kind(f"{sentence}{where}.", hint=hint, location=location, **facts)


@contextmanager
def located() -> Iterator[None]:
    """Errors raised inside that know no place get that of the caller (schemas and windows are read by values that know none)."""
    try:
        yield
    except SamzaError as error:
        if "location" in error.facts:
            raise
        refuse(error.sentence.removesuffix("."), hint=error.hint, kind=type(error), **error.facts)


def listed(names: Iterable[object]) -> str:
    """Names as a person lists them; ``none`` when there are none.

    >>> listed(["a", "b"])
    'a, b'
    """
    return ", ".join(str(name) for name in names) or "none"
