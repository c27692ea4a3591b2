"""The parts of a vectorised aggregation: for each function what is kept per key, its merging, and the final value.

Null columns are left out, as in SQL; NaN is greater than every number and equal to itself, as in Spark. Means of
decimals are exact: a sum of up to 38 digits and a count give a quotient that is rounded half up, as Spark's ``avg``.
Aggregations and windows compute by them; joins and deduplication compare keys likewise.
"""

from __future__ import annotations

import decimal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.application.windows import Aggregation
from airflow_samza.schema import DataType, Field, type_from_arrow
from airflow_samza.task.expressions.arithmetic import overflow
from airflow_samza.task.expressions.coercion import is_floating
from airflow_samza.task.expressions.expression import EvaluationFailure
from airflow_samza.task.operators.aggregation.sketches import estimates, precision_of

_EXACT = decimal.Context(prec=76)


@dataclass(frozen=True)
class Part:
    """One column that is kept per key.

    It is made by ``first`` (an Arrow hash function) over new rows, and merged by ``merge``.
    """

    first: str
    merge: str
    source: str | None = None
    """Preparation of the input column: see :meth:`Accumulator.prepared`.

    None counts rows, ``sequence`` is the place of each value.
    """


class Accumulator:
    """One aggregation of one column: its parts, their preparation and the final value.

    ``placed``: partial results do not merge in the order in which their messages were read, so that first, last and
    collect keep the place of each value.
    """

    def __init__(self, aggregation: Aggregation, kind: DataType | None, output: Field, *, placed: bool = False) -> None:
        self.aggregation = aggregation
        self.kind = kind
        self.output = output
        self.parts = _parts(aggregation, kind, placed)

    def prepared(self, source: str | None, column: pa.Array) -> pa.Array:
        """The input of a part.

        It is the column itself, widened (``bigint``, ``double``, ``decimal``), without NaN, or whether it is NaN.
        """
        if source == "bigint":
            return column.cast(pa.int64())
        if source == "double":
            return column.cast(pa.float64(), safe=False)
        if source == "decimal":
            assert self.kind is not None
            return column.cast(pa.decimal128(38, self.kind.scale))
        if source == "number":
            return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        if source == "nan":
            return pc.is_nan(column)
        if source == "key":
            return same_key(column)
        return column

    def final(self, parts: Sequence[pa.Array]) -> pa.Array:
        """The value per key."""
        function = self.aggregation.function
        target = self.output.type.to_arrow()
        if function == "avg" and self.output.type.name == "decimal":
            return decimal_means(parts[0], parts[1], self.output.type)
        if function == "avg":
            total, number = parts
            counted = pc.not_equal(number, 0)
            quotient = pc.divide(total, pc.if_else(counted, number, 1).cast(pa.float64()))
            return pc.if_else(counted, quotient, pa.scalar(None, pa.float64()))
        if function in ("min", "max") and self.kind is not None and is_floating(self.kind):
            value, some_nan = parts
            nan = pa.scalar(float("nan"), value.type)
            takes_nan = (
                pc.fill_null(some_nan, False)
                if function == "max"
                else pc.and_(value.is_null(), pc.fill_null(some_nan, False))
            )
            return pc.if_else(takes_nan, nan, value)
        if function == "count_distinct":
            return pc.list_value_length(parts[0]).cast(pa.int64())
        if function == "approx_count_distinct":
            return estimates(parts[0], precision_of(self.aggregation))
        value = parts[0]
        if function == "sum" and self.kind is not None and self.kind.name == "decimal":
            try:
                return value.cast(target)
            except pa.ArrowInvalid:
                raise overflow(self.output.type) from None
        return value.cast(target)


def _parts(aggregation: Aggregation, kind: DataType | None, placed: bool) -> tuple[Part, ...]:
    function = aggregation.function
    if function == "count":
        whole = aggregation.column is None
        return (Part("count_all" if whole else "count", "sum", None if whole else "itself"),)
    assert kind is not None
    if function == "sum":
        return (Part("sum", "sum", "bigint" if kind.is_integer else "decimal" if kind.name == "decimal" else "double"),)
    if function == "avg":
        return (Part("sum", "sum", "decimal" if kind.name == "decimal" else "double"), Part("count", "sum", "itself"))
    if function in ("min", "max"):
        if is_floating(kind):
            return (Part(function, function, "number"), Part("any", "any", "nan"))
        return (Part(function, function, "itself"),)
    if function in ("first", "last") and placed:
        extreme = "min" if function == "first" else "max"
        return (Part("placed", "placed", "itself"), Part(extreme, extreme, "sequence"))
    if function == "collect" and placed:
        return (Part("collect", "interleave", "itself"), Part("collect", "interleaved", "sequence"))
    if function == "collect":
        return (Part("collect", "concat", "itself"),)
    if function == "count_distinct":
        return (Part("distinct", "distinct_lists", "key"),)
    if function == "approx_count_distinct":
        return (Part(f"sketch {precision_of(aggregation)}", "sketches", "key"),)
    if function in ("first", "last"):
        return (Part(function, function, "itself"),)
    raise AssertionError(function)


def checked_sum_input(column: pa.Array) -> pa.Array:
    """A column whose sums, over any of its rows, cannot overflow in silence.

    Bigints and decimals whose sums could do so become wider decimals.
    """
    whole = column.type == pa.int64()
    if not (whole or pa.types.is_decimal(column.type)) or len(column) == column.null_count:
        return column
    bounds = pc.min_max(column).as_py()
    most, limit = max(abs(bounds["min"]), abs(bounds["max"])), 1 << 63
    if not whole:
        most, limit = int(most.scaleb(column.type.scale, _EXACT)), 10**38
    if most * len(column) < limit:
        return column
    return column.cast(pa.decimal128(38, 0) if whole else pa.decimal256(76, column.type.scale))


def checked_sum(total: pa.Array, kind: pa.DataType) -> pa.Array:
    """The sums of :func:`checked_sum_input` in the type of the column itself.

    One that does not fit is an ANSI overflow.
    """
    if total.type == kind:
        return total
    try:
        return total.cast(kind)
    except pa.ArrowInvalid:
        raise overflow(type_from_arrow(kind)) from None


def same_key(column: pa.Array) -> pa.Array:
    """A key column in which equal keys have equal bits: -0.0 becomes 0.0, and there is one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    values: Any = column.fill_null(0).to_numpy(zero_copy_only=False) + 0.0
    values = np.where(np.isnan(values), np.nan, values)
    return pa.array(
        values, column.type, mask=column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    )


def key_codes(keys: Sequence[pa.Array], rows: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a number from 0 for each distinct key of so many rows, in the order in which they come."""
    codes = np.zeros(rows, np.int64)
    for place, key in enumerate(keys):
        own = _numbered(same_key(key))
        codes = own if place == 0 else _numbered(pa.array(codes * (own.max(initial=0) + 1) + own))
    return codes


def _numbered(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(), np.int64)


_DIGITS = 38
"""Digits after the point to which Spark divides before it rounds to those of the result."""

_HALF_UP = "half_towards_infinity"


def decimal_means(totals: pa.Array, counts: pa.Array, result: DataType) -> pa.Array:
    """The mean per row, of type ``result``; null where the count is 0.

    Raises :class:`EvaluationFailure` for one that does not fit.
    """
    counted = pc.not_equal(counts, 0)
    # Quotients have 20 digits more than totals, and what is behind them is cut off. Of few digits rounding once is the
    # same as rounding twice.
    scale = totals.type.scale
    digits = scale if scale < 16 else max(scale, 19)
    dividend = totals.cast(pa.decimal256(38 + digits - scale, digits))
    means = pc.divide(dividend, pc.if_else(counted, counts, 1).cast(pa.decimal256(19, 0)))
    if means.type.scale > _DIGITS:
        means = pc.round(means, _DIGITS, _HALF_UP)
    means = pc.if_else(counted, pc.round(means, result.scale, _HALF_UP), pa.scalar(None, means.type))
    try:
        return means.cast(result.to_arrow())
    except pa.ArrowInvalid:
        raise EvaluationFailure("NUMERIC_VALUE_OUT_OF_RANGE", f"The mean does not fit into {result.ddl()}.") from None
