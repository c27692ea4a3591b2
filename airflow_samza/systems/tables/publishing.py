"""Publication of an epoch to a table: one commit, with its record in the same commit (decision 109).

Each try loads the table anew, looks the epoch up, and commits from that very state; nobody below commits again without
the look-up. The race is between attempt A and attempt B: at one epoch, of two generations, or of two runs of a slot.
Both load the table at version V. A commits: what follows V is A's. B's commit asks for V and is rejected; B loads the
table again, and finds A's record. If that is of the same epoch, B is done; a higher generation or a later run ends B
with an error, and a lower one is replaced by B. An answer that is lost is treated likewise: the next look-up tells
whether the commit is there. No data file is deleted on an unknown outcome. Delta and Iceberg commit by it.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import time
import uuid
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic

import pyarrow.compute as pc

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.files.durable_files import delete_file
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import UPSERT, reject_meeting
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.tables.commits import (
    REPLACED,
    TOLD,
    UNTOLD,
    Committed,
    Slot,
    TableView,
    heading,
    output_digest,
    partition_name,
    slot_key,
)
from airflow_samza.systems.tables.leaving_files import File, LeavingFiles, Table, TableFiles, are_in
from airflow_samza.systems.tables.options import MAIN, REPLACE_PARTITIONS, REPLACE_TABLE, TableOutputOptions
from airflow_samza.systems.tables.output import TableProducer, file_name, name_prefix
from airflow_samza.systems.tables.output_target import OutputTarget, changes
from airflow_samza.systems.tables.staged_files import StagedFiles
from airflow_samza.systems.tables.upserts import Upserts, merged

logger = logging.getLogger(__name__)

PRODUCER, GENERATION, EPOCH = "samza.producer", "samza.generation", "samza.epoch"
"""Names under which a commit tells people of whom it is."""

PATIENCE_SECONDS = 120.0
"""Time for which a commit is tried beside other writers of the table."""

UNKNOWN_TRIES = 5
"""Tries whose outcome nobody knows, since the catalog or the storage failed, after which the error is raised."""

LOOKED_AT = 10
"""Live files of a generation by which it has to grow until somebody looks whether some can be merged.

Where each commit brings several, it is as many commits.
"""

UPSERTED = "upserted"
"""The writer of files that upserts make, by name."""

_LONGEST_WAIT = 2.0


@dataclass(frozen=True)
class TableCommit(Generic[File]):
    """Commit of one epoch: the files that come and go, and the records that change.

    ``committed`` is the record of the epoch, in its ``slot``, without the version that the commit makes; ``others`` are
    those of other generations of which files go. ``view`` is all that is on record of what concerns the epoch.
    """

    view: TableView
    committed: Committed
    slot: Slot
    new: list[File]
    leaving: list[File]
    others: list[tuple[Slot, Committed]]

    @property
    def begins(self) -> bool:
        """Return whether nothing of the generation is on record yet."""
        return all(one.owner != self.committed.owner for one in self.slot.commits)

    def recorded(self, version: str) -> Committed:
        """Return the record of the epoch, with the version that the commit makes."""
        return dataclasses.replace(self.committed, snapshot=version)


class TablePublisher(TableFiles[Table, File]):
    """Publisher of one epoch to a table, of which each try loads a state anew.

    ``version`` is the name that versions of such tables have. With ``by_ids`` columns are found in files by ids: they
    may be dropped, or widened, after a file was written.
    """

    by_ids: bool
    version: str

    def __init__(
        self,
        options: TableOutputOptions,
        stream: StreamSpec,
        publication: Publication,
        system: str,
    ) -> None:
        super().__init__(options, stream, publication)
        self.system = system
        self.staged = StagedFiles(self.place, [file for one in self.described for file in one["files"]], stream.name)
        self.prefixes = {str(one["prefix"]) for one in self.described if one["files"]}
        self.key = slot_key(publication.slot, publication.producer, stream.name)
        self.generation = parse_generation(publication.generation)
        self.mine = Committed(
            publication.producer,
            stream.name,
            publication.generation,
            turn=0,
            epoch=publication.epoch,
            root=publication.root,
        )
        self.owner = self.mine.owner
        self.sought = (
            None
            if options.mode in (REPLACE_PARTITIONS, REPLACE_TABLE)
            else heading(publication.slot, self.owner[0], *(output_digest(*one) for one in publication.former))
        )
        """Facts by which the folded records are found that concern the publication; None: all do."""
        self.upserts = options.mode == UPSERT
        self.upserted = (name_prefix("", UPSERTED, stream.name),)
        """Beginning of the names of the files that upserts of the output write, whichever run does."""
        self.tried = ExitStack()
        """Removal of what the last try has written anew, should that not have landed."""
        self.feed: TableProducer | None = None
        """The producer of what the last try has written for readers of changes, where the table wants that."""
        self.has_grown = False
        """The generation has added so many files that somebody should look for some to be merged."""

    @abstractmethod
    def place(self, path: str) -> Location:
        """Return the place of a data file, as its description has its path."""

    @abstractmethod
    def load(self) -> Table:
        """Return the table as it is now."""

    @abstractmethod
    def view(self, table: Table) -> TableView:
        """Return the records of the commits to a table."""

    def change_feed(self, table: Table, target: OutputTarget) -> TableProducer | None:
        """Return the producer of files that say what becomes of each row, where the table wants that; else None."""
        return None

    @abstractmethod
    def described_files(self, table: Table, staged: StagedFiles) -> list[File]:
        """Return data files that were staged, or written anew, as the table's metadata has them."""

    @abstractmethod
    def commit(self, table: Table, commit: TableCommit[File]) -> Committed:
        """Commit from this very state of the table; return the record with the version that the commit has made."""

    @abstractmethod
    def is_lost(self, error: Exception) -> bool:
        """Return whether a commit has surely not landed, because somebody else was quicker."""

    def names(self) -> dict[str, str]:
        """Return what a commit tells people."""
        return {
            PRODUCER: self.publication.producer,
            GENERATION: self.publication.generation,
            EPOCH: str(self.publication.epoch),
        }

    def outdated_plan(self, what: str) -> TopicError:
        """Return the error of a table that has changed since the run was planned."""
        return TopicError(
            f"The table {self.options.table} of the output {self.stream.name!r} {what} since the run was "
            "planned, and what its tasks have written does not fit it.",
            hint="Have the run planned anew: in Airflow clear its plan task with downstream, on the command "
            "line use run … --again.",
            table=self.options.table,
            stream=self.stream.name,
        )

    def check(self, table: Table) -> None:
        """Reject a table that is not the one for which the files were written."""
        for described in self.described:
            what = next(changes(described, *self.present(table), by_ids=self.by_ids), None)
            if what is not None:
                raise self.outdated_plan(what)

    def looked_up(self, own: Committed | None) -> None:
        """Take notice of what is on record of the epoch: after a try that failed, that tells whether it has landed.

        Files that the last try has written anew are removed, unless its record is there: then the table has them.
        """
        if self.has_landed(own):
            self.tried.pop_all()
        self.tried.close()

    def has_landed(self, own: Committed | None) -> bool:
        """Return whether the record of a generation has the epoch."""
        return own is not None and own.epoch >= self.publication.epoch

    def run(self) -> dict[str, Any]:
        """Commit the epoch; doing it again, from any point at which it stopped, changes nothing more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        lost, unknown = 0, 0
        while True:
            try:
                facts = self._try()
                self.tried.pop_all()
                return facts
            except Exception as error:  # catalogs and their clients raise whatever they have
                if isinstance(error, SamzaError) and not isinstance(error, StorageUnavailable) and not _is_late(error):
                    raise
                if self.is_lost(error):
                    lost += 1
                    if time.monotonic() > deadline:
                        raise self._too_busy(lost) from error
                else:
                    unknown += 1
                    if unknown == UNKNOWN_TRIES:
                        raise
                    logger.info("the outcome of a commit is not known, and is looked up: %s", type(error).__name__)
            time.sleep(random.uniform(0, min(_LONGEST_WAIT, 0.05 * 2 ** min(lost + unknown, 6))))

    def _too_busy(self, lost: int) -> StorageUnavailable:
        return StorageUnavailable(
            f"Others commit to the table {self.options.table} (system {self.system!r}) so often that "
            f"{lost} tries to commit the output {self.stream.name!r} came too late.",
            hint="Try again; nothing is lost. Let the other writers commit less often, if it stays.",
            table=self.options.table,
            stream=self.stream.name,
        )

    def _try(self) -> dict[str, Any]:
        table = self.load()
        view = self.view(table)
        with self._discarding(view):
            view.reject_namesake(self.mine, self.options.table, self.prefixes)
            view.reject_late(self.mine, self.publication.slot, self.options.table)
        slot = view.slots.get(self.key) or Slot(self.key, self.publication.slot)
        own = self._own(slot)
        self.looked_up(own)
        if own is not None and self.has_landed(own):
            if self.upserts:  # the table has the staged changes by now
                self._remove_staged()
            return self._facts(own, ())
        mine = self.publication.slot
        if own is None and mine is not None:
            with self._discarding(view):
                reject_meeting(mine, view.writers(mine.code), output=self.options.table, stream=self.stream.name)
        if own is not None and not len(self.staged):
            return self._facts(own, ())  # nothing comes, and nothing that is there has to go
        self.check(table)
        former = self._replaced(view, slot) if own is None else []
        if self.upserts:
            return self._upsert(table, view, slot, own)
        new = self.described_files(table, self.staged)
        files = LeavingFiles(self, table, view, former, new, begins=own is None)
        leaving = files.chosen()
        commit = self._commit_of(table, view, slot, own, former, new, leaving, takes_all=files.takes_all)
        committed = self.commit(table, dataclasses.replace(commit, new=[*new, *self.rest(table, files)]))
        step = LOOKED_AT * (len(new) if own is not None else 1) or 1
        self.has_grown = committed.files // step > (own.files if own is not None else 0) // step
        return self._facts(committed, leaving)

    def _upsert(self, table: Table, view: TableView, slot: Slot, own: Committed | None) -> dict[str, Any]:
        """Commit the epoch as changes of rows, by key. The record counts no files: nobody takes these out again."""
        target = self._keyed(self.merged_target(table))
        upserts = Upserts.read(self.described, self.place, target, self.stream.name)
        place, stream = self.place(target.data), StreamSpec(self.stream.name)
        producer = TableProducer(place, stream, UPSERTED, dataclasses.replace(target, key=()))
        self.tried.callback(producer.abort)
        files = self.files_within(table, upserts.bounds()) if len(upserts) else ()
        self.feed = self.change_feed(table, target)
        if self.feed is not None:
            self.tried.callback(self.feed.abort)
        leaving = merged(upserts, files, partial(self.rows_of, table), producer, self.feed)
        described = producer.finish()["files"]
        new = self.described_files(table, StagedFiles(self.place, described, self.stream.name)) if described else []
        commit = self._commit_of(table, view, slot, own, (), new, leaving)
        record = dataclasses.replace(commit.committed, prefixes=(), files=0, rows=0)
        before = sum(self.begins_with(file, self.upserted) for file in self.live_files(table))
        after = before + len(new) - sum(self.begins_with(file, self.upserted) for file in leaving)
        committed = self.commit(table, dataclasses.replace(commit, committed=record))
        self.has_grown = after // LOOKED_AT > before // LOOKED_AT
        self._remove_staged()
        return {**self._facts(committed, leaving), "files": [file_name(str(one["path"])) for one in described]}

    def _keyed(self, target: OutputTarget) -> OutputTarget:
        """Return the table with the key by which its rows are replaced, in the names that its columns have by now."""
        written = {name: key for one in self.described[:1] for key, _, _, name in one["columns"]}
        names: dict[Any, str] = {column.id: column.name for column in target.columns}
        key = [names.get(written.get(name)) if written else name for name in self.stream.key]
        lost = next((name for name, now in zip(self.stream.key, key, strict=True) if now is None), None)
        if lost is not None:
            raise self.outdated_plan(f"has no column {lost!r} any more, which is of the key,")
        return dataclasses.replace(target, key=tuple(name for name in key if name is not None))

    def _own(self, slot: Slot) -> Committed | None:
        """Return what this generation has committed to a slot; None: nothing yet."""
        return next((one for one in slot.commits if one.owner == self.owner), None)

    @contextmanager
    def _discarding(self, view: TableView) -> Iterator[None]:
        """Remove what was staged if the publication is rejected within the block."""
        try:
            yield
        except TopicError:
            self._discard(view)
            raise

    def _replaced(self, view: TableView, mine: Slot) -> list[tuple[Slot, Committed]]:
        """Return the commits that this generation replaces: those of lower ones, and of former runs of its slot."""
        number = view.owners.next_number(self.key, self.run_digest)
        outputs = {self.owner[0], *(output_digest(*former) for former in self.publication.former)}
        return [
            (slot, one)
            for slot, one in view.commits()
            if (one.owner[0] in outputs and parse_generation(one.generation) < self.generation)
            or (slot.slot is not None and slot.key == self.key and one.as_turn().order < (number, self.run_digest))
        ]

    def rest(self, table: Table, files: LeavingFiles[Table, File]) -> list[File]:
        """Return new files with the other rows of those that leave with rows of runs: no run's record counts them."""
        if not files.mixed:
            return []
        target = self.merged_target(table)
        place, writer = self.place(target.data), f"rewritten-{uuid.uuid4().hex}"
        producer = TableProducer(place, StreamSpec(self.stream.name), writer, target)
        self.tried.callback(producer.abort)
        for file in files.mixed.values():
            for batch in self.rows_of(table, file, None):
                runs = batch.column(batch.schema.get_field_index(self.options.run_column))
                others = batch.filter(pc.invert(are_in(runs, files.leaving_runs)))
                if others.num_rows:
                    producer.write(0, others)
        return self.described_files(table, StagedFiles(self.place, producer.finish()["files"], self.stream.name))

    def _written_partitions(self, table: Table, own: Committed | None, new: Collection[File]) -> tuple[str, ...]:
        """Return the partitions that the generation has written, as its record has them, where the mode needs them."""
        if self.options.mode != REPLACE_PARTITIONS:
            return ()
        _, partitioning, _ = self.present(table)
        written = {partition_name(partitioning, one) for one in self.partitions_of(table, new, partitioning)}
        written.update(own.partitions if own is not None else ())
        return tuple(sorted(written)) if len(written) <= TOLD and UNTOLD not in written else (UNTOLD,)

    def _commit_of(
        self,
        table: Table,
        view: TableView,
        slot: Slot,
        own: Committed | None,
        former: Iterable[tuple[Slot, Committed]],
        new: list[File],
        leaving: list[File],
        *,
        takes_all: bool = False,
    ) -> TableCommit[File]:
        committed = dataclasses.replace(
            self.mine,
            turn=own.turn if own is not None else view.owners.next_number(self.key, self.run_digest),
            prefixes=tuple(sorted(self.prefixes.union(own.prefixes if own is not None else ()))),
            files=len(new) + (own.files if own is not None else 0),
            rows=sum(int(one["rows"]) for one in self.described) + (own.rows if own is not None else 0),
            partitions=self._written_partitions(table, own, new),
        )
        replaced, by_rows = {one.owner for _, one in former}, takes_all and self.options.run_column
        others = []
        for its_slot, one in view.commits():
            left = 0 if by_rows or one.owner in replaced else one.files - len(self.written_by(one, leaving))
            rows = one.rows or (REPLACED if takes_all else 0)
            if one.owner != self.owner and (left, rows) != (one.files, one.rows):
                others.append((its_slot, dataclasses.replace(one, files=left, rows=rows)))
        return TableCommit(view, committed, slot, new, leaving, others)

    def _facts(self, committed: Committed, leaving: Iterable[File]) -> dict[str, Any]:
        facts = {
            "path": self.options.table,
            self.version: committed.snapshot or None,
            "rows": sum(int(one["rows"]) for one in self.described),
            "bytes": sum(int(one["bytes"]) for one in self.described),
            "files": [file_name(str(file["path"])) for one in self.described for file in one["files"]],
            "superseded": [file_name(self.path_of(file)) for file in leaving],
        }
        return facts if self.options.branch == MAIN else {**facts, "branch": self.options.branch}

    def _discard(self, view: TableView) -> None:
        """Remove the staged files, if no snapshot has them and none will get them: the record says so.

        Those of an epoch that was committed and replaced since are in older snapshots, which people may still read.
        """
        if all(one.owner != self.owner or one.epoch < self.publication.epoch for _, one in view.commits()):
            self._remove_staged()

    def _remove_staged(self) -> None:
        for file in self.staged.files:
            with suppress(OSError):
                delete_file(self.place(str(file["path"])))


def _is_late(error: SamzaError) -> bool:
    """Return whether a file is gone: the look at the table may have been one from before others have tidied it up."""
    return isinstance(error.__cause__, OSError) and is_missing(error.__cause__)
