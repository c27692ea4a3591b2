"""Partial results by groups: made of rows, merged with each other. Groups stand in the order of their first rows.

Aggregations and windows group by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.operator_spec import KeyedResultSpec
from airflow_samza.task.expressions.expression import EvaluationFailure
from airflow_samza.task.operators.aggregation.accumulators import Accumulator, checked_sum, checked_sum_input
from airflow_samza.task.operators.aggregation.list_parts import Groups, interleaved, is_list_function, list_part
from airflow_samza.task.operators.stateless import evaluation_failed

T = TypeVar("T")

_OF_PLACES = {"first": "min", "last": "max"}
"""Functions that are evaluated on row numbers, so that they work for every type."""
_ROW = "row"


class Grouping:
    """The accumulators of one operator, applied to groups. Keys are any columns; equal keys must have equal bits."""

    def __init__(self, spec: KeyedResultSpec, accumulators: Sequence[Accumulator]) -> None:
        self.spec = spec
        self.accumulators = accumulators
        aggregated = (accumulator.aggregation.column for accumulator in accumulators)
        self.columns = list(dict.fromkeys([*spec.key, *(name for name in aggregated if name is not None)]))
        """The columns of messages that it needs: those of the key, and those that are aggregated."""
        self.parts = [part for accumulator in accumulators for part in accumulator.parts]

    def keys_and_parts(
        self, keys: list[Any], batch: pa.RecordBatch, sequence: pa.Array | None = None
    ) -> tuple[list[Any], list[Any]]:
        """The keys and parts of messages; ``sequence`` is the place of each where parts ask for it."""
        inputs: list[Any] = []
        for accumulator in self.accumulators:
            name = accumulator.aggregation.column
            for part in accumulator.parts:
                if part.source == "sequence":
                    present = batch.column(name).is_valid()
                    inputs.append(pc.if_else(present, sequence, pa.scalar(None, pa.int64())))
                else:
                    inputs.append(accumulator.prepared(part.source, batch.column(name)) if name is not None else None)
        return self._grouped(keys, inputs, [part.first for part in self.parts])

    def merged(self, keys: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
        """The keys and parts of partial results."""
        return self._grouped(keys, parts, [part.merge for part in self.parts])

    def final(self, partials: pa.Table) -> dict[str, Any]:
        """The value of every aggregation by name; ``partials`` have the parts in the columns ``p0`` and so on."""
        parts = (partials.column(f"p{place}").combine_chunks() for place in range(len(self.parts)))
        columns = {}
        for accumulator in self.accumulators:
            mine = list(islice(parts, len(accumulator.parts)))
            columns[accumulator.output.name] = self.guarded(partial(accumulator.final, mine))
        return columns

    def guarded(self, compute: Callable[[], T]) -> T:
        """Return what ``compute`` gives; a value that does not fit is the aggregation's error."""
        try:
            return compute()
        except EvaluationFailure as failure:
            text = ", ".join(f"{a.name}={a.function}({a.column or ''})" for a in self.spec.aggregations)
            raise evaluation_failed(self.spec, text, failure) from None

    def _grouped(self, keys: list[Any], inputs: list[Any], functions: list[str]) -> tuple[list[Any], list[Any]]:
        names = [f"k{place}" for place in range(len(keys))]
        columns, column_names = list(keys), list(names)
        aggregations: list[Any] = []
        for place, (function, column) in enumerate(zip(functions, inputs, strict=True)):
            if column is None:
                aggregations.append(([], function))
            elif (kernel := _kernel(function)) is not None:
                columns.append(_prepared(function, column))
                column_names.append(f"v{place}")
                aggregations.append((f"v{place}", kernel))
        by_rows = any(is_list_function(function) or function.startswith("interleave") for function in functions)
        columns.append(pa.array(np.arange(len(keys[0]))))
        column_names.append(_ROW)
        aggregations += [(_ROW, "min"), *([(_ROW, "list")] if by_rows else [])]
        # one thread: Spark runs a task per core
        grouped = pa.table(columns, column_names).group_by(names, use_threads=False).aggregate(aggregations)
        firsts = grouped.column(f"{_ROW}_min").to_numpy()
        # Arrow's groups come mostly, not always, in the order of their first rows (decision 34).
        if not (firsts[1:] > firsts[:-1]).all():
            grouped = grouped.take(pa.array(np.argsort(firsts)))
        groups = _groups(grouped.column(f"{_ROW}_list").combine_chunks()) if by_rows else None
        out: list[Any] = []
        for place, (function, column) in enumerate(zip(functions, inputs, strict=True)):
            if column is None:
                out.append(grouped.column(function).combine_chunks())
            elif groups is not None and is_list_function(function):
                out.append(list_part(function, column, groups))
            elif groups is not None and function == "interleave":
                out += interleaved(column, inputs[place + 1], groups)
            elif function == "placed":
                chosen = grouped.column(f"v{place + 1}_{functions[place + 1]}").combine_chunks()
                out.append(_at_places(column, inputs[place + 1], chosen))
            elif (kernel := _kernel(function)) is not None:
                aggregated = grouped.column(f"v{place}_{kernel}").combine_chunks()
                if function in _OF_PLACES:
                    aggregated = column.take(aggregated)
                elif function == "sum" and not pa.types.is_floating(column.type):
                    aggregated = self.guarded(partial(checked_sum, aggregated, column.type))
                out.append(aggregated)
        return [grouped.column(name).combine_chunks() for name in names], out


def _kernel(function: str) -> str | None:
    """Arrow's hash function behind a part's; None where there is none."""
    if is_list_function(function) or function.startswith("interleave") or function == "placed":
        return None
    return _OF_PLACES.get(function, function)


def _prepared(function: str, column: pa.Array) -> pa.Array:
    if function in _OF_PLACES:
        return _places(column)
    return checked_sum_input(column) if function == "sum" else column


def _groups(rows: pa.ListArray) -> Groups:
    return Groups(rows.flatten().to_numpy(), pc.list_value_length(rows).to_numpy())


def _at_places(values: pa.Array, places: pa.Array, chosen: pa.Array) -> pa.Array:
    """The values that stand at the wanted places; null where none is wanted."""
    present = pc.drop_null(places)
    kept = values.filter(places.is_valid()) if places.null_count else values
    return kept.take(pc.index_in(chosen, value_set=present))


def _places(column: pa.Array) -> pa.Array:
    """The row number of each value, null where the value is.

    The least is the first value's, the greatest the last one's.
    """
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(np.arange(len(column)), pa.int64(), mask=mask)
