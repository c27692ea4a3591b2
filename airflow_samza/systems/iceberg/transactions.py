"""Transactions on a table that apply what is staged once, and not each time that somebody looks at the metadata."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata


def transaction_of(table: Table) -> Transaction:
    """Return a new transaction. pyiceberg's own copies all metadata at each of a dozen looks that a commit takes."""
    return _kind()(table)


@cache
def _kind() -> type[Transaction]:
    from pyiceberg.table import Transaction

    class _AppliedOnce(Transaction):
        _applied: tuple[TableMetadata, object, TableMetadata] | None = None
        """The table's metadata, the updates, and both together."""

        @property
        def table_metadata(self) -> TableMetadata:
            base, updates = self._table.metadata, self._updates
            if self._applied is None or self._applied[0] is not base or self._applied[1] is not updates:
                self._applied = base, updates, super().table_metadata
            return self._applied[2]

    return _AppliedOnce
