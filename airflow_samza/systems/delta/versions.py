"""Choice of the version that a run reads: the newest, a number, or the one of a point in time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

from airflow_samza.application.rejections import listed
from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.log import DeltaLog, Segment
from airflow_samza.systems.delta.options import TableOptions

_SHOWN = 3
_OF_TABLE = ("metaData", "protocol", "domainMetadata")
_NEVER = datetime.fromtimestamp(0, timezone.utc)


def chosen_segment(log: DeltaLog, options: TableOptions) -> Segment:
    """Return what makes the version that a stream's options mean."""
    version = log.newest
    if options.version is not None:
        version = options.version
        if version > log.newest:
            raise TopicError(
                f"The table {log.name} of stream {log.stream!r} has no version {version}.",
                hint=f"{_newest(log)}Choose one of them, or leave the option out and read the newest.",
                table=log.name,
                stream=log.stream,
                version=version,
            )
    elif options.as_of is not None:
        version = _as_of(log, options.as_of)
    segment = log.segment(version)
    if segment is None and version == log.newest:
        raise log.without_commits(version)
    if segment is None:
        raise TopicError(
            f"The version {version} of the table {log.name} (stream {log.stream!r}) has expired: its log has been "
            "cleaned up.",
            hint=f"The oldest version that can be read is {log.oldest}. {_newest(log)}Keep the log for longer by the "
            "table's property delta.logRetentionDuration.",
            table=log.name,
            stream=log.stream,
            version=version,
        )
    return segment


def _as_of(log: DeltaLog, at: datetime) -> int:
    """Return the newest version that was there at a time. A library of Delta takes version 0 for earlier times."""
    versions = sorted(version for version in log.commits if version >= log.oldest)
    place = _place(log, versions, at)
    if place == 0:
        raise TopicError(
            f"The table {log.name} of stream {log.stream!r} has no version as of {at.isoformat()}: what can be read of "
            "its history begins later.",
            hint=f"{_newest(log)}Take a later time; what was cleaned up of the log cannot be read.",
            table=log.name,
            stream=log.stream,
            as_of=at.isoformat(),
        )
    return versions[place - 1]


def first_since(log: DeltaLog, at: datetime) -> tuple[str, datetime] | None:
    """Return number and time of the first version at or after a time that is of rows; None: there is none yet."""
    versions = sorted(version for version in log.commits if version >= log.oldest)
    later = versions[_place(log, versions, at - timedelta(microseconds=1)) :]
    first = next((version for version in later if _is_of_rows(log, version)), None)
    return None if first is None else (str(first), time_of(log, first))


def _is_of_rows(log: DeltaLog, version: int) -> bool:
    """Return whether a version is one of rows, be there none: no compaction, and no change of the table alone."""
    names, of_files = set[str](), set[bool]()
    for action in log.actions(log.commits[version]):
        names.update(name for name, value in action.items() if value is not None)
        of_files.update(bool(action[name].get("dataChange", True)) for name in ("add", "remove") if action.get(name))
        if str((action.get("commitInfo") or {}).get("operation", "")).startswith("VACUUM"):
            return False
    return True in of_files if of_files else "txn" in names or names.isdisjoint(_OF_TABLE)


def time_of(log: DeltaLog, version: int, actions: Iterable[Mapping[str, Any]] | None = None) -> datetime:
    """Return the time of a version: that within its commit where it has one, else that of its file.

    ``actions`` are those of the commit, where somebody has read them.
    """
    if actions is not None:
        within = next((one["commitInfo"].get("inCommitTimestamp") for one in actions if one.get("commitInfo")), None)
    else:
        within = log.in_commit_time(version) if version in log.commits else None
    if within is not None:
        return datetime.fromtimestamp(within / 1000, timezone.utc)
    file = log.commits.get(version) or log.checkpoints[version][0]
    return file.written or _NEVER


def _place(log: DeltaLog, versions: Sequence[int], at: datetime) -> int:
    """Return how many of the versions were there at a time.

    Commits have the times of their files, each at least that of the one before; where the table has it so, times
    within commits, which also a copy of the table keeps.
    """
    own = len(versions)
    if versions and log.in_commit_time(versions[-1]) is not None:
        own = bisect_left(versions, True, key=lambda version: log.in_commit_time(version) is not None)
        place = bisect_right(
            versions, at.timestamp() * 1000, lo=own, key=lambda version: log.in_commit_time(version) or 0
        )
        if place > own:
            return place
    written = accumulate((log.commits[version].written or _NEVER for version in versions[:own]), max)
    return bisect_right(list(written), at)


def _newest(log: DeltaLog) -> str:
    """Return the newest versions, for a hint."""
    newest = ((version, log.commits[version].written) for version in sorted(log.commits, reverse=True)[:_SHOWN])
    texts = [
        f"{version} ({at.isoformat(' ', 'seconds')})" if at is not None else str(version) for version, at in newest
    ]
    return f"Its newest versions are {listed(texts)}. " if texts else f"Its newest version is {log.newest}. "
