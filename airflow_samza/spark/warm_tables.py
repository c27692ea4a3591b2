"""Tables of side inputs that a worker process, or its host, has read already: the next epoch or run reads on from there (SEMANTICS S3, S4).

A worker keeps the tables of the tasks that it ran last. Beside that, tables whose messages are rows lie in the host's folder of stores:
any process of the host maps them into memory. What lies there is flushed first, then the file that says how far it has read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_samza.config import Config
from airflow_samza.runs.epoch_records import Intent
from airflow_samza.runs.run_plan import BoundStream
from airflow_samza.spark.task_side_inputs import MADE, SideInputs
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores, default_folder
from airflow_samza.storage.offsets_file import LocalOffsets, OffsetsFile
from airflow_samza.storage.side_inputs import Place
from airflow_samza.systems.filesystem import open_filesystem
from airflow_samza.systems.system import System
from airflow_samza.task.side_tables import SideTable, SideTables
from airflow_samza.task.stage_program import TASK, StageProgram
from airflow_samza.task.task_tables import Filled, side_partitions

log = logging.getLogger("airflow_samza.tables")

_SHARE = 8
"""A table is written to the host's folder again when more than this part of it is new: a row is then written about this many times."""

_ALL = 0
"""The place of a table that is alike in all tasks."""

_LITTLE = 1_000
"""So few messages are read rather than looked for among what lies on the host."""

_MOST_BYTES = 256 << 20
"""Of tables that a worker process keeps for tasks that it does not run now; those that are mapped from files cost it little more."""


class WarmTables:
    """The tables that this process keeps between epochs, each in the hands of one task at a time."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[Any, tuple[SideTables, int]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Any) -> SideTables | None:
        """The tables that were kept under a key; nobody else gets them until they are kept again."""
        with self._lock:
            found = self._kept.pop(key, None)
            return found[0] if found is not None else None

    def keep(self, key: Any, tables: SideTables) -> None:
        """Keeps tables; those that were not asked for the longest are forgotten."""
        size = sum(store.nbytes for store in tables.stores.values())
        with self._lock:
            self._kept[key] = (tables, size)
            while len(self._kept) > 1 and sum(bytes_ for _, bytes_ in self._kept.values()) > self._most:
                self._kept.popitem(last=False)


class HostTables:
    """The tables of a task in the folder of its host: opened before they are read on, written when much of them is new."""

    def __init__(self, root: str, program: StageProgram, streams: Mapping[str, BoundStream], task: int) -> None:
        config = Config(program.spec.config)
        self._stores = LocalStores(default_folder(root, config.store_local_dir), config.store_local_max_bytes)
        self._program = program
        self._streams = streams
        self._task = task
        self._stored_rows: dict[str, int] = {}

    def open(self, tables: SideTables, wanted: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes over what lies here of tables: just what is wanted; or, of those that hold nothing yet, as much as has been read.

        ``wanted`` are the slices by stream.
        """
        for table in tables.tables:
            if not self._is_kept(table) or self._open_exactly(tables, table, wanted) or table.reached:
                continue
            local = self._file(table).read()
            base = self._stores.find(self._name(table), self._place(table), str(local.store["version"])) if local is not None else None
            if local is None or base is None:
                continue
            table.store.start_from(base)
            table.reached = {place: last + 1 for place, last in local.offsets.items()}
            for stream_id, source in local.store["sources"].items():
                tables.sources.setdefault(stream_id, source)
            self._stored_rows[table.table.table_id] = len(base)

    def _open_exactly(self, tables: SideTables, table: SideTable, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
        """Takes over what another process, or a former run, has read to just this point, unless little is missing."""
        streams = table.table.side_inputs
        if any(wanted[stream_id].get("offsets") is None for stream_id in streams):
            return False
        places = [(s, p) for s in sorted(streams) for p in side_partitions(self._program, s, self._task)]
        target = {(s, p): int(wanted[s]["offsets"][p][1]) for s, p in places}
        same = all(tables.sources.get(s, {}).get("sections") == wanted[s].get("sections") for s in streams)
        if table.reached and same and sum(max(end - table.reached.get(place, 0), 0) for place, end in target.items()) <= _LITTLE:
            return True
        base = self._stores.find(self._name(table), self._place(table), self._version(table, target, wanted))
        if base is None:
            return False
        table.store.start_from(base)
        table.reached = target
        tables.sources.update({stream_id: wanted[stream_id] for stream_id in streams})
        self._stored_rows[table.table.table_id] = len(base)
        return True

    def keep(self, tables: SideTables, read: Mapping[str, int], *, always: bool = False) -> None:
        """Writes tables of which much is new, or any (``always``); ``read`` are the messages read of each stream."""
        for table in tables.tables:
            new = sum(read.get(stream_id, 0) for stream_id in table.table.side_inputs)
            if not self._is_kept(table) or not new:
                continue
            if not always and new * _SHARE <= self._stored_rows.get(table.table.table_id, 0):
                continue
            version = self._version(table, table.reached, tables.sources)
            rows = table.store.rows
            self._stores.columnar(self._name(table), self._place(table), version, partial(ColumnarTable.of, rows, table.store.key))
            sources = {stream_id: _told(tables.sources[stream_id]) for stream_id in table.table.side_inputs}
            offsets = {place: offset - 1 for place, offset in table.reached.items()}
            self._file(table).write(LocalOffsets(offsets, {"version": version, "sources": sources}))
            self._stored_rows[table.table.table_id] = int(rows.num_rows)

    @contextmanager
    def alone(self, tables: SideTables, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
        """While tables that are alike in all tasks of a host are filled, the others wait, and map what one of them has read."""
        with ExitStack() as held:
            shared = [table for table in tables.tables if self._is_kept(table) and self._is_shared(table) and not table.reached]
            for name in sorted(self._name(table) for table in shared):
                held.enter_context(self._stores.locked(name, _ALL))
            if shared:
                self.open(tables, wanted)
            yield

    def _place(self, table: SideTable) -> int:
        return _ALL if self._is_shared(table) else self._task

    def _is_shared(self, table: SideTable) -> bool:
        """Whether every task reads all of the table's side inputs."""
        return all(self._program.plan.stream(stream_id).broadcast for stream_id in table.table.side_inputs)

    @staticmethod
    def _is_kept(table: SideTable) -> bool:
        # What a processor makes of messages depends on its code, which nobody can compare.
        return table.table.processor is None

    def _file(self, table: SideTable) -> OffsetsFile:
        return OffsetsFile(os.path.join(self._stores.folder, self._name(table), str(self._place(table)), "OFFSETS"))

    def _name(self, table: SideTable) -> str:
        """Of a table's folder: whoever reads the same streams into the same columns by the same key may use it."""
        streams = [(self._streams[s].system, self._streams[s].spec.name) for s in sorted(table.table.side_inputs)]
        told = json.dumps(
            [streams, table.store.schema.ddl(), table.store.key, self._program.plan.stage(self._program.stage.stage_id).task_count]
        )
        return f"{table.table.table_id[:60]}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    @staticmethod
    def _version(table: SideTable, reached: Mapping[Place, int], sources: Mapping[str, Mapping[str, Any]]) -> str:
        read: list[Any] = [[*place, offset] for place, offset in sorted(reached.items())]
        told = json.dumps([read, {stream_id: _told(sources[stream_id]) for stream_id in sorted(table.table.side_inputs)}], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:32]


def _told(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """What of a slice says whether somebody may read on from it: not how many commits there were."""
    return (
        {name: slice_[name] for name in ("offsets", "sections", MADE) if name in slice_}
        if slice_.get("offsets") is not None
        else dict(slice_)
    )


@dataclass(frozen=True)
class FilledTables:
    """The tables of one section of a task, as the intent says, and what was read for that."""

    tables: SideTables
    read: Filled


_WARM = WarmTables()


@dataclass(frozen=True)
class EpochTables:
    """The tables of a task that side inputs feed, in one epoch, as its intent says.

    ``streams`` are the side inputs without their slices (the intent has those); ``source`` names the program, and so the attempt that
    keeps the tables.
    """

    root: str
    source: str
    program: StageProgram
    systems: Mapping[str, System]
    streams: Mapping[str, BoundStream]
    intent: Intent
    task: int

    @contextmanager
    def filled(self, section: int) -> Iterator[FilledTables]:
        """The tables of a section, filled; they are kept for the next epoch when what is done with them ends well."""
        key = (self.root, self.source, self.task, section)
        tables = _WARM.take(key) or SideTables(self.program, section)
        yield FilledTables(tables, self.fill(tables))
        if tables.tables and not self.intent.whole:
            _WARM.keep(key, tables)

    def warm(self) -> int:
        """Fills the tables of all sections, which this process and its host then have. The bytes read."""
        taken = 0
        for section in self._sections():
            with self.filled(section) as found:
                taken += sum(report.bytes for report in found.read.inputs.values())
        return taken

    def prepare(self) -> None:
        """Reads what the tables of all sections shall hold into the folder of the host."""
        for section in self._sections():
            self.fill(SideTables(self.program, section), always=True)

    def fill(self, tables: SideTables, *, always: bool = False) -> Filled:
        """Reads what tables lack; on the host they are written when much of them is new, or anything (``always``)."""
        if not tables.tables:
            return Filled()
        wanted = {stream_id: self.intent.side_inputs[stream_id].slice for stream_id in tables.streams}
        host = HostTables(self.root, self.program, self.streams, self.task)
        host.open(tables, wanted)
        with host.alone(tables, wanted):
            reader = SideInputs(self.program, self.systems, self.streams, self.intent, self._is_there)
            try:
                read = tables.fill(reader.of(tables, self.task))
            finally:
                reader.close()
            host.keep(tables, {stream_id: report.messages for stream_id, report in read.inputs.items()}, always=always)
        return read

    def _is_there(self, path: str) -> bool:
        return open_filesystem(self.root).exists(path)

    def _sections(self) -> list[int]:
        return [number for number, section in enumerate(self.program.sections) if section.kind == TASK]
