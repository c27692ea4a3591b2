"""Tables of side inputs that a worker process or its host has read already, and from which it reads on (rules S3, S4).

A worker keeps the tables of the tasks that it ran last. Beside that, tables lie in the host's folder of stores
(``host_tables.py``): any process of the host maps them into memory. Each try at a task asks it for the tables that it
needs. Of pushed tables of which messages may need several versions all are read before the first message (rule S7). The
host keeps what they make, under the name of just these versions. Else each section of the topic is read once, whichever
versions have it, and what a task has read is kept for its next epoch.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from airflow_samza.engine.tables.compacted_tables import CompactionCheck
from airflow_samza.engine.tables.host_tables import HostTables
from airflow_samza.engine.tables.sorted_versions import may_be_searched, search_in
from airflow_samza.planner.wording import count_text
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY, SideInputs
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.folders import StageFolder
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.runs.tables.pins import (
    CURRENT_NUMBER,
    HISTORY,
    numbers_in,
    sections_in,
    slice_of_sections,
)
from airflow_samza.storage.timed_rows import RowVersions
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import MessageRun, System
from airflow_samza.task.loop.side_tables import SideTable, SideTables
from airflow_samza.task.loop.task_tables import Filled, side_partitions
from airflow_samza.task.program.stage_program import TASK, StageProgram
from airflow_samza.task.report import InputReport
from airflow_samza.task.tables.timed_store import Changes, HistoryStore, Section

log = logging.getLogger(__name__)

Slices = Mapping[str, Mapping[str, Any]]

_MOST_BYTES = 256 << 20
"""Of tables that a worker process keeps for tasks that it does not run now.

Those that are mapped from files cost it little more.
"""


class WarmTables:
    """The tables that this process keeps between epochs, each in the hands of one task at a time."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[Any, tuple[SideTables, int, bool]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, key: Any) -> SideTables | None:
        """Return the tables that were kept under a key; nobody else gets them until they are kept again."""
        with self._lock:
            tables = self._kept.pop(key, None)
            return tables[0] if tables is not None else None

    def keep(self, key: Any, tables: SideTables, *, elsewhere: bool = True) -> None:
        """Keep tables; forget those that nobody took longest, first those that the host keeps (``elsewhere``)."""
        size = sum(store.nbytes for store in tables.stores.values())
        with self._lock:
            self._kept[key] = (tables, size, elsewhere)
            while len(self._kept) > 1 and sum(bytes_ for _, bytes_, _ in self._kept.values()) > self._most:
                others = [name for name in self._kept if name != key]
                del self._kept[next((name for name in others if self._kept[name][2]), others[0])]


@dataclass(frozen=True)
class FilledTables:
    """The tables of one section of a task, as the intent names them, and what was read for that."""

    tables: SideTables
    read: Filled


_WARM = WarmTables()


@dataclass(frozen=True)
class EpochTables:
    """The tables of a task that side inputs feed, in one epoch, as its intent names them.

    ``streams`` are the side inputs without their slices (the intent has those); ``source`` names the program, and so
    the attempt that keeps the tables. ``digests`` are those of the tables with a processor that hosts may keep;
    ``folder`` has the records of the stage whose epoch it is (None: of none).
    """

    root: str
    source: str
    program: StageProgram
    systems: Mapping[str, System]
    streams: Mapping[str, BoundStream]
    intent: Intent
    task: int
    digests: Mapping[str, str] = field(default_factory=dict)
    folder: StageFolder | None = None

    @contextmanager
    def filled(self, section: int, *, lazily: bool = True) -> Iterator[FilledTables]:
        """Yield the tables of a section, filled; keep them for the next epoch unless the body fails.

        With ``lazily``, rows of long tables are read while they are looked up.
        """
        key = (self.root, self.source, self.task, section)
        tables = _WARM.take(key) or SideTables(self.program, section)
        try:
            yield FilledTables(tables, self.fill(tables, lazily=lazily))
            if any(table.unsaved for table in tables.tables):
                self._host.keep(tables)  # what was read whole meanwhile
        finally:
            for store in tables.stores.values():
                store.rest()
        if tables.tables and not self.intent.whole:
            _WARM.keep(key, tables, elsewhere=all(self._host.keeps(table) for table in tables.tables))

    def warm(self) -> int:
        """Fill the tables of all sections, which this process and its host then have; return the bytes read."""
        taken = 0
        for section in self._sections():
            with self.filled(section, lazily=False) as tables:
                taken += sum(report.bytes for report in tables.read.inputs.values())
        return taken

    def prepare(self) -> None:
        """Read what the tables of all sections shall hold into the folder of the host."""
        for section in self._sections():
            self.fill(SideTables(self.program, section), always=True)

    def fill(self, tables: SideTables, *, always: bool = False, lazily: bool = False) -> Filled:
        """Read what tables lack; on the host they are written when much of them is new, or anything (``always``).

        With ``lazily`` long tables are left to be read while rows are looked up.
        """
        if not tables.tables:
            return Filled()
        slices = {stream_id: self.intent.side_inputs[stream_id].slice for stream_id in tables.streams}
        host = self._host
        host.open(tables, slices)
        with (
            host.alone(tables, slices),
            closing(SideInputs(self.program, self.systems, self.streams, self.intent, self._is_marked)) as reader,
        ):
            histories = _with_histories(slices)
            inputs = [one for one in reader.of(tables, self.task) if one.stream_id not in histories]
            searched = [one for one in inputs if lazily and may_be_searched(tables, one, slices[one.stream_id])]
            read = tables.fill([replace(one, envelopes=()) if one in searched else one for one in inputs])
            for one in searched:
                search_in(tables, reader, one, slices[one.stream_id], read)
            places = {name: side_partitions(self.program, name, self.task) for name in histories}
            _fill_histories(tables, host, reader, slices, places, read)
            if self.folder is not None and self.intent.epoch == 0:
                files = open_filesystem(self.root)
                CompactionCheck(files, self.folder, self.intent, self.task).of(tables, read, reader)
            host.keep(tables, always=always)
        return read

    @property
    def _host(self) -> HostTables:
        return HostTables(self.root, self.program, self.streams, self.task, self.digests)

    def _is_marked(self, path: str) -> bool:
        return open_filesystem(self.root).exists(path)

    def _sections(self) -> list[int]:
        return [number for number, section in enumerate(self.program.sections) if section.kind == TASK]


def _with_histories(slices: Slices) -> set[str]:
    """Return the streams of which several versions are read."""
    return {stream_id for stream_id, slice_ in slices.items() if HISTORY in slice_}


def _fill_histories(
    tables: SideTables,
    host: HostTables,
    reader: SideInputs,
    slices: Slices,
    partitions: Mapping[str, Sequence[int]],
    filled: Filled,
) -> None:
    """Read the versions that tables lack; ``filled`` counts what is read, of the ``partitions`` of each stream."""
    for table in tables.tables:
        for stream_id in _with_histories({s: slices[s] for s in table.table.side_inputs}):
            report = filled.inputs.setdefault(stream_id, InputReport())
            _fill_history(table, host, reader, stream_id, slices[stream_id], partitions[stream_id], report)
            for partition in partitions[stream_id]:
                report.next_offsets[partition] = int(slices[stream_id]["offsets"][partition][1])


def _fill_history(
    table: SideTable,
    host: HostTables,
    reader: SideInputs,
    stream_id: str,
    slice_: Mapping[str, Any],
    partitions: Collection[int],
    report: InputReport,
) -> None:
    store = table.store
    assert isinstance(store, HistoryStore)
    history = slice_[HISTORY]
    wanted = [slice_.get(TOPIC_IDENTITY), history, slice_[CURRENT_NUMBER]]
    if store.held == wanted:
        return
    before = report.messages
    sections: dict[Section, Changes] = {}

    def read() -> RowVersions:
        same_topic = store.held is not None and store.held[0] == wanted[0]
        former = store.sections if same_topic else {}
        sections.update({section: former.get(section, []) for section in sections_in(slice_)})
        lacking = [section for section in sections if section not in former]
        if lacking:
            several = {**slice_of_sections(slice_, lacking), TOPIC_IDENTITY: wanted[0]}
            _read_sections(table, reader, stream_id, several, partitions, sections, report)
        return store.versions_of(history, sections)

    versions = host.history(table, slice_, read)
    store.hold(history, int(slice_[CURRENT_NUMBER]), versions)
    store.held, store.sections = wanted, sections
    numbers = numbers_in(slice_)
    source = f"read from {count_text(report.messages - before, 'message')}" if sections else "which the host keeps"
    log.info(
        "The table %r is joined as of event times: it has %s (%s), %s.",
        table.table.table_id,
        count_text(len(numbers), "version"),
        _in_words(numbers),
        source,
    )


def _read_sections(
    table: SideTable,
    reader: SideInputs,
    stream_id: str,
    slice_: Mapping[str, Any],
    partitions: Collection[int],
    sections: Mapping[Section, Changes],
    report: InputReport,
) -> None:
    """Read sections, all of a topic in one go, and add what they change."""
    for section, partition, envelope in reader.by_section(stream_id, slice_, partitions):
        if isinstance(envelope, MessageRun):
            report.messages += envelope.messages
            report.bytes += envelope.batch.nbytes
            sections[section].append(table.changes_in((stream_id, partition), envelope.batch))
        else:
            report.control_messages += envelope.messages


def _in_words(numbers: Sequence[int]) -> str:
    """Return numbers of versions, those that follow each other as a span: ``1 to 3, 5``."""
    runs = groupby(enumerate(sorted(numbers)), lambda placed: placed[1] - placed[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]} to {one[-1]}" for one in spans) or "none"
