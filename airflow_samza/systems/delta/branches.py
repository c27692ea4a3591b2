"""Commits of a run to a Delta table that wait under the root until somebody publishes them (decision 118).

Delta has no branches. So with ``branch=`` the data files of a run lie in the table's folder, where no reader sees them,
and the folder of the run has a file for each epoch that was to be committed. Publishing makes one commit of them, by
the same way as every other publication; dropping deletes them, and notes which generations are given up.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.records import plain
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.tables.commits import TableView, output_digest
from airflow_samza.systems.tables.output import waiting_folder
from airflow_samza.systems.tables.rejections import dropped
from airflow_samza.typed_values import converted

_DROPPED = "dropped"
_NAME = re.compile(rf"(?P<output>[0-9a-f]{{12}})-(?P<generation>\d+(?:\.\d+)*)-(?P<what>\d+|{_DROPPED})\.json")


@dataclass(frozen=True)
class WaitingCommit:
    """Commit of an epoch that waits: what its publication would have said, and the ``options`` of its output.

    ``files`` are the whole paths of the data files, for those who audit them.
    """

    producer: str
    stream: str
    generation: str
    epoch: int
    staged: tuple[Mapping[str, Any], ...]
    options: Mapping[str, str]
    slot: OutputSlot | None = None
    root: str = ""
    files: tuple[str, ...] = ()

    @property
    def owner(self) -> tuple[str, str]:
        """The producer's output, as a digest, and the generation."""
        return output_digest(self.producer, self.stream), self.generation


class Branch:
    """Commits of a run that wait for one table, under one name; those of other runs lie elsewhere."""

    def __init__(self, files: Filesystem, run: str, system: str, table: str, name: str) -> None:
        place = hashlib.sha256("\0".join((system, table, name)).encode()).hexdigest()[:16]
        self._files = files
        self._folder = f"{waiting_folder(run)}/{place}"
        self.table = table
        self.name = name

    def commits(self) -> list[WaitingCommit]:
        """Return what waits: of each output its newest generation, by epoch."""
        names = [name for name in self._names() if name["what"] != _DROPPED]
        newest: dict[str, tuple[int, ...]] = {}
        for name in names:
            newest[name["output"]] = max(newest.get(name["output"], ()), parse_generation(name["generation"]))
        standing = [name for name in names if parse_generation(name["generation"]) == newest[name["output"]]]
        return sorted((self._read(name[0]) for name in standing), key=lambda one: (one.owner, one.epoch))

    def is_dropped(self, owner: tuple[str, str]) -> bool:
        """Return whether what a generation of an output has committed was dropped."""
        return self._files.exists(self._path(owner, _DROPPED))

    def add(self, commit: WaitingCommit) -> None:
        """Have a commit wait; what lower generations of its output have left goes."""
        content = json.dumps(plain(commit), separators=(",", ":")).encode()
        self._files.put_if_absent(self._path(commit.owner, commit.epoch), content)
        mine = parse_generation(commit.generation)
        for name in self._names():
            if name["output"] == commit.owner[0] and parse_generation(name["generation"]) < mine:
                self._files.delete(f"{self._folder}/{name[0]}")

    def forget(self, commits: Iterable[WaitingCommit]) -> None:
        """Delete commits that are published."""
        for one in commits:
            self._files.delete(self._path(one.owner, one.epoch))
        self._files.delete_empty(self._folder)
        self._files.delete_empty(self._folder.rpartition("/")[0])

    def drop(self) -> bool:
        """Give up what waits, so that nobody adds to it; return False where nothing does."""
        waiting = [name for name in self._names() if name["what"] != _DROPPED]
        for name in waiting:
            self._files.put_if_absent(self._path((name["output"], name["generation"]), _DROPPED), b"{}")
        for name in waiting:
            self._files.delete(f"{self._folder}/{name[0]}")
        return bool(waiting)

    def reject_incomplete(
        self, waiting: Iterable[WaitingCommit], view: TableView, committed: Collection[OutputCommit]
    ) -> None:
        """Reject a branch that lacks what its run has committed, where the table does not have it either."""
        there = {one.owner for one in waiting} | {one.owner for _, one in view.commits()}
        for one in committed:
            if (output_digest(one.producer, one.stream), one.generation) not in there:
                raise dropped(self.table, self.name, one.stream)

    def _names(self) -> Iterator[re.Match[str]]:
        return (match for name in self._files.list(self._folder) if (match := _NAME.fullmatch(name)))

    def _path(self, owner: tuple[str, str], what: object) -> str:
        return f"{self._folder}/{owner[0]}-{owner[1]}-{what}.json"

    def _read(self, name: str) -> WaitingCommit:
        path = f"{self._folder}/{name}"
        try:
            return converted(json.loads(self._files.read(path)), WaitingCommit)
        except (ValueError, TypeError, KeyError, RecursionError, SamzaError) as error:
            reason = error.sentence.rstrip(".") if isinstance(error, SamzaError) else error
            raise TopicError(
                f"{self._files.location(path)} is damaged: {reason}.",
                hint="It is a commit that waits for its publication. Clear the stage that writes it, or give the run "
                "up: airflow-samza publish … --drop.",
                path=self._files.location(path),
            ) from error


def waits(files: Filesystem, run: str) -> bool:
    """Return whether something of a run waits for its publication."""
    folder = waiting_folder(run)
    names = (name for place in files.list(folder) for name in files.list(f"{folder}/{place}"))
    return any((match := _NAME.fullmatch(name)) and match["what"] != _DROPPED for name in names)


def publications(waiting: Iterable[WaitingCommit], stream: StreamSpec) -> list[tuple[StreamSpec, Publication]]:
    """Return what waits as one publication for each output, with its stream."""
    by_owner: dict[tuple[str, str], list[WaitingCommit]] = {}
    for one in waiting:
        by_owner.setdefault(one.owner, []).append(one)
    found = []
    for commits in by_owner.values():
        last = commits[-1]
        tasks = [one for commit in commits for one in commit.staged]
        publication = Publication(
            last.producer, last.generation, last.epoch, dict(enumerate(tasks)), slot=last.slot, root=last.root
        )
        found.append((replace(stream, name=last.stream, options=tuple(last.options.items())), publication))
    return found


def published_version(view: TableView, committed: Collection[OutputCommit]) -> str | None:
    """Return the version with the last of what was committed to a branch that is published; None: it is not."""
    records = {one.owner: one.snapshot for _, one in view.commits()}
    versions = [records.get((output_digest(one.producer, one.stream), one.generation)) for one in committed]
    found = [int(one) for one in versions if one is not None]
    return str(max(found)) if found and len(found) == len(versions) else None
