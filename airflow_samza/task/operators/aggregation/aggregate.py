"""Aggregation by key, emitted at end-of-stream: partial results per batch, merged before they outgrow the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.control.watermarks import NONE_YET
from airflow_samza.schema import Schema
from airflow_samza.task.operators.aggregation.accumulators import key_codes
from airflow_samza.task.operators.aggregation.list_parts import Groups, list_part
from airflow_samza.task.operators.aggregation.partial_groups import PartialGroups, accumulators_of, part_names
from airflow_samza.task.operators.operator import Operator

_OUT_ROWS = 1 << 16
"""Rows of an emitted batch."""

_VALUES = "values:"
"""The beginning of the names of tables in which former versions kept the values of a list, a row for each."""


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
        values = {name.removeprefix(_VALUES): table for name, table in tables.items() if name.startswith(_VALUES)}
        groups = tables["groups"]
        self._groups.take_back(self._with_lists(groups, values) if values else groups)

    def _with_lists(self, groups: pa.Table, values: Mapping[str, pa.Table]) -> pa.Table:
        """Partial results as former versions kept them, with the lists that they kept apart."""
        count = len(self.spec.key)
        keys = [column.combine_chunks() for column in groups.columns[:count]]
        plain = iter(groups.columns[count:])
        parts: list[Any] = []
        for accumulator in self._groups.accumulators:
            kept = values.get(accumulator.output.name)
            if kept is None:
                parts += [next(plain) for _ in accumulator.parts]
            else:
                parts.append(_lists_of(accumulator.parts[0].first, keys, kept))
        return pa.table([*keys, *parts], part_names(count, len(parts)))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """A row per key."""
        assert self.output is not None
        groups = self._groups.merged()
        if groups is None:
            return
        keys = groups.columns[: len(self.spec.key)]
        columns = {field.name: column for field, column in zip(self.output.fields, keys, strict=False)}
        columns |= self._groups.grouping.final(groups)
        schema = self.output.to_arrow()
        table = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_OUT_ROWS)


def _lists_of(function: str, keys: list[pa.Array], kept: pa.Table) -> pa.Array:
    """A list for each row of ``keys``, of the values that are kept beside the same key."""
    columns = [column.combine_chunks() for column in kept.columns]
    together = [pa.concat_arrays([one, other]) for one, other in zip(keys, columns, strict=False)]
    owners = key_codes(together, len(keys[0]) + kept.num_rows)[len(keys[0]) :]
    counts = np.bincount(owners, minlength=len(keys[0]))
    return list_part(function, columns[-1], Groups(np.argsort(owners, kind="stable"), counts))
