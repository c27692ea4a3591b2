"""Merges of small data files of a table, by whom commits epochs to it: a commit of its own that changes no row.

A long run leaves files for each epoch. Behind its commit a publisher looks, now and then, at the files of its own
generation, and writes ten of about as many rows as one, so that their number grows with the logarithm of that of epochs
(decision 120). The new file has a name of the generation, and its record counts the live files in the same commit: so a
clear replaces what was merged as it replaces any other file. A merge is fenced as epochs are, is never waited for, and
fails in silence: the next one begins anew. Publishers of both lake formats do it now and then.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.grouping import grouped
from airflow_samza.systems.files.durable_files import delete_file, sync_directory
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.tables.commits import Committed
from airflow_samza.systems.tables.leaving_files import File, Table
from airflow_samza.systems.tables.output import SORTED_BYTES, DataFileWriter, schema_of_files
from airflow_samza.systems.tables.output_target import OutputTarget
from airflow_samza.systems.tables.publishing import LOOKED_AT, TableCommit, TablePublisher
from airflow_samza.systems.tables.staged_files import StagedFiles

logger = logging.getLogger(__name__)

TOGETHER = LOOKED_AT
"""Files of about as many rows that are merged."""

MERGED_BYTES = 128 * 2**20
"""Size of merged files at most, also where the table wants larger ones: the driver process writes them."""

MERGE_SECONDS = 2.0
"""Time after which a look at a table begins no further merge."""

_SORTED_TO_FILE = 8
"""Bytes of sorted rows in memory for a byte of their file, of which a merge takes as many as it may hold."""


@dataclass(frozen=True)
class SmallFile(Generic[File]):
    """Live data file of a generation. Only files of one ``key`` may be merged: of one partition, among others."""

    file: File
    path: str
    size: int
    rows: int
    key: Hashable


def chosen_merges(files: Iterable[SmallFile[File]], most: int) -> list[list[SmallFile[File]]]:
    """Return which files are to be merged to one each, the cheapest first; ``most``: bytes of that file.

    Files merge with those of about as many rows, so that a row is written anew as often as it has ten times as many
    beside it; rows and not bytes, since a file of one row has hundreds of these.
    """
    alike = grouped(((one.key, len(str(one.rows))), one) for one in files if one.size < most // 2)
    merges = [merge for some in alike.values() for merge in _packed(some, most)]
    return sorted(merges, key=lambda merge: sum(one.size for one in merge) / (len(merge) - 1))


def _packed(files: Iterable[SmallFile[File]], most: int) -> Iterator[list[SmallFile[File]]]:
    """Yield files that make a large one together, or are many."""
    merge: list[SmallFile[File]] = []
    size = 0
    for one in files:
        if size + one.size > most:
            yield merge  # more than half as large, since each file is less
            merge, size = [], 0
        merge.append(one)
        size += one.size
    if len(merge) >= TOGETHER:
        yield merge


class MergingPublisher(TablePublisher[Table, File]):
    """Publisher of an epoch that merges small files of its generation behind the commit, if the table wants it."""

    @abstractmethod
    def merges(self, table: Table) -> bool:
        """Return whether small files of a table are merged: it has the property for that, or an output has made it."""

    @abstractmethod
    def small_files(self, table: Table, own: Committed) -> Iterable[SmallFile[File]]:
        """Return the live files of a generation, without those of which rows are deleted."""

    def merged_files(self, table: Table, staged: StagedFiles, former: Sequence[Sequence[File]]) -> list[File]:
        """Return merged files as the table's metadata has them; each is of the partition of its ``former`` files."""
        return self.described_files(table, staged, [some[0] for some in former])

    @abstractmethod
    def rewrite(self, table: Table, commit: TableCommit[File]) -> None:
        """Commit a merge from this very state of the table, as a rewrite that changes no row."""

    def run(self) -> dict[str, Any]:
        """Commit the epoch, and merge files if many have come; doing it again changes no row."""
        facts = super().run()
        if self.has_grown:
            try:
                self._merge()
            except Exception as error:  # another time, or by whom commits next
                logger.info("small files of the table %s stay: %s", self.options.table, type(error).__name__)
        return facts

    def _merge(self) -> None:
        table = self.load()
        if not self.merges(table):
            return
        target = self.merged_target(table)
        view = self.view(table)
        slot = view.slots.get(self.key)
        own = self._own(slot) if slot is not None else None
        if slot is None or own is None or not view.owners.stands(*own.owner):
            return
        merged: list[_Merged[File]] = []
        try:
            until = time.monotonic() + MERGE_SECONDS
            written = dataclasses.replace(own, prefixes=self.upserted) if self.upserts else own
            for merge in chosen_merges(self.small_files(table, written), most_bytes(target)):
                if not merged or time.monotonic() < until:
                    merged.append(_Merged(merge, target, self.place, self.stream.name))
                    merged[-1].write()
        except BaseException:
            for one in merged:
                one.abort()
            raise
        merged = [one for one in merged if one.described]
        if not merged:
            return
        staged = StagedFiles(self.place, [file for one in merged for file in one.described], self.stream.name)
        former = [[of.file for of in one.merge] for one in merged for _ in one.described]
        new = self.merged_files(table, staged, former)
        leaving = [one.file for group in merged for one in group.merge]
        files = 0 if self.upserts else own.files - len(leaving) + len(new)
        record = dataclasses.replace(own, files=files)
        try:
            self.rewrite(table, TableCommit(view, record, slot, new, leaving, []))
        except Exception as error:
            # A client that sends a request again may report as lost what has landed.
            live = {self.path_of(file) for file in self.live_files(self.load())} if self.is_lost(error) else None
            if live is not None and live.isdisjoint(map(self.path_of, new)):
                self.looked_up(None)
                for one in merged:
                    one.abort()
            raise


def most_bytes(target: OutputTarget) -> int:
    """Return the size of merged files at most; where rows are sorted, they are held in memory."""
    most = min(target.file_bytes, MERGED_BYTES)
    return min(most, SORTED_BYTES // _SORTED_TO_FILE) if target.sort else most


class _Merged(Generic[File]):
    """Files that are written as one, or as few; ``described`` are those that come. Row groups are read one by one."""

    def __init__(
        self, merge: Sequence[SmallFile[File]], target: OutputTarget, at: Callable[[str], Location], stream: str
    ) -> None:
        self.merge = merge
        self.described: list[dict[str, Any]] = []
        self._target = target
        self._at = at
        self._stream = stream
        self._schema = schema_of_files(target)
        self._places: list[Location] = []
        self._file: DataFileWriter | None = None

    def write(self) -> None:
        """Write the files anew; those that were written with other columns than the table has now are left out."""
        staged = StagedFiles(self._at, [{"path": one.path} for one in self.merge], self._stream)
        pairs = [pair for pair in zip(self.merge, staged.footers(), strict=True) if self._fits(pair[1])]
        self.merge = [one for one, _ in pairs]
        if len(self.merge) < 2:
            return
        for one, footer in pairs:
            self._copy(one, footer)
        self._finish()
        sync_directory(self._places[0].parent)
        if len(self.described) > len(self.merge) // 2:
            self.abort()  # sorted rows that take far more memory than bytes of their files

    def abort(self) -> None:
        """Remove what was written."""
        self.described = []
        if self._file is not None:
            self._file.abort()
        for place in self._places:
            with suppress(OSError):
                delete_file(place)

    def _fits(self, footer: pq.FileMetaData) -> bool:
        """Return whether a file has the columns of the table, by names, types and field ids."""
        found = footer.schema.to_arrow_schema().remove_metadata()
        return bool(found.equals(self._schema, check_metadata=True))

    def _copy(self, one: SmallFile[File], footer: pq.FileMetaData) -> None:
        place = self._at(one.path)
        rows = 0
        with (
            storage_errors(path=str(place), stream=self._stream, doing="read"),
            place.filesystem.open_input_file(place.path) as source,
        ):
            parquet = pq.ParquetFile(source, metadata=footer, pre_buffer=True)
            for group in range(footer.num_row_groups):
                for batch in parquet.read_row_group(group).to_batches():
                    rows += batch.num_rows
                    self._put(batch)
        if rows != one.rows:
            raise ValueError(f"{one.path} has {rows} rows, and {one.rows} by the table's metadata")

    def _put(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            folder, slash, name = self.merge[0].path.rpartition("/")
            path = f"{folder}{slash}{name.rpartition('-')[0]}-{uuid.uuid4().hex}.parquet"
            self._places.append(self._at(path))
            self._file = DataFileWriter(self._places[-1], path, self._schema, self._target)
        self._file.write(batch)
        if self._file.is_full:
            self._finish()

    def _finish(self) -> None:
        if self._file is not None:
            self.described.append(self._file.finish(()))
            self._file = None
