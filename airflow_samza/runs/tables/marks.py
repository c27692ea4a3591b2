"""Marks that say "this may no longer be read", made only where no pin says "this is read" (decision 48).

Of the two one always wins, for good.

A mark is never taken back: whoever sees one may delete what it is of. So it is not written at once. An *attempt* at it
is, under a name of its own in another folder, then the pins are looked at, and only then the attempt gets its
*verdict*: a record beside it that is written once, by its owner ("made") or by somebody who pins ("withdrawn"). Who
pins gives every attempt its verdict after the pin stands, and looks for the mark after that:

- an attempt from before is withdrawn, and its owner finds that; or its owner was the first, and the mark is written by
  whoever of the two comes to it, so the pin's owner sees it,
- an attempt from after has its owner look at the pins after the pin stood.

An attempt whose owner died stops nobody. Nothing is renamed: an object store could not do it in one step.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import read_told, write_once
from airflow_samza.systems.filesystems.filesystem import Filesystem

_VERDICT = ".verdict.json"


@durable("mark of a table", reports=True)
@dataclass(frozen=True)
class Mark:
    """A mark, since ``at`` (ISO text, UTC); that it is there is all that counts."""

    at: str = ""


@durable("attempt at a mark of a table")
@dataclass(frozen=True)
class MarkAttempt:
    """An attempt ``at`` a time (ISO text, UTC) at the mark of this path."""

    at: str
    mark: str


@durable("verdict on an attempt at a mark of a table")
@dataclass(frozen=True)
class Verdict:
    """The verdict on an attempt: its mark is ``made``, or it never will be."""

    made: bool


def make_mark(files: Filesystem, mark: str, attempts: str, at: str, is_pinned: Callable[[], bool]) -> bool:
    """Makes a mark, unless a pin stands against it; whether the mark stands now.

    ``attempts`` is the folder of attempts.
    """
    if files.exists(mark):
        return True
    if is_pinned():
        return False
    place = f"{attempts}/{uuid.uuid4().hex}"
    attempt, verdict = f"{place}.json", f"{place}{_VERDICT}"
    write_once(files, attempt, MarkAttempt(at, mark))
    if is_pinned():
        files.delete(attempt)
        return False
    made = write_once(files, verdict, Verdict(True))
    if made:
        write_once(files, mark, Mark(at))
    files.delete(attempt)  # only its owner deletes it, so who lists a verdict alone knows that it is done with
    files.delete(verdict)
    return made


def withdraw_attempts(files: Filesystem, attempts: str) -> None:
    """Withdraws all attempts at marks; a mark that its owner has decided to make stands when this returns."""
    names = files.list(attempts)
    for name in names:
        path = f"{attempts}/{name}"
        if name.endswith(_VERDICT):
            if f"{name.removesuffix(_VERDICT)}.json" not in names:  # of an attempt that is done with
                files.delete(path)
            continue
        verdict = f"{path.removesuffix('.json')}{_VERDICT}"
        if write_once(files, verdict, Verdict(False)):
            continue
        standing = read_told(files, verdict, Verdict)
        attempt = read_told(files, path, MarkAttempt) if standing is not None and standing.made else None
        if attempt is not None:
            write_once(files, attempt.mark, Mark(attempt.at))
