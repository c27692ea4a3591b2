"""Giving up old versions of a pushed table: never the current one, nor what it or a living run reads.

A version is marked first, and a mark is never taken back (:mod:`airflow_samza.runs.tables.marks`). What is marked is
asked for before the versions are listed, and what the listed ones need is found before anything is given up. A rollback
pins its version until its own record stands: so where the version is marked all the same, that record is in every list
which is made after the mark was seen. The rows of sections that no version needs any more are superseded, and go with
the log's next sweep (decision 48).

Of a compacted version the sections that it was made of are given up alike, by a mark of their own, once the version
before it is: until then readers that have that one go on by the changes. The end of a push does it, and the page asks
which runs read a version.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from airflow_samza.errors import TopicError
from airflow_samza.grouping import grouped
from airflow_samza.runs.records.folders import RunFolder, numbers, read, write_once
from airflow_samza.runs.tables.compacting import GENERATION, compaction_producer
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.marks import Mark, make_mark
from airflow_samza.runs.tables.table_version import Section, TablePin, TableVersion, now
from airflow_samza.runs.tables.versions import expired_numbers, from_newest, newest
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, StreamSpec, System

PINNED_FOR = timedelta(days=30)
"""A run takes hours, and may be cleared for some days; one that never closed lets go after that."""

GIVEN_UP = "2.1"
"""The generation of the empty commit that takes the place of a section: above all that a push writes."""

_RELEASED = ".released.json"
"""End of a note that nobody needs the sections of a version any more, and all are superseded."""


def expire_versions(files: Filesystem, bound: System, system: str, topic: str, keep: int) -> list[int]:
    """Give up all versions but the newest ``keep``, the current one and pinned ones; return those given up now."""
    folder = TableFolder(system, topic)
    released = (name.removesuffix(_RELEASED) for name in files.list(folder.expired) if name.endswith(_RELEASED))
    settled = set(map(int, released)) - set(numbers(files, folder.compacting))
    expired = expired_numbers(files, system, topic)
    current = newest(files, system, topic)
    left = [version for version in from_newest(files, system, topic, but=settled) if version.number not in expired]
    given_up = []
    for version in left[keep:][::-1]:
        if current is not None and version.number == current.number:
            continue
        if _marked(files, folder, f"{folder.expired}/{version.number:020}.json", [version.number]):
            given_up.append(version.number)
    expired = expired_numbers(files, system, topic)
    all_versions = list(from_newest(files, system, topic, but=settled))[::-1]  # however many there ever were
    current = newest(files, system, topic)
    kept = [version for version in all_versions if version.number not in expired]
    needed = _needed(files, folder, kept, current)
    for version in all_versions:
        if version.number in expired:
            _release(
                files,
                bound,
                topic,
                version,
                version.sections,
                needed,
                f"{folder.expired}/{version.number:020}{_RELEASED}",
            )
        elif version.compacted is not None and any(section not in needed for section in version.compacted.chain):
            note = f"{folder.compactions}/{version.reads:020}{_RELEASED}"
            _release(files, bound, topic, version, version.compacted.chain, needed, note)
    _release_compacted(files, bound, folder, all_versions, kept, needed)
    return given_up


def readers_of(files: Filesystem, folder: TableFolder, number: int) -> Iterator[tuple[str, str]]:
    """Yield the runs, as application and run id, that read a version and may still be at work."""
    place = folder.pin(number, "x").rpartition("/")[0]
    for name in files.list(place):
        pin = read(files, f"{place}/{name}", TablePin)
        if pin is None or datetime.fromisoformat(pin.at) < datetime.now(timezone.utc) - PINNED_FOR:
            continue
        application, _, run_id = pin.reader.partition("/")
        if not files.exists(RunFolder(application, run_id).closed):
            yield application, run_id


def is_pinned(files: Filesystem, folder: TableFolder, number: int) -> bool:
    """Return whether a run that may still be at work reads a version."""
    return any(True for _ in readers_of(files, folder, number))


def _marked(files: Filesystem, folder: TableFolder, mark: str, numbers: list[int]) -> bool:
    """Make a mark unless one of the versions is pinned, before or after; return whether it stands."""
    return make_mark(
        files, mark, folder.proposals, now(), lambda: any(is_pinned(files, folder, number) for number in numbers)
    )


def _needed(
    files: Filesystem, folder: TableFolder, kept: list[TableVersion], current: TableVersion | None
) -> set[Section]:
    """Return the sections that readers of the versions that stay may read; mark chains that nobody needs."""
    needed = {section for version in kept for section in version.read_sections}
    numbers = {version.number for version in kept}
    bases = {version.reads: version.base for version in kept if version.reads == version.number}
    readers = grouped((compaction.number, version.number) for version in kept for compaction in version.compactions)
    compactions = {compaction.number: compaction for version in kept for compaction in version.compactions}
    for number, compaction in compactions.items():
        if compaction.is_given_up:
            continue
        in_use = bases.get(number) in numbers or (current is not None and current.reads == number)
        if in_use or not _marked(files, folder, compaction.mark, readers[number]):
            needed |= set(compaction.chain)
    return needed


def _release(
    files: Filesystem,
    bound: System,
    topic: str,
    version: TableVersion,
    sections: tuple[Section, ...],
    needed: set[Section],
    released: str,
) -> None:
    """Give up those of some sections that nobody needs; once they are all given up, note that."""
    if files.exists(released):
        return
    for section in sections:
        if section not in needed:
            _supersede(bound, topic, len(version.offsets), section[0])
    if not any(section in needed for section in sections):
        write_once(files, released, Mark(now()))


def _release_compacted(
    files: Filesystem,
    bound: System,
    folder: TableFolder,
    all_versions: list[TableVersion],
    kept: list[TableVersion],
    needed: set[Section],
) -> None:
    """Give up what compactions have written that no version needs, also those that died before their record stood."""
    read_ = {version.reads for version in kept}
    by_number = {version.number: version for version in all_versions}
    for number in numbers(files, folder.compacting):
        version = by_number.get(number)
        if version is None or number in read_ or (compaction_producer(version.table, number), GENERATION) in needed:
            continue
        _supersede(bound, folder.topic, len(version.offsets), compaction_producer(version.table, number))
        files.delete_tree(f"{folder.compacting}/{number:020}")


def _supersede(bound: System, topic: str, partitions: int, producer: str) -> None:
    try:
        bound.publish(StreamSpec(topic, partitions), Publication(producer, GIVEN_UP, 0, {}))
    except TopicError as error:
        if "winner" not in error.facts:  # given up already
            raise
