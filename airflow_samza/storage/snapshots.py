"""Snapshots of a task's state: Arrow IPC files beside the run's records, and their description in the task's manifest.

A snapshot is ``{operator id: {name: table}}``. A table whose content is the former snapshot's is not written again: the
description names the former file. A file is written once, under a name that no other attempt has, and checked when it
is read. Tries at tasks write and read them; pruning, standbys and checks of a root follow them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
from cachetools import LRUCache

from airflow_samza.errors import StoreError
from airflow_samza.records import from_plain
from airflow_samza.storage.host_files import HostFiles, safe_name

State = Mapping[str, Mapping[str, pa.Table]]


class Files(Protocol):
    """Protocol of the storage under a root, as snapshots and files of keys need it."""

    def open_output(self, path: str, *, durable: bool = True) -> BinaryIO:
        """Return a new file to write."""

    def open_input(self, path: str) -> pa.NativeFile:
        """Return a file to read."""

    def read(self, path: str) -> bytes:
        """Return the content of a file; a missing one raises FileNotFoundError."""

    def location(self, path: str) -> str:
        """Return the whole path of a file, as messages show it."""


Content = bytes
"""The type, which has another meaning inside of the class."""


@dataclass(frozen=True)
class StateFile:
    """Table of a snapshot: where it lies (from the root), its rows and bytes, and two digests of the file.

    ``checksum`` is the CRC-32. ``sha256`` is of use where others might have put a file in the place of ours; a record
    of a former version has none.
    """

    path: str
    rows: int
    bytes: int
    checksum: int
    sha256: str = ""

    def is_content(self, data: pa.Buffer | Content) -> bool:
        """Return whether these bytes, of the file's size, are what was written."""
        return hashlib.sha256(data).hexdigest() == self.sha256 if self.sha256 else zlib.crc32(data) == self.checksum


class TableCache:
    """Tables that this process has read or written last, by the path of their file, to save reading them again."""

    def __init__(self, most_bytes: int = 128 << 20) -> None:
        self._tables: LRUCache[str, pa.Table] = LRUCache(most_bytes, getsizeof=lambda table: table.nbytes)
        self._lock = threading.Lock()

    def find(self, path: str) -> pa.Table | None:
        """Return the table of a file, if it is known."""
        with self._lock:
            return self._tables.get(path)

    def keep(self, path: str, table: pa.Table) -> None:
        """Remember a table; those that were not asked for the longest are forgotten."""
        with self._lock, suppress(ValueError):  # it is larger than all that may be kept
            self._tables[path] = table


@dataclass
class Restored:
    """Bytes of state by where they were read, and the seconds that it took.

    That is the memory of the process, the host's folder, or the root.
    """

    memory: int = 0
    host: int = 0
    root: int = 0
    seconds: float = 0.0

    def facts(self) -> dict[str, float]:
        """Return the counts as manifests hold them; none where nothing was restored."""
        if not self.memory + self.host + self.root:
            return {}
        counts = {
            "restored_from_memory_bytes": self.memory,
            "restored_from_host_bytes": self.host,
            "restored_from_root_bytes": self.root,
        }
        return {**counts, "restore_seconds": round(self.seconds, 4)}


def write_snapshot(
    files: Files,
    folder: str,
    state: State,
    former: Mapping[str, Any] | None = None,
    cache: TableCache | None = None,
    *,
    durable: bool = False,
    former_state: State | None = None,
    host: HostFiles | None = None,
) -> dict[str, Any] | None:
    """Write the tables of a state into a folder of its own; the description, or None when there is nothing to keep.

    ``former`` is the description of the snapshot before: its files are named again for tables that have not changed.
    ``durable`` files survive a power failure, at the cost of waiting for the disk. ``former_state`` is the state
    that was read of the former description: a table of it that comes back has not changed. ``host`` keeps copies on
    the host.
    """
    before = {(op_id, name): file for op_id, name, file in _described(former)}
    former_state = former_state or {}
    described: dict[str, dict[str, Any]] = {}
    for op_id, tables in state.items():
        for name, table in tables.items():
            path = f"{folder}/{safe_name(op_id)}.{safe_name(name)}.arrow"
            earlier = before.get((op_id, name))
            if earlier is not None and former_state.get(op_id, {}).get(name) is table:
                file = earlier
            else:
                file = _write(files, path, table, earlier, cache, durable, host)
            described.setdefault(op_id, {})[name] = dataclasses.asdict(file)
    return described or None


def read_snapshot(
    files: Files,
    described: Mapping[str, Any] | None,
    cache: TableCache | None = None,
    host: HostFiles | None = None,
    restored: Restored | None = None,
) -> dict[str, dict[str, pa.Table]]:
    """Return the state of a description.

    It is looked for in memory (``cache``), then on the host (``host``), then under the root; ``restored`` counts the
    bytes. A file that is missing or damaged is a :class:`~airflow_samza.errors.StoreError` that names it.
    """
    state: dict[str, dict[str, pa.Table]] = {}
    restored = restored if restored is not None else Restored()
    started = time.perf_counter()
    for op_id, name, file in _described(described):
        table = cache.find(files.location(file.path)) if cache is not None else None
        if table is not None:
            restored.memory += file.bytes
        else:
            table = _fetched(files, op_id, file, host, restored)
            if cache is not None:
                cache.keep(files.location(file.path), table)
        state.setdefault(op_id, {})[name] = table
    restored.seconds += time.perf_counter() - started
    return state


def prefetch(files: Files, described: Mapping[str, Any] | None, host: HostFiles) -> int:
    """Copy what the host lacks of a snapshot to it (rule S9), delete what is older, and return the bytes copied."""
    copied = 0
    described_files = list(_described(described))
    for op_id, _, file in described_files:
        if not host.has(file.path, file.bytes):
            host.write(file.path, _checked(files, op_id, file))
            copied += file.bytes
    host.keep_only(file.path for _, _, file in described_files)
    return copied


def _fetched(files: Files, op_id: str, file: StateFile, host: HostFiles | None, restored: Restored) -> pa.Table:
    near = host.read(file.path, file.bytes, file.is_content) if host is not None else None
    if near is not None:
        restored.host += file.bytes
        return _decoded(near)
    data = _checked(files, op_id, file)
    restored.root += file.bytes
    if host is not None:
        host.write(file.path, data)
    return _decoded(pa.py_buffer(data))


def snapshot_files(described: Mapping[str, Any] | None) -> set[str]:
    """Return the paths of the files that a description names."""
    return {file.path for _, _, file in _described(described)}


MISSING = "is missing"
"""Fact ``what`` of an error of :func:`damaged_files` about a file that is not there."""


def damaged_files(files: Files, described: Mapping[str, Any] | None) -> Iterator[StoreError]:
    """Yield the errors that reading a description's files would raise, one for each missing or damaged file."""
    for op_id, _, file in _described(described):
        try:
            _checked(files, op_id, file)
        except StoreError as error:
            yield error


def _write(
    files: Files,
    path: str,
    table: pa.Table,
    before: StateFile | None,
    cache: TableCache | None,
    durable: bool,
    host: HostFiles | None,
) -> StateFile:
    data = _encode(table)
    file = StateFile(path, table.num_rows, data.size, zlib.crc32(data), hashlib.sha256(data).hexdigest())
    if before is not None and dataclasses.replace(before, path=path) == file:
        return before
    with files.open_output(path, durable=durable) as output:
        output.write(data)
    if host is not None:
        host.write(path, data)
    if cache is not None:
        cache.keep(files.location(path), table)
    return file


def _checked(files: Files, op_id: str, file: StateFile) -> bytes:
    try:
        data = files.read(file.path)
    except FileNotFoundError:
        raise _damaged(files, op_id, file, MISSING) from None
    if len(data) != file.bytes:
        raise _damaged(files, op_id, file, f"has {len(data)} bytes, and {file.bytes} were written")
    if not file.is_content(data):
        raise _damaged(files, op_id, file, "does not have the content that was written (its checksum differs)")
    return data


def _decoded(data: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _damaged(files: Files, op_id: str, file: StateFile, what: str) -> StoreError:
    where = files.location(file.path)
    return StoreError(
        f"The state of the operator {op_id!r} is damaged: {where} {what}.",
        hint="Clear the stage: its next generation builds its state anew from its inputs.",
        operator=op_id,
        path=where,
        what=what,
    )


def _encode(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _described(described: Mapping[str, Any] | None) -> Iterator[tuple[str, str, StateFile]]:
    for op_id, tables in (described or {}).items():
        for name, file in tables.items():
            yield op_id, name, from_plain(StateFile, file, "of a state file")
