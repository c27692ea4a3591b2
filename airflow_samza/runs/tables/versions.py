"""The versions of a pushed table: which pushes each consists of, which is current, which was current when; going back.

A version is one record, ``tables/<system>/<topic>/versions/<number>.json``, written once: before it stands, nothing of
a push is visible, and of two pushes that want the same number one gets it. Records are never deleted: one that
retention has given up is marked beside it, so that a number is never used twice and a push id is known for ever. A
rollback makes what an older version read current again, as a new version; nothing is copied. Pushes and rollbacks add
one; the plan step, the page and the command line ask which is current.
Source: rule S7 (decision 51).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from itertools import islice
from typing import Any

from airflow_samza.errors import ConcurrentPush, NoSuchVersion, PushError
from airflow_samza.records import encode
from airflow_samza.runs.records.folders import must_read, numbers, read, write_once
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.marks import withdraw_proposals
from airflow_samza.runs.tables.table_version import (
    FULL,
    INCREMENTAL,
    ROLLBACK,
    Compactions,
    PushBegun,
    TablePin,
    TableVersion,
    instant_text,
    now,
)
from airflow_samza.systems.capabilities import RemembersWriters
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import StreamSpec, System


def newest(files: Filesystem, system: str, topic: str) -> TableVersion | None:
    """The current version: the newest one but those that came late; None when nothing was ever pushed."""
    return next((version for version in from_newest(files, system, topic) if not version.is_late), None)


def by_number(files: Filesystem, system: str, topic: str, number: int) -> TableVersion:
    """A version by its number; one that is missing or expired is an error."""
    folder = TableFolder(system, topic)
    version = read(files, folder.version(number), TableVersion)
    if version is None:
        raise missing(files, system, topic, f"version {number}")
    return _readable(files, folder, _loaded(version, Compactions(files, folder)))


def by_push_id(files: Filesystem, system: str, topic: str, push_id: str) -> TableVersion | None:
    """The version that a push has become; None when it has not, or not yet."""
    begun = read(files, f"{TableFolder(system, topic).push(push_id)}/adding.json", PushBegun)
    if begun is None:
        return None
    return next(
        (version for version in from_newest(files, system, topic, begun.after) if version.push_id == push_id), None
    )


def as_of(files: Filesystem, system: str, topic: str, instant: datetime) -> TableVersion:
    """Return the version that was current at an instant: of those from before it, the latest, of equal ones the newest.

    It counts by ``current_from``. What was pushed for the data interval [Monday, Tuesday) counts from Tuesday 00:00 on,
    whenever the push itself ran. None there yet, or expired since, is an error.
    """
    if instant.tzinfo is None:
        raise PushError(
            f"The instant {instant.isoformat()} has no time zone.", hint="Use pendulum.datetime(…, tz='UTC')."
        )
    folder = TableFolder(system, topic)
    version_then: TableVersion | None = None
    for version in from_newest(files, system, topic):
        if datetime.fromisoformat(version.current_from) > instant:
            continue
        if version_then is None or version.current_from > version_then.current_from:
            version_then = version
        if not version.is_late:  # those before it were current before it
            break
    if version_then is None:
        raise missing(
            files, system, topic, f"a version that was current at {instant.astimezone(timezone.utc).isoformat()}"
        )
    return _readable(files, folder, version_then)


def number_read(files: Filesystem, system: str, topic: str, slice_: Mapping[str, Any]) -> int:
    """The newest version that consists of just what a slice reads; 0: none.

    Looked for from the newest, whatever was pushed before.
    """
    read_ = tuple((section["producer"], section["generation"]) for section in slice_.get("sections", ()))
    candidates = from_newest(files, system, topic) if read_ else ()
    return next((version.number for version in candidates if read_ in (version.sections, version.read_sections)), 0)


def from_newest(
    files: Filesystem, system: str, topic: str, after: int = 0, but: Collection[int] = frozenset()
) -> Iterator[TableVersion]:
    """The versions above a number, but for some, newest first, each read when it is asked for."""
    folder = TableFolder(system, topic)
    compactions = Compactions(files, folder)
    for number in reversed(numbers(files, folder.versions)):
        if number <= after:
            return
        if number in but:
            continue
        yield _loaded(must_read(files, folder.version(number), TableVersion), compactions)


def versions(files: Filesystem, system: str, topic: str) -> list[TableVersion]:
    """All versions, oldest first, expired ones too (:func:`expired_numbers`)."""
    return list(from_newest(files, system, topic))[::-1]


def expired_numbers(files: Filesystem, system: str, topic: str) -> set[int]:
    """The versions that retention has given up."""
    return set(numbers(files, TableFolder(system, topic).expired))


def tables(files: Filesystem) -> list[TableFolder]:
    """The tables that have a version, by the names that are safe in a path."""
    return [
        TableFolder(system, topic)
        for system in files.list("tables")
        for topic in files.list(f"tables/{system}")
        if files.list(TableFolder(system, topic).versions)
    ]


def add(files: Filesystem, system: str, topic: str, version: TableVersion) -> TableVersion:
    """Makes a push visible as the version that it asks for, one above all others; returns the record that stands.

    A push whose id stands there already gets that version. A number that another push has taken is a
    :class:`ConcurrentPush`. ``current_from`` and ``is_late`` are found here.
    """
    folder = TableFolder(system, topic)
    table = version.table or topic
    current = newest(files, system, topic)
    if version.kind != FULL and version.base is None:
        raise needs_base(table, version.push_id)
    version = _placed(version, current)
    highest = highest_number(files, system, topic)
    # Noted first, so that whoever looks for this id need not read what was pushed before.
    write_once(files, f"{folder.push(version.push_id)}/adding.json", PushBegun(highest))
    standing = by_push_id(files, system, topic, version.push_id)
    if standing is not None:
        return standing
    if highest < version.number and write_once(files, folder.version(version.number), version):
        return _loaded(version, Compactions(files, folder))
    winner = must_read(files, folder.version(version.number), TableVersion)
    if winner.push_id == version.push_id:  # another attempt at the same push
        return winner
    raise lost(table, version.push_id, winner)


def reject_late(files: Filesystem, system: str, topic: str, table: str, push_id: str, after: int) -> None:
    """Tells a push that began when version ``after`` was the newest that another has been faster meanwhile."""
    winner = read(files, TableFolder(system, topic).version(after + 1), TableVersion)
    if winner is not None and winner.push_id != push_id:
        raise lost(table, push_id, winner)


def highest_number(files: Filesystem, system: str, topic: str) -> int:
    """The number of the last version; 0 when there is none."""
    return max(numbers(files, TableFolder(system, topic).versions), default=0)


def missing(files: Filesystem, system: str, topic: str, version: str) -> NoSuchVersion:
    """Return the error for a version that never was."""
    folder = TableFolder(system, topic)
    return NoSuchVersion(
        f"The table of push stream {folder.topic!r} (system {folder.system!r}) has no {version.removeprefix('a ')}.",
        hint=f"Its versions are: {_those_left(files, folder)}."
        if files.list(folder.versions)
        else "Nothing was pushed yet: push first.",
        table=folder.topic,
        wanted=version,
    )


def pin(files: Filesystem, system: str, topic: str, number: int, reader: str) -> TableVersion:
    """Keeps a version for a run (``<application>/<run id>``) until the run is closed; one that is expired is an error.

    Looked at after the pin stands, and after what retention has begun against it is taken away
    (:mod:`airflow_samza.runs.tables.marks`).
    """
    folder = TableFolder(system, topic)
    files.put(folder.pin(number, reader), encode(TablePin(reader, now())))
    withdraw_proposals(files, folder.proposals)
    try:
        return by_number(files, system, topic, number)
    except NoSuchVersion:
        files.delete(folder.pin(number, reader))
        raise


def _placed(version: TableVersion, current: TableVersion | None) -> TableVersion:
    """The version with its place in time."""
    at = (
        instant_text(version.interval[1])
        if version.interval is not None and version.kind != ROLLBACK
        else instant_text(version.pushed_at)
    )
    if current is None:
        return replace(version, current_from=at, is_late=False)
    own, before = version.interval, current.interval
    if (
        version.kind == FULL
        and own is not None
        and before is not None
        and instant_text(own[1]) < instant_text(before[1])
    ):
        return replace(version, current_from=at, is_late=True)
    return replace(version, current_from=max(at, current.current_from), is_late=False)


def _loaded(version: TableVersion, compactions: Compactions) -> TableVersion:
    """Return a version with the compactions that stand beside its record."""
    if (
        len(version.sections) == 1
    ):  # a full push, or a rollback to one: there is nothing to compact, and nothing to look for
        return version
    above = compactions.from_above(version.reads) or compactions.from_above(version.on)
    return replace(version, compactions=above) if above else version


def _readable(files: Filesystem, folder: TableFolder, version: TableVersion) -> TableVersion:
    if version.number in expired_numbers(files, folder.system, folder.topic):
        raise NoSuchVersion(
            f"Version {version.number} of table {version.table or folder.topic!r} (push {version.push_id!r}) "
            "has expired.",
            hint=f"Still there: {_those_left(files, folder)}. keep_versions of the push says how many are kept.",
            table=version.table or folder.topic,
            wanted=version.number,
        )
    return version


def _those_left(files: Filesystem, folder: TableFolder) -> str:
    system, topic = folder.system, folder.topic
    left = islice(from_newest(files, system, topic, but=expired_numbers(files, system, topic)), 5)
    return ", ".join(f"{version.number} (current from {version.current_from[:19]}Z)" for version in left)


def lost(table: str, push_id: str, winner: TableVersion) -> ConcurrentPush:
    """Return the error for a push whose number another has taken."""
    return ConcurrentPush(
        f"The push {push_id!r} of table {table!r} lost version {winner.number} to the push {winner.push_id!r}, which "
        "was faster; nothing of it is visible.",
        hint="Try again: what it has written is kept, and becomes the version after that one if the checks still hold.",
        table=table,
        number=winner.number,
        winner=winner.push_id,
    )


def needs_base(table: str, push_id: str) -> PushError:
    """Return the error for an incremental push of a table without a version."""
    return PushError(
        f"The incremental push {push_id!r} has nothing to change: table {table!r} has no version yet.",
        hint='Push all rows first: mode="full".',
        table=table,
        push_id=push_id,
    )


def taken(version: TableVersion) -> PushError:
    """Return the error for a push whose id a rollback has, or a rollback whose id a push has.

    To find that version would change nothing.
    """
    kinds = {FULL: "a full push", INCREMENTAL: "an incremental push", ROLLBACK: "a rollback"}
    return PushError(
        f"The push id {version.push_id!r} of table {version.table!r} is taken: it made version {version.number}, "
        f"{kinds[version.kind]}.",
        hint="Give pushes and rollbacks ids of their own (push_id=); the default is one.",
        table=version.table,
        push_id=version.push_id,
    )


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
