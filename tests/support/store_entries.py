"""Entries that tests put into stores of tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow_samza.storage.store import KeyValueStore, Values


def put_all(store: KeyValueStore, entries: Iterable[tuple[Any, Values]]) -> None:
    """Put several values, in the order given."""
    for key, value in entries:
        store.put(key, value)
