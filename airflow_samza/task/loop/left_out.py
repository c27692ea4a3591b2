"""Messages of a side input that cannot be read, or fit no row, and are left out of its tables (``on_error="drop"``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_samza.errors import SchemaError
from airflow_samza.quoting import are_shown
from airflow_samza.storage.side_inputs import Place
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.system import UnreadableRun
from airflow_samza.task.loop.task_tables import Filled
from airflow_samza.task.messages.bad_records import SAMPLES
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.user_errors import cut_short

if TYPE_CHECKING:
    import pyarrow as pa


class LeftOut:
    """The messages that one table leaves out: how many of each side input, and some of them for people."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._counts: dict[str, int] = {}
        self._samples: list[str] = []

    def unreadable(self, place: Place, run: UnreadableRun) -> None:
        """Leave out messages that their serde cannot read."""
        for number, (text, error) in enumerate(zip(run.texts, run.errors, strict=True)):
            self._leave(place, run.offset + number, error, text)

    def fitting(
        self, place: Place, batch: pa.RecordBatch, conformer: SchemaConformer, offset: int | None
    ) -> list[tuple[int, pa.RecordBatch]]:
        """Return the rows that fit, in pieces with the place of each in the batch; leave the others out.

        ``offset`` is that of the first row; None: they do not follow each other. A column that is missing, or of
        another type, is no message's fault: it is an error.
        """
        conformer.conform(batch.slice(0, 0))
        pieces = []
        waiting = [(0, batch)]
        while waiting:
            first, rows = waiting.pop()
            try:
                pieces.append((first, conformer.conform(rows)))
            except SchemaError as error:
                if rows.num_rows == 1:
                    at = None if offset is None else offset + first
                    self._leave(place, at, error.sentence, to_lines(decoded(rows)).decode().rstrip("\n"))
                else:
                    middle = rows.num_rows // 2
                    waiting += [(first + middle, rows.slice(middle)), (first, rows.slice(0, middle))]
        return pieces

    def report(self, filled: Filled) -> None:
        """Add what was left out since the last report."""
        for stream_id, count in self._counts.items():
            name = f"dropped_messages.{stream_id}"
            filled.metrics[name] = filled.metrics.get(name, 0) + count
        filled.bad_samples += self._samples
        self._counts, self._samples = {}, []

    def _leave(self, place: Place, offset: int | None, error: str, text: str) -> None:
        stream_id, partition = place
        self._counts[stream_id] = self._counts.get(stream_id, 0) + 1
        if len(self._samples) < SAMPLES and are_shown():
            at = "" if offset is None else f", offset {offset}"
            self._samples.append(
                f"side input {stream_id!r} of table {self._table!r} (partition {partition}{at}): {cut_short(error)}: "
                f"{cut_short(text)}"
            )
