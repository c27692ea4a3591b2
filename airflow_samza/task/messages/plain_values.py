"""Plain Python values as text and back, exactly: what folds keep from epoch to epoch without pickling it.

Numbers, texts, booleans and None stand as in JSON; everything else is a list of a tag and its content: a tuple comes
back as a tuple. A value of any other type is not plain, nor is one in which a list or dict occurs twice: its copies
would go apart. Windows with a user's fold keep their state by it.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from airflow_samza.row import Row


class NotPlain(Exception):
    """A value that only pickle can keep."""


def to_text(value: object) -> str:
    """Return the text of a value.

    Raises:
        NotPlain: the value, or a part of it, is of another type than those that the module names.
    """
    try:
        return json.dumps(_as_json(value, set()))
    except (RecursionError, ValueError) as error:  # a value within itself; an integer of thousands of digits
        raise NotPlain(str(error)) from None


def from_text(text: str) -> Any:
    """Return the value that :func:`to_text` wrote."""
    return _value_of(json.loads(text))


def _as_json(value: Any, seen: set[int]) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in _MUTABLE:
        if id(value) in seen:
            raise NotPlain("it occurs twice")
        seen.add(id(value))
    if kind in (list, tuple, set, frozenset):
        return [kind.__name__, [_as_json(item, seen) for item in value]]
    if kind in (dict, Counter, Row):
        return [kind.__name__, [[_as_json(key, seen), _as_json(item, seen)] for key, item in value.items()]]
    if kind is deque:
        return ["deque", [[_as_json(item, seen) for item in value], value.maxlen]]
    scalar = _SCALARS.get(kind)
    if scalar is None:
        raise NotPlain(f"it holds a {kind.__name__}")
    return [kind.__name__, scalar[0](value)]


def _value_of(kept: Any) -> Any:
    if not isinstance(kept, list):
        return kept
    tag, content = kept
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](_value_of(item) for item in content)
    if tag in _MAPPINGS:
        return _MAPPINGS[tag]({_value_of(key): _value_of(item) for key, item in content})
    if tag == "deque":
        return deque((_value_of(item) for item in content[0]), content[1])
    return _BY_TAG[tag](content)


_MUTABLE = (list, dict, set, Counter, deque)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, Callable[[Any], Any]] = {"dict": dict, "Counter": Counter, "Row": Row}


def _moment(value: datetime) -> str:
    if value.fold or value.tzinfo not in (None, timezone.utc):
        raise NotPlain("it holds a datetime of another zone than UTC")  # whose rules text does not keep
    return value.isoformat()


def _time(value: time) -> str:
    if value.fold or value.tzinfo is not None:
        raise NotPlain("it holds a time of a zone")
    return value.isoformat()


def _moment_of(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    return value if value.tzinfo is None else value.replace(tzinfo=timezone.utc)


_SCALARS: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: (bytes.hex, bytes.fromhex),
    complex: (lambda value: [value.real, value.imag], lambda parts: complex(*parts)),
    Decimal: (str, Decimal),
    datetime: (_moment, _moment_of),
    date: (date.isoformat, date.fromisoformat),
    time: (_time, time.fromisoformat),
    timedelta: (lambda value: [value.days, value.seconds, value.microseconds], lambda parts: timedelta(*parts)),
}
_BY_TAG = {kind.__name__: build for kind, (_, build) in _SCALARS.items()}
