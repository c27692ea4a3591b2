"""Live data files that a commit takes out of a table, by its mode: of former commits, of partitions, or all.

Publishers of both lake formats ask it which files a commit removes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import TopicError
from airflow_samza.systems.system import ColumnBound, Publication, StreamSpec
from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.commits import UNTOLD, Committed, Slot, TableView, partition_name, run_digest
from airflow_samza.systems.tables.inputs.consumer import TableConsumer, file_rows
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion
from airflow_samza.systems.tables.options import REPLACE_PARTITIONS, REPLACE_TABLE, TableOutputOptions
from airflow_samza.systems.tables.output import file_name
from airflow_samza.systems.tables.output_target import OutputTarget

Table = TypeVar("Table")
File = TypeVar("File")


class TableFiles(ABC, Generic[Table, File]):
    """The data files of a table to which an epoch of an output is published."""

    def __init__(self, options: TableOutputOptions, stream: StreamSpec, publication: Publication) -> None:
        self.options = options
        self.stream = stream
        self.publication = publication
        self.described = [publication.staged[task] for task in sorted(publication.staged)]
        self.run_digest = run_digest(publication.producer)

    @abstractmethod
    def version_of(self, table: Table) -> TableVersion:
        """Return the version that a table is now, for reading files that are written anew."""

    @abstractmethod
    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any]) -> TableConsumer:
        """Return a consumer of a part of a version."""

    @abstractmethod
    def present(self, table: Table) -> tuple[str, int, Iterable[TableField]]:
        """Return what tells a table from others of its name, the number of its partitioning, and its columns."""

    @abstractmethod
    def merged_target(self, table: Table) -> OutputTarget:
        """Return the table for files that are written anew, under a name that no run has."""

    @abstractmethod
    def live_files(self, table: Table) -> Iterable[File]:
        """Return the data files of which readers see the rows."""

    @abstractmethod
    def path_of(self, file: File) -> str:
        """Return the path of a data file."""

    @abstractmethod
    def partitions_of(self, table: Table, files: Collection[File], spec: int) -> list[Hashable]:
        """Return the partition of each file by a partitioning of a number; None: its own does not tell."""

    def files_within(self, table: Table, bounds: Sequence[ColumnBound]) -> list[tuple[File, TableFile]]:
        """Return the live files that may have rows which fulfil all bounds, each also as readers have it."""
        found = {file.path: file for file in self.version_of(table).files(bounds)}
        paths = ((file, self.path_of(file)) for file in self.live_files(table))
        return [(file, found[path]) for file, path in paths if path in found]

    def rows_of(self, table: Table, file: TableFile, names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, without deleted ones, in some columns of the table; None: in all."""
        return file_rows(self.version_of(table), file, self.consumer, names)

    def written_by(self, one: Committed, files: Iterable[File]) -> dict[str, File]:
        """Return those of some files that a generation has written, by their paths."""
        return {self.path_of(file): file for file in files if self.begins_with(file, one.prefixes)}

    def begins_with(self, file: File, prefixes: Iterable[str]) -> bool:
        """Return whether the name of a data file begins with one of some prefixes."""
        return file_name(self.path_of(file)).startswith(tuple(prefixes))


class LeavingFiles(Generic[Table, File]):
    """Files that leave a state of a table with the commit of an epoch, whose ``new`` files come.

    ``former`` are the commits that it replaces; ``begins``: its generation has committed nothing yet. ``mixed`` are
    files that leave, by path and as readers have them, with rows of others beside those of the runs ``leaving_runs``.
    """

    def __init__(
        self,
        files: TableFiles[Table, File],
        table: Table,
        view: TableView,
        former: Collection[tuple[Slot, Committed]],
        new: Collection[File],
        *,
        begins: bool,
    ) -> None:
        self._files = files
        self._table = table
        self._view = view
        self._former = former
        self._new = new
        self._begins = begins
        self.mixed = dict[str, TableFile]()
        self.leaving_runs = set[str]()

    @cached_property
    def takes_all(self) -> bool:
        """The commit replaces the table, since nothing of its run stands there."""
        return (
            self._files.options.mode == REPLACE_TABLE
            and self._begins
            and all(one.is_replaced for _, one in self._of_run() if self._view.owners.stands(*one.owner))
        )

    def _of_run(self) -> list[tuple[Slot, Committed]]:
        """Return what the run of the epoch has committed."""
        return [pair for pair in self._view.commits() if pair[1].as_turn().run == self._files.run_digest]

    def chosen(self) -> list[File]:
        """Return the files that leave."""
        files, mode = self._files, self._files.options.mode
        earlier = [one for _, one in self._former if one.prefixes]  # files that had gone come back by others' restores
        replaces = mode == REPLACE_PARTITIONS and any(one["files"] for one in files.described)
        if not (earlier or self.takes_all or replaces):
            return []
        live = list(files.live_files(self._table))
        if self.takes_all:
            return live
        leaving, taken, moved = dict[str, File](), dict[str, File](), []
        for one in earlier:
            written = files.written_by(one, live)
            found = self._with_rows_of(one) if one.is_replaced or len(written) != one.files else {}
            if found is None and one.files:
                moved.append((one, len(written)))
            taken.update(found or {})
            leaving.update(written)
        if mode == REPLACE_PARTITIONS:
            self._reject_rewritten(live)
            leaving.update(self._in_the_same_partitions(file for file in live if files.path_of(file) not in leaving))
        for one, left in moved:
            staying = [file for file in live if files.path_of(file) not in leaving]
            if mode != REPLACE_PARTITIONS or self._may_hold(one, staying):
                raise compacted(files.options.table, files.stream.name, one, left, mode)
        self.mixed = {path: file for path, file in self.mixed.items() if path not in leaving}
        return list((taken | leaving).values())

    def _with_rows_of(self, former: Committed) -> dict[str, File] | None:
        """Return the files with rows that have a former commit's name in the column of runs; None: not all are there.

        They were written without the column, or somebody has deleted some. Of a commit that was replaced since, they
        are those that a restore has brought back.
        """
        column, names = self._files.options.run_column, set(former.prefixes)
        if not column or column not in self._files.merged_target(self._table).declared.names:
            return None
        found, mixed, rows = dict[str, File](), dict[str, TableFile](), 0
        for file, read in self._files.files_within(self._table, [ColumnBound(column, "in", former.prefixes)]):
            are_mine = [are_in(batch.column(0), names) for batch in self._files.rows_of(self._table, read, [column])]
            count = sum(one.true_count for one in are_mine)
            if count:
                found[read.path] = file
            if 0 < count < sum(map(len, are_mine)):
                mixed[read.path] = read
            rows += count
        if rows != former.rows and not former.is_replaced:
            return None
        self.mixed |= mixed
        self.leaving_runs |= names
        return found

    def _may_hold(self, former: Committed, files: Iterable[File]) -> bool:
        """Return whether files of others may have rows of a former commit: they are of a partition that it wrote.

        Where the record does not tell the partitions, each may. Files with the name of a commit have its rows only.
        """
        known = [prefix for _, one in self._view.commits() for prefix in one.prefixes]
        others = [file for file in files if not self._files.begins_with(file, known)]
        if UNTOLD in former.partitions or not former.partitions:
            return bool(others)
        return any(
            partition is None or partition_name(partitioning, partition) in former.partitions
            for partitioning in {int(one.partition(":")[0]) for one in former.partitions}
            for partition in self._files.partitions_of(self._table, others, partitioning)
        )

    def _reject_rewritten(self, live: Collection[File]) -> None:
        """Reject a table in which files of others hold rows of this run that the former commits have not written.

        Who has compacted the table has moved them there.
        """
        replaced = {one.owner for _, one in self._former}
        for _, one in self._of_run():
            if one.owner not in replaced and self._view.owners.stands(*one.owner) and one.files:
                left = len(self._files.written_by(one, live))
                if left != one.files:
                    raise rewritten_by_others(self._files.options.table, self._files.stream.name, one, left)

    def _in_the_same_partitions(self, live: Iterable[File]) -> dict[str, File]:
        """Return the files of others in the partitions to which the epoch writes."""
        files = self._files
        prefixes = {str(one["prefix"]) for one in files.described}.union(*(one.prefixes for _, one in self._of_run()))
        others = [file for file in live if not files.begins_with(file, prefixes)] if self._new else []
        _, partitioning, _ = files.present(self._table)
        mine = set(files.partitions_of(self._table, self._new, partitioning))
        partitions = files.partitions_of(self._table, others, partitioning)
        if None in partitions:
            raise repartitioned(files.options.table, files.stream.name)
        pairs = zip(others, partitions, strict=True)
        return {files.path_of(file): file for file, partition in pairs if partition in mine}


def are_in(column: pa.Array, names: Collection[str]) -> pa.BooleanArray:
    """Return which values of a column are among some names."""
    return pc.is_in(column, pa.array(sorted(names), column.type))


def compacted(table: str, stream: str, former: Committed, left: int, mode: str) -> TopicError:
    """Return the error of an output that is to replace what a former commit wrote, of whose files some are gone."""
    cleared = "Delete by hand the partitions that it does not write any more, and clear it; or d"
    return TopicError(
        f"The output {stream!r} replaces what generation {former.generation} of {former.producer} has "
        f"written to the table {table}, and of its {former.files} data files {left} are left: they "
        "were compacted, or rows of them deleted, since.",
        hint=f"{cleared if mode == REPLACE_PARTITIONS else 'D'}elete its rows from the table by hand, and run it again "
        "with another run_id and mode=append. A column that names the run (run_column=) prevents it.",
        table=table,
        stream=stream,
        generation=former.generation,
    )


def repartitioned(table: str, stream: str) -> TopicError:
    """Return the error of an output that replaces partitions which those of some data files do not tell."""
    return TopicError(
        f"The output {stream!r} replaces partitions of the table {table}, and some of its data files were written by "
        "a former partition spec, which does not tell the partitions of today.",
        hint="Have these files written anew by the present spec (rewrite_data_files), or declare mode=replace, which "
        "replaces rows of the application only.",
        table=table,
        stream=stream,
    )


def rewritten_by_others(table: str, stream: str, own: Committed, left: int) -> TopicError:
    """Return the error of an output that replaces partitions in which files of others hold rows of its own run."""
    return TopicError(
        f"The output {stream!r} replaces partitions of the table {table}, and of the {own.files} data files that "
        f"generation {own.generation} of {own.producer} has written there {left} are left: they were compacted, or "
        "rows of them deleted, while the run was at work, and its own rows would go.",
        hint="Clear the stage: what it writes anew replaces the partitions whole. Compact them when no run is at work.",
        table=table,
        stream=stream,
        generation=own.generation,
    )
