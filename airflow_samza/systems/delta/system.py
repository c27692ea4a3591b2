"""The system ``delta``: the tables in a folder, and their consumers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow.fs as pafs

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.delta.branches import Branch, waiting_files
from airflow_samza.systems.delta.checkpoints import names_in_use
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.history import DeltaHistory
from airflow_samza.systems.delta.log import DeltaLog, find_log, last_checkpoint
from airflow_samza.systems.delta.options import VERSIONS, DeltaSettings, OutputOptions, TableOptions, path_of
from airflow_samza.systems.delta.publishing import OutputTable, publish, publish_waiting
from airflow_samza.systems.delta.reading import DeltaConsumer
from airflow_samza.systems.delta.records import view_of
from airflow_samza.systems.delta.state import AddedFile, TableState, advanced, newest_state, state_at
from airflow_samza.systems.delta.table_version import KIND
from airflow_samza.systems.delta.tables_made import check_columns, make_table
from airflow_samza.systems.delta.versions import chosen_segment, first_since
from airflow_samza.systems.delta.writing import fix_target
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.object_store.probe import check_store
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.made_tables import MadeTable, note_made, was_made
from airflow_samza.systems.output_slots import run_of
from airflow_samza.systems.system import (
    Publication,
    StreamSpec,
    SystemBinding,
)
from airflow_samza.systems.tables.commits import TableView
from airflow_samza.systems.tables.folded_records import Heading
from airflow_samza.systems.tables.options import BRANCH
from airflow_samza.systems.tables.output import file_name
from airflow_samza.systems.tables.sweeping import sweep_files
from airflow_samza.systems.tables.system import TableSystem

T = TypeVar("T")


class DeltaSystem(TableSystem):
    """System of the Delta tables in a folder: inputs, of which the plan fixes the version, and outputs.

    Options of the binding: ``root``, ``partitions`` (of inputs that declare none; 1), and the options of the storage of
    a root that is a URL. The table ``web.views`` lies in the folder ``web/views`` below the root.
    """

    kind = KIND
    options_of = staticmethod(OutputOptions.of)
    versions = VERSIONS

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None) -> None:
        super().__init__(name, binding, root)
        self.settings = DeltaSettings.of(name, binding)
        self._known: dict[tuple[str, str], TableState] = {}
        """Tables of outputs as they were last seen, by the name of the stream, too: the next look begins there."""

    @cached_property
    def _root(self) -> Location:
        """The folder of the tables."""
        return self.settings.opened()

    @contextmanager
    def tables(self) -> Iterator[DeltaSystem]:
        """Open nothing: tables are folders."""
        yield self

    def find(self, stream: StreamSpec, intake: Mapping[str, Any] | None = None) -> DeltaHistory | None:
        """Return the version of a table that a stream means; None: there is no table."""
        options = TableOptions.of(stream)
        log = self._found(stream, options.table)
        if log is None:
            return None
        if intake is not None and options.version is not None:  # a limit that lies before what was read
            options = replace(options, version=max(options.version, int(intake["version"])))
        waiting = partial(self._waiting, stream, options) if options.waiting else None
        return DeltaHistory(state_at(log, chosen_segment(log, options)), stream, waiting)

    def load(self, stream: StreamSpec, intake: Mapping[str, Any] | None = None) -> DeltaHistory:
        """Return the version of a table that is there, for a stream that was read up to the record ``intake``."""
        return self._existing(self.find(stream, intake), stream, TableOptions.of(stream).table)

    def first_commit(self, stream: StreamSpec, at: datetime) -> tuple[str, datetime] | None:
        """Return number and time of the first version at or after a time; None: there is none."""
        log = self._found(stream, TableOptions.of(stream).table)
        return None if log is None else first_since(log, at)

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> DeltaConsumer:
        """Return a consumer of a slice; without one, of the version that the stream means now."""
        folder = self._folder(TableOptions.of(stream).table)
        return DeltaConsumer(folder, stream, slice if slice is not None else self.slice(stream))

    def location(self, stream: StreamSpec) -> str:
        """Return the folder of a stream's table."""
        options = OutputOptions.of(stream) if stream.written else TableOptions.of(stream)
        return str(self._folder(options.table))

    def make_missing(self, stream: StreamSpec, options: OutputOptions, schema: Schema) -> None:
        """Make the table of an output, if it is not there."""
        if self._found(stream, options.table) is None:
            note = partial(note_made, self.root, made=self._made(options.table))
            columns = self.columns_to_make(stream, schema)
            make_table(self.settings.log_of(options.table), options, columns, stream.name, note)

    def target(self, stream: StreamSpec, run: str) -> dict[str, Any] | None:
        """Load the table of an output for a plan; return what tasks need to write to it, None: it is to be made."""
        options = OutputOptions.of(stream)
        written = self._planned(stream, planned=False)
        self.planned[stream.name] = written
        return None if written is None else fix_target(written, options.mode, run)

    def check_made(self, stream: StreamSpec, columns: Schema) -> None:
        """Reject columns with which a table cannot be made."""
        check_columns(OutputOptions.of(stream), columns, stream.name)

    def folder(self, stream: StreamSpec, data: str) -> Location:
        """Return the folder of a table's data files."""
        return self._folder(OutputOptions.of(stream).table) / data

    def check_writable(self, stream: StreamSpec, fixed: Mapping[str, Any] | None = None) -> None:
        """Reject a table that cannot be written, and a storage without a conditional put."""
        super().check_writable(stream, fixed)
        check_store(self.settings.log_of(OutputOptions.of(stream).table))

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Commit an epoch; the facts are table, version, rows, bytes, files and what was superseded."""
        self.planned.clear()
        branch = self._branch(stream, run_of(publication.producer))
        return publish(self._output_table(stream), stream, publication, branch)

    def check_branch(self, stream: StreamSpec, run: str) -> None:
        """Reject nothing: each run has branches of its own."""

    def publish_branch(self, stream: StreamSpec, run: str, committed: Collection[OutputCommit]) -> str | None:
        """Publish the branch of a run: what waits becomes one version of the table."""
        branch = self._branch(stream, run)
        return None if branch is None else publish_waiting(self._output_table(stream), stream, branch, committed)

    def published_version(self, stream: StreamSpec, committed: Collection[OutputCommit]) -> str | None:
        """Return the version by which readers see what was committed to a branch; None: they do not."""
        return self.view(stream).published(committed, int)

    def drop_branch(self, stream: StreamSpec, run: str) -> bool:
        """Drop the branch of a run; return False where there is none, or it is published meanwhile."""
        branch = self._branch(stream, run)
        return branch is not None and branch.drop(lambda: self._view(self._newest(stream, branch.table)))

    def _output_table(self, stream: StreamSpec) -> OutputTable:
        table = OutputOptions.of(stream).table
        load, is_ours = partial(self._written, stream, table), partial(self._is_ours, table)
        return OutputTable(self.name, self._folder(table), self.settings.log_of(table), load, is_ours)

    def _branch(self, stream: StreamSpec, run: str) -> Branch | None:
        name = self.branch(stream)
        if name is None:
            return None
        if self.root is None:
            raise ConfigError(
                f"The output {stream.name!r} has branch={name!r}, and the system {self.name!r} has no root under which "
                "its commits could wait.",
                hint="Leave it out.",
                key=BRANCH,
                value=name,
            )
        return Branch.of(open_filesystem(self.root), run, self.name, OutputOptions.of(stream).table, name)

    def _waiting(self, stream: StreamSpec, options: TableOptions, columns: TableColumns) -> list[AddedFile]:
        """Return the files of which the rows of a run wait for their publication; a run without any is rejected."""
        found = (
            waiting_files(open_filesystem(self.root), options.waiting, self._folder(options.table), columns)
            if self.root is not None
            else None
        )
        if found is None:
            raise TopicError(
                f"Stream {stream.name!r} reads what the run {options.waiting} has waiting for the table "
                f"{options.table}, and no commit of it waits.",
                hint="Have the run committed to its branch first. What was published is in the table, and what was "
                "dropped is gone. The runs of a root are listed by airflow-samza runs list.",
                table=options.table,
                stream=stream.name,
                run=options.waiting,
            )
        return found

    def sweep_output(
        self, stream: StreamSpec, is_held: Callable[[str, float], bool], now: float, *, dry: bool = False
    ) -> tuple[int, int]:
        """Delete data files of epochs never committed, and those taken out long ago: files and bytes."""
        table = OutputOptions.of(stream).table
        if self._found(stream, table) is None:
            return 0, 0
        return sweep_files(
            self._folder(table), partial(self._names_in_use, stream, table), stream.name, is_held, now, dry=dry
        )

    def _names_in_use(self, stream: StreamSpec, table: str) -> set[str] | None:
        state = newest_state(self._existing(self._found(stream, table), stream, table))
        return names_in_use(state, is_ours=self._is_ours(table, state))

    def _made(self, table: str) -> MadeTable:
        return MadeTable(KIND, path_of(table), str(self._folder(table)))

    def _is_ours(self, table: str, state: TableState) -> bool:
        return was_made(self.root, state.table_id, self._made(table))

    def whole_files(self, stream: StreamSpec) -> tuple[str, list[str]]:
        """Return the version of the table of an output, and its data files without deletion vectors, by name."""
        written = self._planned(stream, planned=True)
        if written is None:
            return "", []
        return str(written.version), [file_name(file.path) for file in written.files if not file.vector]

    def view(self, stream: StreamSpec, sought: Heading | None = None, *, planned: bool = False) -> TableView:
        """Return the records of the commits to the table of an output."""
        return self._view(self._planned(stream, planned=planned))

    def _planned(self, stream: StreamSpec, *, planned: bool) -> TableState | None:
        """Return the state of the table of an output, ``planned`` as a plan has loaded it; None: it is to be made."""
        if planned and stream.name in self.planned:
            found: TableState | None = self.planned[stream.name]
            return found
        options = OutputOptions.of(stream)
        return self._newest(stream, options.table) if options.create else self._written(stream, options.table)

    def _view(self, table: TableState | None) -> TableView:
        return TableView({}) if table is None else view_of(table)

    def _written(self, stream: StreamSpec, table: str) -> TableState:
        """Return the newest state of a table that is there, with as much of its log as makes it."""
        return self._existing(self._newest(stream, table), stream, table)

    def _newest(self, stream: StreamSpec, table: str) -> TableState | None:
        place = table, stream.name
        known = self._known.pop(place, None)
        newest = advanced(known) if known is not None else None
        if newest is None:
            folder = self._folder(table)
            log = find_log(folder, table, stream.name, since=last_checkpoint(folder))
            if log is None:
                return None
            newest = newest_state(log)
        self._known[place] = newest
        return newest

    def _folder(self, table: str) -> Location:
        return self._root / path_of(table)

    def _found(self, stream: StreamSpec, table: str) -> DeltaLog | None:
        return find_log(self._folder(table), table, stream.name)

    def _existing(self, table: T | None, stream: StreamSpec, name: str) -> T:
        """Return a table, or its log, that is there; None is a ``TopicError``."""
        if table is not None:
            return table
        place = self._folder(name)
        with storage_errors(path=str(place.parent), stream=stream.name, doing="list"):
            infos = place.filesystem.get_file_info(pafs.FileSelector(place.parent.path, allow_not_found=True))
        folders = sorted(
            info.path.rstrip("/").rpartition("/")[2] for info in infos if info.type == pafs.FileType.Directory
        )
        folder_list = f"{place.parent} has the folders {listed(folders, 10)}. " if folders else ""
        raise TopicError(
            f"The table {name} of stream {stream.name!r} does not exist: there is no log of Delta in {place} (system "
            f"{self.name!r}).",
            hint=f"{did_you_mean(place.name, folders) or folder_list}"
            "Check table= of the stream, and the root of the system.",
            table=name,
            stream=stream.name,
            system=self.name,
        )
