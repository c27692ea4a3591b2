"""Rows appended to a Delta table since it was read last: files of the versions in between, which are looked at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.commit_changes import Commits
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.options import VERSIONS, TableOptions
from airflow_samza.systems.delta.planning import TableFile, files_of
from airflow_samza.systems.delta.slicing import cut_units, described_range, state_and_columns
from airflow_samza.systems.delta.state import AddedFile, TableState, state_at
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

_KEEP = "Keep the log for longer than the time between two runs, by the table's property delta.logRetentionDuration."


def fix_arrivals(
    log: DeltaLog,
    stream: StreamSpec,
    partitions: int,
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
    reject_one_version(stream, {name: dict(stream.options).get(name) or None for name in VERSIONS})
    if intake is not None and options.version is not None:  # a limit that lies before what was read
        options = dataclasses.replace(options, version=max(options.version, int(intake["version"])))
    state, columns = state_and_columns(log, options)
    identity = str(state.metadata["id"])
    read = {"table": identity, "version": state.version}
    if intake is not None:
        reject_other_table(log.name, identity, intake, stream)
    request = ArrivalsRequest[TableFile](
        stream,
        lambda some: described_range(log, stream, state, columns, some),
        lambda some, threshold: cut_units(log, some, threshold),
        read,
        intake,
        partitions,
        first_chunk,
        unread,
    )
    if stream.changes:
        commits = Commits(log, state, columns, stream.timestamp)
        keep = f"{_KEEP} Keep files as long, by delta.deletedFileRetentionDuration."
        return changes_range(request, _spans(log, state, intake, commits, stream), commits.between, keep=keep)
    with log.understood("what it says of files"):
        if intake is None:
            files = files_of(log, state.files, columns, bounds, None, stream.timestamp)
        else:
            files = _appended(log, state, columns, options, int(intake["version"]), stream, bounds)
            if intake["unread"]:
                before = _all_until(log, columns, int(intake["version"]), stream)
                files = [*left_unread(before, intake["unread"], log.name, stream), *files]
    return arrived_range(request, files)


def _appended(
    log: DeltaLog,
    state: TableState,
    columns: TableColumns,
    options: TableOptions,
    since: int,
    stream: StreamSpec,
    bounds: Sequence[ColumnBound],
) -> list[TableFile]:
    """Return the files that versions after one have added, version by version; one that took rows away is rejected."""
    files: list[TableFile] = []
    for version in _newer(log, since, state.version, stream):
        added, removed, info = _changes(log, version)
        if not removed:
            files += files_of(log, added, columns, bounds, None, stream.timestamp)
        elif options.overwrites == REJECT:
            what = "replaced rows" if added else "deleted rows"
            by = info.get(PRODUCER)
            raise taken_away(version, log.name, stream, what, by, version="version")
    return files


def _spans(
    log: DeltaLog, state: TableState, intake: Mapping[str, Any] | None, commits: Commits, stream: StreamSpec
) -> list[tuple[str, str]]:
    """Return the versions of which changes are read, each with the one before it."""
    if intake is None:
        return [(WHOLE, str(state.version))]
    newer = _newer(log, int(intake["version"]), state.version, stream)
    commits.check_comparable(int(intake["version"]))
    return [(str(version - 1), str(version)) for version in newer]


def _newer(log: DeltaLog, since: int, until: int, stream: StreamSpec) -> range:
    """Return the versions after one, of which all commits have to be there."""
    if since > until:
        raise _lost(log, since, stream, "is not there any more: the table was put back to an older one")
    newer = range(since + 1, until + 1)
    gone = next((version for version in newer if version not in log.commits), None)
    if gone is not None:
        raise _lost(log, since, stream, f"cannot be followed: version {gone} has been cleaned up since")
    return newer


def _changes(log: DeltaLog, version: int) -> tuple[list[AddedFile], bool, Mapping[str, Any]]:
    """Return the files that a version has added, whether it has taken rows away, and what it says of itself.

    What only lies elsewhere now, as after a compaction, is no change.
    """
    added: list[AddedFile] = []
    removed, info = False, {}
    for action in log.actions(log.commits[version]):
        if action.get("commitInfo") is not None:
            info = action["commitInfo"]
        for name in ("add", "remove"):
            if action.get(name) is not None and action[name].get("dataChange", True):
                if name == "add":
                    added.append(AddedFile.of(action["add"]))
                else:
                    removed = True
    return sorted(added, key=lambda file: file.path), removed, info


def _all_until(log: DeltaLog, columns: TableColumns, version: int, stream: StreamSpec) -> Sequence[TableFile]:
    """Return the files that versions up to one have added, as far as the log has them: with rewritten ones."""
    segment = log.segment(version)
    added = {file.path: file for file in (state_at(log, segment).files if segment is not None else ())}
    for one in sorted(log.commits):
        if one <= version:
            for file in _changes(log, one)[0]:
                added.setdefault(file.path, file)
    return files_of(log, list(added.values()), columns, (), None, stream.timestamp)


def _lost(log: DeltaLog, since: int, stream: StreamSpec, what: str) -> Exception:
    return lost(str(since), log.name, stream, what, version="version", keep=_KEEP)
