"""The part of users' rows that leaves a task: nothing where ``[samza] page_samples`` is off, no masked columns.

The page in Airflow shows rows. Errors may quote them, and go to the page, to lineage events, and as exceptions to
whatever Airflow notifies. Operators and the page ask it before a row leaves.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from airflow_samza.errors import (
    ConfigError,
    MessageError,
    PlanError,
    SamzaError,
    StageCancelled,
    StageLost,
    StateError,
    TopicError,
    UpstreamCleared,
)
from airflow_samza.provider.airflow_versions import conf
from airflow_samza.provider.get_provider_info import CONFIG_SECTION
from airflow_samza.secrecy import HIDDEN, is_secret_name, without_passwords

LONGEST_TEXT = 1000
"""Characters of a value; what is longer is cut."""

MOST_ITEMS = 50
"""Items of a list or an object that are shown."""

TEXT_NOT_SHOWN = "Its text may quote a message, and is left out: [samza] page_samples or page_masked_columns."

IN_THE_LOG = "The task's log has it."

NOT_SHOWN = "Messages and samples are not shown here: [samza] page_samples is off."


_WITHOUT_ROWS = (ConfigError, PlanError, StageCancelled, StageLost, StateError, TopicError, UpstreamCleared)
"""Errors whose texts are ours alone; others may quote a message, a key or what user code has said."""

_READER = "reason"
"""The fact of a TopicError that holds what the reader of a file has said, perhaps with a value."""


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


def may_quote_rows(error: BaseException) -> bool:
    """Return whether an error's text may quote rows, and rows are to be hidden."""
    if shows_samples() and not masked_columns():
        return False
    return not isinstance(error, _WITHOUT_ROWS) or _READER in error.facts


def sentence_of(error: BaseException) -> str:
    """Return an error's sentence for those who may not see rows, without its hint."""
    if not may_quote_rows(error):
        return error.sentence if isinstance(error, SamzaError) else str(error)
    facts = error.facts if isinstance(error, SamzaError) else {}
    where = "".join(f", {name} {facts[name]!r}" for name in ("stage", "operator", "table") if facts.get(name))
    return f"{type(error).__name__}{where}. {TEXT_NOT_SHOWN}"


def text_of(error: SamzaError) -> str:
    """Return an error's sentence and hint for those who may not see rows."""
    return f"{sentence_of(error)} {IN_THE_LOG}" if may_quote_rows(error) else str(error)


def hint_of(error: SamzaError) -> str:
    """Return an error's hint for those who may not see rows: that on a message may quote it."""
    return "" if may_quote_rows(error) and isinstance(error, MessageError) else error.hint


def shown_row(row: Mapping[str, Any], masked: Iterable[str]) -> dict[str, Any]:
    """Return a row as JSON may have it, without masked columns, at any depth.

    >>> shown_row({"name": "Ada", "card": {"number": 4, "until": 2027}}, ("number",))
    {'name': 'Ada', 'card': {'number': '***', 'until': 2027}}
    >>> shown_row({"tags": [("email", "a@b.fr"), ("country", "fr")]}, ("email",))
    {'tags': [['email', '***'], ['country', 'fr']]}
    """
    patterns = tuple(masked)
    return {str(name): _shown(value, str(name), patterns) for name, value in row.items()}


def shown_record(text: str | None) -> str | None:
    """Return how a record begins for those who read failures.

    Of an object of JSON no masked column is shown. Of any other text columns cannot be told apart: where some are
    masked, nothing of it is shown.
    """
    if text is None or not shows_samples():
        return None
    masked = masked_columns()
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        row = None
    if isinstance(row, Mapping):
        return json.dumps(shown_row(row, masked), ensure_ascii=False)
    return HIDDEN if masked else without_passwords(text)


def _shown(value: Any, column: str, masked: tuple[str, ...]) -> Any:
    if column and is_masked(column, masked):
        return HIDDEN
    if isinstance(value, Mapping):
        return {str(name): _shown(item, str(name), masked) for name, item in list(value.items())[:MOST_ITEMS]}
    if isinstance(value, list) and value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
        # Arrow's map: its keys are names as those of an object are
        return [[_shown(key, "", masked), _shown(item, str(key), masked)] for key, item in value[:MOST_ITEMS]]
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
