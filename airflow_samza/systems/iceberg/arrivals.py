"""Rows appended to a table since it was read last: files of the snapshots in between, each of which is looked at."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import StateError
from airflow_samza.systems.iceberg.commit_changes import Commits
from airflow_samza.systems.iceberg.options import TableOptions
from airflow_samza.systems.iceberg.planning import TableFile, added_files, files_of, filter_of
from airflow_samza.systems.iceberg.slicing import cut_units, described_range, table_columns
from airflow_samza.systems.iceberg.snapshots import chosen_snapshot, is_within, schema_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.arrivals import (
    ArrivalsRequest,
    arrived_range,
    left_unread,
    lost,
    reject_one_version,
    reject_other_table,
    taken_away,
)
from airflow_samza.systems.tables.changed_arrivals import WHOLE, changes_range
from airflow_samza.systems.tables.options import REJECT
from airflow_samza.systems.tables.publishing import PRODUCER

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def fix_arrivals(
    table: Table,
    stream: StreamSpec,
    partitions: int,
    storage: TableStorage,
    intake: Mapping[str, Any] | None,
    first_chunk: int,
    *,
    unread: bool,
    bounds: Sequence[ColumnBound],
) -> dict[str, Any]:
    """Return the range of the rows that were appended since a record, as a system of arrivals has it.

    Files that cannot have a row within ``bounds`` are left out; of changes none, since rows may cancel each other out.
    """
    options = TableOptions.of(stream)
    reject_one_version(stream, {"snapshot": options.snapshot, "as_of": options.as_of})
    head = chosen_snapshot(table.metadata, options, stream.name)
    schema = schema_of(table.metadata, options, head)
    if intake is not None:
        reject_other_table(".".join(table.name()), str(table.metadata.table_uuid), intake, stream)
        head = _not_before(table, options, intake, head)
    read = {
        "table": str(table.metadata.table_uuid),
        "snapshot": None if head is None else str(head.snapshot_id),
    }
    request = ArrivalsRequest[TableFile](
        stream,
        lambda some: described_range(table, stream, head, schema, some),
        lambda some, threshold: cut_units(some, threshold, storage, stream.name),
        read,
        intake,
        partitions,
        first_chunk,
        unread,
    )
    if stream.changes:
        commits = Commits(table, schema, storage, stream)
        return changes_range(request, _spans(table, intake, head, commits, stream), commits.between, keep=KEEP)
    files: list[TableFile] = []
    where = filter_of(bounds, None, {column.name: column for column in table_columns(schema)})
    if intake is None and head is not None:
        files = files_of(table, head, schema, where, storage, stream)
    elif intake is not None:
        appended = _appended(table, options, intake["snapshot"], head, stream)
        if appended is None:
            assert head is not None
            files = _since(table, intake["snapshot"], head, schema, storage, stream)
        else:
            files = added_files(table, appended, schema, where, stream)
        if intake["unread"]:
            files = [*_left_unread(table, intake, storage, stream), *files]
    return arrived_range(request, files)


def _spans(
    table: Table, intake: Mapping[str, Any] | None, head: Snapshot | None, commits: Commits, stream: StreamSpec
) -> list[tuple[str, str]]:
    """Return the snapshots of which changes are read, each with the one before it; those between have expired."""
    if head is None:
        return []
    if intake is None:
        return [(WHOLE, str(head.snapshot_id))]
    since = intake["snapshot"]
    newer, is_whole = _newer(table, since, head, stream)
    if not is_whole and (newer[0].sequence_number or 0) <= 1:  # the first of the table, and none has expired
        raise _lost(".".join(table.name()), since, stream, "was rolled back")
    commits.check_comparable(since)
    numbers = [since or WHOLE, *(str(one.snapshot_id) for one in newer)]
    return list(itertools.pairwise(numbers))


def _not_before(
    table: Table, options: TableOptions, intake: Mapping[str, Any], head: Snapshot | None
) -> Snapshot | None:
    """Return the snapshot up to which is read: the one of the record, where a limit lies before it."""
    former = table.metadata.snapshot_by_id(int(intake["snapshot"])) if options.up_to and intake["snapshot"] else None
    return former if former and head and is_within(table.metadata, head, former) else head


def _appended(
    table: Table, options: TableOptions, since: str | None, head: Snapshot | None, stream: StreamSpec
) -> list[Snapshot] | None:
    """Return the snapshots after one, oldest first, that have appended rows; one that took rows away is rejected.

    None: that one is there, and some between have expired.
    """
    name = ".".join(table.name())
    newer, is_whole = _newer(table, since, head, stream)
    if not is_whole:
        return None
    appended = []
    for one in newer:
        operation = one.summary.operation.value if one.summary is not None else "append"
        if operation == "append":
            appended.append(one)
        elif operation != "replace" and options.overwrites == REJECT:
            by = (one.summary.additional_properties if one.summary is not None else {}).get(PRODUCER)
            what = _TAKEN.get(operation, operation)
            raise taken_away(one.snapshot_id, name, stream, what, by, version="snapshot")
    return appended


def _newer(table: Table, since: str | None, head: Snapshot | None, stream: StreamSpec) -> tuple[list[Snapshot], bool]:
    """Return the snapshots after one, oldest first, and whether none between has expired.

    An older one that is no more in the history of the table is an error.
    """
    name = ".".join(table.name())
    newer: list[Snapshot] = []
    at = head
    while at is not None and str(at.snapshot_id) != since:
        newer.append(at)
        parent = at.parent_snapshot_id
        at = table.metadata.snapshot_by_id(parent) if parent is not None else None
    if since is not None and at is None:
        there = table.metadata.snapshot_by_id(int(since))
        if there is not None and head is not None and _is_later(head, there):
            return newer[::-1], False
        raise _lost(name, since, stream, "has expired since" if there is None else "was rolled back")
    if since is None and newer and (newer[-1].sequence_number or 0) > 1:
        raise _lost(name, None, stream, "has expired since")
    return newer[::-1], True


def _is_later(one: Snapshot, other: Snapshot) -> bool:
    return (one.sequence_number or 0) > (other.sequence_number or 0)


def _since(
    table: Table, since: str, head: Snapshot, schema: Schema, storage: TableStorage, stream: StreamSpec
) -> list[TableFile]:
    """Return the files with rows that an older snapshot has not, whose own must all be there as they were.

    Files that were merged without others are as old as these, and have as many rows.
    """
    before = table.metadata.snapshot_by_id(int(since))
    assert before is not None
    everything = filter_of((), None, {})
    former = {file.path: file for file in files_of(table, before, schema, everything, storage, stream)}
    now = {file.path: file for file in files_of(table, head, schema, everything, storage, stream)}
    new = {path: file for path, file in now.items() if path not in former}
    known = before.sequence_number or 0
    merged = [file for file in new.values() if file.sequence <= known]
    gone = [file for path, file in former.items() if path not in now]
    changed = sum(path in now and now[path].deletes != file.deletes for path, file in former.items())
    if any(file.deletes for file in (*gone, *merged)) or sum(map(_rows, gone)) != sum(map(_rows, merged)):
        changed += len(gone)
    if changed:
        name = ".".join(table.name())
        raise StateError(
            f"Snapshots of the table {name} have expired since the input {stream.name!r} was read up to {since}, and "
            f"{changed} of the files that it had then were replaced, compacted, or lost rows: which of the rows are "
            "new, nobody can tell.",
            hint="Let runs follow each other sooner than snapshots expire and files are compacted. To go on, forget "
            "all state and read the table anew: airflow-samza state reset.",
            table=name,
            stream=stream.name,
            snapshot=since,
        )
    return [file for file in new.values() if file.sequence > known]


def _rows(file: TableFile) -> int:
    return file.rows


_TAKEN = {"overwrite": "replaced rows", "delete": "deleted rows"}


KEEP = "Keep snapshots for longer than the time between two runs, by a tag or older_than of expire_snapshots."


def _lost(table: str, since: str | None, stream: StreamSpec, what: str) -> StateError:
    return lost(since, table, stream, what, version="snapshot", keep=KEEP)


def _left_unread(table: Table, intake: Mapping[str, Any], storage: TableStorage, stream: StreamSpec) -> list[TableFile]:
    """Return the files that the run before has left unread; the snapshot up to which it read must be there."""
    options = TableOptions.of(stream)
    before = table.metadata.snapshot_by_id(int(intake["snapshot"]))
    if before is None:
        raise _lost(".".join(table.name()), intake["snapshot"], stream, "has expired since, with files left unread")
    schema = schema_of(table.metadata, options, before)
    files = files_of(table, before, schema, filter_of((), None, {}), storage, stream)
    return left_unread(files, intake["unread"], ".".join(table.name()), stream)
