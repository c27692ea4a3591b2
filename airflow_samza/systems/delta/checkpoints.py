"""Checkpoints that who commits writes now and then, and the end of a log's files that no version of late needs.

A checkpoint has all that the log says up to a version: files, what was taken out of late, transactions. It is written
of tables of which each action and feature is known here; the others are left to their own writers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta, timezone
from io import BytesIO
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_samza.systems.delta.log import FOLDER, LAST_CHECKPOINT, DeltaLog, LogFile, Segment, find_log, old_part
from airflow_samza.systems.delta.state import TableState, vector_id
from airflow_samza.systems.filesystems.filesystem import Filesystem

_INTERVAL = 10
"""Commits between two checkpoints at least, where the table does not say otherwise."""
_LONGEST_INTERVAL = 50
_SHARE = 4
"""Bytes of a checkpoint for a byte of the commits behind the last one: a log grows with the number of commits."""
_TOMBSTONES = "interval 1 week"
_LOG = "interval 30 days"
_DURATION = re.compile(r"(?:interval\s+)?(\d+)\s+(millisecond|second|minute|hour|day|week)s?", re.IGNORECASE)

_STRINGS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _STRINGS),
        ("deletionVector", _VECTOR),
    ]
)
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _STRINGS),
        ("size", pa.int64()),
        ("tags", _STRINGS),
        ("deletionVector", _VECTOR),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _STRINGS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _STRINGS),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_TRANSACTION = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_SCHEMA = pa.schema(
    [("txn", _TRANSACTION), ("add", _ADD), ("remove", _REMOVE), ("metaData", _METADATA), ("protocol", _PROTOCOL)]
)
_OTHERS = frozenset({"commitInfo", "cdc"})
"""Actions that no checkpoint has."""


class _Unknown(Exception):
    """An action or a field of one that would be lost in a checkpoint of this form."""


def keep_log_short(files: Filesystem, state: TableState, version: int, is_ours: Callable[[TableState], bool]) -> None:
    """Write the checkpoint of a version that was just committed, if one is due, and clean up a log of ours.

    ``state`` is that of before the commit.
    """
    log = state.log
    configuration = state.configuration
    interval = configuration.get("delta.checkpointInterval", "")
    is_set = interval.isdecimal() and int(interval) > 0
    if version % (int(interval) if is_set else _INTERVAL) or _is_of_others(state):
        return
    found = find_log(log.table, log.name, log.stream, since=max(log.checkpoints, default=0))
    if found is None or not (is_set or _has_grown(found)):
        return
    try:
        _write(files, found, version, configuration)
    except _Unknown:
        return
    if configuration.get("delta.enableExpiredLogCleanup", "true") != "false" and is_ours(state):
        before = _since(configuration, "delta.logRetentionDuration", _LOG)
        old = old_part(found, before)
        if old is not None:
            _clean_up(files, old, version, before)


def _has_grown(log: DeltaLog) -> bool:
    """Return whether the commits behind the last checkpoint are worth the next one, which names all data files anew."""
    last = max(log.checkpoints, default=0)
    behind = [file.size for version, file in log.commits.items() if version > last]
    return len(behind) >= _LONGEST_INTERVAL or _SHARE * sum(behind) >= sum(
        file.size for file in log.checkpoints.get(last, ())
    )


def _is_of_others(state: TableState) -> bool:
    """Return whether a table's checkpoints have a form that is not written here."""
    configuration = state.configuration
    return (
        configuration.get("delta.checkpointPolicy", "classic") != "classic"
        or configuration.get("delta.checkpoint.writeStatsAsJson", "true").lower() == "false"
        or configuration.get("delta.checkpoint.writeStatsAsStruct", "false").lower() == "true"
        or "v2Checkpoint" in (state.protocol.get("writerFeatures") or ())
        or "delta.setTransactionRetentionDuration" in configuration
    )


def _write(files: Filesystem, log: DeltaLog, version: int, configuration: Mapping[str, str]) -> None:
    segment = log.segment(version)
    if segment is None:
        return
    contents = _Contents.of(log, segment)
    rows = contents.table(_oldest_removal(configuration))
    sink = BytesIO()
    pq.write_table(rows, sink, compression="snappy")
    data = sink.getvalue()
    files.put_if_absent(f"{FOLDER}/{version:020d}.checkpoint.parquet", data)
    last = {"version": version, "size": len(rows), "sizeInBytes": len(data), "numOfAddFiles": contents.count}
    files.put(LAST_CHECKPOINT, json.dumps(last).encode())


class _Contents:
    """Contents of a checkpoint: the actions that count at a version."""

    def __init__(self) -> None:
        self.added: dict[tuple[str, str | None], Mapping[str, Any]] = {}
        self._removed: dict[tuple[str, str | None], Mapping[str, Any]] = {}
        self._transactions: dict[str, Mapping[str, Any]] = {}
        self._one_each: dict[str, Mapping[str, Any]] = {}
        self._unchanged: list[pa.Table] = []

    @classmethod
    def of(cls, log: DeltaLog, segment: Segment) -> _Contents:
        """Return what a log says up to a version."""
        contents = cls()
        actions = [action for file in segment.commits for action in log.actions(file)]
        of_files = [action.get("add") or action.get("remove") for action in actions]
        changed = {one["path"] for one in of_files if one is not None}
        for file in segment.checkpoint:
            contents._take_checkpoint(log, file, changed)
        for action in actions:
            contents.take(action)
        return contents

    def _take_checkpoint(self, log: DeltaLog, file: LogFile, changed: Collection[str]) -> None:
        """Take a file of a checkpoint in; of one of this form, files that have not changed since stay columns.

        So do those that were taken out: where small files are merged, each epoch leaves one.
        """
        opened = log.opened(file)
        with opened.random_access() as source:
            rows = pq.read_table(source)
        if rows.schema.equals(_SCHEMA):
            path = pc.coalesce(*(pc.struct_field(rows.column(name), "path") for name in ("add", "remove")))
            stays = pc.and_(pc.is_valid(path), pc.invert(pc.is_in(path, pa.array(sorted(changed), pa.string()))))
            self._unchanged.append(rows.filter(stays))
            rows = rows.filter(pc.invert(stays))
        for row in rows.to_pylist(maps_as_pydicts="lossy"):
            self.take({name: _without_nulls(value) for name, value in row.items() if value is not None})

    def take(self, action: Mapping[str, Any]) -> None:
        for name, value in action.items():
            if name in _OTHERS or value is None:
                continue
            if name not in _SCHEMA.names:
                raise _Unknown(name)
            fields = {field.name for field in _SCHEMA.field(name).type}
            if not fields.issuperset(key for key, one in value.items() if one is not None):
                raise _Unknown(name)
            if name == "txn":
                self._transactions[value["appId"]] = value
            elif name in ("metaData", "protocol"):
                self._one_each[name] = value
            else:
                key = value["path"], vector_id(value.get("deletionVector"))
                into, out = (self.added, self._removed) if name == "add" else (self._removed, self.added)
                out.pop(key, None)
                into[key] = value

    @property
    def count(self) -> int:
        """The number of data files."""
        return len(self.added) + sum(len(rows) - int(rows.column("add").null_count) for rows in self._unchanged)

    def paths(self) -> set[str]:
        """Return the paths of the data files, as the log has them."""
        unchanged = (pc.struct_field(rows.column("add"), "path").drop_null().to_pylist() for rows in self._unchanged)
        return {path for path, _ in self.added}.union(*unchanged)

    def table(self, oldest: int) -> pa.Table:
        """Return the rows of the checkpoint; what was taken out before ``oldest`` (ms) is forgotten."""
        unchanged = [
            rows.filter(pc.or_(pc.is_valid(rows.column("add")), _is_later(rows, oldest))) for rows in self._unchanged
        ]
        rows = [
            *({name: value} for name, value in self._one_each.items()),
            *({"txn": one} for one in self._transactions.values()),
            *({"add": {**one, "dataChange": False}} for one in self.added.values()),
            *({"remove": {**one, "dataChange": False}} for one in self._removed_since(oldest)),
        ]
        return pa.concat_tables([pa.Table.from_pylist(rows, _SCHEMA), *unchanged])

    def paths_removed_since(self, oldest: int) -> set[str]:
        """Return the paths of what was taken out after a time (ms), as the log has them."""
        unchanged = (rows.column("remove").filter(_is_later(rows, oldest)) for rows in self._unchanged)
        return {one["path"] for one in self._removed_since(oldest)}.union(
            *(pc.struct_field(removed, "path").to_pylist() for removed in unchanged)
        )

    def _removed_since(self, oldest: int) -> list[Mapping[str, Any]]:
        return [one for one in self._removed.values() if (one.get("deletionTimestamp") or 0) > oldest]


def names_in_use(state: TableState, *, is_ours: bool) -> set[str] | None:
    """Return the names of the data files that may be read, or were taken out of late; None: nobody here knows.

    Of tables of others it is all that the log has ever named, as far as it is there.
    """
    log = state.log
    segment = log.segment(state.version)
    if segment is None or _is_of_others(state):
        return None
    try:
        contents = _Contents.of(log, segment)
        oldest = _oldest_removal(state.configuration) if is_ours else -1
        named = contents.paths() | contents.paths_removed_since(oldest)
        for file in log.commits.values() if not is_ours else ():
            named |= {one["path"] for action in log.actions(file) for one in (action.get("add"),) if one}
    except _Unknown:
        return None
    return {unquote(path).rpartition("/")[2] for path in named}


def _is_later(rows: pa.Table, oldest: int) -> pa.ChunkedArray:
    """Return which rows of a checkpoint are files that were taken out after a time (ms)."""
    removed = rows.column("remove")
    times = pc.fill_null(pc.struct_field(removed, "deletionTimestamp"), 0)
    return pc.and_(pc.is_valid(removed), pc.greater(times, oldest))


def _without_nulls(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_nulls(one) if name == "deletionVector" else one for name, one in value.items() if one is not None
    }


def _clean_up(files: Filesystem, log: DeltaLog, version: int, before: datetime) -> None:
    """Delete files of the log that only versions of before a time need: those of before the checkpoint of that time."""
    old = [one for one, file in log.commits.items() if file.written is not None and file.written < before]
    kept = max((one for one in (*log.checkpoints, version) if old and one <= max(old)), default=None)
    if kept is None:
        return
    expired = [file for one, file in log.commits.items() if one < kept and one in old]
    expired += [file for one, parts in log.checkpoints.items() if one < kept for file in parts]
    for file in expired:
        files.delete(f"{FOLDER}/{file.path.rpartition('/')[2]}")


def _oldest_removal(configuration: Mapping[str, str]) -> int:
    """Return the time (ms) before which what was taken out is forgotten, and its file may be deleted."""
    return int(_since(configuration, "delta.deletedFileRetentionDuration", _TOMBSTONES).timestamp() * 1000)


def _since(configuration: Mapping[str, str], name: str, default: str) -> datetime:
    """Return the time before which what a property keeps may go."""
    found = _DURATION.fullmatch(configuration.get(name, default).strip())
    if found is None:
        raise _Unknown(name)
    return datetime.now(timezone.utc) - timedelta(**{f"{found[2].lower()}s": int(found[1])})
