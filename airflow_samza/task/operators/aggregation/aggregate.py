"""Aggregation by key, emitted at end-of-stream: partial results per batch, merged before they outgrow the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.operators.aggregation.partial_groups import PartialGroups, accumulators_of
from airflow_samza.task.operators.operator import Operator


class Aggregate(Operator[AggregateSpec]):
    """A row per key at the end: the key columns, then the aggregations; keys in no particular order.

    ``inputs`` is the schema of the messages; ``combined``: partial results come instead of them (see ``combiner``).
    """

    def __init__(self, spec: AggregateSpec, inputs: Schema, output: Schema, *, combined: bool = False) -> None:
        super().__init__(spec, inputs, output)
        self._combined = combined
        self._groups = PartialGroups(spec, accumulators_of(spec, inputs, output))

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Add messages to the groups; results come at the end."""
        if self._combined:
            self._groups.add_partials(batch)
        else:
            self._groups.add(batch)
        return ()

    def output_watermark(self, timestamp: int) -> int:
        """Return none before the end where the rows have an event time: they come at the end, and lie before it."""
        return timestamp if self.spec.event_time is None else NONE_YET

    def snapshot(self) -> dict[str, pa.Table]:
        """The partial results."""
        groups = self._groups.held()
        return {} if groups is None else {"groups": groups}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        self._groups.take_back(tables["groups"])

    def flush(self) -> Iterator[pa.RecordBatch]:
        """A row per key."""
        groups = self._groups.merged()
        if groups is None:
            return
        keys = groups.columns[: len(self.spec.key)]
        columns = dict(zip(self.spec.key, keys, strict=True))
        columns |= self._groups.grouping.final(groups)
        yield from self.emitted(columns)
