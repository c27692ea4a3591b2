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
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_samza.config import STORE_LOCAL_DIR
from airflow_samza.runs.epoch_records import Intent
from airflow_samza.runs.run_plan import BoundStream
from airflow_samza.spark.task_side_inputs import MADE, SideInputs
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores, default_folder
from airflow_samza.storage.offsets_file import LocalOffsets, OffsetsFile
from airflow_samza.systems.system import System
from airflow_samza.task.side_tables import SideTable, SideTables
from airflow_samza.task.stage_program import StageProgram
from airflow_samza.task.task_tables import Filled

log = logging.getLogger("airflow_samza.tables")

_SHARE = 8
"""A table is written to the host's folder again when more than this part of it is new: a row is then written about this many times."""

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
        self._stores = LocalStores(default_folder(root, program.spec.config.get(STORE_LOCAL_DIR)))
        self._program = program
        self._streams = streams
        self._task = task
        self._stored_rows: dict[str, int] = {}

    def open(self, tables: SideTables) -> None:
        """Takes over what lies here of tables that hold nothing yet, and how far it has been read."""
        for table in tables.tables:
            if not self._is_kept(table) or table.reached:
                continue
            local = self._file(table).read()
            base = self._stores.find(self._name(table), self._task, str(local.store["version"])) if local is not None else None
            if local is None or base is None:
                continue
            table.store.start_from(base)
            table.reached = {place: last + 1 for place, last in local.offsets.items()}
            for stream_id, source in local.store["sources"].items():
                tables.sources.setdefault(stream_id, source)
            self._stored_rows[table.table.table_id] = len(base)

    def keep(self, tables: SideTables, read: Mapping[str, int]) -> None:
        """Writes tables of which much is new; ``read`` are the messages read of each stream."""
        for table in tables.tables:
            new = sum(read.get(stream_id, 0) for stream_id in table.table.side_inputs)
            if not self._is_kept(table) or not new or new * _SHARE <= self._stored_rows.get(table.table.table_id, 0):
                continue
            version = self._version(table, tables.sources)
            rows = table.store.rows
            self._stores.columnar(self._name(table), self._task, version, partial(ColumnarTable.of, rows, table.store.key))
            sources = {stream_id: _told(tables.sources[stream_id]) for stream_id in table.table.side_inputs}
            offsets = {place: offset - 1 for place, offset in table.reached.items()}
            self._file(table).write(LocalOffsets(offsets, {"version": version, "sources": sources}))
            self._stored_rows[table.table.table_id] = int(rows.num_rows)

    @staticmethod
    def _is_kept(table: SideTable) -> bool:
        # What a processor makes of messages depends on its code, which nobody can compare.
        return table.table.processor is None

    def _file(self, table: SideTable) -> OffsetsFile:
        return OffsetsFile(os.path.join(self._stores.folder, self._name(table), str(self._task), "OFFSETS"))

    def _name(self, table: SideTable) -> str:
        """Of a table's folder: whoever reads the same streams into the same columns by the same key may use it."""
        streams = [(self._streams[s].system, self._streams[s].spec.name) for s in sorted(table.table.side_inputs)]
        told = json.dumps(
            [streams, table.store.schema.ddl(), table.store.key, self._program.plan.stage(self._program.stage.stage_id).task_count]
        )
        return f"{table.table.table_id[:60]}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"

    def _version(self, table: SideTable, sources: Mapping[str, Mapping[str, Any]]) -> str:
        read: list[Any] = [[*place, offset] for place, offset in sorted(table.reached.items())]
        told = json.dumps([read, {stream_id: _told(sources[stream_id]) for stream_id in sorted(table.table.side_inputs)}], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:32]


def _told(slice_: Mapping[str, Any]) -> dict[str, Any]:
    """What of a slice says whether somebody may read on from it: not how many commits there were."""
    return {name: slice_[name] for name in ("offsets", "sections", MADE) if name in slice_}


@dataclass(frozen=True)
class FilledTables:
    """The tables of one section of a task, as the intent says, and what was read for that."""

    tables: SideTables
    read: Filled


_WARM = WarmTables()


@contextmanager
def filled_tables(
    root: str,
    source: str,
    program: StageProgram,
    systems: Mapping[str, System],
    streams: Mapping[str, BoundStream],
    intent: Intent,
    task: int,
    section: int,
) -> Iterator[FilledTables]:
    """Fills the tables of a section; they are kept for the next epoch when what is done with them ends well.

    ``source`` names the program, and so the attempt that keeps them.
    """
    key = (root, source, task, section)
    tables = _WARM.take(key)
    host = HostTables(root, program, streams, task)
    if tables is None:
        tables = SideTables(program, section)
        host.open(tables)
    reader = SideInputs(program, systems, streams, intent)
    try:
        read = tables.fill(reader.of(tables, task))
    finally:
        reader.close()
    if tables.tables:
        host.keep(tables, {stream_id: report.messages for stream_id, report in read.inputs.items()})
    yield FilledTables(tables, read)
    if tables.tables and not intent.whole:
        _WARM.keep(key, tables)
