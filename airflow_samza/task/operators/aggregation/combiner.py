"""The combiner: a partition_by whose only reader aggregates sends partial results per key instead of messages.

Before tumbling and hopping windows of event time they are results per key and slice of time. The compiler of a stage
puts it before a ``partition_by``; results of intervals are kept in its form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from airflow_samza.application.operator_spec import KeyedResultSpec, OperatorSpec
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.messages.event_times import timed_messages
from airflow_samza.task.messages.output_writers import OutputWriter
from airflow_samza.task.operators.aggregation.partial_groups import PartialGroups, accumulators_of
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.windows.fixed import START_COLUMN, placed_in_windows
from airflow_samza.task.operators.windows.grids import slices_of

MOST_ROWS = 1 << 20
"""Partial results held at a time; more are sent and begun anew, so that memory stays bounded."""

TRIED_ROWS = 1 << 19
"""Messages after which it is checked whether combining pays."""

WORTH = 0.75
"""It pays where partial results are fewer than this share of the messages.

Else each message is sent as a partial result of its own.
"""


@dataclass(frozen=True)
class Combining:
    """The task of a combiner: its aggregation, the schemas of messages and results, and that of what is ``sent``."""

    aggregate: KeyedResultSpec
    messages: Schema
    output: Schema
    sent: Schema


class Combiner(Operator[OperatorSpec]):
    """Sends partial results to the stream of a partition_by."""

    def __init__(self, spec: OperatorSpec, combining: Combining, writer: OutputWriter) -> None:
        super().__init__(spec, combining.messages, None)
        self._writer = writer
        self._arrow = combining.sent.to_arrow()
        accumulators = accumulators_of(combining.aggregate, combining.messages, combining.output)
        aggregate = combining.aggregate
        self._window = aggregate if isinstance(aggregate, WindowOperatorSpec) else None
        self._slices = None if self._window is None else slices_of(self._window.window, self._window.aggregations)
        self._without_time = 0
        key = aggregate.key if self._window is None else (*aggregate.key, START_COLUMN)
        self._groups = PartialGroups(aggregate, accumulators, key=key)
        self._seen = 0
        self._sent = 0  # new keys that were sent since the last look
        self._held = 0  # keys that were held at the last look
        self._pays = True

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Add messages to the groups, or send each as a partial result where combining does not pay."""
        if self._window is not None and self._slices is not None:
            what = f"input of {self._window.title}"
            batch, times, without = timed_messages(batch, self.input, self._window.time_column, what)
            self._without_time += without
            batch = placed_in_windows(batch, times, self._slices, NONE_YET)
        if not self._pays:
            columns = self._groups.grouping.guarded(lambda: list(self._groups.singles(batch)))
            self._send(pa.Table.from_arrays(columns, self._arrow.names))
            return ()
        self._groups.add(batch)
        self._seen += batch.num_rows
        if self._groups.rows >= MOST_ROWS:
            self._flush()
        if self._seen >= TRIED_ROWS:
            self._look()
        return ()

    def take(self, partials: pa.RecordBatch) -> None:
        """Add partial results that a combiner like this one has sent."""
        self._groups.add_partials(partials)
        if self._groups.rows >= MOST_ROWS:
            self._flush()

    def metrics(self) -> Mapping[str, float]:
        """Messages that are in no window."""
        return {} if self._window is None else {"messages_without_time": self._without_time}

    def _look(self) -> None:
        """Stops combining when the messages since the last look brought too many new keys (decision 7)."""
        held = self._groups.distinct()
        new = held - self._held + self._sent  # new keys
        if new > WORTH * self._seen:
            self._flush()
            self._pays = False
        self._seen, self._sent, self._held = 0, 0, held

    def settle(self) -> Iterable[pa.RecordBatch]:
        """Sends what is left, whether the end is final or not: nothing is kept for a later epoch or slice."""
        self._flush()
        return ()

    def _flush(self) -> None:
        table = self._groups.merged()
        if table is not None:
            self._sent += table.num_rows - self._held
            self._held = 0
            self._send(table)

    def _send(self, table: pa.Table) -> None:
        for batch in table.rename_columns(self._arrow.names).cast(self._arrow).combine_chunks().to_batches():
            self._writer.write(batch)
