"""The record of one version of a pushed table, and those beside it: a push that begins, a run that pins.

Pushes write it; the plan step, tasks, lineage and the command line read it.
Source: rule S7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from airflow_samza.application.declarations.tables import PUSH_DELETES
from airflow_samza.records import durable
from airflow_samza.runs.records.expectations import ExpectationResult, result_lines
from airflow_samza.runs.tables.compactions import CHAINS, Compaction, Offsets, Section, chains, described_sections
from airflow_samza.runs.tables.lake_source import LakeSource

FULL, INCREMENTAL, ROLLBACK = "full", "incremental", "rollback"
"""Kinds of versions: all rows anew, changes to the version before it, or what an older version read."""

DELETED = PUSH_DELETES
"""The last column of every push topic (boolean).

True marks a key that an incremental push deletes; its other columns are null.
"""


@durable(
    "version of a table",
    later={
        "changes": 0,
        "columns": None,
        "on": None,
        "source": None,
        "table_id": None,
        "deletes_where": None,
        "expectations": (),
    },
    beside=("compactions",),
)
@dataclass(frozen=True)
class TableVersion:
    """One version of a pushed table.

    ``sections`` are the (producer, generation) of the commits that it consists of, in the order in which they apply: of
    a full push its own, of an incremental one those of ``base`` and its own. ``offsets`` span them, [first, end) per
    partition, within the topic's first ``commits`` commits. ``rows`` and ``deletes`` are what this push wrote,
    ``full_rows`` the rows of the full section underneath, and ``changes`` the rows and deletes that were written since.
    ``schema`` is the table's (DDL), without the column ``_deleted`` that the topic has last. ``on`` is the version
    whose compaction is the first of the sections; None: that is a full push. ``source`` is the table of a lake from
    which the rows were pushed, with its system and snapshot or version; None: they came from elsewhere. ``columns`` are
    those that were taken of it, or SQL over them, as the push asked for; None: all. ``deletes_where`` is the SQL of
    rows whose keys the changes since the full push have deleted, "" without; None: there are no changes, or a former
    release has made the record. ``expectations`` are the results of the checks of this push.

    ``interval`` is the data interval (ISO texts, UTC) of what it holds, where known; ``pushed_at`` when the record was
    made (ISO, UTC). ``current_from``: the end of the interval, else ``pushed_at``, but never before that of the version
    current until then. ``is_late``: a full push of data older than what was current; :func:`as_of` finds it,
    :func:`newest` does not. ``compactions``: not of the record, but found beside it: its own if it has one, and those
    below.
    """

    number: int
    push_id: str
    kind: str
    sections: tuple[tuple[str, str], ...]
    offsets: tuple[tuple[int, int], ...]
    commits: int
    rows: int
    bytes: int
    schema: str
    key: tuple[str, ...]
    pushed_at: str
    current_from: str = ""
    interval: tuple[str, str] | None = None
    base: int | None = None
    deletes: int = 0
    full_rows: int = 0
    is_late: bool = False
    table: str = ""
    changes: int = 0
    on: int | None = None
    source: Mapping[str, str] | None = None
    table_id: str | None = None
    columns: Sequence[str] | Mapping[str, str] | None = None
    deletes_where: str | None = None
    expectations: tuple[ExpectationResult, ...] = ()
    compactions: tuple[Compaction, ...] = field(default=(), compare=False, repr=False)

    @property
    def reads(self) -> int:
        """The version whose rows it shows: itself, or the one that a rollback has brought back."""
        return self.base if self.kind == ROLLBACK and self.base is not None else self.number

    @property
    def compacted(self) -> Compaction | None:
        """The section that holds all its rows, where it was compacted."""
        return self.compactions[0] if self.compactions and self.compactions[0].number == self.reads else None

    @property
    def read_sections(self) -> tuple[Section, ...]:
        """The sections that a first reader reads: its own, or the one that they were compacted to."""
        return (self.compacted.section,) if self.compacted is not None else self.sections

    @property
    def read_offsets(self) -> Offsets:
        """The offsets of those."""
        return self.compacted.offsets if self.compacted is not None else self.offsets

    @property
    def read_commits(self) -> int:
        """The topic's first commits that have them."""
        return self.compacted.commits if self.compacted is not None else self.commits

    @property
    def base_rows(self) -> int:
        """The rows to which the next push is compared: of the full section underneath, or of the compacted one."""
        return self.compacted.rows if self.compacted is not None else self.full_rows

    @property
    def slice(self) -> dict[str, Any]:
        """The slice with which ``system.consumer(spec, slice)`` reads this version, in the order of its changes."""
        slice_ = {
            "kind": "log",
            "partitions": len(self.offsets),
            "offsets": [list(span) for span in self.read_offsets],
            "commit": self.read_commits,
            "sections": described_sections(self.read_sections),
        }
        more = chains(self.read_sections, self.read_offsets, self.compactions)
        return {**slice_, CHAINS: more} if more else slice_

    def may_be_read(self, slice_: Mapping[str, Any]) -> bool:
        """Return whether a slice of it can still be read: the changes that it was compacted of may be given up."""
        is_former = slice_.get("sections") != described_sections(self.read_sections)
        return not (is_former and self.compacted is not None and self.compacted.is_given_up)


@durable("beginning of a push")
@dataclass(frozen=True)
class PushBegun:
    """A push is about to become a version with a number above ``after``."""

    after: int


@durable("pin of a version of a table")
@dataclass(frozen=True)
class TablePin:
    """A run (``<application>/<run id>``) reads a version, which therefore stays; ``at`` is an ISO text in UTC."""

    reader: str
    at: str


def now() -> str:
    """The moment as records hold it."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def instant_text(moment: str) -> str:
    """A moment (ISO; UTC where it names no zone) as records hold it, so that texts compare as moments do.

    >>> instant_text("2026-01-02T01:00:00+01:00")
    '2026-01-02T00:00:00.000000+00:00'
    """
    parsed = datetime.fromisoformat(moment)
    parsed = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=timezone.utc)
    return parsed.astimezone(timezone.utc).isoformat(timespec="microseconds")


_PARTITIONS = 16
"""Number of partitions whose offsets are shown."""


def describe_version(version: TableVersion) -> str:
    """A version in a sentence, and where its rows lie, a line per partition."""
    deleted = f" and {version.deletes:,} deletes" if version.deletes else ""
    late = "; a newer one stays current" if version.is_late else ""
    lake = LakeSource.of(version.source or {})
    said = (
        f"Table {version.table}: version {version.number} ({version.kind}, push {version.push_id}), {version.rows:,} "
        f"rows{deleted}{f' from {lake}' if lake is not None else ''}, {version.bytes:,} bytes, current from "
        f"{version.current_from}{late}."
    )
    spans = [
        f"  partition {number}: offsets [{first:,}, {end:,})"
        for number, (first, end) in enumerate(version.offsets[:_PARTITIONS])
    ]
    more = [f"  and {len(version.offsets) - _PARTITIONS} partitions more"] if len(version.offsets) > _PARTITIONS else []
    return "\n".join([said, *spans, *more])


def describe_push(version: TableVersion, push_id: str) -> str:
    """Return the end of a push in words: the version that it made with its checks, or the one that has its rows."""
    if version.push_id == push_id:
        return "\n".join([describe_version(version), *result_lines({version.table: version.expectations})])
    same = f"The push {push_id} makes no version, and reads nothing: the current one is of the same rows."
    return f"{same}\n{describe_version(version)}"


def rollback_text(version: TableVersion, current: TableVersion | None) -> str:
    """Return a rollback in words; it may have been made long ago, under the same id."""
    since = current.number if current is not None and current.number != version.number else None
    and_since = "and is current" if since is None else f"and version {since} is current since"
    return f"Table {version.table}: version {version.number} reads what version {version.reads} read, {and_since}."
