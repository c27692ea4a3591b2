"""Marks that say "this may no longer be read", made only where no pin says "this is read"; of the two one wins.

A mark is never taken back, because whoever sees one may delete what it is of. The race is between a *sweeper*, which
wants to mark, and a *reader*, which wants to pin:

- The sweeper writes a proposal, looks at the pins, writes the proposal's verdict "made", and then the mark.
- The reader writes its pin, writes the verdict "withdrawn" to each proposal that it sees, and then looks for the mark.

A verdict is written by ``put_if_absent``, so a proposal has one. There are three orders:

1. The proposal comes after the pin: the sweeper's look at the pins finds it, and the sweeper gives up.
2. The proposal comes before the pin, and the reader writes the verdict: the sweeper finds "withdrawn", and gives up.
3. The proposal comes before the pin, and the sweeper writes the verdict: the reader finds "made", writes the mark
   itself if it is not there yet, and then sees it: the version has expired.

A sweeper that died stops nobody. Nothing is renamed: an object store could not do it in one step. Pins, proposals and
verdicts are files of their own and no entries of one log, where readers would contend (decision 48). Retention makes
them, pins heed them, and checks of a root look at them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import read_report, write_once
from airflow_samza.systems.filesystems.filesystem import Filesystem

_VERDICT = ".verdict.json"


@durable("mark of a table", reports=True)
@dataclass(frozen=True)
class Mark:
    """A mark, since ``at`` (ISO text, UTC); that it is there is all that counts."""

    at: str = ""


@durable("attempt at a mark of a table")
@dataclass(frozen=True)
class MarkProposal:
    """A proposal, ``at`` a time (ISO text, UTC), of the mark of this path."""

    at: str
    mark: str


@durable("verdict on an attempt at a mark of a table")
@dataclass(frozen=True)
class Verdict:
    """The verdict on a proposal: its mark is ``made``, or it never will be."""

    made: bool


def make_mark(files: Filesystem, mark: str, proposals: str, at: str, is_pinned: Callable[[], bool]) -> bool:
    """Make a mark, unless a pin stands against it; return whether the mark stands now.

    ``proposals`` is the folder of proposals.
    """
    if files.exists(mark):
        return True
    if is_pinned():
        return False
    place = f"{proposals}/{uuid.uuid4().hex}"
    proposal, verdict = f"{place}.json", f"{place}{_VERDICT}"
    write_once(files, proposal, MarkProposal(at, mark))
    if is_pinned():
        files.delete(proposal)
        return False
    stands = write_once(files, verdict, Verdict(True))
    if stands:
        write_once(files, mark, Mark(at))
    files.delete(proposal)  # only its sweeper deletes it, so who lists a verdict alone knows that it is done with
    files.delete(verdict)
    return stands


def withdraw_proposals(files: Filesystem, proposals: str) -> None:
    """Withdraw all proposals of marks; a mark that its sweeper has decided to make stands when this returns."""
    names = files.list(proposals)
    for name in names:
        path = f"{proposals}/{name}"
        if name.endswith(_VERDICT):
            if f"{name.removesuffix(_VERDICT)}.json" not in names:  # of a proposal that is done with
                files.delete(path)
            continue
        verdict = f"{path.removesuffix('.json')}{_VERDICT}"
        if write_once(files, verdict, Verdict(False)):
            continue
        standing = read_report(files, verdict, Verdict)
        proposal = read_report(files, path, MarkProposal) if standing is not None and standing.made else None
        if proposal is not None:
            write_once(files, proposal.mark, Mark(proposal.at))
