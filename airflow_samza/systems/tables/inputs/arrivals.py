"""Rows appended to a table since it was read last: the input range of them, and the record of what was read.

The record names the version up to which. Who ends a run early notes as ``unread`` the files that its tasks have left
(:func:`~airflow_samza.runs.state_history.arrivals.intake_at_end`); the next run reads them, too. Delta and Iceberg fix
such ranges by it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.systems.files.packing import Split, pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, CHUNK_OFFSETS, split_threshold
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.inputs.changes import FileChange
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
    begins = {file.path: file.begins for file in files if file.begins is not None}
    return sorted(files, key=lambda file: begins[file.path]) if len(begins) == len(files) else files


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
