"""Choice of the snapshot that a run reads, and of the schema that it has; and tags that keep snapshots from expiry.

Up to a snapshot that is held an input was read: the next run begins there. A reader has three tags: that of its newest
plan or end, and the two before, from which a run that is cleared begins.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import TopicError
from airflow_samza.systems.iceberg.options import TableOptions
from airflow_samza.systems.output_slots import digest

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

_SHOWN = 3

KEPT = 3
"""Tags of a reader."""


def chosen_snapshot(metadata: TableMetadata, options: TableOptions, stream: str) -> Snapshot | None:
    """Return the snapshot that a stream's options mean, None of a table to which nothing was ever committed."""
    if options.snapshot is not None:
        return _by_id(metadata, options, options.snapshot, stream)
    if options.ref is not None:
        named = _by_id(metadata, options, _named(metadata, options, stream), stream)
        return _limited(metadata, options, named, stream) if options.up_to else named
    if options.as_of is not None:
        return _as_of(metadata, options, options.as_of, stream)
    head = metadata.current_snapshot()
    return _limited(metadata, options, head, stream) if options.up_to else head


def _limited(metadata: TableMetadata, options: TableOptions, head: Snapshot | None, stream: str) -> Snapshot:
    """Return the newest of the snapshots up to which a stream is read; it has to be in the history of the head.

    Those that have expired are older than those that have not.
    """
    existing = [one for number in options.up_to if (one := metadata.snapshot_by_id(number)) is not None]
    if not existing:
        return _by_id(metadata, options, options.up_to[0], stream)  # is an error
    newest = max(existing, key=_order)
    if head is not None and not is_within(metadata, newest, head):
        raise TopicError(
            f"The snapshot {newest.snapshot_id} of the table {options.table}, up to which stream {stream!r} is to be "
            f"read, is not in the history of {options.ref or 'the current snapshot'}: the table was rolled back.",
            hint=f"{_newest(metadata)}Start a run that names another one, or none.",
            table=options.table,
            stream=stream,
            snapshot=str(newest.snapshot_id),
        )
    return newest


def is_within(metadata: TableMetadata, snapshot: Snapshot, head: Snapshot) -> bool:
    """Return whether a snapshot is in the history of another one; where that has expired, whether it is older."""
    at = head
    while at.snapshot_id != snapshot.snapshot_id:
        if at.parent_snapshot_id is None:
            return False
        parent = metadata.snapshot_by_id(at.parent_snapshot_id)
        if parent is None:
            return _order(snapshot) < _order(at)
        at = parent
    return True


def _order(snapshot: Snapshot) -> tuple[int, int]:
    return snapshot.sequence_number or 0, snapshot.timestamp_ms


def first_since(metadata: TableMetadata, options: TableOptions, at: datetime, stream: str) -> Snapshot | None:
    """Return the first snapshot at or after a time that has changed rows, of the history that a stream reads.

    A branch that is not there yet has none.
    """
    exists = options.ref is None or options.ref in metadata.refs
    one = chosen_snapshot(metadata, options, stream) if exists else None
    first = None
    while one is not None and one.timestamp_ms >= at.timestamp() * 1000:
        if one.summary is None or one.summary.operation.value != "replace":
            first = one
        one = metadata.snapshot_by_id(one.parent_snapshot_id) if one.parent_snapshot_id is not None else None
    return first


def time_of(snapshot: Snapshot) -> datetime:
    """Return the time of a snapshot."""
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, timezone.utc)


def schema_of(metadata: TableMetadata, options: TableOptions, snapshot: Snapshot | None) -> Schema:
    """Return the schema that a snapshot is read with: of a branch, and without a choice, the table's own of now."""
    is_tag = options.ref is not None and metadata.refs[options.ref].snapshot_ref_type.value == "tag"
    follows = options.snapshot is None and options.as_of is None and not is_tag
    if follows or snapshot is None or snapshot.schema_id is None:
        return metadata.schema()
    return next((one for one in metadata.schemas if one.schema_id == snapshot.schema_id), metadata.schema())


def _named(metadata: TableMetadata, options: TableOptions, stream: str) -> int:
    found = metadata.refs.get(str(options.ref))
    if found is None:
        raise TopicError(
            f"The table {options.table} of stream {stream!r} has no tag and no branch {options.ref!r}.",
            hint=f"{did_you_mean(str(options.ref), metadata.refs)}It has {listed(sorted(metadata.refs))}.",
            table=options.table,
            stream=stream,
            ref=options.ref,
        )
    return found.snapshot_id


def _by_id(metadata: TableMetadata, options: TableOptions, number: int, stream: str) -> Snapshot:
    snapshot = metadata.snapshot_by_id(number)
    if snapshot is None:
        raise TopicError(
            f"The table {options.table} of stream {stream!r} has no snapshot {number}: it has expired, or belongs to "
            "another table.",
            hint=f"{_newest(metadata)}Choose another one, or leave the option out and read the current snapshot.",
            table=options.table,
            stream=stream,
            snapshot=str(number),
        )
    return snapshot


def _as_of(metadata: TableMetadata, options: TableOptions, at: datetime, stream: str) -> Snapshot:
    millis = at.timestamp() * 1000
    past = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= millis]
    if not past:
        raise TopicError(
            f"The table {options.table} of stream {stream!r} has no snapshot as of {at.isoformat()}: its history "
            "begins later.",
            hint=f"{_newest(metadata)}Take a later time; what expired before cannot be read.",
            table=options.table,
            stream=stream,
            as_of=at.isoformat(),
        )
    return _by_id(metadata, options, past[-1].snapshot_id, stream)


def _newest(metadata: TableMetadata) -> str:
    """Return the newest snapshots, for a hint."""
    snapshots = sorted(metadata.snapshots, key=lambda one: one.timestamp_ms, reverse=True)
    if not snapshots:
        return "The table has no snapshot at all. "
    texts = (f"{one.snapshot_id} ({time_of(one).isoformat(' ', 'seconds')})" for one in snapshots[:_SHOWN])
    return f"Its newest snapshots are {listed(texts)}. "


def hold_snapshot(table: Table, reader: str, version: str) -> None:
    """Tag a snapshot for a reader, and drop its oldest tags; nothing is committed where the tag is there."""
    from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

    mine = f"samza-{digest(reader)}-"
    tag = f"{mine}{version}"
    if tag in table.metadata.refs or table.metadata.snapshot_by_id(int(version)) is None:
        return
    order = {one.snapshot_id: one.sequence_number or 0 for one in table.metadata.snapshots}
    tags = [(order.get(ref.snapshot_id, 0), name) for name, ref in table.metadata.refs.items() if name.startswith(mine)]
    updates: list[TableUpdate] = [
        SetSnapshotRefUpdate.model_validate({"ref-name": tag, "type": "tag", "snapshot-id": int(version)})
    ]
    for _, name in sorted(tags)[: len(tags) - KEPT + 1] if len(tags) >= KEPT else ():
        updates.append(RemoveSnapshotRefUpdate.model_validate({"ref-name": name}))
    table._do_commit(tuple(updates), (AssertRefSnapshotId.model_validate({"ref": tag, "snapshot-id": None}),))
