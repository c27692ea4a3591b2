"""Expiry of the past of a table that an output has made, with the metadata files that nothing names any more.

A commit costs the more the more snapshots there are, and pyiceberg deletes no file. So whoever commits expires what is
old, some snapshots at a time. Their manifest lists and manifests go when the last file of metadata goes that names
them: somebody may have registered it as another table, over the same files. Data files are another matter, since plans
name them: ``gc`` deletes those under our own names that no metadata names, and metadata of commits that lost a race, or
whose answer was lost, in such tables.

Metadata is somebody else's input. So only files directly in the folder of a table's metadata are deleted, by the names
that such files have, whatever a log or a manifest list names.
"""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs
from cachetools import LRUCache, cached

from airflow_samza.errors import TopicError
from airflow_samza.grouping import grouped
from airflow_samza.systems.iceberg.branches import AUDITED
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.transactions import transaction_of
from airflow_samza.systems.tables.options import MAIN
from airflow_samza.systems.tables.output import file_name
from airflow_samza.systems.tables.publishing import GENERATION, PRODUCER
from airflow_samza.systems.tables.sweeping import METADATA_FILES

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
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

BASE = "samza.base"
"""Property of a table: its name, and the file of metadata upon which its last commit of ours was made.

Metadata that nobody has registered says so of the newest file in its own log. A commit that lost its race is known by
it; a copy under another name, or with a commit of others, has it of an older file.
"""

MAX_AGE = "history.expire.max-snapshot-age-ms"
MAX_REF_AGE = "history.expire.max-ref-age-ms"
LEAST = "history.expire.min-snapshots-to-keep"

_DELETES = "write.metadata.delete-after-commit.enabled"
_TAKES_OUT = ("overwrite", "delete", "replace")
_THREADS = 8
_REMEMBERED = 1000
"""Files of metadata, and manifest lists, of which a process knows the paths that they name: they never change."""


def may_delete(properties: Mapping[str, str]) -> bool:
    """Return whether a table lets anybody delete its files."""
    return properties.get("gc.enabled", "true").lower() == "true"


def expire_snapshots(table: Table) -> None:
    """Expire the oldest snapshots of a table that an output has made, and those of epochs long ago."""
    from pyiceberg.table.update import RemoveSnapshotRefUpdate, RemoveSnapshotsUpdate, TableUpdate

    old, refs = expiring(table, time.time())
    if len(old) < AT_ONCE:
        return
    updates: list[TableUpdate] = [RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in sorted(refs)]
    updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": sorted(old)}))
    transaction = transaction_of(table)
    transaction._apply(tuple(updates))
    transaction.commit_transaction()


def marking(commit: Callable[..., Any]) -> Callable[..., Any]:
    """Return the commit of a catalog with which each one says upon what it was made, once a table has such a mark."""

    def marked(table: Table, requirements: Iterable[Any], updates: Iterable[Any]) -> Any:
        from pyiceberg.table.update import SetPropertiesUpdate

        mark = [SetPropertiesUpdate(updates={BASE: base_of(table)})] if BASE in table.metadata.properties else []
        return commit(table, tuple(requirements), (*updates, *mark))

    return marked


def base_of(table: Table) -> str:
    """Return what a commit to a table as it is now says of itself."""
    return _base(".".join(table.name()), table.metadata_location)


def _base(name: str, metadata_file: str) -> str:
    return f"{name} {file_name(metadata_file)}"


def delete_unused(table: Table, snapshot_id: int, written: Iterable[str]) -> None:
    """Delete the manifests that were written for a snapshot and are not its own: it has others, merged from them."""
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is not None:
        _delete(table.io, set(written) - files_of(table.io, [snapshot.manifest_list]))


def expiring(table: Table, now: float) -> tuple[set[int], set[str]]:
    """Return the snapshots that need not be kept, and the branches and tags that are older than they are to be.

    Of each branch the newest stay, as many as it says, and those that are younger than it says; where neither it nor
    the table says an age, the number of snapshots decides. Those at the head of a branch or tag stay.

    Raises:
        TopicError: a property of the table that says so is no number.
    """
    from pyiceberg.table.snapshots import ancestors_of

    metadata, at = table.metadata, now * 1000
    least, limit, ref_limit = (_number(table, name) for name in (LEAST, MAX_AGE, MAX_REF_AGE))
    snapshots = sorted(metadata.snapshots, key=lambda one: one.sequence_number or 0)
    named = ((one.summary.additional_properties if one.summary is not None else {}, one) for one in snapshots)
    epochs = grouped(((of[PRODUCER], of[GENERATION]), one.snapshot_id) for of, one in named if PRODUCER in of)
    many = {one.snapshot_id for one in snapshots[:-KEPT_SNAPSHOTS]}
    many.update(number for numbers in epochs.values() for number in numbers[:-KEPT_EPOCHS])

    def stays(one: Snapshot, age: int | None) -> bool:
        return one.snapshot_id not in many if age is None else at - one.timestamp_ms < age

    kept, reached, dropped = set[int](), set[int](), set[str]()
    for name, ref in metadata.refs.items():
        head, age = metadata.snapshot_by_id(ref.snapshot_id), ref.max_ref_age_ms or ref_limit
        is_waiting = name == MAIN or f"{AUDITED}{name}" in table.properties
        if head is not None and age is not None and not is_waiting and at - head.timestamp_ms > age:
            dropped.add(name)
            continue
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type.value == "branch":
            number, age = ref.min_snapshots_to_keep or least or 1, ref.max_snapshot_age_ms or limit
            line = list(ancestors_of(head, metadata))
            reached.update(one.snapshot_id for one in line)
            kept.update(one.snapshot_id for place, one in enumerate(line) if place < number or stays(one, age))
    kept.update(one.snapshot_id for one in snapshots if one.snapshot_id not in reached and stays(one, limit))
    held = HELD_MS if limit is None else limit
    return {
        one.snapshot_id for one in snapshots if one.snapshot_id not in kept and not _is_young(one, at, held)
    }, dropped


def _number(table: Table, name: str) -> int | None:
    text, of = table.properties.get(name), ".".join(table.name())
    if text is None or text.strip().isdecimal():
        return None if text is None else int(text)
    raise TopicError(
        f"The table {of} has the property {name}={text!r}, which is no whole number: nothing of its past is deleted.",
        hint="Set it to a whole number, or take it from the table.",
        table=of,
        value=text,
    )


def _is_young(snapshot: Snapshot, at: float, held_ms: float) -> bool:
    age = at - snapshot.timestamp_ms
    if snapshot.summary is None or age < YOUNG_SECONDS * 1000:
        return age < YOUNG_SECONDS * 1000
    text = snapshot.summary.additional_properties.get(STAY, "")
    stay = int(text) if text.isdecimal() else 0
    takes_out = snapshot.summary.operation.value in _TAKES_OUT and stay < snapshot.timestamp_ms + held_ms
    return takes_out and age < held_ms


def forget_metadata(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> None:
    """Delete the files of metadata that have fallen out of a table's log, where it says that they are to be.

    The manifest lists that they name are remembered, for :func:`forget_snapshots`.
    """
    if may_delete(metadata.properties) and metadata.properties.get(_DELETES, "false").lower() == "true":
        _delete(io, _forgotten(io, base, metadata))


def forget_snapshots(table: Table, base: TableMetadata, storage: TableStorage) -> None:
    """Delete the manifest lists and manifests that metadata named which has gone since ``base``, and none does now."""
    lists = frozenset[str]().union(*_forgotten(table.io, base, table.metadata).values())
    lists -= {one.manifest_list for one in table.metadata.snapshots}
    for former in table.metadata.metadata_log[:1]:
        lists -= lists_in(table.io, former.metadata_file)
    if lists:
        named = names_in_use(table, storage, data=False)
        files = _own(table.metadata, files_of(table.io, lists))
        _delete(table.io, {path for path in files if file_name(path) not in named})


def _forgotten(io: FileIO, base: TableMetadata, metadata: TableMetadata) -> dict[str, frozenset[str]]:
    """Return the files of metadata that have fallen out of a table's log, each with manifest lists that it names."""
    return {path: lists_in(io, path) for path in _own(metadata, _log(base) - _log(metadata))}


def _log(metadata: TableMetadata) -> set[str]:
    return {one.metadata_file for one in metadata.metadata_log}


def _own(metadata: TableMetadata, paths: Iterable[str]) -> set[str]:
    """Return those of some paths that are files of metadata, directly in the table's folder for them."""
    folder = metadata_folder(metadata)
    return {
        path for path in paths if path == f"{folder}/{file_name(path)}" and METADATA_FILES.fullmatch(file_name(path))
    }


def metadata_folder(metadata: TableMetadata) -> str:
    """Return the folder of a table's metadata, below its location."""
    return f"{metadata.location.rstrip('/')}/metadata"


@cached(LRUCache(_REMEMBERED), key=lambda io, path: path)
def lists_in(io: FileIO, path: str) -> frozenset[str]:
    """Return the manifest lists that a file of metadata names; none of one that is not there, or is damaged."""
    return frozenset(_lists(_described(io, path)))


def files_of(io: FileIO, lists: Iterable[str]) -> set[str]:
    """Return manifest lists with their manifests; of a list that is not there any more it has none."""
    paths = set(lists)
    for path in sorted(paths):
        with suppress(FileNotFoundError):
            paths |= _manifests_in(io, path)
    return paths


@cached(LRUCache(_REMEMBERED), key=lambda io, path: path)
def _manifests_in(io: FileIO, path: str) -> frozenset[str]:
    return frozenset(one.manifest_path for one in _manifests(io, path))


def _manifests(io: FileIO, path: str) -> Iterator[ManifestFile]:
    from pyiceberg.manifest import read_manifest_list

    return read_manifest_list(io.new_input(path))


def _described(io: FileIO, path: str) -> dict[str, Any]:
    """Return what a file of metadata says, of whichever version of Iceberg it is."""
    try:
        with io.new_input(path).open() as source:
            data = source.read()
        found = json.loads(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data)
    except (FileNotFoundError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _lists(described: Mapping[str, Any]) -> list[str]:
    snapshots = described.get("snapshots")
    found = (one.get("manifest-list") for one in snapshots or () if isinstance(one, dict))
    return [path for path in found if isinstance(path, str)]


def _is_left_over(described: Mapping[str, Any], table: str) -> bool:
    """Return whether a commit of ours to a table has written some metadata, and nobody has gone on from it."""
    try:
        return bool(described["properties"][BASE] == _base(table, described["metadata-log"][-1]["metadata-file"]))
    except (LookupError, TypeError, AttributeError):
        return False


def _delete(io: FileIO, paths: Iterable[str]) -> None:
    def delete(path: str) -> None:
        with suppress(Exception):  # it stays, and costs its bytes
            io.delete(path)

    with ThreadPoolExecutor(_THREADS) as threads:
        list(threads.map(delete, sorted(paths)))


def names_in_use(table: Table, storage: TableStorage, *, data: bool = True) -> set[str]:
    """Return the names of the files that metadata names which lies beside a table's: the table's own, and of copies.

    These are metadata files, manifest lists and manifests, and with ``data`` data files, also those that a snapshot has
    removed, which stays for a while (:data:`HELD_MS`). What left-over metadata of our commits names is not in use.
    """
    io, name, metadata = table.io, ".".join(table.name()), table.metadata
    own = {file_name(path) for path in (table.metadata_location, *_log(metadata))}
    needed = {one.manifest_list for one in metadata.snapshots}
    names, lists = set(own), set(needed)
    for path in _metadata_files(table, storage):
        if file_name(path) in own:
            lists |= lists_in(io, path)
        elif not _is_left_over(described := _described(io, path), name):
            names.add(file_name(path))
            lists.update(_lists(described))
    if not data:
        return names.union(map(file_name, files_of(io, lists)))
    manifests: dict[str, ManifestFile] = {}
    for path in lists:
        with nullcontext() if path in needed else suppress(FileNotFoundError):  # others have expired it since
            found = {one.manifest_path: one for one in _manifests(io, path)}
            manifests.update(found)
            needed.update(found if path in needed else ())
    for path, manifest in manifests.items():
        with nullcontext() if path in needed else suppress(FileNotFoundError):
            entries = manifest.fetch_manifest_entry(io, discard_deleted=False)
            names.update(file_name(str(entry.data_file.file_path)) for entry in entries)
    return names.union(map(file_name, (*lists, *manifests)))


def _metadata_files(table: Table, storage: TableStorage) -> list[str]:
    """Return the files of metadata in the folders where a table has its own."""
    found = list[str]()
    for folder in {metadata_folder(table.metadata), table.metadata_location.rpartition("/")[0]}:
        place = storage.at(folder)
        listed = place.filesystem.get_file_info(pafs.FileSelector(place.path, allow_not_found=True))
        found += [f"{folder}/{info.base_name}" for info in listed if ".metadata.json" in info.base_name]
    return found
