"""Which types meet in which: Spark's ANSI type coercion for the simple types."""

from __future__ import annotations

import dataclasses
import datetime
import re
from typing import Any

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.expression import VOID, Expression, Frame, UnsupportedExpression, literal

_PRECEDENCE = ("tinyint", "smallint", "int", "bigint", "float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def is_numeric(kind: DataType) -> bool:
    """Whether it is a number of any kind."""
    return kind.name in _PRECEDENCE or kind.name == "decimal"


def is_floating(kind: DataType) -> bool:
    """Whether it is float or double."""
    return kind.name in ("float", "double")


def as_decimal(kind: DataType) -> DataType:
    """The decimal type that holds every value of an integer type."""
    return kind if kind.name == "decimal" else DataType("decimal", _DIGITS[kind.name], 0)


def exact_decimal(operand: Expression) -> DataType:
    """The decimal type of an operand beside a decimal: an integer literal has just its digits."""
    if operand.literal and operand.type.is_integer:
        return DataType("decimal", len(str(abs(operand.value))), 0)
    return as_decimal(operand.type)


def wider_decimal(left: DataType, right: DataType) -> DataType:
    """The decimal type that holds both."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    if precision > 38:
        raise UnsupportedExpression(f"{left.ddl()} and {right.ddl()} have no common type of at most 38 digits")
    return DataType("decimal", precision, scale)


def common_type(left: DataType, right: DataType) -> DataType:
    """The type to which both are widened in comparisons, IN and CASE."""
    if left == right:
        return left
    if VOID in (left, right):
        return right if left == VOID else left
    if is_numeric(left) and is_numeric(right):
        if "decimal" in (left.name, right.name):
            if is_floating(left) or is_floating(right):
                return DataType("double")
            return wider_decimal(as_decimal(left), as_decimal(right))
        wider = _PRECEDENCE[max(_PRECEDENCE.index(left.name), _PRECEDENCE.index(right.name))]
        return DataType("double" if wider == "float" else wider)  # an integer beside a float: a float would lose digits
    raise UnsupportedExpression(f"{left.ddl()} and {right.ddl()} meet in a conversion that Catalyst decides")


def common_of(left: Expression, right: Expression) -> DataType:
    """Like :func:`common_type`, for two operands of which one may be a date written as text."""
    for one, other in ((left, right), (right, left)):
        if one.type.name == "date" and other.type.name == "string" and other.literal:
            return one.type
    return common_type(left.type, right.type)


def widened(operand: Expression, kind: DataType) -> Expression:
    """The operand as ``kind``, to which :func:`common_type` said that it widens."""
    if operand.type == kind:
        return operand
    if operand.type == VOID:
        return literal(None, kind)
    if operand.literal and operand.value is not None:
        return literal(_widened_value(operand, kind), kind)
    return dataclasses.replace(operand, type=kind, run=_widening(operand, kind), fallible=operand.fallible)


def _widened_value(operand: Expression, kind: DataType) -> Any:
    if kind.name == "date" and operand.type.name == "string":
        if not _ISO_DATE.fullmatch(operand.value):
            raise UnsupportedExpression(f"{operand.value!r} is compared with a date")
        try:
            return datetime.date.fromisoformat(operand.value)
        except ValueError:
            raise UnsupportedExpression(f"{operand.value!r} is compared with a date") from None
    if is_floating(kind):
        return float(operand.value)
    return operand.value


def _widening(operand: Expression, kind: DataType) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    target = kind.to_arrow()
    if kind.name == "decimal" and operand.type.is_integer:
        wide = pa.decimal128(20, 0)

        def widen_integer(frame: Frame) -> Any:
            return pc.cast(pc.cast(operand.run(frame), wide), target)

        return widen_integer
    if operand.type.name == "decimal" and is_floating(kind):
        return lambda frame: decimal_to_double(operand.array(frame), operand.type)
    # bigint to double rounds to the nearest double, as in Java
    return lambda frame: pc.cast(operand.run(frame), target, safe=False)


def decimal_to_double(array: Any, kind: DataType) -> Any:
    """Exactly rounded: an unscaled value of at most 15 digits is exact as a double, and so is the power of ten."""
    import numpy as np
    import pyarrow as pa

    from airflow_samza.task.expressions.expression import masked

    if kind.precision > 15:
        raise UnsupportedExpression(f"{kind.ddl()} is converted to double")
    if len(array) == 0:
        return pa.array([], pa.float64())
    halves = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
    return masked(halves[::2].astype(np.float64) / np.float64(10**kind.scale), array, pa.float64())
