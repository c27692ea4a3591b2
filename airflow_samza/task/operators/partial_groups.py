"""Partial results of a decomposable aggregation: per key what its accumulators keep, made of rows, merged, and passed on as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.task.expressions.expression import EvaluationFailure
from airflow_samza.task.operators.accumulators import Accumulator, Part, as_bigint, checked_sum_input, same_key
from airflow_samza.task.operators.stateless import evaluation_failed

if TYPE_CHECKING:
    import pyarrow as pa

RAW_ROWS = 1 << 17
"""Rows collected before a partial result is made: a group-by costs a fixed fraction of a millisecond."""

_OF_PLACES = {"first": "min", "last": "max"}
"""Functions that are asked of row numbers: so they work for every type."""

_BIGINT = DataType("bigint")

BY_VALUES = ("count_distinct", "collect")
"""Functions whose partial results are as large as their input."""


def decomposable(aggregations: Sequence[Aggregation]) -> bool:
    """Whether partial results of all of them can be merged."""
    return not any(aggregation.function in BY_VALUES for aggregation in aggregations)


def accumulators_of(spec: AggregateSpec, inputs: Schema, output: Schema) -> list[Accumulator]:
    """The accumulators of the decomposable aggregations, in order."""
    return [
        Accumulator(a, inputs[a.column].type if a.column is not None else None, output[a.name])
        for a in spec.aggregations
        if a.function not in BY_VALUES
    ]


def partial_schema(spec: AggregateSpec, inputs: Schema, output: Schema) -> Schema:
    """The columns of partial results as messages: the key columns, then the parts of every aggregation."""
    fields = [inputs[column] for column in spec.key]
    taken = {field.name for field in fields}
    for accumulator in accumulators_of(spec, inputs, output):
        for part in accumulator.parts:
            name = accumulator.output.name if len(accumulator.parts) == 1 else f"{accumulator.output.name}_{part.first}"
            while name in taken:
                name += "_"
            taken.add(name)
            fields.append(Field(name, _kept_type(part, accumulator.kind), nullable=not part.first.startswith("count")))
    return Schema(tuple(fields))


def _kept_type(part: Part, kind: DataType | None) -> DataType:
    if part.first.startswith("count"):
        return _BIGINT
    if part.source == "decimal":
        assert kind is not None
        return DataType("decimal", 38, kind.scale)
    plain = {"bigint": _BIGINT, "double": DataType("double"), "nan": DataType("boolean")}.get(part.source or "")
    assert plain is not None or kind is not None
    return plain or kind  # type: ignore[return-value]


class PartialGroups:
    """Groups by key, what came first staying first; ``rows`` are those of the partial results held.

    ``watch`` is called with the key columns and the messages of each partial result that is made.
    """

    def __init__(
        self,
        spec: AggregateSpec,
        accumulators: Sequence[Accumulator],
        watch: Callable[[list[Any], pa.RecordBatch], None] | None = None,
    ) -> None:
        self.spec = spec
        self.accumulators = accumulators
        self._watch = watch
        self._parts = [part for accumulator in accumulators for part in accumulator.parts]
        self._columns = list(dict.fromkeys([*spec.key, *(a.column for a in spec.aggregations if a.column is not None)]))
        self._raw: list[pa.RecordBatch] = []
        self._raw_rows = 0
        self._partials: list[pa.Table] = []
        self._merged_rows = 0
        self._repeats = False
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes messages in."""
        self._raw.append(batch.select(self._columns))
        self._raw_rows += batch.num_rows
        if self._raw_rows >= RAW_ROWS:
            self.condense()

    def add_partials(self, batch: pa.RecordBatch) -> None:
        """Takes partial results in, in the form of :func:`partial_schema`."""
        import pyarrow as pa

        names = self._names(len(self.spec.key), len(self._parts))
        self._repeats = True  # a key may come twice in a batch that several producers filled
        self._hold(pa.Table.from_arrays(batch.columns, names))

    def distinct(self) -> int:
        """The number of keys held."""
        self.condense()
        self._merge()
        return self.rows

    def merged(self) -> pa.Table | None:
        """One row per key: the key columns, then the parts; nothing is held afterwards. None when nothing came."""
        self.condense()
        self._merge()
        found = self._partials[0] if self._partials else None
        self._partials, self.rows, self._merged_rows = [], 0, 0
        return found

    def held(self) -> pa.Table | None:
        """What :meth:`merged` would give now; all of it stays here."""
        self.condense()
        self._merge()
        return self._partials[0] if self._partials else None

    def take_back(self, partials: pa.Table) -> None:
        """Takes in what :meth:`held` gave."""
        self._hold(partials)

    def singles(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The columns of partial results of one row each, in the order of :func:`partial_schema`."""
        import pyarrow as pa

        yield from (same_key(batch.column(name)) for name in self.spec.key)
        for accumulator in self.accumulators:
            column = accumulator.aggregation.column
            for part in accumulator.parts:
                if column is None:
                    yield pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
                elif part.first == "count":
                    yield batch.column(column).is_valid().cast(pa.int64())
                else:
                    yield accumulator.prepared(part.source, batch.column(column))

    def condense(self) -> None:
        """Makes a partial result of the messages collected so far."""
        import pyarrow as pa

        if not self._raw_rows:
            return
        batch = pa.Table.from_batches(self._raw).combine_chunks().to_batches()[0]
        self._raw, self._raw_rows = [], 0
        keys = [same_key(batch.column(name)) for name in self.spec.key]
        if self._watch is not None:
            self._watch(keys, batch)
        inputs: list[Any] = []
        for accumulator in self.accumulators:
            column = accumulator.aggregation.column
            for part in accumulator.parts:
                inputs.append(accumulator.prepared(part.source, batch.column(column)) if column is not None else None)
        self._hold(self._grouped(keys, inputs, [part.first for part in self._parts]))

    def _hold(self, partial: pa.Table) -> None:
        self._partials.append(partial)
        self.rows += partial.num_rows
        if self.rows > max(4 * self._merged_rows, 4 * RAW_ROWS):
            self._merge()

    def _merge(self) -> None:
        """Makes one partial result of all."""
        import pyarrow as pa

        if len(self._partials) > 1 or self._repeats:
            together = pa.concat_tables(self._partials).combine_chunks()
            count = len(self.spec.key)
            columns = [column.combine_chunks() for column in together.columns]
            self._partials = [self._grouped(columns[:count], columns[count:], [part.merge for part in self._parts])]
        self._repeats = False
        self.rows = self._merged_rows = self._partials[0].num_rows if self._partials else 0

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
            out.append(self.guarded(lambda c=column: as_bigint(c, _BIGINT)) if function == "sum" and is_whole else column)
        return pa.table([*out], self._names(len(keys), len(results)))

    @staticmethod
    def _names(keys: int, parts: int) -> list[str]:
        return [*(f"k{place}" for place in range(keys)), *(f"p{place}" for place in range(parts))]

    def guarded(self, compute: Any) -> Any:
        """What ``compute`` gives; a value that does not fit is the aggregation's error."""
        try:
            return compute()
        except EvaluationFailure as failure:
            text = ", ".join(f"{a.name}={a.function}({a.column or ''})" for a in self.spec.aggregations)
            raise evaluation_failed(self.spec, text, failure) from None


def _places(column: pa.Array) -> pa.Array:
    """The row number of each value, null where the value is: the least is the first value's, the greatest the last one's."""
    import numpy as np
    import pyarrow as pa

    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(np.arange(len(column)), pa.int64(), mask=mask)
