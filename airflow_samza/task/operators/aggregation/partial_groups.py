"""Partial results of a decomposable aggregation.

They are what its accumulators keep per key: made of rows, merged, and passed on as rows. Aggregations, windows and
combiners keep them; topics that carry them are planned by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_spec import KeyedResultSpec
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import DataType, Field, Schema, type_from_arrow
from airflow_samza.task.checkpoint import fitting_state
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, same_key
from airflow_samza.task.operators.aggregation.grouping import Grouping
from airflow_samza.task.operators.aggregation.list_parts import each_row, is_list_function, list_part
from airflow_samza.task.tables.parts import empty

RAW_ROWS = 1 << 17
"""Rows collected before a partial result is made: a group-by costs a fixed fraction of a millisecond."""

_HELD_BYTES = 1 << 24
"""Bytes of partial results that are held before they are merged, which copies them: so it waits for many more."""

BY_VALUES = ("count_distinct", "collect")
"""Functions whose partial results are as large as their input."""


def decomposable(aggregations: Sequence[Aggregation]) -> bool:
    """Return whether partial results of all of them can be merged."""
    return not any(aggregation.function in BY_VALUES for aggregation in aggregations)


def accumulators_of(
    spec: KeyedResultSpec, inputs: Schema, output: Schema, *, placed: bool = False
) -> list[Accumulator]:
    """The accumulators of the aggregations, in order; ``placed`` as in :class:`Accumulator`."""
    return [
        Accumulator(a, inputs[a.column].type if a.column is not None else None, output[a.name], placed=placed)
        for a in spec.aggregations
    ]


def partial_schema(spec: KeyedResultSpec, inputs: Schema, output: Schema) -> Schema:
    """The columns of partial results as messages.

    They are the key columns (and the slice's start), then the parts of every aggregation.
    """
    return Schema(tuple(field for field, _ in partial_fields(spec, inputs, output)))


def partial_fields(spec: KeyedResultSpec, inputs: Schema, output: Schema) -> list[tuple[Field, str | None]]:
    """Return the columns of :func:`partial_schema`, each with the result's column that is made of it.

    None stands beside the key columns and the slice's start.
    """
    fields: list[tuple[Field, str | None]] = [(inputs[column], None) for column in spec.key]
    if isinstance(spec, WindowOperatorSpec):
        fields.append((Field("window_start", DataType("bigint"), nullable=False), None))
    taken = {field.name for field, _ in fields}
    accumulators = accumulators_of(spec, inputs, output)
    none = empty(inputs.to_arrow())
    _, parts = Grouping(spec, accumulators).keys_and_parts([none.column(name) for name in spec.key], none)
    types = (type_from_arrow(part.type) for part in parts)
    for accumulator in accumulators:
        result = accumulator.output.name
        for part in accumulator.parts:
            name = result if len(accumulator.parts) == 1 else f"{result}_{part.first}"
            while name in taken:
                name += "_"
            taken.add(name)
            fields.append((Field(name, next(types), nullable=not part.first.startswith("count")), result))
    return fields


class PartialGroups:
    """Groups by key, what came first staying first; ``rows`` are those of the partial results held.

    ``key`` are the columns grouped by, where they are others than the operator's key.
    """

    def __init__(
        self,
        spec: KeyedResultSpec,
        accumulators: Sequence[Accumulator],
        *,
        key: tuple[str, ...] | None = None,
    ) -> None:
        self.spec = spec
        self.key = spec.key if key is None else key
        self.accumulators = accumulators
        self.grouping = Grouping(spec, accumulators)
        self._columns = list(dict.fromkeys([*self.key, *self.grouping.columns]))
        self._raw: list[pa.RecordBatch] = []
        self._raw_rows = 0
        self._partials: list[pa.Table] = []
        self._size = 0
        self._merged_size = 0
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
        names = part_names(len(self.key), len(self.grouping.parts))
        self._repeats = True  # a key may come twice in a batch that several producers filled
        self.take_back(pa.Table.from_arrays(batch.columns, names))

    def distinct(self) -> int:
        """The number of keys held."""
        self.held()
        return self.rows

    def merged(self) -> pa.Table | None:
        """One row per key: the key columns, then the parts; nothing is held afterwards. None when nothing came."""
        partials = self.held()
        self._partials, self.rows, self._size, self._merged_size = [], 0, 0, 0
        return partials

    def held(self) -> pa.Table | None:
        """Return what :meth:`merged` would give now; all of it stays here."""
        self.condense()
        self._merge()
        return self._partials[0] if self._partials else None

    def singles(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """The columns of partial results of one row each, in the order of :func:`partial_schema`."""
        yield from (same_key(batch.column(name)) for name in self.key)
        for accumulator in self.accumulators:
            column = accumulator.aggregation.column
            for part in accumulator.parts:
                if column is None:
                    yield pa.repeat(pa.scalar(1, pa.int64()), batch.num_rows)
                elif part.first == "count":
                    yield batch.column(column).is_valid().cast(pa.int64())
                elif is_list_function(part.first):
                    yield list_part(
                        part.first, accumulator.prepared(part.source, batch.column(column)), each_row(batch.num_rows)
                    )
                else:
                    yield accumulator.prepared(part.source, batch.column(column))

    def condense(self) -> None:
        """Makes a partial result of the messages collected so far."""
        if not self._raw_rows:
            return
        batch = pa.Table.from_batches(self._raw).combine_chunks().to_batches()[0]
        self._raw, self._raw_rows = [], 0
        keys = [same_key(batch.column(name)) for name in self.key]
        self.take_back(self._table(*self.grouping.keys_and_parts(keys, batch)))

    def take_back(self, partial: pa.Table) -> None:
        """Takes in a partial result, such as :meth:`held` gave."""
        self._partials.append(partial)
        self.rows += partial.num_rows
        self._size += partial.nbytes
        if self._size > max(4 * self._merged_size, _HELD_BYTES):
            self._merge()

    def _merge(self) -> None:
        """Makes one partial result of all."""
        if len(self._partials) > 1 or self._repeats:
            with fitting_state(self.spec.title):
                together = pa.concat_tables(self._partials).combine_chunks()
            count = len(self.key)
            columns = [column.combine_chunks() for column in together.columns]
            self._partials = [self._table(*self.grouping.merged(columns[:count], columns[count:]))]
        self._repeats = False
        self.rows = self._partials[0].num_rows if self._partials else 0
        self._size = self._merged_size = self._partials[0].nbytes if self._partials else 0

    @staticmethod
    def _table(keys: list[Any], parts: list[Any]) -> pa.Table:
        return pa.table([*keys, *parts], part_names(len(keys), len(parts)))


def part_names(keys: int, parts: int) -> list[str]:
    """The columns of partial results: ``k0`` …, ``p0`` …."""
    return [*(f"k{place}" for place in range(keys)), *(f"p{place}" for place in range(parts))]
