"""Compacting a version of a pushed table: when it is due, and how staged rows become its one section (decision 49).

Like a push it may die anywhere, and whoever comes next goes on from the records. The race is between processes A and B
that compact one version at once: of each task the rows count whose record was written first, so both publish the same
rows, and the topic keeps one commit of them. These are the steps, each with the record that says that it is done:

- *staged*: ``compacting/<number>/<task>.json`` of each task, of which the first one written counts,
- *published*: the topic's commit, which no version names,
- *compacted*: ``compactions/<number>.json``.

The stage runner compacts after a push, and the command ``tables`` on request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import TopicError
from airflow_samza.records import durable
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import read, write_once
from airflow_samza.runs.records.names import safe
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.table_version import COMPACTED, INCREMENTAL, Compaction, Compactions, TableVersion, now
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, StreamSpec, System

COMPACT_AFTER = 24
"""Incremental pushes on one full section: those of a day that come every hour."""

CHANGES_AT_MOST = 0.5
"""Of the rows of the full section: with more changes on top a reader reads half as much again."""

LEAST_CHANGES = 10_000
"""Fewer changes cost a reader nothing that can be measured, however small the table is."""

GENERATION = "1.1"


@durable("part of a compaction")
@dataclass(frozen=True)
class CompactionPart:
    """The rows that one task of a compaction has staged, as the system describes them."""

    rows: int
    staged: Mapping[str, Any]


def is_due(version: TableVersion, after: int) -> bool:
    """Return whether a version has come so far from its full section that it is to be compacted.

    ``after`` pushes, 0: never.
    """
    if after == 0 or version.kind != INCREMENTAL or version.compacted is not None:
        return False
    many = version.changes >= LEAST_CHANGES and version.changes > CHANGES_AT_MOST * version.full_rows
    return many or len(version.sections) > after


def staged_path(folder: TableFolder, number: int, task: int) -> str:
    """Return the path of the record of what one task has staged for the compaction of a version."""
    return f"{folder.compacting}/{number:020}/{task:06}.json"


def compaction_producer(table: str, number: int) -> str:
    """Return the producer of the compacted section."""
    return f"pushes/{safe(table)}/{COMPACTED}{number}"


def compact(
    files: Filesystem, system: System, folder: TableFolder, version: TableVersion, stage: Callable[[list[int]], None]
) -> tuple[Compaction, bool]:
    """Return the compaction of what a version reads, and whether it was made now; ``stage`` has tasks leave records."""
    number = version.reads
    former = Compactions(files, folder).of(number)
    if former is not None:
        return former, False
    reach("compaction-before-staging")
    tasks = range(len(version.offsets))
    missing = [task for task in tasks if not files.exists(staged_path(folder, number, task))]
    if missing:
        stage(missing)
    parts = [
        record
        for task in tasks
        if (record := read(files, staged_path(folder, number, task), CompactionPart)) is not None
    ]
    if len(parts) < len(tasks):
        raise TopicError(
            f"The compaction of version {number} of table {version.table!r} was given up: retention has given the "
            "version up meanwhile.",
            hint="Nothing is lost: a later push compacts what comes of it.",
            stream=folder.topic,
            number=number,
        )
    reach("compaction-before-publish")
    facts = _publish(files, system, folder, version, parts)
    reach("compaction-after-publish")
    compaction = Compaction(
        number=number,
        section=(compaction_producer(version.table, number), GENERATION),
        offsets=tuple((int(first), int(end)) for first, end in facts["offsets"]),
        commits=int(facts["commit"]) + 1,
        rows=sum(task.rows for task in parts),
        bytes=sum(int(task.staged["bytes"]) for task in parts),
        chain=version.sections,
        chain_offsets=version.offsets,
        at=now(),
        below=version.on,
    )
    is_new = write_once(files, folder.compaction(number), compaction)
    reach("compaction-after-record")
    standing = Compactions(files, folder).of(number)
    assert standing is not None
    return standing, is_new


def _publish(
    files: Filesystem, system: System, folder: TableFolder, version: TableVersion, parts: Sequence[CompactionPart]
) -> dict[str, Any]:
    publication = Publication(
        compaction_producer(version.table, version.reads),
        GENERATION,
        0,
        {task: record.staged for task, record in enumerate(parts)},
    )
    try:
        return system.publish(StreamSpec(folder.topic, len(version.offsets)), publication)
    except TopicError:  # what was staged is gone, or the version is given up: the next one begins anew
        files.delete_tree(f"{folder.compacting}/{version.reads:020}")
        raise
