"""Giving up old versions of a pushed table: never the current one, nor what it or a living run reads.

A version is marked first, and the pins are looked at again afterwards; whoever pins a version looks for the mark after its pin. So one
of the two always sees the other. The rows of sections that no version needs any more are superseded, and go with the log's next sweep.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from airflow_samza.errors import TopicError
from airflow_samza.runs.folders import RunFolder, read, write_once
from airflow_samza.runs.table_folder import TableFolder
from airflow_samza.runs.table_versions import expired_numbers, newest, now, versions
from airflow_samza.systems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, StreamSpec, System

PINNED_FOR = timedelta(days=30)
"""A run takes hours, and may be cleared for some days; one that never closed lets go after that."""

GIVEN_UP = "2.1"
"""The generation of the empty commit that takes the place of a section: above all that a push writes."""


def expire_versions(files: Filesystem, bound: System, system: str, topic: str, keep: int) -> list[int]:
    """Gives up all versions but the newest ``keep``, the current one, and those that are pinned; returns the numbers given up now."""
    folder = TableFolder(system, topic)
    known = versions(files, system, topic)
    gone = expired_numbers(files, system, topic)
    current = newest(files, system, topic)
    left = [version for version in known if version.number not in gone]
    given_up = []
    for version in left[:-keep]:
        if current is not None and version.number == current.number:
            continue
        mark = f"{folder.expired}/{version.number:020}.json"
        if is_pinned(files, folder, version.number):
            continue
        write_once(files, mark, {"at": now()})
        if is_pinned(files, folder, version.number):
            files.delete(mark)
            continue
        given_up.append(version.number)
    gone |= set(given_up)
    needed = {section for version in known if version.number not in gone for section in version.sections}
    for version in known:
        released = f"{folder.expired}/{version.number:020}.released.json"
        if version.number not in gone or files.exists(released):
            continue
        for producer, generation in version.sections:
            if (producer, generation) not in needed:
                _supersede(bound, topic, len(version.offsets), producer)
        if not any(section in needed for section in version.sections):
            write_once(files, released, {"at": now()})
    return given_up


def is_pinned(files: Filesystem, folder: TableFolder, number: int) -> bool:
    """Whether a run that may still be at work reads a version."""
    place = folder.pin(number, "x").rpartition("/")[0]
    for name in files.list(place):
        pin = read(files, f"{place}/{name}")
        if pin is None or datetime.fromisoformat(pin["at"]) < datetime.now(timezone.utc) - PINNED_FOR:
            continue
        application, _, run_id = str(pin["reader"]).partition("/")
        if not files.exists(RunFolder(application, run_id).closed):
            return True
    return False


def _supersede(bound: System, topic: str, partitions: int, producer: str) -> None:
    try:
        bound.publish(StreamSpec(topic, partitions), Publication(producer, GIVEN_UP, 0, {}))
    except TopicError as error:
        if "winner" not in error.facts:  # given up already
            raise
