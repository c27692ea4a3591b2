"""Changes of a table since it was read last: commit by commit, as the input range of an input with ``changes=True``.

A commit that has only added files brings rows as they are read in any case. Of one that has taken files out and put
others in, these are read together, so that rows that were only written anew cancel out (decision 115).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.errors import StateError
from airflow_samza.systems.files.packing import Unit, pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, split_threshold
from airflow_samza.systems.tables.inputs.arrivals import RESET, ArrivalsRequest, Commit, recorded_range
from airflow_samza.systems.tables.inputs.change_columns import ADDED, REMOVED
from airflow_samza.systems.tables.inputs.changes import (
    FileChange,
    check_comparable,
    described_changes,
    reporting_missing_files,
)
from airflow_samza.systems.tables.inputs.table_version import TableVersion

_NAME = re.compile(r"(\d*)\.\.(\d+)/\d+")
"""Name of changes that are read together: two versions, and a number; in records of appended rows stand paths."""


class _ChangeGroup(NamedTuple):
    """Changes of data files that are read together, with a name that stays the same in other ranges."""

    changes: Sequence[FileChange]
    commit: Commit
    name: str

    @property
    def size(self) -> int:
        return sum(change.file.size for change in self.changes)


def changes_range(request: ArrivalsRequest) -> dict[str, Any]:
    """Return the range of the changes since a record, with the record of it, as a system of arrivals has it.

    Changes that the run before has left unread come first. Appended rows are read by all partitions; where rows were
    removed, the first one reads the range, in the order of commits.
    """
    version, intake = request.version, request.intake
    ranges = version.version_ranges(intake)
    since = intake[version.word] if intake is not None else None
    then = version.at(since) if since is not None else None
    if then is not None:
        check_comparable(then.columns, version, f"the {version.word} {since}", f"To go on, {RESET}")
    groups = [group for between in ranges for group in _groups(version.commit(*between))]
    skipped = len(groups) if request.unread else 0
    groups = [] if request.unread else [*_unread_groups(request), *groups]
    changes = [change for group in groups for change in group.changes]
    range_ = {**described_changes(changes, version), "remedy": f"{version.keep} To go on, {RESET}"}
    commits = {(group.commit.number, group.commit.time): None for group in groups}
    commit_indexes = {commit: index for index, commit in enumerate(commits)}
    listed = iter(range_["files"])
    range_["files"] = [
        {
            **_as_one_file([next(listed) for _ in group.changes]),
            "commit": commit_indexes[group.commit.number, group.commit.time],
            "name": group.name,
        }
        for group in groups
    ]
    range_["commits"] = [{"number": number, "time": time} for number, time in commits]
    spread = request.partitions if all(change.kind == ADDED for change in changes) else 1
    with reporting_missing_files(range_):
        row_groups = _row_groups(groups, version, min(split_threshold(int(range_["bytes"]), spread), CHUNK_BYTES))
    nothing: list[Any] = [[] for _ in range(request.partitions - spread)]
    chunks = [[*chunk, *nothing] for chunk in pack_chunks(row_groups, spread, CHUNK_BYTES)]
    return recorded_range(request, range_, chunks, skipped=skipped)


def _groups(commit: Commit) -> list[_ChangeGroup]:
    """Return what of a commit is read one after the other: removed rows before added ones."""
    removed, added = ([change for change in commit.changes if change.kind == kind] for kind in (REMOVED, ADDED))
    ordered = [*removed, *added]
    groups = [ordered] if removed and added and not ordered[0].feed else [[change] for change in ordered]
    return [
        _ChangeGroup(group, commit, f"{commit.since}..{commit.until}/{number}") for number, group in enumerate(groups)
    ]


def _as_one_file(files: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the description of changes that are read together as one file of a range."""
    if len(files) == 1:
        return files[0]
    return {"path": files[0]["path"], "size": sum(int(file["size"]) for file in files), "parts": list(files)}


def _row_groups(groups: Sequence[_ChangeGroup], version: TableVersion, threshold: int) -> list[Unit]:
    """Return what can be packed: the row groups of large files; what is read together stays whole."""
    single = [index for index, group in enumerate(groups) if len(group.changes) == 1]
    row_groups = [
        unit._replace(file=single[unit.file])
        for unit in version.units([groups[index].changes[0].file for index in single], threshold)
    ]
    together = [Unit(index, 0, None, group.size) for index, group in enumerate(groups) if len(group.changes) > 1]
    return sorted([*row_groups, *together], key=lambda unit: (unit.file, unit.start))


def _unread_groups(request: ArrivalsRequest) -> list[_ChangeGroup]:
    """Return the changes that the run before has left unread; one that cannot be read any more is an error."""
    names = dict.fromkeys((request.intake or {}).get("unread", ()))
    ranges = dict.fromkeys(named.group(1, 2) for name in names if (named := _NAME.fullmatch(name)) is not None)
    groups = [group for between in ranges for group in _groups(request.version.commit(*between)) if group.name in names]
    missing = sorted(set(names).difference(group.name for group in groups))
    if missing:
        table, stream = request.version.name, request.version.stream.name
        raise StateError(
            f"The run before has left changes of the table {table} (input {stream!r}) unread, those of "
            f"{missing[0]}, and they are not there any more.",
            hint=f"To go on, {RESET}",
            table=table,
            stream=stream,
        )
    return sorted(groups, key=lambda group: (group.commit.number, group.commit.time, _number_in_commit(group)))


def _number_in_commit(group: _ChangeGroup) -> int:
    return int(group.name.rpartition("/")[2])
