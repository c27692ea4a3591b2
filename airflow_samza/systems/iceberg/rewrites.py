"""Rewrites of data files that change no row: which may become one, and the snapshot ``replace`` that brings it.

A reader of what was appended goes by the files that it has read, where snapshots in between have expired. So a merged
file is as old as its newest rows (its sequence number says so), and has no rows from before a snapshot that a tag or a
branch holds beside some from behind it. What a plan has just read may be tagged in a moment: of commits of the last
minute, each is by itself.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.systems.iceberg import expiry
from airflow_samza.systems.iceberg.data_files import live_entries
from airflow_samza.systems.tables.options import MAIN

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update.snapshot import UpdateSnapshot


def entries_by_era(table: Table) -> Iterator[tuple[ManifestEntry, Hashable]]:
    """Yield the live data files to which no deletes apply, each with its era: those of one may be merged.

    Deletes by equality apply to files by their age: with some of them there is none.
    """
    from pyiceberg.manifest import DataFileContent, ManifestContent
    from pyiceberg.table.delete_file_index import DeleteFileIndex

    head = table.metadata.snapshot_by_name(MAIN)
    index = DeleteFileIndex()
    for manifest in head.manifests(table.io) if head is not None else ():
        if manifest.content == ManifestContent.DELETES:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                    return
                index.add_delete_file(entry, partition_key=entry.data_file.partition)
    young, cuts = _eras(table.metadata)
    for entry in live_entries(table, MAIN):
        number, file = entry.sequence_number or 0, entry.data_file
        if not index.for_data_file(number, file, partition_key=file.partition):
            yield entry, (number if number >= young else None, bisect_left(cuts, number))


def _eras(metadata: TableMetadata) -> tuple[int, list[int]]:
    """Return the first sequence number of the last minute, and those of snapshots that something holds."""
    numbers = {one.snapshot_id: one.sequence_number or 0 for one in metadata.snapshots}
    since = (time.time() - expiry.YOUNG_SECONDS) * 1000
    young = min(
        (one.sequence_number or 0 for one in metadata.snapshots if one.timestamp_ms > since),
        default=metadata.next_sequence_number(),
    )
    held = {numbers[ref.snapshot_id] for name, ref in metadata.refs.items() if name != MAIN}
    return young, sorted(held)


def replacing(update: UpdateSnapshot) -> Any:
    """Return the producer of a snapshot that brings files and takes others out.

    Manifests are looked through for the files themselves: by partition values that are NaN it would fail.
    """
    from pyiceberg.expressions import AlwaysTrue

    adding: Any = update.overwrite()
    adding.delete_by_predicate(AlwaysTrue())
    adding._build_delete_files_partition_predicate = lambda: None
    return adding


def rewriting(update: UpdateSnapshot, sequences: Mapping[str, int]) -> Any:
    """Return the producer of a snapshot that changes no row, which pyiceberg has not: of a ``replace``.

    ``sequences`` are the sequence numbers of data files by their paths.
    """
    from pyiceberg.table.snapshots import Operation, Summary

    adding = replacing(update)
    summary, writer_of = adding._summary, adding.new_manifest_writer

    def as_replace(properties: dict[str, str]) -> Summary:
        return Summary(Operation.REPLACE, **summary(properties).additional_properties)

    def writer_with_sequences(spec: Any) -> Any:
        writer = writer_of(spec)
        add = writer.add

        def added(entry: ManifestEntry) -> Any:
            entry.sequence_number = sequences[str(entry.data_file.file_path)]
            return add(entry)

        writer.add = added
        return writer

    adding._summary, adding.new_manifest_writer = as_replace, writer_with_sequences
    return adding
