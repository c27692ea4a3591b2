"""Publication of an epoch to a table: one commit, with its record in the same commit (decision 109).

Each try loads the table anew, looks the epoch up, and commits from that very state; pyiceberg's own retries are off,
since they would commit again without the look-up. The race is between attempt A and attempt B: at one epoch, of two
generations, or of two runs of a slot. Both load the table at snapshot S. A commits: the catalog swaps S for A's
snapshot. B's commit asks for S and is rejected; B loads the table again, and finds A's record. If that is of the same
epoch, B is done; a higher generation or a later run ends B with an error, and a lower one is replaced by B. An answer
that is lost is treated likewise: the next look-up tells whether the commit is there. No data file is deleted on an
unknown outcome.
"""

from __future__ import annotations

import dataclasses
import logging
import random
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SamzaError, StorageUnavailable, TopicError
from airflow_samza.systems.files.durable_files import delete_file
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.iceberg.catalogs import load_table, opened_catalog
from airflow_samza.systems.iceberg.commits import Committed, Slot, TableView, run_digest, slot_key
from airflow_samza.systems.iceberg.data_files import StagedFiles, begins_with, file_name, live_files
from airflow_samza.systems.iceberg.options import CatalogSettings
from airflow_samza.systems.iceberg.output_options import MAIN, REPLACE_PARTITIONS, REPLACE_TABLE, OutputOptions
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.tables_made import EPOCH, GENERATION, PRODUCER, expire_snapshots
from airflow_samza.systems.output_slots import is_replaced, next_turn, outdated, reject_meeting, replaced
from airflow_samza.systems.system import Publication, StreamSpec

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 120.0
"""Time for which a commit is tried beside other writers of the table."""

UNKNOWN_TRIES = 5
"""Tries whose outcome nobody knows, since the catalog or the storage failed, after which the error is raised."""

_LONGEST_WAIT = 2.0
_NO_RETRIES = "commit.retry.num-retries"
_MERGES = "commit.manifest-merge.enabled"


def publish(
    settings: CatalogSettings, storage: TableStorage, stream: StreamSpec, publication: Publication
) -> dict[str, Any]:
    """Commit one epoch to a table; doing it again, from any point at which it stopped, changes nothing more."""
    with opened_catalog(settings) as catalog:
        return _Publisher(settings, storage, stream, publication, catalog).run()


class _Publisher:
    def __init__(
        self,
        settings: CatalogSettings,
        storage: TableStorage,
        stream: StreamSpec,
        publication: Publication,
        catalog: Catalog,
    ) -> None:
        self.settings = settings
        self.storage = storage
        self.stream = stream
        self.publication = publication
        self.catalog = catalog
        self.options = OutputOptions.of(stream)
        self.described = [publication.staged[task] for task in sorted(publication.staged)]
        self.staged = StagedFiles(storage, [file for one in self.described for file in one["files"]], stream.name)
        self.key = slot_key(publication.slot, publication.producer, stream.name)
        self.run_digest = run_digest(publication.producer)
        self.generation = parse_generation(publication.generation)
        mine = Committed(publication.producer, stream.name, publication.generation, 0, publication.epoch)
        self.mine = mine
        self.owner = mine.owner
        self._leftovers: Callable[[], None] | None = None

    def run(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        lost, unknown = 0, 0
        while True:
            try:
                return self._try()
            except SamzaError:
                raise
            except Exception as error:  # catalogs and their clients raise whatever they have
                if _is_lost(error):
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
            f"Others commit to the table {self.options.table} (system {self.settings.system!r}) so often that "
            f"{lost} tries to commit the output {self.stream.name!r} came too late.",
            hint="Try again; nothing is lost. Let the other writers commit less often, if it stays.",
            table=self.options.table,
            stream=self.stream.name,
        )

    def _try(self) -> dict[str, Any]:
        table = load_table(self.catalog, self.settings, self.options.identifier, self.stream.name, written=True)
        view = TableView.of(self.options.table, table.properties)
        self._reject_late(view)
        slot = view.slots.get(self.key) or Slot(self.key, self.publication.slot)
        own = next((one for one in slot.commits if one.owner == self.owner), None)
        self._remove_leftovers(own)
        if own is not None:
            self._reject_namesake(own)
        if own is not None and own.epoch >= self.publication.epoch:
            return self._facts(own, ())
        if own is None:
            self._reject_meeting(view)
        if own is not None and not len(self.staged):
            return self._facts(own, ())  # nothing comes, and nothing that is there has to go
        self._check_table(table)
        former = self._replaced(view, slot) if own is None else []
        new = self.staged.as_data_files(table)
        leaving = self._leaving(table, view, own, former, new)
        committed = self._commit(table, view, slot, own, former, new, leaving)
        return self._facts(committed, leaving)

    def _reject_late(self, view: TableView) -> None:
        """Reject a generation that a higher one, or another run of its slot, has replaced; remove what it staged."""
        publication = self.publication
        newest = view.newest(publication.producer, self.stream.name)
        if newest is not None and newest > self.generation:
            self._discard(view)
            raise outdated(
                output=f"the table {self.options.table}",
                stream=self.stream.name,
                producer=publication.producer,
                generation=publication.generation,
                newest=".".join(map(str, newest)),
                table=self.options.table,
            )
        slot = view.slots.get(self.key)
        if publication.slot is None or slot is None:
            return
        holder = view.holders.get(self.key)
        turns = [one.as_turn() for one in slot.commits]
        if is_replaced(turns, holder, self.run_digest, *self.owner):
            winner = next(one for one in slot.commits if one.as_turn().order == holder)
            self._discard(view)
            raise replaced(
                publication.slot,
                output=f"the table {self.options.table}",
                stream=self.stream.name,
                producer=publication.producer,
                generation=publication.generation,
                winner=winner.producer,
            )

    def _reject_meeting(self, view: TableView) -> None:
        slot = self.publication.slot
        if slot is None:
            return
        try:
            reject_meeting(slot, view.writers(slot.code), output=self.options.table, stream=self.stream.name)
        except TopicError:
            self._discard(view)
            raise

    def _reject_namesake(self, own: Committed) -> None:
        """Reject an epoch whose record is that of a run of the same name under another root."""
        mine = {str(one["prefix"]) for one in self.described if one["files"]}
        if own.prefixes and not mine <= set(own.prefixes):
            publication = self.publication
            raise TopicError(
                f"The table {self.options.table} of the output {self.stream.name!r} has what generation "
                f"{publication.generation} of {publication.producer} has committed, and that was another run of this "
                "name, under another root.",
                hint="Give the run another run_id, or each environment a table of its own.",
                table=self.options.table,
                stream=self.stream.name,
                producer=publication.producer,
            )

    def _check_table(self, table: Table) -> None:
        """Reject a table that is not the one for which the files were written."""
        columns = {field.field_id: field for field in table.schema().fields}
        for described in self.described:
            what = ""
            if described["table"] != str(table.metadata.table_uuid):
                what = "was dropped and made anew"
            elif described["spec"] != table.spec().spec_id:
                what = "has other partitions now"
            else:
                written = {number: kind for number, kind, *_ in described["columns"]}
                optional = {number for number, _, *required in described["columns"] if required == [False]}
                for number, field in columns.items():
                    word = str(field.field_type) if field.field_type.is_primitive else None
                    if number not in written and field.required:
                        what = f"has the new required column {field.name!r}"
                    elif number in optional and field.required:
                        what = f"requires the column {field.name!r} now"
                    elif word is not None and number in written and not _is_widened(str(written[number]), word):
                        what = f"has the column {field.name!r} as {word} now, which was {written[number]}"
            if what:
                raise TopicError(
                    f"The table {self.options.table} of the output {self.stream.name!r} {what} since the run was "
                    "planned, and what its tasks have written does not fit it.",
                    hint="Have the run planned anew: in Airflow clear its plan task with downstream, on the command "
                    "line use run … --again.",
                    table=self.options.table,
                    stream=self.stream.name,
                )

    def _replaced(self, view: TableView, mine: Slot) -> list[tuple[Slot, Committed]]:
        """Return the commits that this generation replaces: those of lower ones, and of former runs of its slot."""
        number = self._turn(view, mine)
        return [
            (slot, one)
            for slot, one in view.commits()
            if (one.owner[0] == self.owner[0] and parse_generation(one.generation) < self.generation)
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
        new: Iterable[DataFile],
    ) -> list[DataFile]:
        """Return the live data files that the commit takes out."""
        earlier = [one for _, one in former if one.files]
        mode = self.options.mode
        begins = mode == REPLACE_TABLE and own is None and not self._has_rows_of_run(view)
        if not (earlier or begins or (mode == REPLACE_PARTITIONS and len(self.staged))):
            return []
        live = list(live_files(table, MAIN))
        if begins:
            return live
        leaving = {}
        for one in earlier:
            files = {file.file_path: file for file in live if begins_with(file, one.prefixes)}
            if len(files) != one.files and mode != REPLACE_PARTITIONS:
                raise self._compacted(one, len(files))
            leaving.update(files)
        if mode == REPLACE_PARTITIONS:
            leaving.update(self._in_the_same_partitions(table, view, live, new))
        return list(leaving.values())

    def _has_rows_of_run(self, view: TableView) -> bool:
        """Return whether what a stage of this run has committed is there, and nobody has replaced it."""
        return any(
            one.as_turn().run == self.run_digest and view.stands(slot, one) and (one.files or not one.rows)
            for slot, one in view.commits()
        )

    def _in_the_same_partitions(
        self, table: Table, view: TableView, live: Iterable[DataFile], new: Iterable[DataFile]
    ) -> dict[str, DataFile]:
        """Return the files of others in the partitions to which the epoch writes."""
        prefixes = {str(one["prefix"]) for one in self.described}
        for _, one in view.commits():
            if one.as_turn().run == self.run_digest:
                prefixes.update(one.prefixes)
        mine = {tuple(file.partition[place] for place in range(len(file.partition))) for file in new}
        return {
            file.file_path: file
            for file in live
            if not begins_with(file, prefixes)
            and file.spec_id == table.spec().spec_id
            and tuple(file.partition[place] for place in range(len(file.partition))) in mine
        }

    def _compacted(self, former: Committed, found: int) -> TopicError:
        return TopicError(
            f"The output {self.stream.name!r} replaces what generation {former.generation} of {former.producer} has "
            f"written to the table {self.options.table}, and of its {former.files} data files {found} are left: they "
            "were compacted, or rows of them deleted, since.",
            hint="Delete its rows from the table by hand, and run it again with another run_id and mode=append; or "
            'declare mode="replace partitions" where a run owns whole partitions.',
            table=self.options.table,
            stream=self.stream.name,
            generation=former.generation,
        )

    def _commit(
        self,
        table: Table,
        view: TableView,
        slot: Slot,
        own: Committed | None,
        former: Iterable[tuple[Slot, Committed]],
        new: list[DataFile],
        leaving: list[DataFile],
    ) -> Committed:
        from pyiceberg.expressions import AlwaysTrue

        publication = self.publication
        table.metadata.properties[_NO_RETRIES] = "0"  # of this handle alone: it is not stored
        transaction = table.transaction()
        names = {
            PRODUCER: publication.producer,
            GENERATION: publication.generation,
            EPOCH: str(publication.epoch),
        }
        update = transaction.update_snapshot(snapshot_properties=names, branch=MAIN)
        if leaving:
            adding: Any = update.overwrite()
            # Manifests are looked through for the files themselves: by partition values that are NaN it would fail.
            adding.delete_by_predicate(AlwaysTrue())
            adding._build_delete_files_partition_predicate = lambda: None
        elif table.properties.get(_MERGES, "").lower() == "true":
            adding = update.merge_append()
        else:
            adding = update.fast_append()
        # A catalog, or its client, that sends a request again may report as failed what has landed. So the manifests
        # are removed when the next look at the table has shown that they are not in it.
        clean = adding._clean_all_uncommitted
        adding._clean_all_uncommitted = lambda: self._leave(clean)
        with adding:
            for file in leaving:
                adding.delete_data_file(file)
            for file in new:
                adding.append_data_file(file)
        prefixes = {str(one["prefix"]) for one in self.described if one["files"]}
        committed = dataclasses.replace(
            self.mine,
            turn=own.turn if own is not None else self._turn(view, slot),
            prefixes=tuple(sorted(prefixes.union(own.prefixes if own is not None else ()))),
            files=len(new) + (own.files if own is not None else 0),
            rows=sum(int(one["rows"]) for one in self.described) + (own.rows if own is not None else 0),
            snapshot=str(adding._snapshot_id),
        )
        changed = {slot.key: slot.with_commit(committed)}
        gone = {one.owner for _, one in former}
        for its_slot, one in view.commits():
            left = 0 if one.owner in gone else one.files - sum(begins_with(file, one.prefixes) for file in leaving)
            if one.owner != self.owner and left != one.files:
                kept = changed.get(its_slot.key, its_slot)
                changed[its_slot.key] = kept.with_commit(dataclasses.replace(one, files=left))
        transaction.set_properties({key: one.encoded() for key, one in changed.items()})
        committed_table = transaction.commit_transaction()
        with suppress(Exception):  # another time, or by whom commits next
            expire_snapshots(committed_table)
        return committed

    def _leave(self, clean: Callable[[], None]) -> None:
        self._leftovers = clean

    def _remove_leftovers(self, own: Committed | None) -> None:
        """Remove the manifests of the last try, unless its record is there: then the table has them."""
        clean, self._leftovers = self._leftovers, None
        if clean is not None and (own is None or own.epoch < self.publication.epoch):
            clean()

    def _facts(self, committed: Committed, leaving: Iterable[DataFile]) -> dict[str, Any]:
        return {
            "path": self.options.table,
            "snapshot": committed.snapshot,
            "rows": sum(int(one["rows"]) for one in self.described),
            "bytes": sum(int(one["bytes"]) for one in self.described),
            "files": [str(file["path"]).rpartition("/")[2] for one in self.described for file in one["files"]],
            "superseded": [file_name(file) for file in leaving],
        }

    def _discard(self, view: TableView) -> None:
        """Remove the staged files, if no snapshot has them and none will get them: the record says so.

        Those of an epoch that was committed and replaced since are in older snapshots, which people may still read.
        """
        if any(one.owner == self.owner and one.epoch >= self.publication.epoch for _, one in view.commits()):
            return
        for described in self.described:
            for file in described["files"]:
                with suppress(OSError):
                    delete_file(self.storage.at(str(file["path"])))


def _is_lost(error: Exception) -> bool:
    from pyiceberg.exceptions import CommitFailedException

    return isinstance(error, CommitFailedException)


_WIDER = {("int", "long"), ("float", "double")}


def _is_widened(written: str, now: str) -> bool:
    """Return whether a column that was written as one type is read as another one that it has now."""
    if written.startswith("decimal") and now.startswith("decimal"):
        return written.rpartition(",")[2] == now.rpartition(",")[2]
    return written == now or (written, now) in _WIDER
