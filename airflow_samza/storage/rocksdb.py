"""A store in RocksDB (decision 40).

Entries on the host's disk in key order, for state that is larger than memory or than one wants to load each epoch.

What outlives the task is what :meth:`RocksStore.kept` gives: a base, and what has changed since, in small tables. A
store that comes back to a host that still has its last version goes on from a clone of that (hard links); elsewhere the
base is loaded in bulk, as a file that RocksDB takes in whole, and so are the changes, one table after the other.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any

import pyarrow as pa
from rocksdict import (
    Checkpoint,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    SstFileWriter,
    WriteOptions,
)

from airflow_samza.errors import StoreError
from airflow_samza.quoting import quoted
from airflow_samza.storage.key_bytes import KeyBytes
from airflow_samza.storage.local_store import not_written
from airflow_samza.storage.rocks_folder import RocksFolder
from airflow_samza.storage.store import BASE, CHANGES, DELETED, StoreLayout, Values, merged, numbered_changes, too_large
from airflow_samza.storage.value_bytes import ValueBytes

logger = logging.getLogger(__name__)

MOST_KEY_BYTES, MOST_VALUE_BYTES = 1 << 20, 64 << 20
"""Bytes that one entry may take by default.

RocksDB holds blocks of entries in memory, and an epoch's changes are held there, too.
"""

_SHARE = 4
"""A new base is written when the changes are more than this part of its rows.

A row is then written about this many times.
"""
_MOST_FILES = 16
"""Tables of changes that become one base: each is a file to open when the store is restored elsewhere."""
_CHUNK = 65_536
_WRITE_BUFFER = 16 << 20

_LINEAGE, _VERSION = b"rocksdb.lineage", b"rocksdb.version"
"""In the metadata of the table that was kept last: which version of which store the tables make."""

_UNREADABLE = "is damaged or cannot be opened"


class RocksStore:
    """The entries of one layout, below a folder of the host.

    ``most_bytes`` limits keys and values together; None: the disk does.
    """

    def __init__(
        self,
        layout: StoreLayout,
        folder: str,
        *,
        most_key_bytes: int = MOST_KEY_BYTES,
        most_value_bytes: int = MOST_VALUE_BYTES,
        most_bytes: int | None = None,
    ) -> None:
        self.layout = layout
        self._folder = RocksFolder(folder)
        self._most_key, self._most_value, self._most = most_key_bytes, most_value_bytes, most_bytes
        self._keys, self._values = KeyBytes(layout.key), ValueBytes(layout.value)
        self._key_names = layout.schema.names[: len(layout.key.fields)]
        self._lineage = uuid.uuid4().hex
        self._db: Any = None
        """An Rdict in raw mode: bytes for bytes."""
        self._work = ""
        self._forget: Any = None
        self._tables: dict[str, pa.Table] = {}
        self._changed: dict[bytes, tuple[Any, Values | None]] = {}
        self._bytes = 0

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Values | None:
        """Return the value of a key, or None."""
        value = self._open().get(self._keys.encoded(key))
        return None if value is None else self._values.decoded(value)

    def get_all(self, keys: Iterable[Any]) -> dict[Any, Values]:
        """Return the values of those keys that are there."""
        key_list = list(keys)
        values = self._open().get([self._keys.encoded(key) for key in key_list]) if key_list else []
        pairs = zip(key_list, values, strict=True)
        return {key: self._values.decoded(value) for key, value in pairs if value is not None}

    def range(self, first: Any = None, last: Any = None) -> Iterator[tuple[Any, Values]]:
        """Return the entries from ``first`` up to and without ``last``, in key order, as they are now.

        None leaves that end open.
        """
        end = None if last is None else self._keys.encoded(last)
        items = self._open().items(from_key=None if first is None else self._keys.encoded(first))
        return self._shown(items, end)

    def _shown(self, items: Iterator[tuple[bytes, bytes]], end: bytes | None) -> Iterator[tuple[Any, Values]]:
        for key, value in items:
            if end is not None and key >= end:
                return
            yield self._keys.decoded(key), self._values.decoded(value)

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, key: Any, value: Values) -> None:
        """Set a value."""
        at, data = self._entry(key, value)
        if self._most is not None:
            self._grow(at, data, self._open().get(at))
        self._open()[at] = data
        self._changed[at] = (key, value)

    def delete(self, key: Any) -> None:
        """Remove a key; one that is not there is no error."""
        at = self._keys.encoded(key)
        if self._most is not None:
            self._grow(at, None, self._open().get(at))
        self._open().delete(at)
        self._changed[at] = (key, None)

    def _entry(self, key: Any, value: Values) -> tuple[bytes, bytes]:
        at, data = self._keys.encoded(key), self._values.encoded(value)
        if len(data) > self._most_value or len(at) > self._most_key:
            what, size, most = (
                ("value", len(data), self._most_value)
                if len(data) > self._most_value
                else ("key", len(at), self._most_key)
            )
            raise StoreError(
                f"The store {self.layout.name!r} gets a {what} of {size} bytes for the key {quoted(key, 80)}, and at "
                f"most {most} are allowed.",
                hint="Put less under one key (several entries, a reference), or raise "
                f"stores.{self.layout.name}.max.{what}.bytes.",
                store=self.layout.name,
                bytes=size,
                most=most,
            )
        return at, data

    def _grow(self, key: bytes, data: bytes | None, former: bytes | None) -> None:
        """Count the bytes of an entry in place of its former ones, where there is a limit to them."""
        before = 0 if former is None else len(key) + len(former)
        size = self._bytes - before + (0 if data is None else len(key) + len(data))
        if self._most is not None and size > self._most and data is not None:
            raise too_large(self.layout.name, "would hold", size, self._most)
        self._bytes = size

    # -- what is kept --------------------------------------------------------------------------------------------------

    def kept(self) -> dict[str, pa.Table]:
        """Return the base and the changes since, the last of them by themselves; tables given before come again."""
        if not self._changed:
            return dict(self._tables)
        base = self._tables.get(BASE)
        before = numbered_changes(self._tables)
        changes = len(self._changed) + sum(table.num_rows for _, table in before)
        metadata = {_LINEAGE: self._lineage.encode(), _VERSION: uuid.uuid4().hex.encode()}
        if base is None or changes * _SHARE > base.num_rows or len(before) >= _MOST_FILES:
            self._tables = {BASE: self._whole().replace_schema_metadata(metadata)}
        else:
            name = f"{CHANGES}{before[-1][0] + 1 if before else 1}"
            self._tables[name] = self._changes().replace_schema_metadata(metadata)
        self._changed = {}
        if self._db is not None:
            self._keep_version(self._db, metadata[_VERSION].decode())
        return dict(self._tables)

    def restore_kept(self, tables: Mapping[str, pa.Table]) -> None:
        """Take over what :meth:`kept` gave, by the version of it that is here, or in bulk; the rest goes."""
        base = self.layout.checked(tables.get(BASE, self.layout.table([])))
        self.close()
        later = [table for _, table in numbered_changes(tables)]
        metadata = (later[-1] if later else tables.get(BASE, base)).schema.metadata or {}
        self._tables = {**tables, BASE: base}
        self._lineage = metadata.get(_LINEAGE, uuid.uuid4().hex.encode()).decode()
        if not self._went_on(metadata.get(_VERSION, b"").decode()):
            self._load(later)
        if self._most is not None:
            self._bytes = sum(len(key) + len(value) for key, value in self._open().items())

    def close(self) -> None:
        """Give back what it holds: the attempt's clone is removed."""
        if self._db is not None:
            self._forget()
            self._db = None
        self._tables, self._changed, self._bytes = {}, {}, 0

    def _keep_version(self, db: Any, version: str) -> None:
        checkpoint = self._folder.new_work(self._lineage).replace("work-", "keep-")
        try:
            Checkpoint(db).create_checkpoint(checkpoint)
            self._folder.adopt(checkpoint, self._lineage, version)
        except Exception as error:  # RocksDB's errors have no class of their own
            shutil.rmtree(checkpoint, ignore_errors=True)
            logger.warning(
                "The store %r could not be kept on this host (%s): the next epoch loads it anew.",
                self.layout.name,
                error,
            )

    def _went_on(self, version: str) -> bool:
        path = self._folder.version(self._lineage, version) if version else None
        if path is None:
            return False
        work = self._folder.new_work(self._lineage)
        try:
            self._folder.clone(path, work)
            self._take(work)
            return True
        except Exception as error:  # also what RocksDB raises
            logger.warning("The local store %s %s (%s). It is built again.", path, _UNREADABLE, error)
            self._folder.discard(path)
            shutil.rmtree(work, ignore_errors=True)
            return False

    def _load(self, changes: list[pa.Table]) -> None:
        db, moved = self._open(), IngestExternalFileOptions()
        moved.set_move_files(True)
        for table in (self._tables[BASE], *changes):
            if table.num_rows:
                path = f"{self._work}.sst"
                try:
                    self._write_sorted(path, table)
                    db.ingest_external_file([path], moved)
                finally:
                    with contextlib.suppress(OSError):
                        os.remove(path)

    def _write_sorted(self, path: str, table: pa.Table) -> None:
        """Write a table, which is in key order, as a file that RocksDB takes in whole, above what it has."""
        writer = SstFileWriter(_options())
        writer.open(path)
        deleted = table.column(DELETED).to_pylist() if DELETED in table.column_names else repeat(False, table.num_rows)
        for (key, value), is_deleted in zip(self._entries(table), deleted, strict=True):
            if is_deleted:
                del writer[key]
            else:
                writer[key] = value
        writer.finish()

    def _entries(self, table: pa.Table) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a table as bytes, a chunk of columns at a time."""
        keys, width = len(self._key_names), len(self.layout.schema)
        for batch in table.to_batches(max_chunksize=_CHUNK):
            data = self._values.encoded_columns(batch.columns[keys:width])
            yield from zip(self._keys.encoded_columns(batch.columns[:keys]).to_pylist(), data.to_pylist(), strict=True)

    # -- tables --------------------------------------------------------------------------------------------------------

    def _changes(self) -> pa.Table:
        """Return what has changed since the tables were kept, in key order; a column marks what was deleted."""
        rows = [self._changed[at] for at in sorted(self._changed)]
        nothing = (None,) * len(self.layout.value.fields)
        table = self.layout.table([(key, nothing if value is None else value) for key, value in rows])
        return table.append_column(DELETED, pa.array([value is None for _, value in rows], pa.bool_()))

    def _whole(self) -> pa.Table:
        """Return all entries in key order, of the base and all that has changed since."""
        changes = [table for _, table in numbered_changes(self._tables)] + ([self._changes()] if self._changed else [])
        return merged(self.layout, self._tables.get(BASE, self.layout.table([])), changes)

    # -- the database --------------------------------------------------------------------------------------------------

    def _open(self) -> Any:
        if self._db is None:
            self._take(self._folder.new_work(self._lineage))
        return self._db

    def _take(self, work: str) -> None:
        self._db = open_database(work, self.layout.name)
        self._work = work
        self._forget = weakref.finalize(self, _removed, self._db, work, os.getpid())


def _removed(db: Any, work: str, owner: int) -> None:
    if os.getpid() != owner:  # a fork ends
        return
    try:
        db.close()  # first: RocksDB waits a second for a folder that is gone
    finally:
        shutil.rmtree(work, ignore_errors=True)
    with contextlib.suppress(OSError):  # versions of the store are there
        os.rmdir(os.path.dirname(work))


def open_database(path: str, store: str) -> Any:
    """Return the database of a folder, for one process at a time: a second one gets a :class:`StoreError`."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise not_written(path, error) from error
    try:
        db = Rdict(path, _options())
    except Exception as error:  # RocksDB's errors have no class of their own
        if "lock" in str(error).lower():
            raise StoreError(
                f"The store {store!r} in {path} is open in another process, and only one at a time may write it.",
                hint="Let each attempt work on a folder of its own; or wait until the other one has ended.",
                store=store,
                path=path,
            ) from error
        raise StoreError(
            f"The store {store!r} in {path} {_UNREADABLE}: {error}.",
            hint="Delete the folder: the store is built again from its snapshot.",
            store=store,
            path=path,
        ) from error
    options: Any = WriteOptions()
    options.disable_wal = True  # what has not been kept is worth nothing
    db.set_write_options(options)
    return db


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(_WRITE_BUFFER)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(1)
    return options
