"""All versions of pushed tables that messages may need, read before the first message (rule S7).

The host keeps what they make, under the name of just these versions. Else each section of the topic is read once,
whichever versions have it, and what a task has read is kept for its next epoch.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from airflow_samza.engine.tables.host_tables import HostTables
from airflow_samza.planner.wording import count_text
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY, SideInputs
from airflow_samza.runs.tables.pins import (
    CURRENT_NUMBER,
    HISTORY,
    numbers_in,
    sections_in,
    slice_of_sections,
)
from airflow_samza.storage.timed_rows import RowVersions
from airflow_samza.systems.system import MessageRun
from airflow_samza.task.loop.side_tables import SideTable, SideTables
from airflow_samza.task.loop.task_tables import Filled
from airflow_samza.task.report import InputReport
from airflow_samza.task.tables.timed_store import Changes, HistoryStore, Section

log = logging.getLogger(__name__)

Slices = Mapping[str, Mapping[str, Any]]


def with_histories(slices: Slices) -> set[str]:
    """Return the streams of which several versions are read."""
    return {stream_id for stream_id, slice_ in slices.items() if HISTORY in slice_}


def fill_histories(
    tables: SideTables,
    host: HostTables,
    reader: SideInputs,
    slices: Slices,
    partitions: Mapping[str, Sequence[int]],
    filled: Filled,
) -> None:
    """Read the versions that tables lack; ``filled`` counts what is read, of the ``partitions`` of each stream."""
    for table in tables.tables:
        for stream_id in with_histories({s: slices[s] for s in table.table.side_inputs}):
            report = filled.inputs.setdefault(stream_id, InputReport())
            _fill(table, host, reader, stream_id, slices[stream_id], partitions[stream_id], report)
            for partition in partitions[stream_id]:
                report.next_offsets[partition] = int(slices[stream_id]["offsets"][partition][1])


def _fill(
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
            _read(table, reader, stream_id, several, partitions, sections, report)
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


def _read(
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
