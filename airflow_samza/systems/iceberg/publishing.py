"""Commits of epochs to an Iceberg table: pyiceberg's own retries are off, since they would not look the epoch up."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import SamzaError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.iceberg.bounds import check_address
from airflow_samza.systems.iceberg.branches import (
    AUDITED,
    Branch,
    BranchMade,
    begin_branch,
    properties_of,
    reject_foreign,
)
from airflow_samza.systems.iceberg.catalogs import load_table, opened_catalog
from airflow_samza.systems.iceberg.data_files import as_data_files, live_entries, partitions_by
from airflow_samza.systems.iceberg.expiry import (
    BASE,
    STAY,
    base_of,
    delete_unused,
    expire_snapshots,
    forget_snapshots,
    may_delete,
)
from airflow_samza.systems.iceberg.options import CatalogSettings, OutputOptions
from airflow_samza.systems.iceberg.output_target import fix_target
from airflow_samza.systems.iceberg.reading import IcebergConsumer
from airflow_samza.systems.iceberg.rewrites import entries_by_era, replacing, rewriting
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.table_version import IcebergVersion, described
from airflow_samza.systems.iceberg.transactions import transaction_of
from airflow_samza.systems.output_slots import run_of
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.tables.columns import TableField, columns_of
from airflow_samza.systems.tables.commits import Committed, Slot, TableView, dropped
from airflow_samza.systems.tables.merging import MergingPublisher, SmallFile
from airflow_samza.systems.tables.options import MADE, MAIN
from airflow_samza.systems.tables.output_target import OutputTarget
from airflow_samza.systems.tables.publishing import TableCommit
from airflow_samza.systems.tables.staged_files import StagedFiles
from airflow_samza.systems.tables.sweeping import ORPHAN_SECONDS

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table, Transaction
    from pyiceberg.table.metadata import TableMetadata

logger = logging.getLogger(__name__)

FILE_MERGE = "samza.file-merge.enabled"
"""Property of a table that says whether who commits to it merges small files; Iceberg has none for that."""

_NO_RETRIES = "commit.retry.num-retries"
_MERGES = "commit.manifest-merge.enabled"


def publish(
    settings: CatalogSettings,
    storage: TableStorage,
    stream: StreamSpec,
    publication: Publication,
    is_ours: Callable[[TableMetadata], bool],
) -> dict[str, Any]:
    """Commit one epoch to a table; doing it again, from any point at which it stopped, changes nothing more.

    ``is_ours`` says whether an output of the root has made the table.
    """
    with opened_catalog(settings) as catalog:
        return _Publisher(settings, storage, stream, publication, catalog, is_ours).run()


class _Publisher(MergingPublisher["Table", "DataFile"]):
    by_ids = True
    version = "snapshot"

    def __init__(
        self,
        settings: CatalogSettings,
        storage: TableStorage,
        stream: StreamSpec,
        publication: Publication,
        catalog: Catalog,
        is_ours: Callable[[TableMetadata], bool],
    ) -> None:
        self._storage = storage
        self._is_ours = is_ours
        super().__init__(OutputOptions.of(stream), stream, publication, settings.system)
        self.settings = settings
        self.catalog = catalog
        self._sequences: dict[str, int] = {}

    def place(self, path: str) -> Location:
        return self._storage.at(path)

    def load(self) -> Table:
        return load_table(self.catalog, self.settings, self.options.table, self.stream.name, written=True)

    def view(self, table: Table) -> TableView:
        return TableView.of(self.options.table, properties_of(table, self.options.branch), self.sought)

    def live_files(self, table: Table) -> Iterable[DataFile]:
        return (entry.data_file for entry in live_entries(table, self._head(table)))

    def _head(self, table: Table) -> str:
        return self.options.branch if self.options.branch in table.metadata.refs else MAIN

    def path_of(self, file: DataFile) -> str:
        return str(file.file_path)

    def partitions_of(self, table: Table, files: Collection[DataFile], spec: int) -> list[Hashable]:
        return partitions_by(table, files, spec)

    def is_lost(self, error: Exception) -> bool:
        from pyiceberg.exceptions import CommitFailedException

        return isinstance(error, CommitFailedException | BranchMade)

    def merged_target(self, table: Table) -> OutputTarget:
        return OutputTarget.of(fix_target(table, self.stream.name, ""))

    def version_of(self, table: Table) -> IcebergVersion:
        snapshot = table.metadata.snapshot_by_name(self._head(table))
        stream = StreamSpec(self.stream.name, partitions=1)
        return IcebergVersion(table, snapshot, table.schema(), stream, self._storage)

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any]) -> IcebergConsumer:
        return IcebergConsumer(self._storage, stream, slice)

    def described_files(self, table: Table, staged: StagedFiles) -> list[DataFile]:
        return as_data_files(staged, table)

    def present(self, table: Table) -> tuple[str, int, Iterable[TableField]]:
        return str(table.metadata.table_uuid), table.spec().spec_id, columns_of(described(table.schema()))

    def commit(self, table: Table, commit: TableCommit[DataFile]) -> Committed:
        table.metadata.properties[_NO_RETRIES] = "0"  # of this handle alone: it is not stored
        if self.options.branch != MAIN:
            reject_foreign(table, self.options.branch, run_of(self.publication.producer), self.stream.name)
            if self.publication.continues and commit.begins:
                raise dropped(self.options.table, self.options.branch, self.stream.name)
            begin_branch(table, self.options.branch, run_of(self.publication.producer), self.mine)
        transaction = transaction_of(table)
        update = transaction.update_snapshot(snapshot_properties=self.names(), branch=self.options.branch)
        if commit.leaving:
            adding = replacing(update)
        elif table.properties.get(_MERGES, "").lower() == "true":
            adding = update.merge_append()
        else:
            adding = update.fast_append()
        self._stage(transaction, adding, commit)
        committed = commit.recorded(str(adding._snapshot_id))
        changed = {commit.slot.key: commit.slot.with_commit(committed)}
        for slot, one in commit.others:
            changed[slot.key] = changed.get(slot.key, slot).with_commit(one)
        waiting = Branch.of(table, self.options.branch)
        if waiting is None:
            self._land(table, transaction, adding, commit.view, changed)
        else:
            records = {**waiting.records, **{key: one.encoded() for key, one in changed.items()}}
            text = dataclasses.replace(waiting, records=records).text
            self._settle(table, transaction, {f"{AUDITED}{self.options.branch}": text}, adding)
        return committed

    def _stage(self, transaction: Transaction, adding: Any, commit: TableCommit[DataFile]) -> None:
        """Have the files come and go.

        A catalog, or its client, that sends a request again may report as failed what has landed. So the manifests are
        removed when the next look at the table has shown that they are not in it.
        """
        producers: list[Any] = [*transaction._snapshot_producers, adding]
        for producer in producers:
            producer._clean_all_uncommitted = partial(self.tried.callback, producer._clean_all_uncommitted)
        with adding:
            for file in commit.leaving:
                adding.delete_data_file(file)
            for file in commit.new:
                adding.append_data_file(file)

    def _land(
        self, table: Table, transaction: Transaction, adding: Any, view: TableView, changed: Mapping[str, Slot]
    ) -> None:
        """Commit with the records that have changed, and expire what is old."""
        ages = {str(one.snapshot_id): one.sequence_number or 0 for one in table.metadata.snapshots}
        values, folded = view.changes(
            changed, table.properties, lambda of: max((ages.get(one.snapshot, 0) for one in of.commits), default=0)
        )
        if folded:
            transaction.remove_properties(*folded)
        self._settle(table, transaction, values, adding)

    def _settle(self, table: Table, transaction: Transaction, values: Mapping[str, str], adding: Any) -> None:
        former = table.metadata
        transaction.set_properties({**values, BASE: base_of(table)})
        table = transaction.commit_transaction()
        with suppress(Exception):  # another time, or by whom commits next
            delete_unused(table, adding._snapshot_id, adding._written_manifests)
            try:
                if may_delete(table.properties) and self._is_ours(table.metadata):
                    expire_snapshots(table)
                    forget_snapshots(table, former, self._storage)
            except SamzaError as error:
                logger.warning("%s %s", error.sentence, error.hint)

    def merges(self, table: Table) -> bool:
        wanted = table.properties.get(FILE_MERGE, table.properties.get(MADE, "false"))
        return wanted.lower() != "false" and self.options.branch == MAIN and table.metadata.format_version >= 2

    def small_files(self, table: Table, own: Committed) -> Iterator[SmallFile[DataFile]]:
        """Yield the live files of a generation to which no deletes apply."""
        self._sequences = {}
        spec = table.spec().spec_id
        for entry, key in entries_by_era(table):
            file = entry.data_file
            if self.begins_with(file, own.prefixes) and file.spec_id == spec:
                path, (partition,) = self.path_of(file), self.partitions_of(table, [file], spec)
                check_address(table, path)
                self._sequences[path] = entry.sequence_number or 0
                yield SmallFile(file, path, file.file_size_in_bytes, file.record_count, (key, partition))

    def merged_files(self, table: Table, staged: StagedFiles, merge: Sequence[SmallFile[DataFile]]) -> list[DataFile]:
        """Return merged files: each is as old as the newest of its former ones."""
        new = super().merged_files(table, staged, merge)
        newest = max(self._sequences[one.path] for one in merge)
        self._sequences.update((self.path_of(file), newest) for file in new)
        return new

    def rewrite(self, table: Table, commit: TableCommit[DataFile]) -> None:
        """Commit a merge, as a ``replace``."""
        table.metadata.properties[_NO_RETRIES] = "0"
        transaction = transaction_of(table)
        names = {**self.names(), STAY: str(self._stay_until(commit.leaving))}
        adding = rewriting(transaction.update_snapshot(snapshot_properties=names), self._sequences)
        self._stage(transaction, adding, commit)
        changed = {commit.slot.key: commit.slot.with_commit(commit.committed)}
        self._land(table, transaction, adding, commit.view, changed)

    def _stay_until(self, files: Iterable[DataFile]) -> int:
        """Return the time (ms) until which ``gc`` deletes none of some files in any case."""
        places = [self.place(self.path_of(file)) for file in files]
        found = places[0].filesystem.get_file_info([place.path for place in places])
        return min(int((info.mtime_ns or 0) / 1e6) for info in found) + int(ORPHAN_SECONDS * 1000)
