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
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Generic

from airflow_samza.grouping import grouped
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.commits import Committed
from airflow_samza.systems.tables.inputs.consumer import file_rows
from airflow_samza.systems.tables.leaving_files import File, Table
from airflow_samza.systems.tables.output import SORTED_BYTES, TableProducer, file_name
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

    def merged_files(self, table: Table, staged: StagedFiles, merge: Sequence[SmallFile[File]]) -> list[File]:
        """Return the files that some were merged to as the table's metadata has them."""
        return self.described_files(table, staged)

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
        view = self.view(table)
        slot = view.slots.get(self.key)
        own = self._own(slot) if slot is not None else None
        if slot is None or own is None or not view.owners.stands(*own.owner):
            return
        new, leaving = list[File](), list[File]()
        with ExitStack() as undone:
            target, until = self.merged_target(table), time.monotonic() + MERGE_SECONDS
            written = dataclasses.replace(own, prefixes=self.upserted) if self.upserts else own
            for number, merge in enumerate(chosen_merges(self.small_files(table, written), most_bytes(target))):
                if not number or time.monotonic() < until:
                    prefix = f"{file_name(merge[0].path).rpartition('-')[0]}-"
                    place, stream = self.place(target.data), StreamSpec(self.stream.name)
                    producer = TableProducer(place, stream, "", target, prefix)
                    undone.callback(producer.abort)
                    described = self.write_merged(table, merge, producer)
                    if len(described) > len(merge) // 2:  # sorted rows that take far more memory than their files
                        producer.abort()
                    else:
                        new += self.merged_files(table, StagedFiles(self.place, described, self.stream.name), merge)
                        leaving += [one.file for one in merge]
            self.tried = undone.pop_all()  # from here on it may land
        if not leaving:
            return
        files = 0 if self.upserts else own.files - len(leaving) + len(new)
        record = dataclasses.replace(own, files=files)
        try:
            self.rewrite(table, TableCommit(view, record, slot, new, leaving, []))
        except Exception as error:
            # A client that sends a request again may report as lost what has landed.
            live = {self.path_of(file) for file in self.live_files(self.load())} if self.is_lost(error) else None
            if live is not None and live.isdisjoint(map(self.path_of, new)):
                self.tried.close()
            raise

    def write_merged(
        self, table: Table, merge: Sequence[SmallFile[File]], producer: TableProducer
    ) -> Sequence[Mapping[str, Any]]:
        """Write the rows of some files anew; return the descriptions of the files that have them now."""
        version = self.version_of(table)
        for one, file in zip(merge, version.files_of([one.file for one in merge]), strict=True):
            rows = 0
            for batch in file_rows(version, file, self.consumer, None):
                rows += batch.num_rows
                producer.write(0, batch)
            if rows != one.rows:
                raise ValueError(f"{one.path} has {rows} rows, and {one.rows} by the table's metadata")
        described: Sequence[Mapping[str, Any]] = producer.finish()["files"]
        return described


def most_bytes(target: OutputTarget) -> int:
    """Return the size of merged files at most; where rows are sorted, they are held in memory."""
    most = min(target.file_bytes, MERGED_BYTES)
    return min(most, SORTED_BYTES // _SORTED_TO_FILE) if target.sort else most
