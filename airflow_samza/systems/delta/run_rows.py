"""Rows of runs by the column that names them, and the data files that have some of them, written without them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.planning import TableFile, files_of
from airflow_samza.systems.delta.reading import DeltaConsumer
from airflow_samza.systems.delta.slicing import described_range
from airflow_samza.systems.delta.state import AddedFile, TableState
from airflow_samza.systems.delta.writing import fix_target
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import ColumnBound, MessageRun, StreamSpec, SystemStreamPartition
from airflow_samza.systems.tables.output import TableProducer
from airflow_samza.systems.tables.output_target import OutputTarget


class RunRows:
    """Rows that a commit takes out of a state of a table, by the names in the column ``column``.

    ``files`` are the data files that have some of them; only those of them are rewritten that have others, too.
    """

    def __init__(self, log: DeltaLog, state: TableState, column: str) -> None:
        self._log = log
        self._state = state
        self._columns = TableColumns.of(log, state)
        self._column = column
        self._names = set[str]()
        self._mixed: dict[str, TableFile] = {}
        self.files: dict[str, AddedFile] = {}

    def take(self, names: Collection[str], rows: int) -> bool:
        """Have the rows of some names taken out, if there are as many as that."""
        if self._column not in self._columns.physical:
            return False
        bound = ColumnBound(self._column, "in", tuple(sorted(names)))
        counts = {}
        for file in files_of(self._log, self._state.files, self._columns, [bound], None):
            found = [batch.column(0) for batch in self.batches(file, [self._column])]
            others = sum(pc.sum(pc.invert(_are_in(one, names))).as_py() or 0 for one in found)
            count = sum(map(len, found)) - others
            if count:
                counts[file.path] = (file, count, others)
        if sum(count for _, count, _ in counts.values()) != rows:
            return False
        self._names.update(names)
        live = {file.path: file for file in self._state.files}
        self.files.update({path: live[path] for path in counts})
        self._mixed.update({path: file for path, (file, _, others) in counts.items() if others})
        return True

    def rest(self, producer: TableProducer) -> dict[str, Any]:
        """Write the other rows of the files by a producer, and return what it has staged."""
        for file in self._mixed.values():
            for batch in self.batches(file, None):
                place = batch.schema.get_field_index(self._column)
                producer.write(0, batch.filter(pc.invert(_are_in(batch.column(place), self._names))))
        return producer.finish()

    def producer(self, folder: Location) -> TableProducer:
        """Return a producer of the other rows, under a name that no run has: so a run's record counts none of them."""
        target = OutputTarget.of(fix_target(self._log, self._state, self._columns, ""))
        return TableProducer(folder, StreamSpec(self._log.stream), f"rewritten-{uuid.uuid4().hex}", target)

    def batches(self, file: TableFile, names: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file, without deleted ones."""
        stream = StreamSpec(self._log.stream, partitions=1)
        described = described_range(self._log, stream, self._state, self._columns, [file])
        range_ = {**described, "partitions": 1, "offsets": None, "splits": [[[0, 0, None]]]}
        consumer = DeltaConsumer(self._log.table, stream, range_)
        for envelope in consumer.read(SystemStreamPartition("", stream.name, 0), None, names):
            if isinstance(envelope, MessageRun):
                yield envelope.batch


def _are_in(column: pa.Array, names: Collection[str]) -> pa.Array:
    return pc.is_in(column, pa.array(sorted(names), column.type))
