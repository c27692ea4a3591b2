"""Tables as a low-level task sees them: local ones, of which it reads what it has written, and remote ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.rejections import reject
from airflow_samza.errors import StoreError
from airflow_samza.quoting import quoted
from airflow_samza.task.messages.messages import ShapeError
from airflow_samza.task.messages.value_columns import Misfit, column_of
from airflow_samza.task.tables.remote_table import RemoteTable
from airflow_samza.task.tables.side_inputs import MessageStore
from airflow_samza.task.tables.store import TableStore


class TaskTable(MessageStore):
    """Rows by key, as messages (``ReadableTable``, and of a local table ``ReadWriteTable``)."""

    def __init__(self, table: TableDescriptor, store: TableStore, clock: Callable[[], int]) -> None:
        super().__init__(store)
        self._table = table
        self._clock = clock
        self._key_columns = [column_of(field.type) for field in store.key_schema.fields]

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        self._refresh()
        return super().get(_plain(key))

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        self._refresh()
        return super().get_all(map(_plain, keys))

    def __len__(self) -> int:
        self.flush()
        return self._store.count

    def _refresh(self) -> None:
        if self._store.ttl_ms is not None:  # what is alive has to be looked up
            self.flush()

    def put(self, key: Any, row: Any) -> None:
        """Writes a row; None deletes. A pushed table is read-only (rule S6)."""
        if self._table.kind is not TableKind.LOCAL:
            raise StoreError(
                f"The task writes to the table {self._table.table_id!r}, which is {self._table.word} and read-only.",
                hint="Write to an app.local_table(…).",
                table=self._table.table_id,
            )
        key = _plain(key)
        self._columns([key])
        checked = None if row is None else self._checked(key, row)
        self._written.pop(key, None)
        super().put(key, checked)

    def _checked(self, key: Any, row: Any) -> Any:
        """Return a row as a message."""
        try:
            written = self._writer.write([row])
        except ShapeError as error:
            reject(
                f"The task puts {quoted(row, 200)} into the table {self._table.table_id!r}: {error.why}",
                hint=f"Its rows are {self._writer.expected}.",
                kind=StoreError,
                table=self._table.table_id,
            )
        parts = tuple(written.column(name)[0].as_py() for name in self._key)
        if parts != (key if isinstance(key, tuple) else (key,)):
            shown = parts if len(parts) > 1 else parts[0]
            reject(
                f"The task puts a row whose key is {quoted(shown)} under the key {quoted(key)} into the table "
                f"{self._table.table_id!r}",
                hint=f"The key of a row stands in {', '.join(self._key)}: put it under that.",
                kind=StoreError,
                table=self._table.table_id,
            )
        return self._reader.read(written)[0]

    def flush(self) -> None:
        """Hands what was written to the table."""
        super().flush()
        if self._store.ttl_ms is not None:
            self._store.expire(self._clock())

    def _now(self) -> int | None:
        return self._clock() if self._store.ttl_ms is not None else None

    def _columns(self, keys: Sequence[Any]) -> list[pa.Array]:
        """Keys as the columns of the table's key; values of other types are rejected."""
        parts = [key if isinstance(key, tuple) else (key,) for key in keys]
        wrong = next((key for key, part in zip(keys, parts, strict=True) if len(part) != len(self._key)), None)
        try:
            if wrong is None:
                return [column([part[place] for part in parts]) for place, column in enumerate(self._key_columns)]
        except Misfit:
            wrong = keys[0]
        reject(
            f"The table {self._table.table_id!r} is asked for the key {quoted(wrong, 80)}",
            hint="The declared key is: "
            f"{', '.join(f'{name} {self._store.schema[name].type.ddl()}' for name in self._key)}.",
            kind=StoreError,
            table=self._table.table_id,
        )


def _plain(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


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

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Writes several rows, in the order given; None deletes."""
        self._table.write(list(entries.items() if isinstance(entries, Mapping) else entries))

    def delete(self, key: Any) -> None:
        """Deletes the row of a key."""
        self._table.write([(key, None)])
