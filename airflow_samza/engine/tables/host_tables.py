"""Tables of a task in the folder of its host: opened before they are read on, written when much is new (rules S3, S4).

What lies there is flushed first, then the file with the offsets to which it has been read. A table that a processor
fills lies under the digest of what makes its rows, and only where that is known.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from airflow_samza.config import Config
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY, tombstone_seconds
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.tables.pins import HISTORY
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores, default_folder
from airflow_samza.storage.offsets_file import LocalOffsets, OffsetsFile, Place
from airflow_samza.storage.timed_rows import RowVersions
from airflow_samza.task.loop.side_tables import SideTable, SideTables
from airflow_samza.task.loop.task_tables import side_partitions
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.tables.timed_store import HistoryStore, TimedStore

_SHARE = 8
"""A table is written to the host's folder again when more than this part of it is new.

A row is then written about this many times.
"""

_PROCESSOR_SECONDS = 1.0
"""A table is written again, too, when a processor has worked for so long on what is new."""

_ALL = 0
"""The place of a table that is alike in all tasks."""

_LITTLE = 1_000
"""Number of messages up to which they are read rather than looked for among what lies on the host."""

Slices = Mapping[str, Mapping[str, Any]]


class HostTables:
    """The kept tables of one task.

    ``digests`` are those of the tables with a processor that may be kept, by table id.
    """

    def __init__(
        self,
        root: str,
        program: StageProgram,
        streams: Mapping[str, BoundStream],
        task: int,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        config = Config(program.spec.config)
        self._stores = LocalStores(default_folder(root, config.store_local_dir), config.store_local_max_bytes)
        self._program = program
        self._streams = streams
        self._task = task
        self._digests = digests or {}

    def open(self, tables: SideTables, slices: Slices) -> None:
        """Take over what lies here of tables: just what is wanted; or what is nearer to it than what the table holds.

        ``slices`` are the slices by stream.
        """
        for table in tables.tables:
            if self._keeps_rows(table) and not self._open_exactly(tables, table, slices):
                self._open_nearer(tables, table, slices)

    def _open_exactly(self, tables: SideTables, table: SideTable, slices: Slices) -> bool:
        """Take over what another process, or a former run, has read to just this point, unless little is missing."""
        if any(slices[stream_id].get("offsets") is None for stream_id in table.table.side_inputs):
            return False
        target = self._target(table, slices)
        has_same = all(
            tables.sources.get(s, {}).get("sections") == slices[s].get("sections") for s in table.table.side_inputs
        )
        missing = sum(max(end - table.reached.get(place, 0), 0) for place, end in target.items())
        if table.reached and has_same and missing <= _LITTLE:
            return True
        version = self._version(table, target, slices)
        base = self._stores.find(self._name(table), self._place(table), version, ColumnarTable)
        if base is None:
            return False
        table.take_over(base, target)
        tables.sources.update({stream_id: slices[stream_id] for stream_id in table.table.side_inputs})
        return True

    def _open_nearer(self, tables: SideTables, table: SideTable, slices: Slices) -> None:
        """Take over what was read of a table's streams, of all or some; others are read from the start (rule S3).

        A table that holds something already goes on from what is further on, if that is no further than it shall come.
        """
        for local in self._kept(table, min(tombstone_seconds(slices[s]) for s in table.table.side_inputs)):
            reached = {place: last + 1 for place, last in local.offsets.items()}
            sources: Slices = local.store["sources"]
            if table.reached and not self._is_on_the_way(table, slices, reached, sources):
                continue
            base = self._stores.find(self._name(table), self._place(table), str(local.store["version"]), ColumnarTable)
            if base is None:
                continue
            is_held = bool(table.reached)
            table.take_over(base, reached)
            tables.sources.update({s: source for s, source in sources.items() if is_held or s not in tables.sources})
            return

    def _is_on_the_way(self, table: SideTable, slices: Slices, reached: Mapping[Place, int], sources: Slices) -> bool:
        """Return whether what lies here is between what a table holds and what it shall hold."""
        streams = table.table.side_inputs
        if set(sources) != set(streams) or any(
            slices[s].get("offsets") is None
            or "sections" in slices[s]
            or "sections" in sources[s]
            or sources[s].get(TOPIC_IDENTITY) != slices[s].get(TOPIC_IDENTITY)
            for s in streams
        ):
            return False
        target = self._target(table, slices)
        return all(
            table.reached.get(place, 0) <= offset <= target.get(place, -1) for place, offset in reached.items()
        ) and (set(table.reached) <= set(reached))

    def _kept(self, table: SideTable, stale: float) -> list[LocalOffsets]:
        """Return what the offsets files here hold: of all streams of a table first, then of some, the most first.

        Those that are ``stale`` seconds old may have missed what was deleted.
        """
        mine, found = self._topics(table), []
        for path in sorted(glob.glob(os.path.join(glob.escape(self._folder(table)), f"{_OFFSETS}*"))):
            if "." in os.path.basename(path):
                continue  # it is being written
            local = OffsetsFile(path).read(stale=stale)
            topics = local.store.get("topics", {}) if local is not None else {}
            if local is not None and topics and all(mine.get(name) == topic for name, topic in topics.items()):
                found.append(local)
        return sorted(found, key=lambda local: -len(local.store["topics"]))

    def keep(self, tables: SideTables, *, always: bool = False) -> None:
        """Write tables of which much is new, or any (``always``), and read what lies there from then on."""
        for table in tables.tables:
            if self._keeps_rows(table) and table.unsaved:
                much = table.unsaved * _SHARE > table.saved_rows or table.unsaved_seconds > _PROCESSOR_SECONDS
                if always or much:
                    self._keep(tables, table)
                    pa.default_memory_pool().release_unused()  # what the process has built

    def _keep(self, tables: SideTables, table: SideTable) -> None:
        version, whole = self._version(table, table.reached, tables.sources), table.store.whole
        kept = self._stores.kept(self._name(table), self._place(table), version, ColumnarTable, lambda: whole)
        sources = {stream_id: _identity_of(tables.sources[stream_id]) for stream_id in table.table.side_inputs}
        offsets = {place: offset - 1 for place, offset in table.reached.items()}
        OffsetsFile(self._offsets_path(table)).write(
            LocalOffsets(offsets, {"version": version, "sources": sources, "topics": self._topics(table)})
        )
        table.store.start_from(kept)  # in files that all processes map
        table.saved(len(kept))

    def history(self, table: SideTable, slice_: Mapping[str, Any], read: Callable[[], RowVersions]) -> RowVersions:
        """Return the rows of just the versions that a slice names: those that lie here, or are ``read``, and then do.

        Whoever wants the same meanwhile waits for them.
        """
        versions = [[version["number"], version["from"], version["sections"]] for version in slice_[HISTORY]]
        version = _hash([slice_.get(TOPIC_IDENTITY), versions, self._topics(table)], 32)
        return self._stores.kept(self._name(table, HISTORY), self._place(table), version, RowVersions, read)

    @contextmanager
    def alone(self, tables: SideTables, slices: Slices) -> Iterator[None]:
        """Fill tables that are alike in all tasks of a host in one of them; the others wait, and map that."""
        with ExitStack() as held:
            shared = [
                table
                for table in tables.tables
                if self._keeps_rows(table) and self._is_shared(table) and not table.reached
            ]
            for name in sorted(self._name(table) for table in shared):
                held.enter_context(self._stores.locked(name, _ALL))
            if shared:
                self.open(tables, slices)
            yield

    def _target(self, table: SideTable, slices: Slices) -> dict[Place, int]:
        places = [
            (s, p) for s in sorted(table.table.side_inputs) for p in side_partitions(self._program, s, self._task)
        ]
        return {(s, p): int(slices[s]["offsets"][p][1]) for s, p in places}

    def _place(self, table: SideTable) -> int:
        return _ALL if self._is_shared(table) else self._task

    def _is_shared(self, table: SideTable) -> bool:
        """Return whether every task reads all of the table's side inputs."""
        return all(self._program.plan.stream(stream_id).broadcast for stream_id in table.table.side_inputs)

    def keeps(self, table: SideTable) -> bool:
        """Return whether a table is kept on hosts: one whose rows have times of their own is not."""
        return not isinstance(table.store, TimedStore) and (
            table.table.processor is None or table.table.table_id in self._digests
        )

    def _keeps_rows(self, table: SideTable) -> bool:
        """Return whether a table's rows are kept as of one moment; those of several versions are a :meth:`history`."""
        return self.keeps(table) and not isinstance(table.store, HistoryStore)

    def _offsets_path(self, table: SideTable) -> str:
        return os.path.join(self._folder(table), _OFFSETS + _hash(self._topics(table)))

    def _folder(self, table: SideTable) -> str:
        return os.path.join(self._stores.folder, self._name(table), str(self._place(table)))

    def _topics(self, table: SideTable) -> dict[str, list[str]]:
        """System and name of the topics that feed a table, by stream id."""
        return {s: [self._streams[s].system, self._streams[s].spec.name] for s in sorted(table.table.side_inputs)}

    def _name(self, table: SideTable, kind: str | None = None) -> str:
        """Return the name of a table's folder.

        Whoever makes the same rows, in the same columns by the same key, may use what lies there.
        """
        tasks = self._program.plan.stage(self._program.stage.stage_id).task_count
        parts = [table.store.schema.ddl(), table.store.key, tasks, self._digests.get(table.table.table_id)]
        parts += [kind] if kind is not None else []
        return f"{table.table.table_id[:60]}-{_hash(parts)}"

    @staticmethod
    def _version(table: SideTable, reached: Mapping[Place, int], sources: Slices) -> str:
        read: list[Any] = [[*place, offset] for place, offset in sorted(reached.items())]
        identities = {stream_id: _identity_of(sources[stream_id]) for stream_id in table.table.side_inputs}
        return _hash([read, identities], 32)


_OFFSETS = "OFFSETS-"


def _hash(parts: Any, digits: int = 16) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:digits]


def _identity_of(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a slice that decides whether it may be read on: not the number of commits."""
    return (
        {name: slice_[name] for name in ("offsets", "sections", TOPIC_IDENTITY) if name in slice_}
        if slice_.get("offsets") is not None
        else dict(slice_)
    )
