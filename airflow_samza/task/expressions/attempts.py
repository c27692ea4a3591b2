"""``try_…``: null instead of an error, where the operation itself fails; errors of its operands stay errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.casts import BITS, cast, read_date, read_dates
from airflow_samza.task.expressions.coercion import is_numeric, widened
from airflow_samza.task.expressions.expression import (
    DOUBLE,
    EvaluationFailure,
    Expression,
    Function,
    UnsupportedExpression,
    applied,
)
from airflow_samza.task.expressions.text_casts import SPACE, Conversion, read_booleans, read_floats, read_number


def try_cast(operand: Expression, kind: DataType) -> Expression:
    """``TRY_CAST(operand AS kind)``: of a text, or of anything whose cast cannot fail."""
    if operand.type.name == "string" and kind.name in _OF_TEXTS:
        return applied(kind, [operand], _OF_TEXTS[kind.name], nullable=True)
    expression = cast(operand, kind)
    if expression.fallible and not operand.fallible:
        raise UnsupportedExpression(f"a {operand.type.ddl()} is tried as {kind.ddl()}")
    if operand.fallible:
        raise UnsupportedExpression("TRY_CAST of a value that can fail")
    return Expression(kind, True, False, expression.run)


def _integers(name: str, texts: Any) -> Any:
    trimmed = pc.ascii_trim(texts, characters=SPACE)
    good = pc.fill_null(pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]{1,18}\z"), False)
    values = pc.cast(pc.replace_substring_regex(pc.if_else(good, trimmed, None), r"\A\+", ""), pa.int64())
    long = pc.fill_null(pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]{19,}\z"), False)
    if long.true_count:
        numbers = map(int, trimmed.filter(long).to_pylist())
        values = pc.replace_with_mask(
            values, long, pa.array([n if -(1 << 63) <= n < 1 << 63 else None for n in numbers], pa.int64())
        )
    limit = 1 << (BITS[name] - 1)
    fits = pc.and_(pc.greater_equal(values, -limit), pc.less_equal(values, limit - 1))
    return pc.cast(pc.if_else(fits, values, pa.scalar(None, pa.int64())), DataType(name).to_arrow())


def _tried(function: Callable[..., Any], *values: Any) -> Any:
    try:
        return function(*values)
    except EvaluationFailure:
        return None


_OF_TEXTS: dict[str, Conversion] = {
    **{name: partial(_integers, name) for name in BITS},
    **{name: read_floats(DataType(name), partial(_tried, read_number)) for name in ("float", "double")},
    "boolean": read_booleans,
    "date": partial(read_dates, read=partial(_tried, read_date)),
}
"""The conversions of texts, by the names of types: null where a text is none of the type."""


def try_divide(left: Expression, right: Expression) -> Expression:
    """``try_divide(left, right)``: a double; null for a divisor of 0."""
    if not (is_numeric(left.type) and is_numeric(right.type)) or "decimal" in (left.type.name, right.type.name):
        raise UnsupportedExpression(f"try_divide is given {left.type.ddl()} and {right.type.ddl()}")

    # As everywhere Spark looks at the divisor first, and at the dividend only where the divisor is neither null nor 0.
    dividend, divisor = widened(left, DOUBLE), widened(right, DOUBLE)
    usable = applied(DOUBLE, [divisor], lambda below: pc.if_else(pc.equal(below, 0.0), None, below), nullable=True)
    return applied(DOUBLE, [usable, dividend], lambda below, above: pc.divide(above, below), nullable=True)


FUNCTIONS = {
    "try_divide": Function(try_divide, 2, 2),
}
