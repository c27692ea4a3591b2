"""The versions of a pushed table that messages may need which look up the row valid at their event time (rule S7).

The plan step fixes them, and hosts build tables of all versions by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from airflow_samza.errors import NoSuchVersion
from airflow_samza.runs.records.data_interval import DataInterval, micros_of
from airflow_samza.runs.tables.table_version import Section, TableVersion, described_sections
from airflow_samza.runs.tables.versions import expired_numbers, from_newest
from airflow_samza.systems.filesystems.filesystem import Filesystem

HISTORY, CURRENT_NUMBER = "history", "number"
"""Beside the sections of a slice: all versions that are read, and which of them other lookups find."""


def with_history(
    files: Filesystem, system: str, topic: str, version: TableVersion, *, whole: bool = True
) -> dict[str, Any]:
    """Return what a slice of ``version`` also has, where rows are looked up as of event times.

    Each version has the time from which it is valid, in µs since 1970; of equal times the last one counts. ``whole``:
    with what was pushed later for earlier times; else up to this version.
    """
    expired = expired_numbers(files, system, topic)
    kept = [one for one in from_newest(files, system, topic, but=expired) if whole or one.number <= version.number]
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
    before = [one for one in from_newest(files, system, topic) if _valid_from(one) <= micros_of(interval.start)]
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
