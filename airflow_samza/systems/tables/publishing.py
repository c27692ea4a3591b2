"""Publication of an epoch to a table: one commit, with its record in the same commit (decision 109).

Each try loads the table anew, looks the epoch up, and commits from that very state; nobody below commits again without
the look-up. The race is between attempt A and attempt B: at one epoch, of two generations, or of two runs of a slot.
Both load the table at version V. A commits: what follows V is A's. B's commit asks for V and is rejected; B loads the
table again, and finds A's record. If that is of the same epoch, B is done; a higher generation or a later run ends B
with an error, and a lower one is replaced by B. An answer that is lost is treated likewise: the next look-up tells
whether the commit is there. No data file is deleted on an unknown outcome.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.files.durable_files import delete_file
from airflow_samza.systems.files.failures import is_missing
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import UPSERT, next_turn
from airflow_samza.systems.system import ColumnBound, Publication, StreamSpec
from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.commits import (
    TOLD,
    UNTOLD,
    Committed,
    Slot,
    TableView,
    heading,
    output_digest,
    partition_name,
    run_digest,
    slot_key,
)
from airflow_samza.systems.tables.output import TableProducer, name_prefix
from airflow_samza.systems.tables.output_options import REPLACE_PARTITIONS, REPLACE_TABLE, TableOutputOptions
from airflow_samza.systems.tables.output_target import OutputTarget, changes
from airflow_samza.systems.tables.publication_checks import reject_late, reject_met, reject_namesake
from airflow_samza.systems.tables.rejections import compacted, repartitioned, rewritten_by_others
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

Table = TypeVar("Table")
File = TypeVar("File")


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


class TablePublisher(ABC, Generic[Table, File]):
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
        self.options = options
        self.stream = stream
        self.publication = publication
        self.system = system
        self.described = [publication.staged[task] for task in sorted(publication.staged)]
        self.staged = StagedFiles(self.place, [file for one in self.described for file in one["files"]], stream.name)
        self.key = slot_key(publication.slot, publication.producer, stream.name)
        self.run_digest = run_digest(publication.producer)
        self.generation = parse_generation(publication.generation)
        mine = Committed(
            publication.producer,
            stream.name,
            publication.generation,
            turn=0,
            epoch=publication.epoch,
            root=publication.root,
        )
        self.mine = mine
        self.owner = mine.owner
        self.sought = (
            None
            if options.mode in (REPLACE_PARTITIONS, REPLACE_TABLE)
            else heading(publication.slot, self.owner[0], *(output_digest(*one) for one in publication.former))
        )
        """Facts by which the folded records are found that concern the publication; None: all do."""
        self.upserts = options.mode == UPSERT
        self.upserted = (name_prefix("", UPSERTED, stream.name),)
        """Beginning of the names of the files that upserts of the output write, whichever run does."""
        self.rewritten: TableProducer | None = None
        """The producer of files that the last try has written anew."""
        self.feed: TableProducer | None = None
        """The producer of what the last try has written for readers of changes, where the table wants that."""
        self._mixed = dict[str, File]()
        self._runs_gone = set[str]()
        """Files with rows of former runs by the column of runs, by path, and the names of these runs."""
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

    @abstractmethod
    def present(self, table: Table) -> tuple[str, int, Iterable[TableField]]:
        """Return what tells a table from others of its name, the number of its partitioning, and its columns."""

    @abstractmethod
    def new_files(self, table: Table) -> list[File]:
        """Return the staged files as the table's metadata has them."""

    @abstractmethod
    def merged_target(self, table: Table) -> OutputTarget:
        """Return the table for files that are written anew, under a name that no run has."""

    def change_feed(self, table: Table, target: OutputTarget) -> TableProducer | None:
        """Return the producer of files that say what becomes of each row, where the table wants that; else None."""
        return None

    @abstractmethod
    def files_within(self, table: Table, bounds: Sequence[ColumnBound]) -> Iterable[File]:
        """Return the live files that may have rows which fulfil all bounds."""

    @abstractmethod
    def rows_of(self, table: Table, file: File, names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a live file, without deleted ones, in some columns of the table; None: in all."""

    @abstractmethod
    def described_files(self, table: Table, staged: StagedFiles) -> list[File]:
        """Return data files that were written anew as the table's metadata has them."""

    @abstractmethod
    def live_files(self, table: Table) -> Iterable[File]:
        """Return the data files of which readers see the rows."""

    @abstractmethod
    def path_of(self, file: File) -> str:
        """Return the path of a data file."""

    @abstractmethod
    def partitions_of(self, table: Table, files: Collection[File], spec: int) -> list[Hashable]:
        """Return the partition of each file by a partitioning of a number; None: its own does not tell."""

    @abstractmethod
    def commit(self, table: Table, commit: TableCommit[File]) -> Committed:
        """Commit from this very state of the table; return the record with the version that the commit has made."""

    @abstractmethod
    def is_lost(self, error: Exception) -> bool:
        """Return whether a commit has surely not landed, because somebody else was quicker."""

    def names(self) -> dict[str, str]:
        """Return what a commit tells people."""
        publication = self.publication
        return {
            PRODUCER: publication.producer,
            GENERATION: publication.generation,
            EPOCH: str(publication.epoch),
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
        tried, self.rewritten, self.feed = (self.rewritten, self.feed), None, None
        for producer in tried:
            if producer is not None and not self.has_landed(own):
                producer.abort()

    def has_landed(self, own: Committed | None) -> bool:
        """Return whether the record of a generation has the epoch."""
        return own is not None and own.epoch >= self.publication.epoch

    def run(self) -> dict[str, Any]:
        """Commit the epoch; doing it again, from any point at which it stopped, changes nothing more."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        lost, unknown = 0, 0
        while True:
            try:
                return self._try()
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
        table_name, prefixes = self.options.table, {str(one["prefix"]) for one in self.described if one["files"]}
        with self._discarding(view):
            reject_namesake(view, self.mine, table_name, prefixes)
            reject_late(view, self.mine, self.publication.slot, table_name)
        slot = view.slots.get(self.key) or Slot(self.key, self.publication.slot)
        own = self._own(slot)
        self.looked_up(own)
        if own is not None and self.has_landed(own):
            self._forget_changes()
            return self._facts(own, ())
        if own is None:
            with self._discarding(view):
                reject_met(view, self.mine, self.publication.slot, table_name)
        if own is not None and not len(self.staged):
            return self._facts(own, ())  # nothing comes, and nothing that is there has to go
        self.check(table)
        former = self._replaced(view, slot) if own is None else []
        if self.upserts:
            return self._upsert(table, view, slot, own)
        new = self.new_files(table)
        leaving = self._leaving(table, view, own, former, new)
        commit = self._commit_of(table, view, slot, own, former, new, leaving)
        committed = self.commit(table, dataclasses.replace(commit, new=[*new, *self.rest(table)]))
        step = LOOKED_AT * (len(new) if own is not None else 1) or 1
        self.has_grown = committed.files // step > (own.files if own is not None else 0) // step
        return self._facts(committed, leaving)

    def _upsert(self, table: Table, view: TableView, slot: Slot, own: Committed | None) -> dict[str, Any]:
        """Commit the epoch as changes of rows, by key. The record counts no files: nobody takes these out again."""
        target = self._keyed(self.merged_target(table))
        upserts = Upserts.read(self.described, self.place, target, self.stream.name)
        self.rewritten = producer = TableProducer(
            self.place(target.data),
            StreamSpec(self.stream.name),
            UPSERTED,
            dataclasses.replace(target, key=()),
        )
        files = self.files_within(table, upserts.bounds()) if len(upserts) else ()
        self.feed = self.change_feed(table, target)
        leaving = merged(upserts, files, partial(self.rows_of, table), producer, self.feed)
        described = producer.finish()["files"]
        new = self.described_files(table, StagedFiles(self.place, described, self.stream.name)) if described else []
        commit = self._commit_of(table, view, slot, own, (), new, leaving)
        record = dataclasses.replace(commit.committed, prefixes=(), files=0, rows=0)
        before = sum(self._begins_with(file, self.upserted) for file in self.live_files(table))
        after = before + len(new) - sum(self._begins_with(file, self.upserted) for file in leaving)
        committed = self.commit(table, dataclasses.replace(commit, committed=record))
        self.has_grown = after // LOOKED_AT > before // LOOKED_AT
        self._forget_changes()
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

    def _forget_changes(self) -> None:
        """Remove the staged changes, which the table has by now."""
        if self.upserts:
            self._remove_staged()

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
        number = self._turn(view, mine)
        outputs = {self.owner[0], *(output_digest(*former) for former in self.publication.former)}
        return [
            (slot, one)
            for slot, one in view.commits()
            if (one.owner[0] in outputs and parse_generation(one.generation) < self.generation)
            or (slot.slot is not None and slot.key == self.key and one.as_turn().order < (number, self.run_digest))
        ]

    def _turn(self, view: TableView, slot: Slot) -> int:
        return next_turn([one.as_turn() for one in slot.commits], view.holders.get(slot.key), self.run_digest)

    def _leaving(
        self,
        table: Table,
        view: TableView,
        own: Committed | None,
        former: Iterable[tuple[Slot, Committed]],
        new: Collection[File],
    ) -> list[File]:
        """Return the live data files that the commit takes out."""
        earlier = [one for _, one in former if one.prefixes]  # files that had gone come back by a restore of others
        mode = self.options.mode
        begins = self._takes_all(view, own)
        if not (earlier or begins or (mode == REPLACE_PARTITIONS and len(self.staged))):
            return []
        live = list(self.live_files(table))
        if begins:
            return live
        leaving, taken, moved = dict[str, File](), dict[str, File](), []
        self._mixed, self._runs_gone = {}, set()
        for one in earlier:
            files = self._written_by(one, live)
            found = self._with_rows_of(table, one) if one.files and len(files) != one.files else {}
            if found is None:
                moved.append((one, len(files)))
            taken.update(found or {})
            leaving.update(files)
        if mode == REPLACE_PARTITIONS:
            self._reject_rewritten(view, former, live)
            staying = [file for file in live if self.path_of(file) not in leaving]
            leaving.update(self._in_the_same_partitions(table, view, staying, new))
        for one, left in moved:
            staying = [file for file in live if self.path_of(file) not in leaving]
            if mode != REPLACE_PARTITIONS or self._may_hold(table, view, one, staying):
                raise compacted(self.options.table, self.stream.name, one, left, mode)
        self._mixed = {path: file for path, file in self._mixed.items() if path not in leaving}
        return list((taken | leaving).values())

    def _with_rows_of(self, table: Table, former: Committed) -> dict[str, File] | None:
        """Return the files with rows that have a former commit's name in the column of runs; None: not all are there.

        They were written without the column, or somebody has deleted some.
        """
        column, names = self.options.run_column, set(former.prefixes)
        if column not in self.merged_target(table).declared.names:
            return None
        found, mixed, rows = dict[str, File](), dict[str, File](), 0
        for file in self.files_within(table, [ColumnBound(column, "in", former.prefixes)]):
            are_mine = [_are_in(batch.column(0), names) for batch in self.rows_of(table, file, [column])]
            count = sum(one.true_count for one in are_mine)
            if count:
                found[self.path_of(file)] = file
            if 0 < count < sum(map(len, are_mine)):
                mixed[self.path_of(file)] = file
            rows += count
        if rows != former.rows:
            return None
        self._mixed |= mixed
        self._runs_gone |= names
        return found

    def rest(self, table: Table) -> list[File]:
        """Return new files with the other rows of those that leave with rows of runs: no run's record counts them."""
        if not self._mixed:
            return []
        target = self.merged_target(table)
        place, writer = self.place(target.data), f"rewritten-{uuid.uuid4().hex}"
        self.rewritten = producer = TableProducer(place, StreamSpec(self.stream.name), writer, target)
        for file in self._mixed.values():
            for batch in self.rows_of(table, file, None):
                runs = batch.column(batch.schema.get_field_index(self.options.run_column))
                others = batch.filter(pc.invert(_are_in(runs, self._runs_gone)))
                if others.num_rows:
                    producer.write(0, others)
        return self.described_files(table, StagedFiles(self.place, producer.finish()["files"], self.stream.name))

    def _may_hold(self, table: Table, view: TableView, former: Committed, files: Iterable[File]) -> bool:
        """Return whether files of others may have rows of a former commit: they are of a partition that it wrote.

        Where the record does not tell the partitions, each may. Files with the name of a commit have its rows only.
        """
        known = [prefix for _, one in view.commits() for prefix in one.prefixes]
        others = [file for file in files if not self._begins_with(file, known)]
        if UNTOLD in former.partitions or not former.partitions:
            return bool(others)
        for partitioning in {int(one.partition(":")[0]) for one in former.partitions}:
            for partition in self.partitions_of(table, others, partitioning):
                if partition is None or partition_name(partitioning, partition) in former.partitions:
                    return True
        return False

    def _takes_all(self, view: TableView, own: Committed | None) -> bool:
        """Return whether the commit replaces the table, since nothing of its run stands there."""
        return (
            self.options.mode == REPLACE_TABLE
            and own is None
            and not any(
                one.as_turn().run == self.run_digest and view.stands(slot, one) and (one.files or not one.rows)
                for slot, one in view.commits()
            )
        )

    def _reject_rewritten(
        self, view: TableView, former: Iterable[tuple[Slot, Committed]], live: Collection[File]
    ) -> None:
        """Reject a table in which files of others hold rows of this run that the ``former`` commits have not written.

        Who has compacted the table has moved them there.
        """
        gone = {one.owner for _, one in former}
        for slot, one in view.commits():
            if one.as_turn().run == self.run_digest and one.owner not in gone and view.stands(slot, one) and one.files:
                left = len(self._written_by(one, live))
                if left != one.files:
                    raise rewritten_by_others(self.options.table, self.stream.name, one, left)

    def _in_the_same_partitions(
        self, table: Table, view: TableView, live: Iterable[File], new: Collection[File]
    ) -> dict[str, File]:
        """Return the files of others in the partitions to which the epoch writes."""
        of_run = [one.prefixes for _, one in view.commits() if one.as_turn().run == self.run_digest]
        prefixes = {str(one["prefix"]) for one in self.described}.union(*of_run)
        others = [file for file in live if not self._begins_with(file, prefixes)] if new else []
        _, partitioning, _ = self.present(table)
        mine = set(self.partitions_of(table, new, partitioning))
        partitions = self.partitions_of(table, others, partitioning)
        if None in partitions:
            raise repartitioned(self.options.table, self.stream.name)
        pairs = zip(others, partitions, strict=True)
        return {self.path_of(file): file for file, partition in pairs if partition in mine}

    def _written_partitions(self, table: Table, own: Committed | None, new: Collection[File]) -> tuple[str, ...]:
        """Return the partitions that the generation has written, as its record has them, where the mode needs them."""
        if self.options.mode != REPLACE_PARTITIONS:
            return ()
        _, partitioning, _ = self.present(table)
        written = {partition_name(partitioning, one) for one in self.partitions_of(table, new, partitioning)}
        written.update(own.partitions if own is not None else ())
        return tuple(sorted(written)) if len(written) <= TOLD and UNTOLD not in written else (UNTOLD,)

    def _written_by(self, one: Committed, files: Iterable[File]) -> dict[str, File]:
        """Return those of some files that a generation has written, by their paths."""
        return {self.path_of(file): file for file in files if self._begins_with(file, one.prefixes)}

    def _begins_with(self, file: File, prefixes: Iterable[str]) -> bool:
        """Return whether the name of a data file begins with one of some prefixes."""
        return file_name(self.path_of(file)).startswith(tuple(prefixes))

    def _commit_of(
        self,
        table: Table,
        view: TableView,
        slot: Slot,
        own: Committed | None,
        former: Iterable[tuple[Slot, Committed]],
        new: list[File],
        leaving: list[File],
    ) -> TableCommit[File]:
        prefixes = {str(one["prefix"]) for one in self.described if one["files"]}
        committed = dataclasses.replace(
            self.mine,
            turn=own.turn if own is not None else self._turn(view, slot),
            prefixes=tuple(sorted(prefixes.union(own.prefixes if own is not None else ()))),
            files=len(new) + (own.files if own is not None else 0),
            rows=sum(int(one["rows"]) for one in self.described) + (own.rows if own is not None else 0),
            partitions=self._written_partitions(table, own, new),
        )
        gone, takes_all = {one.owner for _, one in former}, self._takes_all(view, own)
        others = []
        for its_slot, one in view.commits():
            left = 0 if one.owner in gone else one.files - len(self._written_by(one, leaving))
            rows = one.rows or -takes_all  # of a commit without rows, this tells that it is replaced
            if one.owner != self.owner and (left, rows) != (one.files, one.rows):
                others.append((its_slot, dataclasses.replace(one, files=left, rows=rows)))
        return TableCommit(view, committed, slot, new, leaving, others)

    def _facts(self, committed: Committed, leaving: Iterable[File]) -> dict[str, Any]:
        return {
            "path": self.options.table,
            self.version: committed.snapshot,
            "rows": sum(int(one["rows"]) for one in self.described),
            "bytes": sum(int(one["bytes"]) for one in self.described),
            "files": [file_name(str(file["path"])) for one in self.described for file in one["files"]],
            "superseded": [file_name(self.path_of(file)) for file in leaving],
        }

    def _discard(self, view: TableView) -> None:
        """Remove the staged files, if no snapshot has them and none will get them: the record says so.

        Those of an epoch that was committed and replaced since are in older snapshots, which people may still read.
        """
        if any(one.owner == self.owner and one.epoch >= self.publication.epoch for _, one in view.commits()):
            return
        self._remove_staged()

    def _remove_staged(self) -> None:
        for described in self.described:
            for file in described["files"]:
                with suppress(OSError):
                    delete_file(self.place(str(file["path"])))


def _is_late(error: SamzaError) -> bool:
    """Return whether a file is gone: the look at the table may have been one from before others have tidied it up."""
    return isinstance(error.__cause__, OSError) and is_missing(error.__cause__)


def _are_in(column: pa.Array, names: Collection[str]) -> pa.BooleanArray:
    return pc.is_in(column, pa.array(sorted(names), column.type))


def file_name(path: str) -> str:
    """Return the last part of a data file's path."""
    return path.rpartition("/")[2]
