"""A table as a low-level task sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import StoreError
from airflow_samza.task.messages import MessageReader
from airflow_samza.task.remote_table import RemoteTable
from airflow_samza.task.table_store import TableStore


class TaskTable:
    """A table as a low-level task sees it: rows by key, as messages (``ReadableTable``)."""

    def __init__(self, table: TableDescriptor, store: TableStore) -> None:
        self._table = table
        self._store = store
        self._rows: dict[Any, Any] | None = None
        self._changed = False

    def _loaded(self) -> dict[Any, Any]:
        if self._rows is None:
            batch = self._store.rows
            keys = [batch.column(name).to_pylist() for name in self._store.key]
            plain = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
            self._rows = dict(zip(plain, MessageReader(self._store.schema).read(batch), strict=True))
        return self._rows

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self._loaded().get(tuple(key) if isinstance(key, list) else key)

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        rows = self._loaded()
        return {key: rows[key] for key in keys if key in rows}

    def put(self, key: Any, row: Any) -> None:
        """Writes a row; None deletes. A pushed table is read-only (SEMANTICS S6)."""
        if self._table.kind is not TableKind.LOCAL:
            raise StoreError(
                f"The task writes to the table {self._table.table_id!r}, which is {self._table.kind.value} and read-only.",
                hint="Write to an app.local_table(…).",
                table=self._table.table_id,
            )
        rows = self._loaded()
        self._changed = True
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def __len__(self) -> int:
        return len(self._loaded())


class RemoteTaskTable:
    """A remote table as a low-level task sees it; every call reaches the table, or its cache, at once."""

    def __init__(self, table: RemoteTable) -> None:
        self._table = table

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self._table.find([key])[key]

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        return {key: row for key, row in self._table.find(keys).items() if row is not None}

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
