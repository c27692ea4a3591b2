"""The record of one version of a pushed table, and those beside it: a push that begins, a run that pins, a compaction.

A compaction of a version is the same rows as one section (decision 50). The version stays what it is: number, push id,
kind, and the sections of its record. Beside it, ``compactions/<number>.json`` says that one more section holds just its
rows. Who has nothing reads that one; who has a part of the chain of changes reads on in the chain, as long as retention
has not given it up.

Pushes write the records; the plan step, tasks, lineage and the command line read them, and retention and checks of a
root follow them.
Source: rule S7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from airflow_samza.application.declarations.tables import PUSH_DELETES
from airflow_samza.records import durable
from airflow_samza.runs.records.expectations import ExpectationResult, result_lines
from airflow_samza.runs.records.folders import must_read, numbers
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.systems.filesystems.filesystem import Filesystem

Section = tuple[str, str]
"""Producer and generation of the commit that a push, or a compaction, has made."""

Offsets = tuple[tuple[int, int], ...]

COMPACTED = "compacted@"
"""In the producer of a compacted section: no push has such an id, as a safe text has no ``@``."""

CHAINS = "chains"
"""Beside the sections of a slice: other sections that make the same rows, for who has some of them already."""


@durable("compaction of a table", beside=("mark", "is_given_up"))
@dataclass(frozen=True)
class Compaction:
    """The rows of version ``number`` as one ``section`` at ``offsets``, within the topic's first ``commits`` commits.

    ``chain`` are the sections that it was made of, at ``chain_offsets``; the first one is the compaction of the version
    ``below``, or of a full push (None). ``mark``: the file that stands once ``chain`` may no longer be read
    (``is_given_up``).
    """

    number: int
    section: Section
    offsets: Offsets
    commits: int
    rows: int
    bytes: int
    chain: tuple[Section, ...]
    chain_offsets: Offsets
    at: str
    below: int | None = None
    mark: str = ""
    is_given_up: bool = False


class Compactions:
    """The compactions of a table, each read when it is first asked for."""

    def __init__(self, files: Filesystem, folder: TableFolder) -> None:
        self._files = files
        self._folder = folder
        self._by_number: dict[int, Compaction] = {}

    @cached_property
    def numbers(self) -> set[int]:
        """The versions that are compacted."""
        return set(numbers(self._files, self._folder.compactions))

    def of(self, number: int) -> Compaction | None:
        """The compaction of a version, if it has one."""
        if number not in self.numbers:
            return None
        if number not in self._by_number:
            mark = self._folder.given_up(number)
            compaction = must_read(self._files, self._folder.compaction(number), Compaction)
            self._by_number[number] = replace(compaction, mark=mark, is_given_up=self._files.exists(mark))
        return self._by_number[number]

    def from_above(self, number: int | None) -> tuple[Compaction, ...]:
        """Return the compaction of a version, that below it, and so on, down to the first chain that is given up."""
        above: list[Compaction] = []
        while number is not None and (not above or not above[-1].is_given_up):
            compaction = self.of(number)
            if compaction is None:
                break
            above.append(compaction)
            number = compaction.below
        return tuple(above)


def described_sections(sections: Sequence[Section]) -> list[dict[str, str]]:
    """Sections as a slice names them."""
    return [{"run": producer, "producer": producer, "generation": generation} for producer, generation in sections]


def chains(sections: Sequence[Section], offsets: Offsets, compactions: Sequence[Compaction]) -> list[dict[str, Any]]:
    """Return other sections that make the same rows, with each compaction in turn written out into its parts.

    ``needs`` are [n, mark]: who has less than the first n of them may read on only while there is no such mark.
    """
    written_out: list[dict[str, Any]] = []
    rest = tuple(sections[1:])
    needs: list[list[Any]] = []
    for compaction in compactions:
        needs = [
            [len(compaction.chain), compaction.mark],
            *([n + len(compaction.chain) - 1, mark] for n, mark in needs),
        ]
        offsets = tuple(
            (min(first, other_first), max(end, other_end))
            for (first, end), (other_first, other_end) in zip(compaction.chain_offsets, offsets, strict=True)
        )
        described = described_sections((*compaction.chain, *rest))
        written_out.append({"sections": described, "offsets": [list(span) for span in offsets], "needs": needs})
        rest = (*compaction.chain[1:], *rest)
    return written_out


def sections_since(
    former: Sequence[Any], slice_: Mapping[str, Any], is_marked: Callable[[str], bool]
) -> tuple[list[Any], list[list[int]]] | None:
    """Return the sections of a slice that who has those of a former one lacks, and offsets that span them; None: all.

    ``is_marked`` tells whether a mark stands.
    """
    held, now = len(former), slice_["sections"]
    if now[:held] == former:
        return now[held:], slice_["offsets"]
    for chain in slice_.get(CHAINS, ()):
        sections = chain["sections"]
        if sections[:held] == former and not any(held < n and is_marked(mark) for n, mark in chain["needs"]):
            return sections[held:], chain["offsets"]
    return None


def is_of_one_push(slice_: Mapping[str, Any]) -> bool:
    """Return whether a slice is what one full push has written, each partition in the order of its keys."""
    sections = slice_.get("sections", ())
    return len(sections) == 1 and COMPACTED not in sections[0]["producer"]


def holds_all(former: Mapping[str, Any], slice_: Mapping[str, Any]) -> bool:
    """Return whether a former slice has the rows of this one, as the same sections or as those it was compacted of."""
    if "sections" not in former:
        return False
    lacking = sections_since(former["sections"], slice_, lambda mark: True)
    return lacking is not None and not lacking[0]


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
