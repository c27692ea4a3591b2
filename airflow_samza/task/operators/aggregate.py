"""Aggregation by key, emitted at end-of-stream: partial results per batch, merged before they outgrow the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import Schema
from airflow_samza.task.operators.accumulators import same_key
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.partial_groups import BY_VALUES, RAW_ROWS, PartialGroups, accumulators_of

if TYPE_CHECKING:
    import pyarrow as pa

_OUT_ROWS = 1 << 16
"""Rows of an emitted batch."""


class Aggregate(Operator[AggregateSpec]):
    """A row per key at the end: the key columns, then the aggregations; keys in no particular order.

    ``inputs`` is the schema of the messages; ``combined``: partial results come instead of them (see ``combiner``).
    """

    def __init__(self, spec: AggregateSpec, inputs: Schema, output: Schema, *, combined: bool = False) -> None:
        super().__init__(spec, inputs, output)
        self._combined = combined
        self._groups = PartialGroups(spec, accumulators_of(spec, inputs, output), self._keep_values)
        self._values = {a.name: _Values(a, len(spec.key)) for a in spec.aggregations if a.function in BY_VALUES}

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Add messages to the groups; results come at the end."""
        if self._combined:
            self._groups.add_partials(batch)
            return ()
        self._groups.add(batch)
        return ()

    def _keep_values(self, keys: list[Any], batch: pa.RecordBatch) -> None:
        for values in self._values.values():
            values.add(keys, batch.column(values.aggregation.column))

    def snapshot(self) -> dict[str, pa.Table]:
        """The partial results, and the values that are kept as they are, by output column."""
        groups = self._groups.held()
        if groups is None:
            return {}
        return {"groups": groups, **{f"values:{name}": values.held() for name, values in self._values.items()}}

    def restore(self, tables: Mapping[str, pa.Table]) -> None:
        """Takes over what :meth:`snapshot` gave."""
        self._groups.take_back(tables["groups"])
        for name, values in self._values.items():
            values.take_back(tables[f"values:{name}"])

    def flush(self) -> Iterator[pa.RecordBatch]:
        """A row per key."""
        import pyarrow as pa

        assert self.output is not None
        groups = self._groups.merged()
        if groups is None:
            return
        keys = [groups.column(place) for place in range(len(self.spec.key))]
        columns = {field.name: column for field, column in zip(self.output.fields, keys, strict=False)}
        place = len(keys)
        for accumulator in self._groups.accumulators:
            parts = [groups.column(place + n).combine_chunks() for n in range(len(accumulator.parts))]
            place += len(parts)
            columns[accumulator.output.name] = self._groups.guarded(lambda a=accumulator, p=parts: a.final(p))
        for name, values in self._values.items():
            columns[name] = values.final(keys)
        schema = self.output.to_arrow()
        table = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_OUT_ROWS)


class _Values:
    """The values of each key: distinct ones (count_distinct), or all in order (collect)."""

    def __init__(self, aggregation: Aggregation, keys: int) -> None:
        self.aggregation = aggregation
        self._names = [f"k{place}" for place in range(keys)]
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._merged = 0

    def add(self, keys: list[Any], column: pa.Array) -> None:
        """Take rows in."""
        import pyarrow as pa

        table = pa.table([*keys, same_key(column)], [*self._names, "v"])
        if column.null_count:
            table = table.filter(column.is_valid())
        if self.aggregation.function == "count_distinct":
            table = self._distinct(table)
        self._tables.append(table)
        self._rows += table.num_rows
        if self.aggregation.function == "count_distinct" and self._rows > max(4 * self._merged, 4 * RAW_ROWS):
            self._tables = [self._distinct(pa.concat_tables(self._tables))]
            self._rows = self._merged = self._tables[0].num_rows

    def held(self) -> pa.Table:
        """Return the values kept, as one table."""
        import pyarrow as pa

        return pa.concat_tables(self._tables)

    def take_back(self, table: pa.Table) -> None:
        """Take over what :meth:`held` gave."""
        self._tables.append(table)
        self._rows += table.num_rows
        self._merged += table.num_rows

    def _distinct(self, table: pa.Table) -> pa.Table:
        return table.group_by([*self._names, "v"], use_threads=False).aggregate([])

    def final(self, keys: list[Any]) -> pa.Array:
        """The number of values, or the values, per key in the order of ``keys``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.concat_tables(self._tables)
        if self.aggregation.function == "count_distinct":
            rows = self._distinct(rows)
        # One row without a value per key, before all others, so that keys without values are there, too. Arrow gives
        # groups in no order that it promises, so that row's number identifies its group.
        count = len(keys[0])
        nothing = pa.nulls(count, rows.schema.field("v").type)
        first = pa.table([*keys, nothing, pa.array(range(count), pa.int64())], [*self._names, "v", "row"])
        rows = rows.append_column("row", pa.nulls(rows.num_rows, pa.int64()))
        table = pa.concat_tables([first, rows]).combine_chunks().group_by(self._names, use_threads=False)
        function = "count" if self.aggregation.function == "count_distinct" else "list"
        groups = table.aggregate([("v", function), ("row", "min")])
        values = (
            groups.column(f"v_{function}")
            .combine_chunks()
            .take(pc.array_sort_indices(groups.column("row_min").combine_chunks()))
        )
        return values if function == "count" else pc.list_slice(values, 1)
