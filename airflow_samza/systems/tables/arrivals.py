"""Rows appended to a table since it was read last: the input range of them, and the record of what was read.

The record names the version up to which. Who ends a run early notes as ``unread`` the files that its tasks have left
(:func:`~airflow_samza.runs.state_history.arrivals.intake_at_end`); the next run reads them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.systems.files.packing import Split, Unit, pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, CHUNK_OFFSETS, cut_from
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.options import WAITING

LOOK_SECONDS = 5.0
"""Time between two looks of a continuous run at a table."""

_SHAPE: dict[str, Any] = {"order": "snapshot", "horizon": None, "late": 0, "passed": 0, "names": {}}
"""The part of a record that other systems of arrivals have, too."""

RESET = "forget all state and read the table anew: airflow-samza state reset."


class _File(Protocol):
    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def begins(self) -> int | None: ...


File = TypeVar("File", bound=_File)


@dataclass(frozen=True)
class ArrivalsRequest(Generic[File]):
    """A request for the input range of what has arrived in a table since the run before.

    ``describe`` returns the keys of an input range for files, ``units`` cuts those of more bytes than a threshold.
    ``read`` names in the record the table and the version up to which it is read; ``intake`` is the record of the run
    before. With ``unread`` all is passed over.
    """

    stream: StreamSpec
    describe: Callable[[Sequence[File]], dict[str, Any]]
    units: Callable[[Sequence[File], int], list[Unit]]
    read: Mapping[str, Any]
    intake: Mapping[str, Any] | None
    partitions: int
    first_chunk: int
    unread: bool


def arrived_range(request: ArrivalsRequest[File], files: Sequence[File]) -> dict[str, Any]:
    """Return the range of files that have arrived, with the record of it, as a system of arrivals has it."""
    skipped = len(files) if request.unread else 0
    files = [] if request.unread else _by_event_time(files)
    total = sum(file.size for file in files)
    units = request.units(files, min(cut_from(total, request.partitions), CHUNK_BYTES))
    chunks = pack_chunks(units, request.partitions, CHUNK_BYTES)
    return recorded_range(request, request.describe(files), chunks, skipped=skipped)


def recorded_range(
    request: ArrivalsRequest[File],
    described: Mapping[str, Any],
    chunks: Sequence[Sequence[Sequence[Split]]],
    *,
    skipped: int,
) -> dict[str, Any]:
    """Return the range of files in chunks, with the record of what will have been read then."""
    files, before, first = described["files"], request.intake or {}, request.first_chunk
    known = {
        **_SHAPE,
        **request.read,
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


def _by_event_time(files: Sequence[File]) -> Sequence[File]:
    """Return files with the earliest first, so that what was written again does not come late; else as they come."""
    begins = {file.path: file.begins for file in files if file.begins is not None}
    return sorted(files, key=lambda file: begins[file.path]) if len(begins) == len(files) else files


def reject_one_version(stream: StreamSpec, options: Mapping[str, object | None]) -> None:
    """Reject an option that says what is read of an input that is read by what is appended, or by its changes.

    Of changes none is passed over, so that there is no rule for versions that have taken rows away.
    """
    rule = dict(stream.options).get("overwrites")
    if stream.changes and rule:
        raise ConfigError(
            f"The input {stream.name!r} has changes=True and the option overwrites={rule!r}, and reads all changes.",
            hint="Leave one of the two out.",
            key="overwrites",
            value=rule,
            stream=stream.name,
        )
    name = next((name for name, value in options.items() if value is not None), None)
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


def reject_other_table(table: str, identity: str, intake: Mapping[str, Any], stream: StreamSpec) -> None:
    """Reject a table that is not the one of which a record is."""
    if intake["table"] != identity:
        raise StateError(
            f"The table {table} of the input {stream.name!r} is another one than the run before has "
            "read: it was dropped and made anew.",
            hint="Give the input a new id, with the former one in dropped=, and the new table is read from its "
            "beginning; or forget all state: airflow-samza state reset.",
            table=table,
            stream=stream.name,
        )


def taken_away(
    number: object, table: str, stream: StreamSpec, what: str, by: str | None, *, version: str
) -> TopicError:
    """Return the error of a version that has taken rows away: ``what`` it has done, and ``by`` whom."""
    who = f" (by {by})" if by else ""
    return TopicError(
        f"The {version} {number} of the table {table} has {what}{who} since the input {stream.name!r} was read last, "
        'and with slice="checkpoint" it is read by what is appended.',
        hint="To read what has become of the rows, declare changes=True. If rows that were read before may stay as "
        f"they are, set the option overwrites=skip: then what such {version}s add or take is not read. Else read the "
        "table whole (leave slice= out), or forget all state and read it anew: airflow-samza state reset.",
        table=table,
        stream=stream.name,
        **{version: str(number)},
    )


def lost(since: str | None, table: str, stream: StreamSpec, what: str, *, version: str, keep: str) -> StateError:
    """Return the error of a version that is gone, up to which a table was read; None: the oldest one.

    ``version`` is the name of versions, ``what`` has become of it, and ``keep`` is how to keep others.
    """
    return StateError(
        f"The {version} {since} of the table {table}, up to which the input {stream.name!r} was read, {what}."
        if since is not None
        else f"The oldest {version} of the table {table}, whose rows the input {stream.name!r} has not read, {what}.",
        hint=f"{keep} To go on, {RESET}",
        table=table,
        stream=stream.name,
        **{version: since},
    )


def left_unread(files: Sequence[File], unread: Collection[str], table: str, stream: StreamSpec) -> list[File]:
    """Return the files that the run before has left unread, of those that there are; one that is gone is an error."""
    found = [file for file in files if file.path in unread]
    gone = sorted(set(unread).difference(file.path for file in found))
    if gone:
        raise StateError(
            f"The run before has left the file {gone[0]} of the table {table} (input {stream.name!r}) unread, and it "
            "was rewritten or removed since.",
            hint=f"To go on, {RESET}",
            table=table,
            stream=stream.name,
            file=gone[0],
        )
    return found
