"""Going back: the version that is meant, and what it read made current again, as a new version. Nothing is copied.

The operator and the command of the same name call it.
"""

from __future__ import annotations

from dataclasses import replace

from airflow_samza.errors import PushError
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.table_version import ROLLBACK, TableVersion, now
from airflow_samza.runs.tables.versions import (
    add,
    by_number,
    by_push_id,
    from_newest,
    highest_number,
    missing,
    newest,
    pin,
    taken,
)
from airflow_samza.systems.capabilities import RemembersWriters
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System

PREVIOUS = "previous"
"""The version that was current before what is current now."""


def find_target(files: Filesystem, system: str, topic: str, to: str | int) -> TableVersion:
    """Return the version that a rollback means: a number, a push id, or ``previous``, the one before the current one.

    A text of digits is a number, and where no version has it, the id of a push (20260101).
    """
    folder = TableFolder(system, topic)
    to = str(to)
    is_number = to.isascii() and to.isdecimal()
    if is_number and files.exists(folder.version(int(to))):
        return by_number(files, system, topic, int(to))
    current = newest(files, system, topic)
    if to != PREVIOUS:
        target = by_push_id(files, system, topic, to)
    else:
        before = current.reads if current is not None else 0
        target = next(
            (
                version
                for version in from_newest(files, system, topic)
                if version.reads < before and not version.is_late
            ),
            None,
        )
    if target is None:
        if to == PREVIOUS:
            raise missing(
                files, system, topic, f"version before {current.number}" if current is not None else "version"
            )
        raise missing(files, system, topic, f"version {to}" if is_number else f"push {to!r}")
    return by_number(files, system, topic, target.number)


def rollback(
    files: Filesystem, system: str, topic: str, to: str | int, push_id: str, bound: System | None = None
) -> TableVersion:
    """Make what an older version read current again, as a new version (``to``: see :func:`find_target`).

    A rollback of the same id finds its version. ``bound`` is the system of the push stream: a version whose rows are
    gone there is rejected.
    """
    standing = by_push_id(files, system, topic, push_id)
    if standing is not None:
        if standing.kind != ROLLBACK:
            raise taken(standing)
        return standing
    reader = f"rollback/{push_id}"  # retention must not give up what is about to be current
    target = find_target(files, system, topic, to).number
    former = pin(files, system, topic, target, reader)
    try:
        if bound is not None:
            _reject_without_rows(bound, topic, former)
        brought_back = replace(
            former,
            number=highest_number(files, system, topic) + 1,
            push_id=push_id,
            kind=ROLLBACK,
            base=former.reads,
            rows=0,
            deletes=0,
            bytes=0,
            pushed_at=now(),
        )
        return add(files, system, topic, brought_back)
    finally:
        files.delete(TableFolder(system, topic).pin(target, reader))


def _reject_without_rows(bound: System, topic: str, version: TableVersion) -> None:
    """Reject a version of which a section was given up: whatever its records say, it cannot be read."""
    if not isinstance(bound, RemembersWriters):
        return
    stream = StreamSpec(topic, len(version.offsets))
    for producer, generation in version.read_sections:
        standing = bound.standing(stream, producer)
        if standing is not None and standing != generation:
            raise PushError(
                f"Version {version.number} of table {version.table!r} (push {version.push_id!r}) is listed, and its "
                "rows are gone.",
                hint="Roll back to another version, or push the table anew.",
                table=version.table,
                number=version.number,
                section=producer,
            )
