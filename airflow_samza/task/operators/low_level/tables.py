"""Tables as a low-level task sees them: local ones, of which it reads what it has written, and remote ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.application.rejections import reject
from airflow_samza.errors import StoreError
from airflow_samza.quoting import quoted
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, ShapeError
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.messages.value_columns import Misfit, column_of
from airflow_samza.task.tables.remote_table import RemoteTable
from airflow_samza.task.tables.store import TableStore

_MOST = 100_000
"""Rows that are held as Python objects, so that one that is asked for again need not be looked up again."""


class TaskTable:
    """Rows by key, as messages (``ReadableTable``, and of a local table ``ReadWriteTable``)."""

    def __init__(self, table: TableDescriptor, store: TableStore, clock: Callable[[], int]) -> None:
        self._table = table
        self._store = store
        self._clock = clock
        self._keys = pa.schema([(name, store.schema[name].type.to_arrow()) for name in store.key])
        self._key_columns = [column_of(store.schema[name].type) for name in store.key]
        self._reader = MessageReader(store.schema)
        self._writer = MessageWriter(store.schema)
        self._copies = OwnCopies(store.schema)
        self._rows: dict[Any, Any] = {}
        self._written: dict[Any, pa.RecordBatch | None] = {}

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self.get_all([key]).get(_plain(key))

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        plain_keys = [_plain(key) for key in keys]
        if self._store.ttl_ms is not None:  # what is alive has to be looked up
            self.flush()
        missing = [key for key in dict.fromkeys(plain_keys) if key not in self._rows]
        if missing:
            self._rows.update(self._look_up(missing))
        rows = {key: self._copies.of(self._rows[key]) for key in plain_keys if self._rows[key] is not None}
        if self._store.ttl_ms is not None or len(self._rows) > _MOST:
            self._rows.clear()
            self.flush()
        return rows

    def __len__(self) -> int:
        self.flush()
        return self._store.count

    def _look_up(self, keys: Sequence[Any]) -> dict[Any, Any]:
        places = self._store.find(self._columns(keys), self._clock() if self._store.ttl_ms is not None else None)
        found = [key for key, place in zip(keys, places.tolist(), strict=True) if place >= 0]
        rows = self._reader.read(self._store.batch(places[places >= 0]))
        return {**dict.fromkeys(keys), **dict(zip(found, rows, strict=True))}

    # -- writing -------------------------------------------------------------------------------------------------------

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
        self._written.pop(key, None)
        if row is None:
            self._written[key] = self._rows[key] = None
            return
        try:
            written = self._writer.write([row])
        except ShapeError as error:
            reject(
                f"The task puts {quoted(row, 200)} into the table {self._table.table_id!r}: {error.why}",
                hint=f"Its rows are {self._writer.expected}.",
                kind=StoreError,
                table=self._table.table_id,
            )
        parts = tuple(written.column(name)[0].as_py() for name in self._store.key)
        if parts != (key if isinstance(key, tuple) else (key,)):
            shown = parts if len(parts) > 1 else parts[0]
            reject(
                f"The task puts a row whose key is {quoted(shown)} under the key {quoted(key)} into the table "
                f"{self._table.table_id!r}",
                hint=f"The key of a row stands in {', '.join(self._store.key)}: put it under that.",
                kind=StoreError,
                table=self._table.table_id,
            )
        self._written[key] = written
        self._rows[key] = self._reader.read(written)[0]

    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        """Writes pairs of key and row, in order."""
        for key, row in entries:
            self.put(key, row)

    def delete(self, key: Any) -> None:
        """Deletes the row of a key; one that is not there is no error."""
        self.put(key, None)

    def flush(self) -> None:
        """Hands what was written to the table."""
        written, self._written = self._written, {}
        rows = [row for row in written.values() if row is not None]
        if rows:
            self._store.write(pa.concat_batches(rows), self._clock() if self._store.ttl_ms is not None else None)
        deleted = [key for key, row in written.items() if row is None]
        if deleted:
            self._store.delete(pa.RecordBatch.from_arrays(self._columns(deleted), schema=self._keys))
        if self._store.ttl_ms is not None:
            self._store.expire(self._clock())

    def _columns(self, keys: Sequence[Any]) -> list[pa.Array]:
        """Keys as the columns of the table's key; values of other types are rejected."""
        parts = [key if isinstance(key, tuple) else (key,) for key in keys]
        wrong = next((key for key, part in zip(keys, parts, strict=True) if len(part) != len(self._keys)), None)
        try:
            if wrong is None:
                return [column([part[place] for part in parts]) for place, column in enumerate(self._key_columns)]
        except Misfit:
            wrong = keys[0]
        reject(
            f"The table {self._table.table_id!r} is asked for the key {quoted(wrong, 80)}",
            hint="The declared key is: "
            f"{', '.join(f'{name} {self._store.schema[name].type.ddl()}' for name in self._store.key)}.",
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

    def put_all(self, entries: Sequence[tuple[Any, Any]]) -> None:
        """Writes pairs of key and row, in order."""
        self._table.write(entries)

    def delete(self, key: Any) -> None:
        """Deletes the row of a key."""
        self._table.write([(key, None)])
