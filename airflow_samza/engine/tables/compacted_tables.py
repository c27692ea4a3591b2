"""Tables of compacted topics that no longer are what they were when the run was planned (rule S1; decision 93).

A compacted topic may lose the value that a key had at the planned head, once a later one has come. Within the time that
the topic promises to keep such values nothing is lost. Behind it, a clear compares its rows with those that the stage
has had before, and the first read looks whether keys come behind the head that are not in front of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.times import duration_text
from airflow_samza.errors import TopicError
from airflow_samza.planner.wording import count_text
from airflow_samza.prepare.task_side_inputs import COMPACTION, SideInputs
from airflow_samza.runs.records.epoch_records import Intent, Manifest
from airflow_samza.runs.records.folders import StageFolder, read_fixed
from airflow_samza.runs.records.names import Generation
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import MessageRun
from airflow_samza.task.loop.side_tables import SideTable, SideTables
from airflow_samza.task.loop.task_tables import Filled

log = logging.getLogger(__name__)

BEHIND = "keys_behind_the_planned_head"
"""The metric of keys that came to a compacted side input behind the planned head, and are not in its table.

This, a dot, and the stream's id.
"""


@dataclass(frozen=True)
class CompactionCheck:
    """Checks the tables of a task in the first epoch of a stage; ``folder`` has the records of this generation."""

    files: Filesystem
    folder: StageFolder
    intent: Intent
    task: int

    def of(self, tables: SideTables, read: Filled, reader: SideInputs) -> None:
        """Reject tables with other rows than before; warn of keys that may be lost, and count them in ``read``."""
        now = time.time() * 1000
        slices = {stream_id: self.intent.side_inputs[stream_id].slice for stream_id in tables.streams}
        due = [
            stream_id
            for stream_id, slice_ in slices.items()
            if COMPACTION in slice_ and now >= slice_[COMPACTION]["planned"] + slice_[COMPACTION]["keeps_ms"]
        ]
        if not due or self._has_former(tables, due):
            return
        for stream_id in due:
            report = read.inputs.get(stream_id)
            if report is None or not report.messages:
                continue  # it was on the host: who read it has looked
            count = _keys_behind(reader, tables, stream_id, slices[stream_id], list(report.next_offsets))
            if count:
                read.metrics[f"{BEHIND}.{stream_id}"] = count
                _warn(stream_id, slices[stream_id], count)

    def _has_former(self, tables: SideTables, streams: Sequence[str]) -> bool:
        """Return whether a former generation of the stage has read the same; reject tables with other rows than its."""
        stages, _, name = self.folder.path.rpartition("/")
        mine = Generation.parse(name)
        for former in sorted(map(Generation.parse, self.files.list(stages)), reverse=True):
            if former.plan != mine.plan or former >= mine:
                continue
            former_folder = StageFolder(f"{stages}/{former}")
            intent = read_fixed(self.files, former_folder.intent(self.intent.epoch), Intent)
            manifest = read_fixed(self.files, former_folder.manifest(self.intent.epoch, self.task), Manifest)
            if intent is None or manifest is None or intent.side_inputs != self.intent.side_inputs:
                continue
            kept_tables = manifest.report.get("tables", {})
            for table in tables.tables:
                fed = [stream_id for stream_id in streams if stream_id in table.table.side_inputs]
                rows = kept_tables.get(table.table.table_id, {}).get("rows")
                if fed and rows is not None and int(rows) != table.store.count:
                    raise _other_rows(table, fed[0], self.intent.stage, int(rows))
            return True
        return False


def _keys_behind(
    reader: SideInputs, tables: SideTables, stream_id: str, slice_: Mapping[str, Any], partitions: Sequence[int]
) -> int:
    """Return how many messages behind the planned head have keys that are in no table of the stream."""
    rows = [table for table in tables.tables if stream_id in table.table.side_inputs and table.table.processor is None]
    keys = 0
    for partition in partitions if rows else ():
        for envelope in reader.behind(stream_id, partition, slice_):
            if isinstance(envelope, MessageRun):
                keys += max(table.lacking(stream_id, envelope) for table in rows)
    return keys


def _warn(stream_id: str, slice_: Mapping[str, Any], count: int) -> None:
    """Log that a table may not be what the topic held when the run was planned."""
    how = slice_[COMPACTION]
    log.warning(
        "Of the side input %r, %s behind the planned head %s keys that are not in its table: these are new, or the "
        "topic was compacted since the run was planned, and what they were then is gone. It promises to keep that for "
        "%s (min.compaction.lag.ms): make that as long as stages may begin behind their plan.",
        stream_id,
        count_text(count, "message"),
        "has" if count == 1 else "have",
        duration_text(how["keeps_ms"]),
    )


def _other_rows(table: SideTable, stream_id: str, stage: str, before: int) -> TopicError:
    name = table.table.table_id
    return TopicError(
        f"The table {name!r} had {count_text(before, 'row')} when the stage {stage!r} read its side input "
        f"{stream_id!r} for this run, and has {table.store.count:,} now: the topic was compacted since, and values "
        "that were overwritten after the plan are gone.",
        hint="Clear the plan task with its downstream tasks: the run then reads the topic as it is now. To clear "
        "stages for longer, set min.compaction.lag.ms of the topic to that time, or "
        "push the table, which keeps versions.",
        stream=stream_id,
        table=name,
    )
