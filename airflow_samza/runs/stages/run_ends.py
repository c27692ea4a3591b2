"""End of a run with unbounded inputs: a drain, stop or deadline on record in the run's folder for all stages.

A *drain* ends every stream for good: what has arrived by then is read, windows give what they hold, and the stages end
one after the other. A *stop* ends only the run: nothing more is read, nothing flushes, and state stays for a run that
goes on (rule C9). A *deadline* is a stop at a given time. Operators, the notifier and the command line ask for one; the
stage runner goes by it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import RunFolder, StageFolder, read, write_once
from airflow_samza.systems.filesystems.filesystem import Filesystem


@durable("request to end a run", later={"until": None})
@dataclass(frozen=True)
class EndRequest:
    """The request that a run ends, by ``who`` and ``at`` which time; ``until``: when it stops, of a deadline."""

    who: str
    at: float
    until: float | None = None


@durable("end of a stage that failed", reports=True)
@dataclass(frozen=True)
class Abort:
    """A stage failed, and nobody will try again."""

    why: str = ""
    who: str = ""
    at: float = 0.0


@durable("end of a run", reports=True)
@dataclass(frozen=True)
class RunEnd:
    """A run is over; ``at`` in seconds since 1970, of a push as an ISO text, None where nobody has noted it.

    ``requests`` (by kind) are those to the root of the process that closed it.
    """

    succeeded: bool = False
    at: float | str | None = None
    requests: Mapping[str, int] = field(default_factory=dict)


def ask_to_drain(files: Filesystem, run: RunFolder, generation: int, who: str = "") -> None:
    """Has all stages of a plan's generation end; asking again changes nothing."""
    write_once(files, run.drain(generation), EndRequest(who, time.time()))


def ask_to_stop(files: Filesystem, run: RunFolder, generation: int, who: str = "") -> None:
    """Has all stages of a plan's generation stop where they are; asking again changes nothing."""
    write_once(files, run.stop(generation), EndRequest(who, time.time()))


def set_deadline(files: Filesystem, run: RunFolder, generation: int, at: float, who: str = "") -> None:
    """Has the run stop at a time (seconds since 1970, UTC); the first deadline stands."""
    write_once(files, run.deadline(generation), EndRequest(who, time.time(), at))


def is_ending(files: Filesystem, run: RunFolder, generation: int, now: float | None = None) -> bool | None:
    """Return how the run is to end: for good (True: a drain), or only for now (False: a stop, or its deadline).

    None: it goes on.
    """
    if files.exists(run.stop(generation)):
        return False
    if files.exists(run.drain(generation)):
        return True
    deadline = read(files, run.deadline(generation), EndRequest)
    if deadline is None or deadline.until is None:
        return None
    return False if deadline.until <= (time.time() if now is None else now) else None


def abort(files: Filesystem, folder: StageFolder, why: str = "", who: str = "") -> None:
    """Says that a stage failed and nobody will try again.

    Stages that read what it writes stop instead of waiting for it.
    """
    write_once(files, folder.abort, Abort(why, who, time.time()))


def is_aborted(files: Filesystem, folder: StageFolder) -> bool:
    """Return whether a stage was given up."""
    return files.exists(folder.abort)
