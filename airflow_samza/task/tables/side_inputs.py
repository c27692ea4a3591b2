"""The processor of a table's side inputs, made by its factory, and a table as Python sees it: rows by key as messages.

A factory is a class or function, or ``module:factory`` by name (rules S2, S8). The processor reads what was written
before, and what it has given itself. Tasks run it while they fill the table, and the stage runner checks the factory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.callables import check_callable, name_of
from airflow_samza.application.declarations.side_inputs import SideInputsProcessor
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.application.rejections import USER_ERRORS, imported, raised_in_user_code
from airflow_samza.errors import InvalidApplication, SamzaError
from airflow_samza.quoting import quoted
from airflow_samza.row import Row
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, ShapeError
from airflow_samza.task.messages.own_copies import OwnCopies
from airflow_samza.task.tables.store import TableStore


def make_processor(table: TableDescriptor, config: Mapping[str, str], metrics: Any) -> SideInputsProcessor:
    """A new processor of a table."""
    factory = processor_factory(table)
    try:
        processor = factory(config, metrics)
    except SamzaError:
        raise
    except USER_ERRORS as error:
        raise InvalidApplication(
            f"The factory of the processor of table {table.table_id!r}, {name_of(factory)}, raised "
            f"{raised_in_user_code(error)}.",
            hint="It is called with (config, metrics), once in each task.",
            table=table.table_id,
        ) from error
    if not callable(getattr(processor, "process", None)):
        raise InvalidApplication(
            f"The factory of the processor of table {table.table_id!r}, {name_of(factory)}, made {processor!r:.100}, "
            "which has no method process.",
            hint="Return an object with process(message, store) that gives (key, row) pairs.",
            table=table.table_id,
        )
    return processor  # type: ignore[no-any-return]  # it has been looked at above


def processor_factory(table: TableDescriptor) -> Callable[[Mapping[str, str], Any], Any]:
    """The factory that a table was declared or configured with, imported where it was named."""
    named = table.processor
    if not isinstance(named, str):
        return named  # type: ignore[no-any-return]  # the declaration has checked it
    key = f"stores.{table.table_id}.side.inputs.processor.factory"
    factory = imported(named, f"The processor of table {table.table_id!r}", key=key)
    check_callable(
        factory,
        f"the processor factory {named!r} of table {table.table_id!r}",
        2,
        hint="Give a callable (config, metrics).",
    )
    return factory  # type: ignore[no-any-return]  # it has been checked above


_MOST = 50_000
"""Rows that are held as Python objects before they go into the table."""


class WrongEntry(Exception):
    """Error for what a processor gave that is no entry of its table: the fault, as half a sentence."""


class MessageStore:
    """Rows by key, as messages (``KeyValueStore``). Entries go into the table in bulk: :meth:`flush`.

    Rows are kept as they are when they are put, and only what is put is kept: a row that it gives may be changed, as
    one that was put.
    """

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._key = store.key
        self._kind = store.schema.python_class or Row
        self._key_writer = MessageWriter(store.key_schema)
        self._reader = MessageReader(store.schema)
        self._writer = MessageWriter(store.schema)
        self._copies = OwnCopies(store.schema)
        self._written: dict[Any, Any] = {}
        self._looked_up: dict[Any, Any] = {}

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        if key in self._written:
            row = self._written[key]
            if row is not None and not isinstance(row, self._kind):
                row = self._shown(key, row)
        else:
            if key not in self._looked_up:
                self.prefetch([key])
            row = self._looked_up.get(key)
        return row if row is None else self._copies.of(row)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        listed = list(keys)
        self.prefetch(listed)
        return {key: row for key in listed if (row := MessageStore.get(self, key)) is not None}

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Any]]:
        """The entries from ``first`` up to and without ``last``, in key order; all rows are sorted for it."""
        self.flush()
        rows = self._reader.read(self._store.rows)
        keyed = sorted(((self._key_of(row), row) for row in rows), key=lambda pair: pair[0])
        return ((key, row) for key, row in keyed if (first is None or key >= first) and (last is None or key < last))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All entries, in key order."""
        return self.range()

    def prefetch(self, keys: Sequence[Any]) -> None:
        """Looks many keys up at once, so that asking for each of them later costs little."""
        missing = [
            key
            for key in dict.fromkeys(keys)
            if key is not None and key not in self._written and key not in self._looked_up
        ]
        if not missing:
            return
        if len(self._looked_up) > _MOST:
            self._looked_up.clear()
        places = self._store.find(self._columns(missing), self._now())
        found = [key for key, place in zip(missing, places.tolist(), strict=True) if place >= 0]
        self._looked_up.update(dict.fromkeys(missing))
        self._looked_up.update(zip(found, self._reader.read(self._store.batch(places[places >= 0])), strict=True))

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Any) -> None:
        """Sets a row; None deletes. Of a row that is a dict the key's columns may be left out."""
        if isinstance(value, dict) and any(name not in value for name in self._key):
            parts = key if len(self._key) > 1 else (key,)
            value = {**dict(zip(self._key, parts, strict=True)), **value}
        if value is not None and self._key_of(value) != key:
            raise WrongEntry(f"the row under the key {quoted(key)} has the key {quoted(self._key_of(value))}")
        self._written[key] = value if value is None else self._copies.of(value)
        if len(self._written) > _MOST:
            self.flush()

    def put_all(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]]) -> None:
        """Sets several rows, in the order given; None deletes."""
        for key, value in entries.items() if isinstance(entries, Mapping) else entries:
            self.put(key, value)

    def delete(self, key: Any) -> None:
        """Removes a key; one that is not there is no error."""
        self.put(key, None)

    def flush(self) -> None:
        """Hands what was given to the table."""
        written, self._written = self._written, {}
        self._looked_up.clear()
        rows = {key: row for key, row in written.items() if row is not None}
        deleted = [key for key, row in written.items() if row is None]
        if rows:
            try:
                self._store.write(self._writer.write(list(rows.values())), self._now())
            except ShapeError as error:
                key, row = list(rows.items())[error.index]
                raise WrongEntry(
                    f"the row {quoted(row, 200)} under the key {quoted(key)} does not fit: {error.why}"
                ) from None
        if deleted:
            self._store.delete(
                pa.RecordBatch.from_arrays(self._columns(deleted), schema=self._store.key_schema.to_arrow())
            )

    def _now(self) -> int | None:
        """Return the time at which rows are written and looked up (ms); None where they have no time to live."""
        return None

    # -- forms ---------------------------------------------------------------------------------------------------------

    def _columns(self, keys: Sequence[Any]) -> list[pa.Array]:
        rows = [dict(zip(self._key, key if len(self._key) > 1 else (key,), strict=True)) for key in keys]
        try:
            return list(self._key_writer.write(rows).columns)
        except ShapeError as error:
            raise WrongEntry(
                f"the key {keys[error.index]!r} is none of {self._store.key_schema.ddl()}: {error.why}"
            ) from None

    def _key_of(self, row: Any) -> Any:
        try:
            parts = [row[name] if isinstance(row, Mapping) else getattr(row, name) for name in self._key]
        except (KeyError, AttributeError):
            raise WrongEntry(f"the row {quoted(row, 200)} lacks the key's columns ({', '.join(self._key)})") from None
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _shown(self, key: Any, row: Any) -> Any:
        """A row that was given in another form, as a message."""
        try:
            shown = self._reader.read(self._writer.write([row]))[0]
        except ShapeError as error:
            raise WrongEntry(
                f"the row {quoted(row, 200)} under the key {quoted(key)} does not fit: {error.why}"
            ) from None
        self._written[key] = shown
        return shown


def apply_entries(store: MessageStore, entries: Iterable[tuple[Any, Any]] | None) -> int:
    """Write entries in their order: a value None deletes, a key None is left out (rule S2).

    Returns how many were left out.
    """
    if entries is None:
        raise TypeError("it returned None and not (key, row) pairs, of which there may be none")
    ignored = 0
    for key, value in entries:
        if key is None:
            ignored += 1
        elif value is None:
            store.delete(key)
        else:
            store.put(key, value)
    return ignored
