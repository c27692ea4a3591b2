"""Rows appended to a table since it was read last: files of the snapshots in between, each of which is looked at.

The record of what was read names the snapshot up to which. Who ends a run early notes as ``unread`` the files that its
tasks have left (:func:`~airflow_samza.runs.state_history.arrivals.intake_at_end`); the next run reads them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.systems.files.packing import pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, CHUNK_OFFSETS, cut_from
from airflow_samza.systems.iceberg.options import REJECT, TableOptions
from airflow_samza.systems.iceberg.planning import TableFile, added_files, files_of, filter_of
from airflow_samza.systems.iceberg.slicing import cut_units, described_range
from airflow_samza.systems.iceberg.snapshots import chosen_snapshot, schema_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.tables_made import PRODUCER
from airflow_samza.systems.system import StreamSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_SHAPE: dict[str, Any] = {"order": "snapshot", "horizon": None, "late": 0, "passed": 0, "names": {}}
"""The part of a record that other systems of arrivals have, too."""


def fix_arrivals(
    table: Table,
    stream: StreamSpec,
    partitions: int,
    storage: TableStorage,
    intake: Mapping[str, Any] | None,
    first_chunk: int,
    *,
    unread: bool,
) -> dict[str, Any]:
    """Return the range of the rows that were appended since a record, as a system of arrivals has it."""
    options = TableOptions.of(stream)
    if options.snapshot is not None or options.as_of is not None:
        name = "snapshot" if options.snapshot is not None else "as_of"
        raise ConfigError(
            f'The input {stream.name!r} has slice="checkpoint" and the option {name}, which is one version for ever.',
            hint="Leave one of the two out.",
            key=name,
            stream=stream.name,
        )
    head = chosen_snapshot(table.metadata, options, stream.name)
    schema = schema_of(table.metadata, options, head)
    files: list[TableFile] = []
    if intake is None and head is not None:
        files = files_of(table, head, schema, filter_of((), None, {}), storage, stream.name)
    elif intake is not None:
        _reject_other_table(table, intake, stream)
        appended = _appended(table, options, intake["snapshot"], head, stream)
        files = added_files(table, appended, schema, storage, stream.name)
        if intake["unread"]:
            files = [*_left_unread(table, intake, storage, stream), *files]
    skipped = len(files) if unread else 0
    files = [] if unread else files
    total = sum(file.size for file in files)
    units = cut_units(files, min(cut_from(total, partitions), CHUNK_BYTES), storage, stream.name)
    chunks = pack_chunks(units, partitions, CHUNK_BYTES) if files else []
    known = {
        **_SHAPE,
        "table": str(table.metadata.table_uuid),
        "snapshot": None if head is None else str(head.snapshot_id),
        "unread": {},
        "files": len(files) + (int(intake["files"]) if intake is not None else 0),
        "bytes": total + (int(intake["bytes"]) if intake is not None else 0),
    }
    return {
        **described_range(table, stream, head, schema, files),
        "partitions": partitions,
        "offsets": [[first_chunk * CHUNK_OFFSETS, (first_chunk + len(chunks)) * CHUNK_OFFSETS]] * partitions,
        "first_chunk": first_chunk,
        "chunks": [[[list(split) for split in splits] for splits in chunk] for chunk in chunks],
        "known": known,
        "noted": {"waiting": 0, "late": 0, "ignored": 0, "unread": skipped},
    }


def _reject_other_table(table: Table, intake: Mapping[str, Any], stream: StreamSpec) -> None:
    if intake["table"] != str(table.metadata.table_uuid):
        raise StateError(
            f"The table {'.'.join(table.name())} of the input {stream.name!r} is another one than the run before has "
            "read: it was dropped and made anew.",
            hint="Give the input a new id, with the former one in dropped=, and the new table is read from its "
            "beginning; or forget all state: airflow-samza state reset.",
            table=".".join(table.name()),
            stream=stream.name,
        )


def _appended(
    table: Table, options: TableOptions, since: str | None, head: Snapshot | None, stream: StreamSpec
) -> list[Snapshot]:
    """Return the snapshots after one, oldest first, that have appended rows; one that took rows away is rejected."""
    name = ".".join(table.name())
    newer: list[Snapshot] = []
    at = head
    while at is not None and str(at.snapshot_id) != since:
        newer.append(at)
        if at.parent_snapshot_id is None:
            at = None
            break
        before = table.metadata.snapshot_by_id(at.parent_snapshot_id)
        if before is None:
            raise _lost(name, since, stream, "has expired since")
        at = before
    if since is not None and at is None:
        is_there = table.metadata.snapshot_by_id(int(since)) is not None
        raise _lost(name, since, stream, "was rolled back" if is_there else "has expired since")
    if since is None and newer and (newer[-1].sequence_number or 0) > 1:
        raise _lost(name, None, stream, "has expired since")
    appended = []
    for one in reversed(newer):
        operation = one.summary.operation.value if one.summary is not None else "append"
        if operation == "append":
            appended.append(one)
        elif operation != "replace" and options.overwrites == REJECT:
            by = (one.summary.additional_properties if one.summary is not None else {}).get(PRODUCER)
            raise TopicError(
                f"The snapshot {one.snapshot_id} of the table {name} has {_TAKEN.get(operation, operation)}"
                f"{f' (by {by})' if by else ''} since the input {stream.name!r} was read last, and with "
                'slice="checkpoint" it is read by what is appended.',
                hint="If rows that were read before may stay as they are, set the option overwrites=skip: then what "
                "such snapshots add or take is not read. Else read the table whole (leave slice= out), or forget all "
                "state and read it anew: airflow-samza state reset.",
                table=name,
                stream=stream.name,
                snapshot=str(one.snapshot_id),
            )
    return appended


_TAKEN = {"overwrite": "replaced rows", "delete": "deleted rows"}


def _lost(table: str, since: str | None, stream: StreamSpec, what: str) -> StateError:
    return StateError(
        f"The snapshot {since} of the table {table}, up to which the input {stream.name!r} was read, {what}."
        if since is not None
        else f"The oldest snapshot of the table {table}, whose rows the input {stream.name!r} has not read, {what}.",
        hint="Keep snapshots for longer than the time between two runs, by a tag or older_than of expire_snapshots. "
        "To go on, forget all state and read the table anew: airflow-samza state reset.",
        table=table,
        stream=stream.name,
        snapshot=since,
    )


def _left_unread(table: Table, intake: Mapping[str, Any], storage: TableStorage, stream: StreamSpec) -> list[TableFile]:
    """Return the files that the run before has left unread; the snapshot up to which it read must be there."""
    options = TableOptions.of(stream)
    before = table.metadata.snapshot_by_id(int(intake["snapshot"]))
    if before is None:
        raise _lost(".".join(table.name()), intake["snapshot"], stream, "has expired since, with files left unread")
    schema = schema_of(table.metadata, options, before)
    files = files_of(table, before, schema, filter_of((), None, {}), storage, stream.name)
    return [file for file in files if file.path in intake["unread"]]
