"""The system ``iceberg``: the tables of a catalog, and their consumers."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from airflow_samza.errors import SamzaError
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.iceberg.branches import (
    Branch,
    drop_branch,
    fast_forward,
    properties_of,
    published_snapshot,
    reject_foreign,
)
from airflow_samza.systems.iceberg.catalogs import find_table, load_table, opened_catalog
from airflow_samza.systems.iceberg.data_files import live_entries, reject_untold
from airflow_samza.systems.iceberg.expiry import expiring, may_delete, metadata_folder, names_in_use
from airflow_samza.systems.iceberg.history import IcebergHistory
from airflow_samza.systems.iceberg.options import (
    CatalogSettings,
    OutputOptions,
    TableOptions,
    identifier_of,
    table_name,
)
from airflow_samza.systems.iceberg.output_target import data_folder, fix_target
from airflow_samza.systems.iceberg.publishing import publish
from airflow_samza.systems.iceberg.reading import IcebergConsumer
from airflow_samza.systems.iceberg.rewrites import entries_by_era
from airflow_samza.systems.iceberg.snapshots import first_since, hold_snapshot, time_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.table_version import KIND
from airflow_samza.systems.iceberg.tables_made import check_columns_of_fields, make_table
from airflow_samza.systems.made_tables import MadeTable, note_made, was_made
from airflow_samza.systems.system import (
    Publication,
    StreamSpec,
    SystemBinding,
)
from airflow_samza.systems.tables.commits import TableView
from airflow_samza.systems.tables.folded_records import Heading
from airflow_samza.systems.tables.options import MAIN, REPLACE_PARTITIONS
from airflow_samza.systems.tables.output import file_name
from airflow_samza.systems.tables.publishing import UNKNOWN_TRIES
from airflow_samza.systems.tables.sweeping import DATA_FILES, METADATA_FILES, sweep_files
from airflow_samza.systems.tables.system import TableSystem

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

logger = logging.getLogger(__name__)

T = TypeVar("T")


class _Tables(NamedTuple):
    """The tables of a catalog."""

    catalog: Catalog
    settings: CatalogSettings
    storage: TableStorage

    def find(self, stream: StreamSpec) -> IcebergHistory | None:
        table = find_table(self.catalog, TableOptions.of(stream).table)
        return None if table is None else IcebergHistory(table, stream, self.storage)

    def load(self, stream: StreamSpec, intake: Mapping[str, Any] | None = None) -> IcebergHistory:
        table = load_table(self.catalog, self.settings, TableOptions.of(stream).table, stream.name)
        return IcebergHistory(table, stream, self.storage, intake)


class IcebergSystem(TableSystem):
    """System of the tables of an Iceberg catalog: bounded inputs, of which the plan fixes the snapshot, and outputs.

    Options of the binding: ``root`` (a folder with a catalog of its own), or ``type``, ``uri`` and other properties of
    pyiceberg; ``catalog`` (its name, for catalogs in a database), ``partitions`` (of inputs that declare none; 1),
    ``locations`` (folders, with commas, in which files of tables may lie that are not below their tables).
    """

    kind = KIND
    options_of = staticmethod(OutputOptions.of)
    versions = ("snapshot", "as_of")

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None) -> None:
        super().__init__(name, binding, root)
        self.settings = CatalogSettings.of(name, binding)
        self._storage = TableStorage(self.settings.properties)

    @contextmanager
    def tables(self) -> Iterator[_Tables]:
        """Open the catalog."""
        with opened_catalog(self.settings) as catalog:
            yield _Tables(catalog, self.settings, self._storage)

    def first_commit(self, stream: StreamSpec, at: datetime) -> tuple[str, datetime] | None:
        """Return id and time of the first snapshot at or after a time that is no compaction; None: there is none."""
        options = TableOptions.of(stream)
        with opened_catalog(self.settings) as catalog:
            table = find_table(catalog, options.table)
            found = first_since(table.metadata, options, at, stream.name) if table is not None else None
            return None if found is None else (str(found.snapshot_id), time_of(found))

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> IcebergConsumer:
        """Return a consumer of a slice; without one, of the snapshot that the stream means now."""
        return IcebergConsumer(self._storage, stream, slice if slice is not None else self.slice(stream))

    def location(self, stream: StreamSpec) -> str:
        """Return the catalog and the name of a stream's table."""
        return f"{self.settings.place}#{'.'.join(identifier_of(table_name(stream, dict(stream.options))))}"

    def make_missing(self, stream: StreamSpec, options: OutputOptions, schema: Schema) -> None:
        """Make the table of an output, if it is not there."""
        with opened_catalog(self.settings, create=True) as catalog:
            if find_table(catalog, options.table) is None:
                columns = self.columns_to_make(stream, schema)
                make_table(catalog, options, columns, stream.name, partial(self._note_made, options))

    def target(self, stream: StreamSpec, run: str) -> dict[str, Any] | None:
        """Load the table of an output for a plan; return what tasks need to write to it, None: it is to be made."""
        options = OutputOptions.of(stream)
        with self._written(options, stream) as table:
            self.planned[stream.name] = table
            if table is not None and options.mode == REPLACE_PARTITIONS:
                reject_untold(table, options.branch, stream.name)
            return None if table is None else fix_target(table, stream.name, run)

    def check_made(self, stream: StreamSpec, columns: Schema) -> None:
        """Reject columns with which a table cannot be made."""
        check_columns_of_fields(OutputOptions.of(stream), columns, stream.name)

    def folder(self, stream: StreamSpec, data: str) -> Location:
        """Return the folder of a table's data files."""
        return self._storage.at(data)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Commit an epoch; the facts are table, snapshot, rows, bytes, files and what was superseded."""
        self.planned.clear()
        is_ours = partial(self._is_ours, OutputOptions.of(stream))
        return publish(self.settings, self._storage, stream, publication, is_ours)

    def _note_made(self, options: OutputOptions, metadata: TableMetadata) -> None:
        note_made(self.root, str(metadata.table_uuid), _made(options, metadata))

    def _is_ours(self, options: OutputOptions, metadata: TableMetadata) -> bool:
        return was_made(self.root, str(metadata.table_uuid), _made(options, metadata))

    def hold(self, stream: StreamSpec, reader: str, version: str) -> str | None:
        """Tag a snapshot up to which a reader has read, so that it does not expire; return why that is not possible."""
        options = TableOptions.of(stream)
        try:
            with opened_catalog(self.settings) as catalog:
                hold_snapshot(load_table(catalog, self.settings, options.table, stream.name), reader, version)
        except SamzaError as error:
            return error.sentence.rstrip(".")
        return None

    def check_branch(self, stream: StreamSpec, run: str) -> None:
        """Reject a branch that exists, and is not of the run ``<application>/<run>``."""
        options = OutputOptions.of(stream)
        with self._written(options, stream, planned=True) as table:
            if table is not None:
                reject_foreign(table, options.branch, run, stream.name)

    def publish_branch(self, stream: StreamSpec, run: str, committed: Collection[OutputCommit]) -> str | None:
        """Publish the branch of a run: ``main`` takes its snapshot, in one commit with the records of its commits."""
        return self._settled(stream, lambda table, name: fast_forward(table, name, run, stream.name, committed))

    def published_version(self, stream: StreamSpec, committed: Collection[OutputCommit]) -> str | None:
        """Return the snapshot by which readers see what was committed to a branch; None: they do not."""
        return self._settled(stream, lambda table, _: published_snapshot(table, committed))

    def drop_branch(self, stream: StreamSpec, run: str) -> bool:
        """Drop the branch of a run; return False where there is none, or it is published meanwhile."""
        tried: list[Branch] = []
        return self._settled(stream, lambda table, name: drop_branch(table, name, run, stream.name, tried))

    def _settled(self, stream: StreamSpec, act: Callable[[Table, str], T]) -> T:
        """Act on the branch of an output; where the outcome is not known, look the table up and act again."""
        options = OutputOptions.of(stream)
        with opened_catalog(self.settings) as catalog:
            for _ in range(UNKNOWN_TRIES - 1):
                table = load_table(catalog, self.settings, options.table, stream.name, written=True)
                try:
                    return act(table, options.branch)
                except SamzaError:
                    raise
                except Exception as error:  # catalogs and their clients raise whatever they have
                    logger.info(
                        "the outcome of an act on a branch is not known, and is looked up: %s", type(error).__name__
                    )
            table = load_table(catalog, self.settings, options.table, stream.name, written=True)
            return act(table, options.branch)

    def sweep_output(
        self, stream: StreamSpec, is_held: Callable[[str, float], bool], now: float, *, dry: bool = False
    ) -> tuple[int, int]:
        """Delete data files and metadata of commits that never landed, and what no snapshot has: files and bytes."""
        options = OutputOptions.of(stream)
        with self._written(options, stream) as table:
            if table is None or not may_delete(table.properties):
                return 0, 0
            data, places = data_folder(table), list[tuple[str, re.Pattern[str]]]()
            if data.startswith(f"{table.metadata.location.rstrip('/')}/") and ".." not in data.split("/"):
                places.append((data, DATA_FILES))
            if self._is_ours(options, table.metadata):
                expiring(table, now)  # a property that is no number is an error
                places.append((metadata_folder(table.metadata), METADATA_FILES))
            swept = [
                sweep_files(
                    self._storage.at(place),
                    lambda: names_in_use(table.refresh(), self._storage),
                    stream.name,
                    is_held,
                    now,
                    dry=dry,
                    names=names,
                )
                for place, names in places
            ]
            return sum(files for files, _ in swept), sum(size for _, size in swept)

    def view(self, stream: StreamSpec, sought: Heading | None = None, *, planned: bool = False) -> TableView:
        """Return the records of the commits to the table of an output."""
        options = OutputOptions.of(stream)
        with self._written(options, stream, planned=planned) as table:
            return TableView.of(options.table, {} if table is None else properties_of(table, options.branch), sought)

    def whole_files(self, stream: StreamSpec) -> tuple[str, list[str]]:
        """Return the snapshot of the table of an output, and its data files without deletes, by name."""
        options = OutputOptions.of(stream)
        with self._written(options, stream, planned=True) as table:
            name = options.branch if table is not None and options.branch in table.metadata.refs else MAIN
            head = table.metadata.snapshot_by_name(name) if table is not None else None
            if table is None or head is None:
                return "", []
            entries = live_entries(table, name) if name != MAIN else (entry for entry, _ in entries_by_era(table))
            return str(head.snapshot_id), [file_name(entry.data_file.file_path) for entry in entries]

    @contextmanager
    def _written(self, options: OutputOptions, stream: StreamSpec, *, planned: bool = False) -> Iterator[Table | None]:
        """Let the table of an output be asked; None: it is to be made, and the catalog of its folder may be, too."""
        if planned and stream.name in self.planned:
            yield self.planned[stream.name]
            return
        if options.create and self.settings.folder is not None and not os.path.isfile(self.settings.place):
            yield None
            return
        with opened_catalog(self.settings) as catalog:
            yield (
                find_table(catalog, options.table)
                if options.create
                else load_table(catalog, self.settings, options.table, stream.name, written=True)
            )


def _made(options: OutputOptions, metadata: TableMetadata) -> MadeTable:
    return MadeTable(KIND, ".".join(identifier_of(options.table)), metadata.location)
