"""The version of each pushed table that a run reads, fixed by its ``plan`` (rule S7).

Where messages look up the row valid at their event time, they are all versions that may be needed. The plan step and
pushes fix them; hosts build tables of all versions by them, and previews of backfills look which one it would be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import TableDescriptor, push_stream_id
from airflow_samza.application.operator_specs import TableJoinSpec
from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, NoSuchVersion, SchemaError, UnknownName
from airflow_samza.runs.records.data_interval import DataInterval, key_without_interval, micros_of
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.tables import versions as table_versions
from airflow_samza.runs.tables.table_version import Section, TableVersion, described_sections
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem

CURRENT, AS_OF_INTERVAL = "current", "as_of_interval"
"""Requests that may be made of a table beside the id of a push.

The newest version, or the one that was current when the data interval began.
"""


@dataclass(frozen=True)
class PinnedTable:
    """The version of one table: its number, the push that made it, and what was asked for.

    ``numbers`` are all versions that are read where rows are looked up as of event times, as they became valid.
    """

    stream_id: str
    number: int
    push_id: str
    asked: str = CURRENT
    numbers: Sequence[int] = ()

    @property
    def text(self) -> str:
        """For people: ``version 3 (push 'manual__2026-01-02')``."""
        newest = f"version {self.number} (push {self.push_id!r})"
        if not self.numbers:
            return newest
        others = f", the newest {newest}" if len(self.numbers) > 1 else f": {newest}"
        count = f"{len(self.numbers)} version{'s' if len(self.numbers) > 1 else ''}"
        return f"{count} as of the event times of messages{others}"


def push_stream(table: TableDescriptor) -> str | None:
    """The id of a pushed table's stream of pushes; None for tables that general side inputs feed."""
    return push_stream_id(table.table_id) if table.is_pushed else None


def as_of_joins(spec: ApplicationSpec) -> list[TableJoinSpec]:
    """Return the joins that look rows up as of event times."""
    return [op for op in spec.operators if isinstance(op, TableJoinSpec) and op.as_of is not None]


def check_requests(spec: ApplicationSpec, requests: Mapping[str, str]) -> None:
    """Rejects to name a version of what is no pushed table."""
    as_of = {join.table.table_id: join.title for join in as_of_joins(spec)}
    for table_id, request in requests.items():
        if request == AS_OF_INTERVAL and table_id in as_of:
            raise ConfigError(
                f"The table {table_id!r} is asked for as of the data interval, and {as_of[table_id]} looks its rows up "
                "as of the event time of each message.",
                hint=f"Leave {table_id} out of table_versions (or --table); or leave as_of= out of the join, and all "
                "messages find the version of the interval.",
                key=f"tables.{table_id}",
                value=request,
            )
    pushed = sorted(table_id for table_id, table in spec.tables.items() if push_stream(table) is not None)
    for table_id in requests:
        table = spec.tables.get(table_id)
        if table is not None and table.from_table is not None:
            raise ConfigError(
                f"A version is asked for of the table {table_id!r} by {requests[table_id]!r}, and its versions are the "
                f"snapshots of {table.from_table}.",
                hint=f'Name the snapshot: input_versions={{"{table_id}": "<id>"}}, or --input-version {table_id}=<id>.',
                key=f"tables.{table_id}",
                value=requests[table_id],
            )
        if table_id not in pushed:
            raise UnknownName(
                f"A version is asked for of {table_id!r}, which is no pushed table of {spec.name!r}.",
                hint=f"{did_you_mean(table_id, pushed)}Its pushed tables are {listed(pushed)}.",
                name=table_id,
            )


def find_version(
    files: Filesystem,
    table: TableDescriptor,
    stream: BoundStream,
    request: str,
    interval: DataInterval | None,
    partition_key: str | None = None,
) -> TableVersion | None:
    """The version that a run reads; None where nothing was ever pushed and none was asked for."""
    system, topic = stream.system, stream.spec.name
    if request == CURRENT:
        chosen = table_versions.newest(files, system, topic)
    elif request == AS_OF_INTERVAL:
        if interval is None:
            asked = f"The version of table {table.table_id!r} is asked for as of the data interval"
            if partition_key is not None:
                raise key_without_interval(asked, partition_key, table=table.table_id)
            raise ConfigError(
                f"{asked}, and this run has none.",
                hint="Schedule the Dag with CronDataIntervalTimetable, or give --interval on the command line; or ask "
                "for current.",
                key=f"tables.{table.table_id}",
                value=request,
            )
        return table_versions.as_of(files, system, topic, interval.start)
    elif not request.strip():
        raise ConfigError(
            f"The version of table {table.table_id!r} is asked for with {request!r}.",
            hint=f"Say {CURRENT}, {AS_OF_INTERVAL}, or the id of a push.",
            key=f"tables.{table.table_id}",
            value=request,
        )
    else:
        chosen = table_versions.by_push_id(files, system, topic, request)
        if chosen is None:
            push_ids = [version.push_id for version in table_versions.versions(files, system, topic)]
            raise NoSuchVersion(
                f"The table {table.table_id!r} has no version of the push {request!r}.",
                hint=f"{did_you_mean(request, push_ids)}Its newest pushes are "
                f"{', '.join(push_ids[-3:][::-1]) or 'none: push it first'}.",
                table=table.table_id,
                wanted=request,
            )
    return (
        chosen if chosen is None else table_versions.by_number(files, system, topic, chosen.number)
    )  # rejects an expired one


KEY_STAYS = (
    "Rows of one key have to lie in one partition in all versions: declare the same key, or "
    "push a table of another name."
)


def check_columns(table: TableDescriptor, version: TableVersion) -> None:
    """Reject a version that was pushed by another key, or lacks one of its columns in a type that can be read."""
    if table.key != version.key:
        raise SchemaError(
            f"Version {version.number} of table {table.table_id!r} (push {version.push_id!r}) was pushed by the key "
            f"{', '.join(version.key)}, and the table is declared with {', '.join(table.key)}.",
            hint=KEY_STAYS,
            table=table.table_id,
        )
    if table.schema is None:
        return
    pushed = Schema.of(version.schema)
    missing = [name for name in table.schema.names if name not in pushed.names]
    if missing:
        raise SchemaError(
            f"Version {version.number} of table {table.table_id!r} (push {version.push_id!r}) has no column "
            f"{missing[0]!r}, which the table declares.",
            hint=f"It was pushed with {', '.join(pushed.names)}: push the table again, or read "
            "a version that has the column.",
            table=table.table_id,
            column=missing[0],
        )
    odd = [field for field in table.schema.fields if not pushed[field.name].type.reads_as(field.type)]
    if odd:
        raise SchemaError(
            f"Version {version.number} of table {table.table_id!r} (push {version.push_id!r}) has the column "
            f"{odd[0].name!r} as {pushed[odd[0].name].type.ddl()}, and the table declares it as {odd[0].type.ddl()}.",
            hint="Declare it as it was pushed, or push the table again.",
            table=table.table_id,
            column=odd[0].name,
        )


HISTORY, CURRENT_NUMBER = "history", "number"
"""Beside the sections of a slice: all versions that are read, and which of them other lookups find."""


def with_history(
    files: Filesystem, system: str, topic: str, version: TableVersion, *, whole: bool = True
) -> dict[str, Any]:
    """Return what a slice of ``version`` also has, where rows are looked up as of event times.

    Each version has the time from which it is valid, in µs since 1970; of equal times the last one counts. ``whole``:
    with what was pushed later for earlier times; else up to this version.
    """
    expired = table_versions.expired_numbers(files, system, topic)
    kept = [
        one
        for one in table_versions.from_newest(files, system, topic, but=expired)
        if whole or one.number <= version.number
    ]
    kept.sort(key=lambda one: (one.current_from, one.number))
    return {HISTORY: [_described(one) for one in kept], CURRENT_NUMBER: version.number}


def numbers_in(slice_: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the numbers of the versions of a slice, in the order in which they became valid."""
    return tuple(int(version["number"]) for version in slice_.get(HISTORY, ()))


def may_be_read(version: TableVersion, described: Mapping[str, Any]) -> bool:
    """Return whether the sections of a version that a slice names can still be read."""
    sections = [(producer, generation) for producer, generation in described["sections"]]
    return version.may_be_read({"sections": described_sections(sections)})


def slice_of_sections(slice_: Mapping[str, Any], sections: Sequence[Section]) -> dict[str, Any]:
    """Return the slice that reads sections of a history, wherever their rows lie."""
    wanted = [list(section) for section in sections]
    having = [one for one in slice_[HISTORY] if any(section in wanted for section in one["sections"])]
    spans = zip(*(one["offsets"] for one in having), strict=True)
    return {
        **{name: slice_[name] for name in ("kind", "partitions")},
        "offsets": [[min(first for first, _ in places), max(end for _, end in places)] for places in spans],
        "commit": max(one["commit"] for one in having),
        "sections": described_sections(sections),
    }


def sections_in(slice_: Mapping[str, Any]) -> list[Section]:
    """Return the sections of all versions of a slice, each once."""
    return list(dict.fromkeys((p, g) for version in slice_[HISTORY] for p, g in version["sections"]))


def reject_expired(
    files: Filesystem, system: str, topic: str, table: str, slice_: Mapping[str, Any], interval: DataInterval | None
) -> None:
    """Reject a run whose data interval begins in the time of a version that has expired."""
    history: Sequence[Mapping[str, Any]] = slice_[HISTORY]
    if interval is None or not history or micros_of(interval.start) >= history[0]["from"]:
        return
    before = [
        one for one in table_versions.from_newest(files, system, topic) if _valid_from(one) <= micros_of(interval.start)
    ]
    valid = max(before, key=lambda one: (one.current_from, one.number), default=None)
    if valid is None or valid.number in numbers_in(slice_):
        return
    raise NoSuchVersion(
        f"Version {valid.number} of table {table!r} (push {valid.push_id!r}) was valid when the data interval began "
        f"({interval.start.isoformat()}), and has expired.",
        hint="Messages of then cannot find their rows (as_of): push with a larger keep_versions, and push that "
        f"interval again; the oldest version that is kept is {history[0]['number']}.",
        table=table,
        wanted=valid.number,
    )


def begins_late(table: str, slice_: Mapping[str, Any], interval: DataInterval | None) -> str | None:
    """Return the warning that a data interval begins before a table's first version; None where it does not."""
    history: Sequence[Mapping[str, Any]] = slice_[HISTORY]
    if interval is None or not history or micros_of(interval.start) >= history[0]["from"]:
        return None
    first = datetime.fromtimestamp(history[0]["from"] / 1_000_000, timezone.utc).isoformat()
    all_ = " No message of it finds a row." if micros_of(interval.end) <= history[0]["from"] else ""
    return (
        f"The data interval begins at {interval.start.isoformat()}, and the first version of the table {table!r} is "
        f"valid from {first} on: messages before find no row (as_of).{all_} A push without a data interval, and what "
        "is pushed after it, counts from when it was made: give pushes their data intervals."
    )


def _described(version: TableVersion) -> dict[str, Any]:
    compacted = version.compacted
    by_changes = compacted is None or not compacted.is_given_up
    return {
        "number": version.number,
        "from": _valid_from(version),
        "sections": [list(section) for section in (version.sections if by_changes else version.read_sections)],
        "offsets": [list(span) for span in (version.offsets if by_changes else version.read_offsets)],
        "commit": version.commits if by_changes else version.read_commits,
    }


def _valid_from(version: TableVersion) -> int:
    return micros_of(datetime.fromisoformat(version.current_from))
