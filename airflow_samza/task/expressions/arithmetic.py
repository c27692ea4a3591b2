"""``+ - * / %`` and the unary minus, with ANSI overflow and division by zero.

The compiler of SQL takes them, and sums of aggregations overflow by them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.coercion import common_type, exact_decimal, is_floating, is_numeric, widened
from airflow_samza.task.expressions.expression import (
    DOUBLE,
    VOID,
    EvaluationFailure,
    Expression,
    Frame,
    UnsupportedExpression,
    applied,
    checked,
    masked,
    values_of,
)

_KERNELS: dict[str, Callable[..., Any]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_CHECKED_KERNELS = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def arithmetic(symbol: str, left: Expression, right: Expression) -> Expression:
    """``left symbol right``."""
    if VOID in (left.type, right.type):
        raise UnsupportedExpression("NULL is an operand of arithmetic")
    if not (is_numeric(left.type) and is_numeric(right.type)):
        raise UnsupportedExpression(f"{left.type.ddl()} {symbol} {right.type.ddl()} is not plain arithmetic of numbers")
    decimal = "decimal" in (left.type.name, right.type.name) and not (is_floating(left.type) or is_floating(right.type))
    if decimal and symbol in ("/", "%"):
        raise UnsupportedExpression(f"decimals are divided with {symbol}")
    if decimal:
        return _decimal(symbol, left, right)
    kind = DOUBLE if symbol == "/" else common_type(left.type, right.type)
    left, right = widened(left, kind), widened(right, kind)
    if symbol == "/":
        return by_divisor("DIVIDE_BY_ZERO", kind, left, right, pc.divide)
    if symbol == "%":
        return by_divisor("REMAINDER_BY_ZERO", kind, left, right, modulo)
    exact = kind.is_integer
    kernel = _KERNELS[symbol]
    if exact:
        kernel = checked(_CHECKED_KERNELS[symbol], partial(overflow, kind))
    return of_both(kind, left, right, kernel, fails=exact)


def overflow(kind: DataType) -> EvaluationFailure:
    """The failure of arithmetic whose result does not fit."""
    condition = "BINARY_ARITHMETIC_OVERFLOW" if kind.name in ("tinyint", "smallint") else "ARITHMETIC_OVERFLOW"
    return does_not_fit(kind, condition)


def does_not_fit(kind: DataType, condition: str = "ARITHMETIC_OVERFLOW") -> EvaluationFailure:
    """The failure of a computation whose result is none of its type."""
    return EvaluationFailure(condition, f"The result does not fit into {kind.ddl()}.")


def of_both(
    kind: DataType, left: Expression, right: Expression, kernel: Callable[[Any, Any], Any], *, fails: bool = False
) -> Expression:
    """``kernel`` over both operands, of which one may be a scalar: null where one is null.

    Where the first is null Spark does not look at the second, which may have no value there.
    """

    def run(frame: Frame) -> Any:
        one = left.run(frame)
        if right.fallible and left.nullable and isinstance(one, pa.Array) and one.null_count:
            return kernel(one, right.array_where(frame, one.is_valid()))
        other = right.run(frame)
        if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
            return kernel(pa.repeat(one, frame.num_rows), other)
        return kernel(one, other)

    return Expression(kind, left.nullable or right.nullable, fails or left.fallible or right.fallible, run)


def _decimal(symbol: str, left: Expression, right: Expression) -> Expression:
    first, second = exact_decimal(left), exact_decimal(right)
    if symbol == "*":
        kind = DataType("decimal", first.precision + second.precision + 1, first.scale + second.scale)
    else:
        scale = max(first.scale, second.scale)
        whole = max(first.precision - first.scale, second.precision - second.scale)
        kind = DataType("decimal", whole + scale + 1, scale)
    if kind.precision > 38:
        raise UnsupportedExpression(f"{first.ddl()} {symbol} {second.ddl()} needs more than 38 digits")
    left, right = widened(left, first), widened(right, second)
    kernel, target = _KERNELS[symbol], kind.to_arrow()
    return of_both(kind, left, right, lambda one, other: pc.cast(kernel(one, other), target))


def modulo(dividend: Any, divisor: Any) -> pa.Array:
    """The remainder with the dividend's sign; the divisor is nowhere 0 unless it is a float."""
    kind = dividend.type
    if isinstance(divisor, pa.Scalar) and not divisor.is_valid:
        return pa.nulls(len(dividend), kind)
    below = divisor.as_py() if isinstance(divisor, pa.Scalar) else None
    top = values_of(dividend)
    with np.errstate(all="ignore"):
        if below is not None:  # the sign is the dividend's, as in Java
            return masked(np.fmod(top, top.dtype.type(below)), dividend, kind)
        result = np.fmod(top, values_of(divisor, 1))
    remainders = masked(result, dividend, kind)
    return remainders if divisor.null_count == 0 else pc.if_else(divisor.is_valid(), remainders, pa.scalar(None, kind))


def by_divisor(
    condition: str,
    kind: DataType,
    left: Expression,
    right: Expression,
    function: Callable[[Any, Any], Any],
    *,
    fails: bool = False,
) -> Expression:
    """Spark looks at the divisor first, and at the dividend only where the divisor is not null.

    Null by zero is null.
    """

    def run(frame: Frame) -> Any:
        divisor = right.run(frame)
        if isinstance(divisor, pa.Array) and left.fallible and divisor.null_count:
            dividend = left.array_where(frame, divisor.is_valid())
        else:
            dividend = left.array(frame)
        zeros = pc.equal(divisor, pa.scalar(0, divisor.type))
        if isinstance(zeros, pa.Scalar):
            fails = bool(zeros.as_py()) and dividend.null_count < len(dividend)
        else:
            fails = zeros.true_count > 0 and pc.and_(zeros, dividend.is_valid()).true_count > 0
        if fails:
            raise EvaluationFailure(condition, "A divisor is 0.")
        return function(dividend, divisor)

    safe = right.literal and right.value != 0
    return Expression(
        kind, True, fails or not safe or left.fallible, run
    )  # nullable by Catalyst's types, though no null comes of it


_NEGATED_DIGITS = 34
"""To this many digits Scala computes the opposite of a decimal; Catalyst's minus and ``abs`` round what is longer."""


def reject_rounded(kind: DataType) -> None:
    """Leave to Catalyst the opposite of decimals that are so long that it rounds them."""
    if kind.name == "decimal" and kind.precision > _NEGATED_DIGITS:
        raise UnsupportedExpression(f"the opposite of a {kind.ddl()} is rounded to {_NEGATED_DIGITS} digits")


def negated(operand: Expression) -> Expression:
    """``- operand``."""
    if not is_numeric(operand.type):
        raise UnsupportedExpression(f"the minus before {operand.type.ddl()} is not plain arithmetic of numbers")
    reject_rounded(operand.type)
    if not operand.type.is_integer:
        return applied(operand.type, [operand], pc.negate)
    return applied(operand.type, [operand], checked(pc.negate_checked, partial(does_not_fit, operand.type)), fails=True)
