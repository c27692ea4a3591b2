"""Values of partitions, which the log has as texts: typed, for pruning and as columns of rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?)? ?(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_FIRST_DAY = date(1970, 1, 1)
_BOOLEANS = {"true": True, "false": False}


def micros(text: str) -> int:
    """Return the microseconds since 1970 of a time, which without a zone is of UTC.

    >>> micros("1970-01-01 00:00:01.5"), micros("1970-01-01T01:00:00.000001+01:00")
    (1500000, 1)
    """
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no time")
    day, clock, fraction, zone = found.groups()
    at = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}+00:00")
    if zone is not None and zone[0] in "+-":
        offset = timedelta(hours=int(zone[1:3]), minutes=int(zone[-2:]))
        at = at - offset if zone[0] == "+" else at + offset
    return (at - _EPOCH) // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")[:6])


def days(text: str) -> int:
    """Return the days since 1970 of a date."""
    return (date.fromisoformat(text) - _FIRST_DAY).days


def _decimal(text: str) -> str:
    return str(Decimal(text))


def _float(text: str) -> str:
    return str(float(text))


_PARSED: dict[str, Callable[[str], Any]] = {
    "byte": int,
    "short": int,
    "int": int,
    "long": int,
    "float": _float,
    "double": _float,
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "string": str,
    "binary": lambda text: text.encode().hex(),
    "date": days,
    "timestamp": micros,
    "timestamptz": micros,
}


def partition_value(text: str | None, word: str) -> Any:
    """Return a value of a partition as :func:`~airflow_samza.systems.tables.file_columns.constant` takes it.

    An empty text is null, as the protocol has it for each type. A text that is no such value is a ``ValueError``.

    >>> partition_value("2026-11-01", "date"), partition_value("1.50", "decimal(9,2)"), partition_value("", "string")
    (20758, '1.50', None)
    """
    if not text:
        return None
    try:
        return _PARSED.get(word, _decimal)(text)
    except (ValueError, ArithmeticError, KeyError) as error:
        raise ValueError(f"{text!r} is no {word}") from error


WRITTEN = ("byte", "short", "int", "long", "string", "date", "boolean", "timestamp", "timestamptz")
"""Types, beside decimals, by which tables are partitioned that are written here."""


def partition_text(value: Any, word: str) -> str | None:
    """Return a value of a partition as the log writes it; it comes as :func:`partition_value` returns it.

    >>> partition_text(20758, "date"), partition_text(1500000, "timestamptz"), partition_text(True, "boolean")
    ('2026-11-01', '1970-01-01T00:00:01.500000Z', 'true')
    """
    if value is None:
        return None
    if word == "boolean":
        return "true" if value else "false"
    if word == "date":
        return (_FIRST_DAY + timedelta(days=value)).isoformat()
    if word in ("timestamp", "timestamptz"):
        at = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=None)
        return f"{at.isoformat('T', 'microseconds')}Z" if word == "timestamptz" else at.isoformat(" ", "microseconds")
    return str(value)
