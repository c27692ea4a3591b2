"""Protocol of task-local stores.

Every backend keeps this protocol (``tests/contract/test_stores.py``); a task sees it through typed values.

Keys and values are plain: a key is one Python value, or a tuple of them when the key has several columns; a value is a
tuple with one Python value per column, in the forms that ``pyarrow`` gives (``to_pylist``). The caller of ``put``
checks the types before. Source: side-inputs (KeyValueStore). Low-level tasks get their stores by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import StoreError
from airflow_samza.schema import Schema
from airflow_samza.storage.columnar import ColumnarTable

Values = tuple[Any, ...]

BASE, CHANGES, DELETED = "base", "changes-", "deleted"
"""Kinds of content of a store.

A base, and numbered tables of what has changed since, with a column that says which keys are gone.
"""


def numbered_changes(tables: Mapping[str, pa.Table]) -> list[tuple[int, pa.Table]]:
    """Return the tables of changes among those that were kept, with their numbers, in their order."""
    return sorted(
        ((int(name.removeprefix(CHANGES)), table) for name, table in tables.items() if name != BASE),
        key=lambda change: change[0],
    )


def merged(layout: StoreLayout, base: pa.Table, changes: Sequence[pa.Table]) -> pa.Table:
    """Return all entries in key order, of a base and of tables of what has changed since, in their order."""
    if not changes:
        return base
    whole = base.append_column(DELETED, pa.array(np.zeros(base.num_rows, bool)))
    schema = changes[0].schema.remove_metadata()
    parts = [table.replace_schema_metadata(None).cast(schema) for table in (whole, *changes)]
    key = layout.schema.names[: len(layout.key.fields)]
    last = ColumnarTable.of(pa.concat_tables(parts), key).rows
    left = pa.Table.from_batches([last.filter(pc.invert(last.column(DELETED)))]).drop_columns([DELETED])
    order = pc.sort_indices(left, sort_keys=[(name, "ascending") for name in key])
    return left.take(order).combine_chunks().cast(layout.schema)


@dataclass(frozen=True)
class StoreLayout:
    """The columns of a store: of its key, in the order in which keys are sorted, and of its values."""

    name: str
    key: Schema
    value: Schema

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of a snapshot: those of the key, then those of the value, never null in the key."""
        keys = [pa.field(f"key.{field.name}", field.type.to_arrow(), nullable=False) for field in self.key.fields]
        values = [pa.field(f"value.{field.name}", field.type.to_arrow()) for field in self.value.fields]
        return pa.schema([*keys, *values])

    def table(self, entries: Sequence[tuple[Any, Values]]) -> pa.Table:
        """Return entries as a snapshot's table, in the order given."""
        keys = [key if len(self.key.fields) > 1 else (key,) for key, _ in entries]
        rows = [(*key, *values) for key, (_, values) in zip(keys, entries, strict=True)]
        columns = zip(*rows, strict=True) if rows else [()] * len(self.schema)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def keys_of(self, table: pa.Table) -> list[Any]:
        """Return the keys of a snapshot's table, in its order."""
        columns = [table.column(place).to_pylist() for place in range(len(self.key.fields))]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def checked(self, table: pa.Table) -> pa.Table:
        """Return a snapshot's table; raise a :class:`StoreError` if it has not the columns that the store declares."""
        if table.schema.equals(self.schema):
            return table
        if table.schema.names == self.schema.names and table.schema.types == self.schema.types:
            return table.cast(self.schema)  # only what is said of nulls differs: a file may forget it
        kept = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        declared = ", ".join(f"{field.name} {field.type}" for field in self.schema)
        raise StoreError(
            f"The store {self.name!r} was kept with the columns {kept}, and is declared with {declared}.",
            hint="Declare it as before, or give it another name: it then starts empty.",
            store=self.name,
        )


class KeyValueStore(Protocol):
    """Store of one task: entries in the order of their keys. It reads what it has written.

    Nothing of it outlives the task but what :meth:`kept` gives, so that an epoch that fails leaves nothing.
    """

    def get(self, key: Any) -> Values | None:
        """Return the value of a key, or None."""

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Values]:
        """Return the values of those keys that are there."""

    def put(self, key: Any, value: Values) -> None:
        """Set a value."""

    def delete(self, key: Any) -> None:
        """Remove a key; one that is not there is no error."""

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Values]]:
        """Return the entries from ``first`` up to and without ``last``, in key order, as they are now.

        None leaves that end open. What is written while it is iterated does not change what it gives.
        """

    def kept(self) -> dict[str, pa.Table]:
        """Return all entries in tables that change little: the base in key order, and what has changed since.

        Tables that it gave before are given again, and do not change.
        """

    def restore_kept(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what :meth:`kept` gave, in place of all that it holds."""

    def close(self) -> None:
        """Give back what it holds."""


def too_large(name: str, holds: str, size: int, most: int) -> StoreError:
    """Return the error of a store that ``holds`` (or would hold) more bytes than it may."""
    return StoreError(
        f"The store {name!r} {holds} {size} bytes in one task, and stores.{name}.max.bytes allows {most}.",
        hint="Delete what is not needed any more, give it a ttl, use more partitions, or raise "
        f"stores.{name}.max.bytes.",
        store=name,
        bytes=size,
        most=most,
    )
