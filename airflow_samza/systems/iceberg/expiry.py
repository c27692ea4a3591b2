"""Expiry of the past of a table that an output has made, with the metadata files that nothing names any more.

A commit costs the more the more snapshots there are, and pyiceberg deletes no file. So whoever commits expires what is
old, some snapshots at a time, and deletes their manifest lists and manifests: by the lists themselves, and only what no
snapshot has that is left. Data files are another matter, since plans name them: ``gc`` deletes those under our own
names that the table has not, and metadata of commits that lost a race, or whose answer was lost, in such tables.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_samza.systems.iceberg.tables_made import MADE
from airflow_samza.systems.iceberg.transactions import transaction_of
from airflow_samza.systems.tables.publishing import GENERATION, PRODUCER, file_name

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

KEPT_SNAPSHOTS = 100
"""Snapshots that such a table keeps; a branch or a tag may keep others."""

KEPT_EPOCHS = 10
"""Snapshots that it keeps of the epochs of one generation of a stage."""

AT_ONCE = 20
"""Snapshots that are expired together: that is a commit, too."""

YOUNG_SECONDS = 60.0
"""Age up to which a snapshot stays in any case: somebody may just be planning by it, and read its manifests."""

HELD_MS = 86_400_000
"""Age up to which a snapshot stays that has taken files out, unless the table's ``MAX_AGE`` says otherwise.

As long as it stays, ``gc`` spares these files: runs that were planned before may still read them.
"""

STAY = "samza.files-stay-until"
"""Property of a snapshot: the time (ms since 1970) until which the age of the files that it took out has them stay."""

MAX_AGE = "history.expire.max-snapshot-age-ms"

_TAKES_OUT = ("overwrite", "delete", "replace")
_THREADS = 8


def expire_snapshots(table: Table) -> None:
    """Expire the oldest snapshots of a table that an output has made, and those of epochs long ago."""
    from pyiceberg.table.update import RemoveSnapshotsUpdate

    if table.properties.get(MADE) != "true":
        return
    old = expiring(table.metadata, time.time())
    if len(old) < AT_ONCE:
        return
    gone = files_of(table, (one for one in table.metadata.snapshots if one.snapshot_id in old))
    transaction = transaction_of(table)
    transaction._apply((RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(old)}),))
    table = transaction.commit_transaction()
    _delete(table, gone - files_of(table, table.metadata.snapshots))


def delete_unused(table: Table, snapshot_id: int, written: Iterable[str]) -> None:
    """Delete the manifests that were written for a snapshot and are not its own: it has others, merged from them."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is not None:
        _delete(table, set(written) - files_of(table, [snapshot]))


def expiring(metadata: TableMetadata, now: float) -> set[int]:
    """Return the snapshots that need not be kept; those of branches and tags are."""
    snapshots = sorted(metadata.snapshots, key=lambda one: one.sequence_number or 0)
    epochs: dict[tuple[str, str], list[int]] = {}
    for one in snapshots:
        named = one.summary.additional_properties if one.summary is not None else {}
        if PRODUCER in named:
            epochs.setdefault((named[PRODUCER], named[GENERATION]), []).append(one.snapshot_id)
    old = {one.snapshot_id for one in snapshots[:-KEPT_SNAPSHOTS]}
    old.update(number for numbers in epochs.values() for number in numbers[:-KEPT_EPOCHS])
    old -= {ref.snapshot_id for ref in metadata.refs.values()}
    held = float(metadata.properties.get(MAX_AGE, HELD_MS))
    return {one.snapshot_id for one in snapshots if one.snapshot_id in old and not _is_young(one, now, held)}


def _is_young(snapshot: Snapshot, now: float, held_ms: float) -> bool:
    age = now * 1000 - snapshot.timestamp_ms
    if snapshot.summary is None:
        return age < YOUNG_SECONDS * 1000
    stay = int(snapshot.summary.additional_properties.get(STAY, 0))
    takes_out = snapshot.summary.operation.value in _TAKES_OUT and stay < snapshot.timestamp_ms + held_ms
    return age < YOUNG_SECONDS * 1000 or (takes_out and age < held_ms)


def files_of(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the manifest lists and manifests of snapshots."""
    paths = set[str]()
    for one in snapshots:
        listed = _lists.get(one.manifest_list)
        if listed is None:
            if len(_lists) >= _MOST_LISTS:
                _lists.clear()
            listed = frozenset(manifest.manifest_path for manifest in one.manifests(table.io))
            _lists[one.manifest_list] = listed
        paths.add(one.manifest_list)
        paths.update(listed)
    return paths


_MOST_LISTS = 1000
_lists: dict[str, frozenset[str]] = {}
"""The manifests of lists that this process has read; a list never changes."""


def _delete(table: Table, paths: Iterable[str]) -> None:
    def delete(path: str) -> None:
        with suppress(Exception):  # it stays, and costs its bytes
            table.io.delete(path)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(delete, sorted(paths)))


def names_in_use(table: Table) -> set[str]:
    """Return the names of a table's metadata files, and of the manifests and data files of its snapshots.

    Data files are also those that a snapshot has removed, which stays for a while (:data:`HELD_MS`).
    """
    table.refresh()
    metadata, snapshots = table.metadata, table.metadata.snapshots
    manifests = {one.manifest_path: one for snapshot in snapshots for one in snapshot.manifests(table.io)}
    return {
        *map(file_name, (table.metadata_location, *(former.metadata_file for former in metadata.metadata_log))),
        *map(file_name, (*manifests, *(snapshot.manifest_list for snapshot in snapshots))),
        *(
            file_name(str(entry.data_file.file_path))
            for manifest in manifests.values()
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        ),
    }
