"""Commits of epochs to a Delta table: one file of its log each, written if nobody has written that version."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, NamedTuple

from airflow_samza import __version__
from airflow_samza.errors import TopicError
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.delta.branches import (
    Branch,
    WaitingCommit,
    committed_ones,
    not_published,
    publications,
)
from airflow_samza.systems.delta.checkpoints import keep_log_short
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.log import commit_path
from airflow_samza.systems.delta.options import AUTO_COMPACT, OutputOptions
from airflow_samza.systems.delta.partition_values import partition_value
from airflow_samza.systems.delta.reading import DeltaConsumer
from airflow_samza.systems.delta.records import files_action, record_actions, view_of
from airflow_samza.systems.delta.state import AddedFile, TableState
from airflow_samza.systems.delta.statistics import INDEXED, statistics_of
from airflow_samza.systems.delta.table_version import DeltaVersion
from airflow_samza.systems.delta.tables_made import encoded
from airflow_samza.systems.delta.writing import (
    APPEND_ONLY,
    added_file,
    check_written,
    fix_target,
    is_append_only,
    partitioning,
)
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, StreamSpec
from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.commits import Committed, Slot, TableView, comparable, dropped
from airflow_samza.systems.tables.leaving_files import LeavingFiles
from airflow_samza.systems.tables.merging import MergingPublisher, SmallFile
from airflow_samza.systems.tables.options import MADE
from airflow_samza.systems.tables.output import TableProducer
from airflow_samza.systems.tables.output_target import OutputTarget
from airflow_samza.systems.tables.publishing import UPSERTED, TableCommit
from airflow_samza.systems.tables.staged_files import StagedFiles
from airflow_samza.systems.tables.upserts import feed_target

CHANGE_FEED, FEED_FOLDER = "delta.enableChangeDataFeed", "_change_data"
"""The property of a table that wants a change data feed, and the folder of its files."""


class _Lost(Exception):
    """Somebody else has committed the version that was to be committed."""


class OutputTable(NamedTuple):
    """Table of an output of a ``system``: its folder, and the storage of it, by which commits are made.

    ``load`` looks at the table; ``is_ours`` says whether an output of the root has made it.
    """

    system: str
    folder: Location
    storage: Filesystem
    load: Callable[[], TableState]
    is_ours: Callable[[TableState], bool]


def publish(
    place: OutputTable, stream: StreamSpec, publication: Publication, branch: Branch | None = None
) -> dict[str, Any]:
    """Commit one epoch to a table; doing it again, from any point, changes nothing more.

    With a ``branch`` the commit waits there.
    """
    if branch is None:
        return _Publisher(place, stream, publication).run()
    return _Stager(place, stream, publication, branch).run()


def publish_waiting(
    place: OutputTable, stream: StreamSpec, branch: Branch, committed: Collection[OutputCommit]
) -> str | None:
    """Commit what waits on a branch as one version of the table, which is returned; None: it is there already.

    A branch without what was ``committed`` is a ``TopicError``. What waits is deleted behind the commit: whoever dies
    before finds it in the table the next time.
    """
    waiting = committed_ones(branch.commits(), committed)
    view = view_of(place.load())
    branch.reject_incomplete(waiting, view, committed)
    works = list(publications(not_published(waiting, view), stream))
    made: str | None = None
    while works and made is None:  # where the last one is in the table by now, it has committed nothing of the others
        *before, last = [_Publisher(place, spec, work) for spec, work in works]
        last.before, last.waited_on = before, branch
        last.run()
        made = last.made
        works.pop()
    branch.forget(waiting)
    return made


class _Publisher(MergingPublisher[TableState, AddedFile]):
    by_ids = False
    version = "version"

    def __init__(self, place: OutputTable, stream: StreamSpec, publication: Publication) -> None:
        self._place = place
        self._load = place.load
        self.before: Sequence[_Publisher] = ()
        """Publishers of other outputs whose files and records the same version brings."""
        self.waited_on: Branch | None = None
        """The branch whose commits are published, unless somebody drops them meanwhile."""
        self._actions: list[dict[str, Any]] = []
        self._is_part = False
        self.made: str | None = None
        """The version that was made, or may have been, until the next look at the table tells."""
        super().__init__(OutputOptions.of(stream), stream, publication, place.system)

    def place(self, path: str) -> Location:
        return self._place.folder / path

    def load(self) -> TableState:
        table = self._load()
        self._actions = []
        for one in self.before:
            actions = one.part(table)
            table = table.copy()
            for action in actions:
                table.apply(action)
            self._actions += actions
        return table

    def part(self, table: TableState) -> list[dict[str, Any]]:
        """Return the actions of the publication, for a version that somebody else commits; none: it is there."""
        self._load, self._is_part = (lambda: table), True
        self._try()
        return self._actions

    def view(self, table: TableState) -> TableView:
        return view_of(table)

    def present(self, table: TableState) -> tuple[str, int, Iterable[TableField]]:
        columns = check_written(table, self.options.mode)
        return table.table_id, partitioning(columns), columns.fields

    def described_files(self, table: TableState, staged: StagedFiles) -> list[AddedFile]:
        columns = check_written(table, self.options.mode)
        indexed = _number(table, "delta.dataSkippingNumIndexedCols", INDEXED)
        return [
            added_file(columns, one, statistics_of(footer, indexed))
            for one, footer in zip(staged.files, staged.footers(), strict=True)
        ]

    def live_files(self, table: TableState) -> Iterable[AddedFile]:
        return table.files

    def path_of(self, file: AddedFile) -> str:
        return file.path

    def partitions_of(self, table: TableState, files: Collection[AddedFile], spec: int) -> list[Hashable]:
        columns = TableColumns.of(table)
        if spec != partitioning(columns):
            return [None for _ in files]
        types = {column.name: column.type.word for column in columns.fields}
        words = [(columns.physical[name], types[name]) for name in columns.partitions]
        found: list[Hashable] = []
        for file in files:
            with table.log.understood(f"the partition of {file.path}"):
                values = [(partition_value(file.partition.get(name), word), word) for name, word in words]
            found.append(
                tuple(
                    comparable(Decimal(value) if value is not None and word.startswith("decimal") else value)
                    for value, word in values
                )
            )
        return found

    def is_lost(self, error: Exception) -> bool:
        return isinstance(error, _Lost)

    def looked_up(self, own: Committed | None) -> None:
        super().looked_up(own)
        if self.made is not None:
            self.made = own.snapshot if own is not None and self.has_landed(own) else None

    def merged_target(self, table: TableState) -> OutputTarget:
        return OutputTarget.of(fix_target(table, self.options.mode, ""))

    def change_feed(self, table: TableState, target: OutputTarget) -> TableProducer | None:
        if table.configuration.get(CHANGE_FEED, "").lower() != "true":
            return None
        target, stream = feed_target(target, FEED_FOLDER), StreamSpec(self.stream.name)
        return TableProducer(self.place(FEED_FOLDER), stream, UPSERTED, target)

    def version_of(self, table: TableState) -> DeltaVersion:
        return DeltaVersion(table, StreamSpec(self.stream.name, partitions=1))

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any]) -> DeltaConsumer:
        return DeltaConsumer(self._place.folder, stream, slice)

    def commit(self, table: TableState, commit: TableCommit[AddedFile]) -> Committed:
        if commit.leaving and is_append_only(table):
            self.looked_up(None)
            raise TopicError(
                f"The output {self.stream.name!r} takes files out of the table {table.log.name}, which has "
                f"{APPEND_ONLY}.",
                hint="Take the property from the table, or run it again with another run_id and mode=append.",
                table=table.log.name,
                stream=self.stream.name,
            )
        version = table.version + 1
        committed = commit.recorded(str(version))
        now = int(time.time() * 1000)
        self._actions += record_actions(commit.slot, committed, commit.others)
        self._actions += [_remove(file, now) for file in commit.leaving]
        self._actions += [_add(file, now) for file in commit.new]
        if self.feed is not None:
            columns = check_written(table, self.options.mode)
            self._actions += [_cdc(added_file(columns, one, None)) for one in self.feed.finish()["files"]]
        if self._is_part:
            return committed
        for one in (*self.before, self):
            if self.waited_on is not None and self.waited_on.is_dropped(one.owner):
                raise dropped(self.options.table, self.waited_on.name, one.stream.name)
        replaces = any("remove" in action for action in self._actions)
        self.made = committed.snapshot  # before the answer, which may be lost
        self._write(table, [{"commitInfo": self._info(replaces, now)}, *self._actions])
        return committed

    def _write(self, table: TableState, actions: list[dict[str, Any]]) -> None:
        version = table.version + 1
        if not self._place.storage.put_if_absent(commit_path(version), encoded(actions)):
            raise _Lost(f"version {version} is there")
        with suppress(Exception):  # another time, or by whom commits next
            keep_log_short(self._place.storage, table, version, self._place.is_ours)

    def merges(self, table: TableState) -> bool:
        configuration = table.configuration
        return configuration.get(AUTO_COMPACT, configuration.get(MADE, "false")).lower() != "false"

    def small_files(self, table: TableState, own: Committed) -> Iterator[SmallFile[AddedFile]]:
        """Yield the live files of a generation that have no deletion vector, and of which the log has the rows."""
        _, number, _ = self.present(table)
        mine = [file for file in table.files if file.vector is None and self.begins_with(file, own.prefixes)]
        for file, partition in zip(mine, self.partitions_of(table, mine, number), strict=True):
            if isinstance(rows := file.statistics.get("numRecords"), int):
                yield SmallFile(file, file.path, file.size, rows, partition)

    def rewrite(self, table: TableState, commit: TableCommit[AddedFile]) -> None:
        """Commit a merge: no action of it changes data, as it is with ``OPTIMIZE``."""
        now = int(time.time() * 1000)
        info = {"operation": "OPTIMIZE", "operationParameters": {"predicate": "[]", "auto": "true"}}
        actions = [{"commitInfo": {**self._info(False, now), **info}}]
        actions += [files_action(commit.slot, commit.committed)]
        actions += [_remove(file, now, changes=False) for file in commit.leaving]
        actions += [_add(file, now, changes=False) for file in commit.new]
        self._write(table, actions)

    def _info(self, replaces: bool, now: int) -> dict[str, Any]:
        """Return what the log says of the commit to people, and to readers of what was appended."""
        return {
            "timestamp": now,
            "operation": "MERGE" if self.upserts else "WRITE",
            "operationParameters": {}
            if self.upserts
            else {"mode": "Overwrite" if replaces else "Append", "partitionBy": "[]"},
            "isBlindAppend": False,
            "engineInfo": f"airflow-samza/{__version__}",
            **self.names(),
        }


class _Stager(_Publisher):
    """Publisher to a branch: it looks at the table as any other, and what it would commit waits under the root."""

    def __init__(self, place: OutputTable, stream: StreamSpec, publication: Publication, branch: Branch) -> None:
        super().__init__(place, stream, publication)
        self._branch = branch

    def merges(self, table: TableState) -> bool:
        """Merge nothing: what waits has no version yet."""
        return False

    def view(self, table: TableState) -> TableView:
        """Return the records of the table, with what waits of this output."""
        view = super().view(table)
        last = self._branch.last(self.owner[0])
        slot = view.slots.get(self.key) or Slot(self.key, self.publication.slot)
        if last is None:
            return view
        turn = view.owners.next_number(self.key, self.run_digest)
        waiting = dataclasses.replace(self.mine, generation=last[0], epoch=last[1], turn=turn)
        if any(one.owner == waiting.owner and one.epoch >= waiting.epoch for one in slot.commits):
            return view
        return TableView({**view.slots, self.key: slot.with_commit(waiting)})

    def rest(self, table: TableState, files: LeavingFiles[TableState, AddedFile]) -> list[AddedFile]:
        """Write nothing anew: who publishes the branch does, from the table as it is by then."""
        return []

    def commit(self, table: TableState, commit: TableCommit[AddedFile]) -> Committed:
        if self._branch.is_dropped(self.owner) or (self.publication.continues and commit.begins):
            raise dropped(self.options.table, self._branch.name, self.stream.name)
        publication = self.publication
        self._branch.add(
            WaitingCommit(
                publication.producer,
                self.stream.name,
                publication.generation,
                publication.epoch,
                tuple(self.described),
                dict(self.stream.options),
                publication.slot,
                publication.root,
                str(self._place.folder),
                tuple(str(self.place(str(file["path"]))) for file in self.staged.files),
            )
        )
        return commit.committed


def _number(state: TableState, name: str, default: int) -> int:
    text = state.configuration.get(name, "")
    return int(text) if text.lstrip("-").isdecimal() else default


def _add(file: AddedFile, now: int, *, changes: bool = True) -> dict[str, Any]:
    return {
        "add": {
            "path": file.encoded,
            "partitionValues": file.partition,
            "size": file.size,
            "modificationTime": now,
            "dataChange": changes,
            "stats": file.stats,
        }
    }


def _cdc(file: AddedFile) -> dict[str, Any]:
    """Return a file of the change data feed: of a version that has some, readers of changes read nothing else."""
    return {
        "cdc": {
            "path": file.encoded,
            "partitionValues": file.partition,
            "size": file.size,
            "dataChange": False,
        }
    }


def _remove(file: AddedFile, now: int, *, changes: bool = True) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "path": file.encoded,
        "deletionTimestamp": now,
        "dataChange": changes,
        "extendedFileMetadata": True,
        "partitionValues": dict(file.partition),
        "size": file.size,
    }
    if file.vector:
        facts["deletionVector"] = {name: value for name, value in file.vector.items() if value is not None}
    return {"remove": facts}
