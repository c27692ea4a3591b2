"""Rows or changes that have come to a table since it was read last: the input range of them, and the record of that.

The record names the version up to which. Who ends a run early notes as ``unread`` the files that its tasks have left
(:func:`~airflow_samza.runs.state_history.arrivals.intake_at_end`); the next run reads them, too. Changes of an input
with ``changes=True`` are read commit by commit: one that has only added files brings rows as they are read in any case.
Of one that has taken files out and put others in, these are read together, so that rows that were only written anew
cancel out (decision 115). Delta and Iceberg fix such ranges by it.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.systems.files.packing import Split, Unit, pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, CHUNK_OFFSETS, split_threshold
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.change_columns import ADDED, REMOVED
from airflow_samza.systems.tables.inputs.changes import (
    FileChange,
    check_comparable,
    described_changes,
    reporting_missing_files,
)
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion
from airflow_samza.systems.tables.options import WAITING

LOOK_SECONDS = 5.0
"""Time between two looks of a continuous run at a table."""

_SHAPE: dict[str, Any] = {"order": "snapshot", "horizon": None, "late": 0, "passed": 0, "names": {}}
"""The part of a record that other systems of arrivals have, too."""

WHOLE = ""
"""The version before the first one: all rows are new since then."""

RESET = "forget all state and read the table anew: airflow-samza state reset."


class Commit(NamedTuple):
    """Changes between two versions, ``since`` and ``until``, by data file: mostly those of one commit.

    ``number`` grows from commit to commit, ``time`` is in milliseconds since 1970.
    """

    since: str
    until: str
    number: int
    time: int
    changes: Sequence[FileChange]


class TableHistory(TableVersion):
    """Version of a table up to which an input is read, and what has come since the one up to which it was read.

    ``keep`` says how to keep older versions and files for longer.
    """

    keep: str

    @abstractmethod
    def appended(self, intake: Mapping[str, Any], bounds: Sequence[ColumnBound]) -> list[TableFile]:
        """Return the files with rows that were appended since a record; a version that took rows away is rejected."""

    @abstractmethod
    def files_until(self, intake: Mapping[str, Any]) -> list[TableFile]:
        """Return the files that were there, or had been, when a record was made."""

    @abstractmethod
    def version_ranges(self, intake: Mapping[str, Any] | None) -> list[tuple[str, str]]:
        """Return the versions since a record, of which changes are read, each behind the one before it."""

    @abstractmethod
    def commit(self, since: str, until: str) -> Commit:
        """Return the changes between two versions; of ``since`` :data:`WHOLE` all rows that there are then."""

    def lost(self, since: int | str | None, what: str) -> StateError:
        """Return the error of a version that is gone, up to which a table was read; None: the oldest one.

        ``what`` has become of it.
        """
        return StateError(
            f"The {self.word} {since} of the table {self.name}, up to which the input {self.stream.name!r} was read, "
            f"{what}."
            if since is not None
            else f"The oldest {self.word} of the table {self.name}, whose rows the input {self.stream.name!r} has not "
            f"read, {what}.",
            hint=f"{self.keep} To go on, {RESET}",
            table=self.name,
            stream=self.stream.name,
            **{self.word: None if since is None else str(since)},
        )

    def taken_away(self, number: object, what: str, by: str | None) -> TopicError:
        """Return the error of a version that has taken rows away: ``what`` it has done, and ``by`` whom."""
        who = f" (by {by})" if by else ""
        return TopicError(
            f"The {self.word} {number} of the table {self.name} has {what}{who} since the input {self.stream.name!r} "
            'was read last, and with slice="checkpoint" it is read by what is appended.',
            hint="To read what has become of the rows, declare changes=True. If rows that were read before may stay as "
            f"they are, set the option overwrites=skip: then what such {self.word}s add or take is not read. Else read "
            "the table whole (leave slice= out), or forget all state and read it anew: airflow-samza state reset.",
            table=self.name,
            stream=self.stream.name,
            **{self.word: str(number)},
        )


@dataclass(frozen=True)
class ArrivalsRequest:
    """A request for the input range of what has arrived in a table since the run before.

    ``intake`` is the record of the run before. With ``unread`` all is passed over.
    """

    version: TableHistory
    intake: Mapping[str, Any] | None
    partitions: int
    first_chunk: int
    unread: bool


def arrived_range(request: ArrivalsRequest, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
    """Return the range of what was appended, with the record of it, as a system of arrivals has it.

    Files that cannot have a row within ``bounds`` are left out.
    """
    version, intake = request.version, request.intake
    files = version.files(bounds) if intake is None else version.appended(intake, bounds)
    if intake is not None and intake["unread"]:
        files = [*_left_unread(version, intake), *files]
    skipped = len(files) if request.unread else 0
    files = [] if request.unread else _by_event_time(files)
    total = sum(file.size for file in files)
    units = version.units(files, min(split_threshold(total, request.partitions), CHUNK_BYTES))
    chunks = pack_chunks(units, request.partitions, CHUNK_BYTES)
    return recorded_range(request, version.described(files), chunks, skipped=skipped)


def recorded_range(
    request: ArrivalsRequest,
    described: Mapping[str, Any],
    chunks: Sequence[Sequence[Sequence[Split]]],
    *,
    skipped: int,
) -> dict[str, Any]:
    """Return the range of files in chunks, with the record of what will have been read then."""
    files, before, first = described["files"], request.intake or {}, request.first_chunk
    known = {
        **_SHAPE,
        "table": request.version.table_id,
        request.version.word: request.version.number,
        "unread": {},
        "files": len(files) + int(before.get("files", 0)),
        "bytes": int(described["bytes"]) + int(before.get("bytes", 0)),
    }
    chunks = chunks if files else []
    return {
        **described,
        "partitions": request.partitions,
        "offsets": [[first * CHUNK_OFFSETS, (first + len(chunks)) * CHUNK_OFFSETS]] * request.partitions,
        "first_chunk": first,
        "chunks": [[[list(split) for split in splits] for splits in chunk] for chunk in chunks],
        "known": known,
        "noted": {"waiting": 0, "late": 0, "ignored": 0, "unread": skipped},
    }


def _by_event_time(files: list[TableFile]) -> list[TableFile]:
    """Return files with the earliest first, so that what was written again does not come late; else as they come."""
    return files if None in [file.begins for file in files] else sorted(files, key=lambda file: file.begins or 0)


def reject_one_version(stream: StreamSpec, names: Iterable[str]) -> None:
    """Reject an option that says what is read of an input that is read by what is appended, or by its changes.

    Of changes none is passed over, so that there is no rule for versions that have taken rows away.
    """
    options = dict(stream.options)
    rule = options.get("overwrites")
    if stream.changes and rule:
        raise ConfigError(
            f"The input {stream.name!r} has changes=True and the option overwrites={rule!r}, and reads all changes.",
            hint="Leave one of the two out.",
            key="overwrites",
            value=rule,
            stream=stream.name,
        )
    name = next((name for name in names if options.get(name)), None)
    if name is not None:
        means = (
            "is what one run has waiting, and no part of the table" if name == WAITING else "is one version for ever"
        )
        raise ConfigError(
            f'The input {stream.name!r} has slice="checkpoint" and the option {name}, which {means}.',
            hint="Leave one of the two out.",
            key=name,
            stream=stream.name,
        )


def reject_other_table(version: TableVersion, intake: Mapping[str, Any]) -> None:
    """Reject a table that is not the one of which a record is."""
    if intake["table"] != version.table_id:
        raise StateError(
            f"The table {version.name} of the input {version.stream.name!r} is another one than the run before has "
            "read: it was dropped and made anew.",
            hint="Give the input a new id, with the former one in dropped=, and the new table is read from its "
            "beginning; or forget all state: airflow-samza state reset.",
            table=version.name,
            stream=version.stream.name,
        )


def _left_unread(version: TableHistory, intake: Mapping[str, Any]) -> list[TableFile]:
    """Return the files that the run before has left unread; one that is gone is an error."""
    unread = intake["unread"]
    found = [file for file in version.files_until(intake) if file.path in unread]
    missing = sorted(set(unread).difference(file.path for file in found))
    if missing:
        raise StateError(
            f"The run before has left the file {missing[0]} of the table {version.name} (input {version.stream.name!r})"
            " unread, and it was rewritten or removed since.",
            hint=f"To go on, {RESET}",
            table=version.name,
            stream=version.stream.name,
            file=missing[0],
        )
    return found


_NAME = re.compile(r"(\d*)\.\.(\d+)/\d+")
"""Name of changes that are read together: two versions, and a number; in records of appended rows stand paths."""


class _ChangeGroup(NamedTuple):
    """Changes of data files that are read together: of a commit, with a name that stays the same in other ranges."""

    changes: Sequence[FileChange]
    commit: Commit
    number: int

    @property
    def name(self) -> str:
        return f"{self.commit.since}..{self.commit.until}/{self.number}"


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
    return [_ChangeGroup(group, commit, number) for number, group in enumerate(groups)]


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
    together = [
        Unit(index, 0, None, sum(change.file.size for change in group.changes))
        for index, group in enumerate(groups)
        if len(group.changes) > 1
    ]
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
    return sorted(groups, key=lambda group: (group.commit.number, group.commit.time, group.number))
