"""Marks that say "this may no longer be read", made only where no pin says "this is read".

Of the two one always wins, for good.

A mark is never taken back: whoever sees one may delete what it is of. So it is not written at once. An *attempt* at it
is, under a name of its own in another folder, then the pins are looked at, and only then the attempt is renamed to be
the mark. Who pins takes away all attempts after the pin stands, and looks for the mark after that:

- an attempt from before is gone, so its rename fails; or it was renamed in time, and the pin's owner sees the mark,
- an attempt from after has its owner look at the pins after the pin stood.

An attempt whose owner died stops nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from airflow_samza.records import durable, encode
from airflow_samza.systems.filesystems.filesystem import Filesystem


@durable("mark of a table", reports=True)
@dataclass(frozen=True)
class Mark:
    """A mark, since ``at`` (ISO text, UTC); that it is there is all that counts."""

    at: str = ""


def make_mark(files: Filesystem, mark: str, attempts: str, at: str, is_pinned: Callable[[], bool]) -> bool:
    """Makes a mark, unless a pin stands against it; whether the mark stands now.

    ``attempts`` is the folder of attempts.
    """
    if files.exists(mark):
        return True
    if is_pinned():
        return False
    attempt = f"{attempts}/{uuid.uuid4().hex}.json"
    files.put_if_absent(attempt, encode(Mark(at)))
    if is_pinned():
        files.delete(attempt)
        return False
    try:
        files.rename(attempt, mark)
    except FileNotFoundError:  # somebody has pinned it meanwhile
        return False
    return files.exists(mark)


def withdraw_attempts(files: Filesystem, attempts: str) -> None:
    """Takes away all attempts at marks: whoever is at one may not make it, and looks at the pins again another time."""
    for name in files.list(attempts):
        files.delete(f"{attempts}/{name}")
