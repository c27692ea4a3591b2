"""Aggregation by key, emitted at end-of-stream: partial results per batch, merged before they outgrow the keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import DataType, Schema
from airflow_samza.task.expressions.expression import EvaluationFailure
from airflow_samza.task.operators.accumulators import Accumulator, Part, as_bigint, checked_sum_input, same_key
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.stateless import evaluation_failed

if TYPE_CHECKING:
    import pyarrow as pa

_RAW_ROWS = 1 << 16
"""Rows collected before a partial result is made: a group-by costs a fixed fraction of a millisecond."""

_OUT_ROWS = 1 << 16
"""Rows of an emitted batch."""

_OF_PLACES = {"first": "min", "last": "max"}
"""Functions that are asked of row numbers: so they work for every type."""

_BIGINT = DataType("bigint")

_BY_VALUES = ("count_distinct", "collect")


class Aggregate(Operator[AggregateSpec]):
    """A row per key at the end: the key columns, then the aggregations; keys in the order in which they first came."""

    def __init__(self, spec: AggregateSpec, inputs: Schema, output: Schema) -> None:
        super().__init__(spec, inputs, output)
        self._accumulators = [
            Accumulator(a, inputs[a.column].type if a.column is not None else None, output[a.name])
            for a in spec.aggregations
            if a.function not in _BY_VALUES
        ]
        self._values = {a.name: _Values(a, len(spec.key)) for a in spec.aggregations if a.function in _BY_VALUES}
        wanted = dict.fromkeys([*spec.key, *(a.column for a in spec.aggregations if a.column is not None)])
        self._columns = list(wanted)
        self._raw: list[pa.RecordBatch] = []
        self._raw_rows = 0
        self._partials: list[pa.Table] = []
        self._partial_rows = 0
        self._merged_rows = 0

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """Nothing yet."""
        self._raw.append(batch.select(self._columns))
        self._raw_rows += batch.num_rows
        if self._raw_rows >= _RAW_ROWS:
            self._condense()
        return ()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """A row per key."""
        import pyarrow as pa

        assert self.output is not None
        self._condense()
        self._merge()
        if not self._partials:
            return
        groups = self._partials[0]
        self._partials = []
        keys = [groups.column(place) for place in range(len(self.spec.key))]
        columns = {field.name: column for field, column in zip(self.output.fields, keys, strict=False)}
        place = len(keys)
        for accumulator in self._accumulators:
            parts = [groups.column(place + n).combine_chunks() for n in range(len(accumulator.parts))]
            place += len(parts)
            columns[accumulator.output.name] = self._guarded(lambda a=accumulator, p=parts: a.final(p))
        for name, values in self._values.items():
            columns[name] = values.final(keys)
        schema = self.output.to_arrow()
        table = pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)
        yield from table.combine_chunks().to_batches(max_chunksize=_OUT_ROWS)

    def _guarded(self, compute: Any) -> Any:
        try:
            return compute()
        except EvaluationFailure as failure:
            text = ", ".join(f"{a.name}={a.function}({a.column or ''})" for a in self.spec.aggregations)
            raise evaluation_failed(self.spec, text, failure) from None

    def _condense(self) -> None:
        """Make a partial result of the rows collected so far."""
        import pyarrow as pa

        if not self._raw_rows:
            return
        rows = pa.Table.from_batches(self._raw).combine_chunks()
        batch = rows.to_batches()[0]
        self._raw, self._raw_rows = [], 0
        keys = [same_key(batch.column(name)) for name in self.spec.key]
        for values in self._values.values():
            values.add(keys, batch.column(values.aggregation.column))
        inputs: list[Any] = []
        parts: list[Part] = []
        for accumulator in self._accumulators:
            for part in accumulator.parts:
                column = accumulator.aggregation.column
                inputs.append(accumulator.prepared(part.source, batch.column(column)) if column is not None else None)
                parts.append(part)
        partial = self._grouped(keys, inputs, [part.first for part in parts])
        self._partials.append(partial)
        self._partial_rows += partial.num_rows
        if self._partial_rows > max(4 * self._merged_rows, 4 * _RAW_ROWS):
            self._merge()

    def _merge(self) -> None:
        """Make one partial result of all; what came first stays first."""
        import pyarrow as pa

        if len(self._partials) > 1:
            together = pa.concat_tables(self._partials).combine_chunks()
            count = len(self.spec.key)
            columns = [column.combine_chunks() for column in together.columns]
            functions = [part.merge for accumulator in self._accumulators for part in accumulator.parts]
            self._partials = [self._grouped(columns[:count], columns[count:], functions)]
        self._partial_rows = self._merged_rows = self._partials[0].num_rows if self._partials else 0

    def _grouped(self, keys: list[Any], inputs: list[Any], functions: list[str]) -> pa.Table:
        import pyarrow as pa

        whole = [column is not None and column.type == pa.int64() for column in inputs]
        inputs = [
            checked_sum_input(column) if function == "sum" and is_whole else column
            for function, column, is_whole in zip(functions, inputs, whole, strict=True)
        ]
        names = [f"k{place}" for place in range(len(keys))]
        asked: list[Any] = []
        columns = list(keys)
        columns_names = list(names)
        results = []
        for place, (function, column) in enumerate(zip(functions, inputs, strict=True)):
            if column is None:
                asked.append(([], function))
                results.append(function)
                continue
            kernel = _OF_PLACES.get(function, function)
            columns.append(_places(column) if function in _OF_PLACES else column)
            columns_names.append(f"v{place}")
            asked.append((f"v{place}", kernel))
            results.append(f"v{place}_{kernel}")
        # one thread: Spark runs a task per core, and only then keys keep the order in which they came
        grouped = pa.table(columns, columns_names).group_by(names, use_threads=False).aggregate(asked)
        out = [grouped.column(name) for name in names]
        for result, function, given, is_whole in zip(results, functions, inputs, whole, strict=True):
            column = grouped.column(result).combine_chunks()
            if function in _OF_PLACES:
                column = given.take(column)
            out.append(self._guarded(lambda c=column: as_bigint(c, _BIGINT)) if function == "sum" and is_whole else column)
        return pa.table([*out], [*names, *(f"p{place}" for place in range(len(results)))])


def _places(column: pa.Array) -> pa.Array:
    """The row number of each value, null where the value is: the least is the first value's, the greatest the last one's."""
    import numpy as np
    import pyarrow as pa

    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(np.arange(len(column)), pa.int64(), mask=mask)


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
        if self.aggregation.function == "count_distinct" and self._rows > max(4 * self._merged, 4 * _RAW_ROWS):
            self._tables = [self._distinct(pa.concat_tables(self._tables))]
            self._rows = self._merged = self._tables[0].num_rows

    def _distinct(self, table: pa.Table) -> pa.Table:
        return table.group_by([*self._names, "v"], use_threads=False).aggregate([])

    def final(self, keys: list[Any]) -> pa.Array:
        """The number of values, or the values, per key in the order of ``keys``."""
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = pa.concat_tables(self._tables)
        if self.aggregation.function == "count_distinct":
            rows = self._distinct(rows)
        # one row without a value per key, before all others: it fixes the order, and keys without values are there, too
        first = pa.table([*keys, pa.nulls(len(keys[0]), rows.schema.field("v").type)], [*self._names, "v"])
        table = pa.concat_tables([first, rows]).combine_chunks().group_by(self._names, use_threads=False)
        if self.aggregation.function == "count_distinct":
            return table.aggregate([("v", "count")]).column("v_count").combine_chunks()
        return pc.list_slice(table.aggregate([("v", "list")]).column("v_list").combine_chunks(), 1)
