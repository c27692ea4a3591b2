"""Changes of an Iceberg table since it was read last, by what its snapshots say of themselves and of files."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import StateError
from airflow_samza.systems.iceberg.options import TableOptions
from airflow_samza.systems.iceberg.planning import added_files
from airflow_samza.systems.iceberg.snapshots import chosen_snapshot, is_within, schema_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.table_version import IcebergVersion
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.arrivals import RESET, WHOLE, Commit, TableHistory
from airflow_samza.systems.tables.inputs.change_columns import ADDED
from airflow_samza.systems.tables.inputs.changes import FileChange, file_changes
from airflow_samza.systems.tables.inputs.table_version import TableFile
from airflow_samza.systems.tables.options import REJECT
from airflow_samza.systems.tables.publishing import PRODUCER

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_TAKEN = {"overwrite": "replaced rows", "delete": "deleted rows"}


class IcebergHistory(IcebergVersion, TableHistory):
    """Snapshot of a table up to which an input is read, and those that lead there."""

    keep = "Keep snapshots for longer than the time between two runs, by a tag or older_than of expire_snapshots."

    def __init__(
        self, table: Table, stream: StreamSpec, storage: TableStorage, intake: Mapping[str, Any] | None = None
    ) -> None:
        metadata, options = table.metadata, TableOptions.of(stream)
        head = chosen_snapshot(metadata, options, stream.name)
        schema = schema_of(metadata, options, head)
        if intake is not None and intake["snapshot"] and options.up_to and head is not None:
            former = metadata.snapshot_by_id(int(intake["snapshot"]))
            if former is not None and is_within(metadata, head, former):  # a limit that lies before what was read
                head = former
        super().__init__(table, head, schema, stream, storage)
        self._options = options
        self._files_at = lru_cache(maxsize=2)(self._files_of)  # of a snapshot, with the one before or behind it

    def appended(self, intake: Mapping[str, Any], bounds: Sequence[ColumnBound]) -> list[TableFile]:
        """Return the files that snapshots since a record have appended, snapshot by snapshot."""
        newer, is_whole = self._newer(intake["snapshot"])
        if not is_whole:
            return self._files_since(intake["snapshot"])
        appended = []
        for one in newer:
            operation = one.summary.operation.value if one.summary is not None else "append"
            if operation == "append":
                appended.append(one)
            elif operation != "replace" and self._options.overwrites == REJECT:
                by = (one.summary.additional_properties if one.summary is not None else {}).get(PRODUCER)
                raise self.taken_away(one.snapshot_id, _TAKEN.get(operation, operation), by)
        return added_files(self.table, appended, self.table_schema, self.filter(bounds), self.stream)

    def files_until(self, intake: Mapping[str, Any]) -> list[TableFile]:
        """Return the files of the snapshot up to which a record says that was read."""
        before = self.at(intake["snapshot"])
        if before is None:
            raise self.lost(intake["snapshot"], "has expired since, with files left unread")
        return before.files()

    def version_ranges(self, intake: Mapping[str, Any] | None) -> list[tuple[str, str]]:
        """Return the snapshots since a record, each behind the one before it; those between have expired."""
        if self.snapshot is None:
            return []
        if intake is None:
            return [(WHOLE, str(self.snapshot.snapshot_id))]
        since = intake["snapshot"]
        newer, is_whole = self._newer(since)
        if not is_whole and (newer[0].sequence_number or 0) <= 1:  # the first of the table, and none has expired
            raise self.lost(since, "was rolled back")
        return list(itertools.pairwise([since or WHOLE, *(str(one.snapshot_id) for one in newer)]))

    def commit(self, since: str, until: str) -> Commit:
        """Return the changes between two snapshots, :data:`WHOLE` being the empty table before the first one.

        Where one follows the other, its operation says what it has done: an ``append`` has brought rows, a
        ``replace`` (a compaction) has changed none. Else files and deletes of both are compared.
        """
        one, before = self._snapshot(until), self._snapshot(since) if since else None
        operation = one.summary.operation.value if one.summary is not None else "append"
        follows = before is not None and one.parent_snapshot_id == before.snapshot_id
        changes: list[FileChange] = []
        if follows and operation == "append":
            added = added_files(self.table, [one], self.table_schema, self.filter(()), self.stream)
            changes = [FileChange(file, ADDED) for file in added]
        elif not (follows and operation == "replace"):
            changes = file_changes(self._files_at(since) if since else [], self._files_at(until))
        return Commit(since, until, one.sequence_number or 0, one.timestamp_ms, changes)

    def _newer(self, since: str | None) -> tuple[list[Snapshot], bool]:
        """Return the snapshots after one, oldest first, and whether none between has expired.

        An older one that is no more in the history of the table is an error.
        """
        newer: list[Snapshot] = []
        find, head = self.table.metadata.snapshot_by_id, self.snapshot
        at = head
        while at is not None and str(at.snapshot_id) != since:
            newer.append(at)
            at = find(at.parent_snapshot_id) if at.parent_snapshot_id is not None else None
        if since is not None and at is None:
            snapshot = find(int(since))
            if (
                snapshot is not None
                and head is not None
                and (head.sequence_number or 0) > (snapshot.sequence_number or 0)
            ):
                return newer[::-1], False
            raise self.lost(since, "has expired since" if snapshot is None else "was rolled back")
        if since is None and newer and (newer[-1].sequence_number or 0) > 1:
            raise self.lost(None, "has expired since")
        return newer[::-1], True

    def _files_since(self, since: str) -> list[TableFile]:
        """Return the files with rows that an older snapshot has not, whose own must all be there as they were.

        Files that were merged without others are as old as these, and have as many rows.
        """
        former = {file.path: file for file in self._files_at(since)}
        now = {file.path: file for file in self.files()}
        new = {path: file for path, file in now.items() if path not in former}
        known = self._snapshot(since).sequence_number or 0
        merged = [file for file in new.values() if file.sequence <= known]
        removed = [file for path, file in former.items() if path not in now]
        changed = sum(path in now and now[path].deletes != file.deletes for path, file in former.items())
        if any(file.deletes for file in (*removed, *merged)) or _rows(removed) != _rows(merged):
            changed += len(removed)
        if changed:
            raise StateError(
                f"Snapshots of the table {self.name} have expired since the input {self.stream.name!r} was read up to "
                f"{since}, and {changed} of the files that it had then were replaced, compacted, or lost rows: which "
                "of the rows are new, nobody can tell.",
                hint="Let runs follow each other sooner than snapshots expire and files are compacted. To go on, "
                "forget all state and read the table anew: airflow-samza state reset.",
                table=self.name,
                stream=self.stream.name,
                snapshot=since,
            )
        return [file for file in new.values() if file.sequence > known]

    def _files_of(self, number: str) -> list[TableFile]:
        found = self.at(number)
        assert found is not None
        return found.files()

    def _snapshot(self, number: str) -> Snapshot:
        snapshot = self.table.metadata.snapshot_by_id(int(number))
        if snapshot is None:
            raise StateError(
                f"The snapshot {number} of the table {self.name}, of which the input {self.stream.name!r} has left "
                "changes unread, has expired since.",
                hint=f"To go on, {RESET}",
                table=self.name,
                stream=self.stream.name,
                snapshot=number,
            )
        return snapshot


def _rows(files: Sequence[TableFile]) -> int:
    return sum(file.rows or 0 for file in files)
