"""The part of users' rows that the page shows: nothing where ``[samza] page_samples`` is off, no masked columns."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from airflow_samza.provider.airflow_versions import conf
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.secrecy import HIDDEN, is_secret_name

LONGEST_TEXT = 1000
"""Characters of a value; what is longer is cut."""

MOST_ITEMS = 50
"""Items of a list or an object that are shown."""

TEXT_NOT_SHOWN = "Its text may quote a message, and is left out: [samza] page_samples or page_masked_columns."

NOT_SHOWN = "Messages and samples are not shown here: [samza] page_samples is off."


def shows_samples() -> bool:
    """Return whether rows are shown at all."""
    return bool(conf.getboolean(CONFIG_SECTION, "page_samples", fallback=True))


def masked_columns() -> tuple[str, ...]:
    """Return the columns to mask: names or patterns (``*_email``), in any case of letters."""
    text = conf.get(CONFIG_SECTION, "page_masked_columns", fallback="") or ""
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def is_masked(column: str, masked: Iterable[str]) -> bool:
    """Return whether a column is masked, by the configuration or because its name is that of a secret.

    >>> is_masked("Home_Email", ("*_email",)), is_masked("api_key", ()), is_masked("country", ("*_email",))
    (True, True, False)
    """
    return is_secret_name(column) or any(fnmatchcase(column.lower(), pattern) for pattern in masked)


def shown_row(row: Mapping[str, Any], masked: Iterable[str]) -> dict[str, Any]:
    """Return a row as JSON may have it, without masked columns, at any depth.

    >>> shown_row({"name": "Ada", "card": {"number": 4, "until": 2027}}, ("number",))
    {'name': 'Ada', 'card': {'number': '***', 'until': 2027}}
    """
    patterns = tuple(masked)
    return {str(name): _shown(value, str(name), patterns) for name, value in row.items()}


def _shown(value: Any, column: str, masked: tuple[str, ...]) -> Any:
    if column and is_masked(column, masked):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(name): _shown(item, str(name), masked) for name, item in list(value.items())[:MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [_shown(item, "", masked) for item in value[:MOST_ITEMS]]
    if isinstance(value, bytes):
        value = base64.b64encode(value[:LONGEST_TEXT]).decode()
    if isinstance(value, bool | type(None)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else str(value)  # what JavaScript would round
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)  # JSON has none of these
    text = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
