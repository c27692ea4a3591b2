"""Changes that commits have made to a table of Iceberg, by what its snapshots say of themselves and of files."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_samza.errors import StateError
from airflow_samza.systems.iceberg.planning import TableFile, added_files, files_of, filter_of
from airflow_samza.systems.iceberg.slicing import columns_at, table_columns
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.arrivals import RESET
from airflow_samza.systems.tables.changed_arrivals import Commit
from airflow_samza.systems.tables.changes import ADDED, ChangedPart, changed_parts, check_comparable

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


class Commits:
    """Commits of a table, whose changes an input reads with the columns of ``schema``."""

    def __init__(self, table: Table, schema: Schema, storage: TableStorage, stream: StreamSpec) -> None:
        self._table = table
        self._schema = schema
        self._stream = stream
        everything = filter_of((), None, {})

        @lru_cache(maxsize=2)  # a snapshot is looked at with the one before it, and with the one behind it
        def files(number: int) -> list[TableFile]:
            snapshot = table.metadata.snapshot_by_id(number)
            assert snapshot is not None
            return files_of(table, snapshot, schema, everything, storage, stream)

        self._files = files

    def check_comparable(self, since: str | None) -> None:
        """Reject a column that is another one than the column of its name was in an older snapshot."""
        then = self._table.metadata.snapshot_by_id(int(since)) if since else None
        if then is not None:
            former, now = columns_at(self._table, then, self._schema), table_columns(self._schema)
            check_comparable(former, now, f"the snapshot {since}", ".".join(self._table.name()), f"To go on, {RESET}")

    def between(self, since: str, until: str) -> Commit:
        """Return the changes between two snapshots, "" being the empty table before the first one.

        Where one follows the other, its operation says what it has done: an ``append`` has brought rows, a
        ``replace`` (a compaction) has changed none. Else files and deletes of both are compared.
        """
        one, before = self._there(until), self._there(since) if since else None
        operation = one.summary.operation.value if one.summary is not None else "append"
        follows = before is not None and one.parent_snapshot_id == before.snapshot_id
        parts: list[ChangedPart[TableFile]] = []
        if follows and operation == "append":
            everything = filter_of((), None, {})
            added = added_files(self._table, [one], self._schema, everything, self._stream)
            parts = [ChangedPart(file, ADDED) for file in added]
        elif not (follows and operation == "replace"):
            former = self._files(before.snapshot_id) if before is not None else []
            parts = changed_parts(former, self._files(one.snapshot_id), lambda file: file.deletes)
        return Commit(since, until, one.sequence_number or 0, one.timestamp_ms, parts)

    def _there(self, number: str) -> Snapshot:
        snapshot = self._table.metadata.snapshot_by_id(int(number))
        if snapshot is None:
            raise StateError(
                f"The snapshot {number} of the table {'.'.join(self._table.name())}, of which the input "
                f"{self._stream.name!r} has left changes unread, has expired since.",
                hint=f"To go on, {RESET}",
                table=".".join(self._table.name()),
                stream=self._stream.name,
                snapshot=number,
            )
        return snapshot
