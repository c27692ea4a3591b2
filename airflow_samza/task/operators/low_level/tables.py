"""A table elsewhere, as a low-level task sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_samza.task.tables.remote_table import RemoteTable


class RemoteTaskTable:
    """A remote table as a low-level task sees it; every call reaches the table, or its cache, at once."""

    def __init__(self, table: RemoteTable) -> None:
        self._table = table

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self._table.own_copy(self._table.find([key])[key])

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        return {key: self._table.own_copy(row) for key, row in self._table.find(keys).items() if row is not None}

    def put(self, key: Any, row: Any) -> None:
        """Writes a row; None deletes. At least once: what an epoch wrote is written again when it is run again."""
        self._table.write([(key, row)])

    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        """Writes pairs of key and row, in order."""
        self._table.write(entries)

    def delete(self, key: Any) -> None:
        """Deletes the row of a key."""
        self._table.write([(key, None)])

    def metrics(self, reporter: str) -> dict[str, float]:
        """Calls of the table."""
        return self._table.metrics(reporter)

    def close(self) -> None:
        """Cancels what is in flight after a failure."""
        self._table.close()
