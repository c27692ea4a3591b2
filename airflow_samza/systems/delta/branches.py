"""Commits of a run to a Delta table that wait under the root until somebody publishes them (decision 118).

Delta has no branches. So with ``branch=`` the data files of a run lie in the table's folder, where no reader sees them,
and the folder of the run has a file for each epoch that was to be committed. Publishing makes one commit of them, by
the same way as every other publication; dropping deletes them, and notes which generations are given up. The Delta
system publishes and drops them, and sweeps of outputs keep their files.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.grouping import grouped
from airflow_samza.records import plain
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.options import path_of
from airflow_samza.systems.delta.state import AddedFile
from airflow_samza.systems.delta.writing import added_file
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.generations import newest_generations, parse_generation
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.tables.commits import TableView, dropped, output_digest
from airflow_samza.systems.tables.output import waiting_folder
from airflow_samza.typed_values import converted

_DROPPED = "dropped"
_NAME = re.compile(rf"(?P<output>[0-9a-f]{{12}})-(?P<generation>\d+(?:\.\d+)*)-(?P<what>\d+|{_DROPPED})\.json")


@dataclass(frozen=True)
class WaitingCommit:
    """Commit of an epoch that waits: what its publication would have said, and the ``options`` of its output.

    ``folder`` is that of the table, and ``files`` are the whole paths of the data files, for those who audit them.
    """

    producer: str
    stream: str
    generation: str
    epoch: int
    staged: tuple[Mapping[str, Any], ...]
    options: Mapping[str, str]
    slot: OutputSlot | None = None
    root: str = ""
    folder: str = ""
    files: tuple[str, ...] = ()

    @property
    def owner(self) -> tuple[str, str]:
        """The producer's output, as a digest, and the generation."""
        return output_digest(self.producer, self.stream), self.generation


@dataclass(frozen=True)
class Branch:
    """Commits of a run that wait for one table, under one name, in a folder; those of other runs lie elsewhere."""

    files: Filesystem
    folder: str
    table: str
    name: str

    @classmethod
    def of(cls, files: Filesystem, run: str, system: str, table: str, name: str) -> Branch:
        """Return the branch of a run to a table, which is known by its folder: a table has names of two forms."""
        place = hashlib.sha256("\0".join((system, path_of(table), name)).encode()).hexdigest()[:16]
        return cls(files, f"{waiting_folder(run)}/{place}", table, name)

    def commits(self) -> list[WaitingCommit]:
        """Return what waits: of each output its newest generation, by epoch."""
        names = [name for name in self._names() if name["what"] != _DROPPED]
        newest = newest_generations((name["output"], name["generation"]) for name in names)
        standing = [name for name in names if parse_generation(name["generation"]) == newest[name["output"]]]
        read = (self._read(name[0]) for name in standing)
        return sorted((one for one in read if one is not None), key=lambda one: (one.owner, one.epoch))

    def last(self, output: str) -> tuple[str, int] | None:
        """Return the newest generation of an output of which something waits, with its last epoch; None: nothing."""
        waiting = [name for name in self._names() if name["output"] == output and name["what"] != _DROPPED]
        last = max(waiting, key=lambda name: (parse_generation(name["generation"]), int(name["what"])), default=None)
        return None if last is None else (last["generation"], int(last["what"]))

    def is_dropped(self, owner: tuple[str, str]) -> bool:
        """Return whether what a generation of an output has committed was dropped, or what a later one has."""
        return any(
            name["what"] == _DROPPED
            and name["output"] == owner[0]
            and parse_generation(name["generation"]) >= parse_generation(owner[1])
            for name in self._names()
        )

    def add(self, commit: WaitingCommit) -> None:
        """Have a commit wait; what lower generations of its output have left goes."""
        content = json.dumps(plain(commit), separators=(",", ":")).encode()
        self.files.put_if_absent(self._path(commit.owner, commit.epoch), content)
        mine = parse_generation(commit.generation)
        for name in self._names():
            if name["output"] == commit.owner[0] and parse_generation(name["generation"]) < mine:
                self.files.delete(f"{self.folder}/{name[0]}")

    def forget(self, commits: Iterable[WaitingCommit]) -> None:
        """Delete commits that are published."""
        for one in commits:
            self.files.delete(self._path(one.owner, one.epoch))
        self.files.delete_empty(self.folder)
        self.files.delete_empty(self.folder.rpartition("/")[0])

    def drop(self, view: Callable[[], TableView]) -> bool:
        """Give up what waits, so that nobody adds to it; return False where nothing does, or it is published meanwhile.

        What the table has already, by a publisher that died behind its commit, is no more than forgotten.
        """
        waiting = [name for name in self._names() if name["what"] != _DROPPED]
        given_up = _missing(waiting, view())
        for name in given_up:
            self.files.put_if_absent(self._path((name["output"], name["generation"]), _DROPPED), b"{}")
        for name in waiting:
            self.files.delete(f"{self.folder}/{name[0]}")
        dropped = _missing(given_up, view()) if given_up else []
        for name in given_up:
            if name not in dropped:
                self.files.delete(self._path((name["output"], name["generation"]), _DROPPED))
        return bool(dropped)

    def reject_incomplete(
        self, waiting: Iterable[WaitingCommit], view: TableView, committed: Collection[OutputCommit]
    ) -> None:
        """Reject a branch that lacks something of what its run has committed, where the table lacks it, too."""
        owners = {one.owner for one in waiting} | set(_epochs(view))
        for one in committed:
            owner = output_digest(one.producer, one.stream), one.generation
            if owner not in owners or self.is_dropped(owner):
                raise dropped(self.table, self.name, one.stream)

    def _names(self) -> Iterator[re.Match[str]]:
        return (match for name in self.files.list(self.folder) if (match := _NAME.fullmatch(name)))

    def _path(self, owner: tuple[str, str], what: object) -> str:
        return f"{self.folder}/{owner[0]}-{owner[1]}-{what}.json"

    def _read(self, name: str) -> WaitingCommit | None:
        """Return a commit; None: somebody has published or replaced it meanwhile."""
        path = f"{self.folder}/{name}"
        try:
            return converted(json.loads(self.files.read(path)), WaitingCommit)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, RecursionError, SamzaError) as error:
            reason = error.sentence.rstrip(".") if isinstance(error, SamzaError) else error
            raise TopicError(
                f"{self.files.location(path)} is damaged: {reason}.",
                hint="It is a commit that waits for its publication. Clear the stage that writes it, or give the run "
                "up: airflow-samza publish … --drop.",
                path=self.files.location(path),
            ) from error


def waits(files: Filesystem, run: str) -> bool:
    """Return whether something of a run waits for its publication."""
    folder = waiting_folder(run)
    names = (name for place in files.list(folder) for name in files.list(f"{folder}/{place}"))
    return any((match := _NAME.fullmatch(name)) and match["what"] != _DROPPED for name in names)


def waiting_files(files: Filesystem, run: str, folder: Location, columns: TableColumns) -> list[AddedFile] | None:
    """Return the data files with the rows of a run that wait for the table in a folder; None: no commit of it waits."""
    places = (f"{waiting_folder(run)}/{name}" for name in files.list(waiting_folder(run)))
    commits = [one for place in places for one in Branch(files, place, "", "").commits() if one.folder == str(folder)]
    staged = (file for one in commits for described in one.staged for file in described["files"])
    found = [added_file(columns, file, {"numRecords": file["rows"]}) for file in staged]
    return found if commits else None


def committed_ones(waiting: Iterable[WaitingCommit], committed: Collection[OutputCommit]) -> list[WaitingCommit]:
    """Return what waits of the generations that are committed, and of outputs that are not among these.

    A higher generation is not over yet, and a lower one is of a process that woke up again.
    """
    wanted = {output_digest(one.producer, one.stream): one.generation for one in committed}
    return [one for one in waiting if wanted.get(one.owner[0], one.generation) == one.generation]


def not_published(waiting: Iterable[WaitingCommit], view: TableView) -> list[WaitingCommit]:
    """Return what waits and is not in the table: a publisher that died behind its commit has left the rest."""
    published = _epochs(view)
    return [one for one in waiting if one.epoch > published.get(one.owner, -1)]


def publications(waiting: Iterable[WaitingCommit], stream: StreamSpec) -> Iterator[tuple[StreamSpec, Publication]]:
    """Yield what waits as one publication for each output, with its stream."""
    for commits in grouped((one.owner, one) for one in waiting).values():
        last = commits[-1]
        tasks = [one for commit in commits for one in commit.staged]
        publication = Publication(
            last.producer, last.generation, last.epoch, dict(enumerate(tasks)), slot=last.slot, root=last.root
        )
        yield replace(stream, name=last.stream, options=tuple(last.options.items())), publication


def _missing(names: Iterable[re.Match[str]], view: TableView) -> list[re.Match[str]]:
    """Return those of some commits that wait, by the names of their files, which a table does not have."""
    published = _epochs(view)
    return [name for name in names if int(name["what"]) > published.get((name["output"], name["generation"]), -1)]


def _epochs(view: TableView) -> dict[tuple[str, str], int]:
    """Return the last epoch that a table has of each generation of an output."""
    return {one.owner: one.epoch for _, one in view.commits()}
