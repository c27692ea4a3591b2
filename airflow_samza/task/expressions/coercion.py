"""Spark's ANSI type coercion for the simple types: the type to which two others are widened.

The compiler of SQL and the aggregations widen by it.
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.days import midnights
from airflow_samza.task.expressions.expression import VOID, Expression, UnsupportedExpression, literal, masked

NESTED = ("array", "map", "struct")
_PRECEDENCE = ("tinyint", "smallint", "int", "bigint", "float", "double")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_ISO_MOMENT = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?Z?)?", re.ASCII)


def is_numeric(kind: DataType) -> bool:
    """Return whether it is a number of any kind."""
    return kind.name in _PRECEDENCE or kind.name == "decimal"


def is_floating(kind: DataType) -> bool:
    """Return whether it is float or double."""
    return kind.name in ("float", "double")


def as_decimal(kind: DataType) -> DataType:
    """The decimal type that holds every value of an integer type."""
    return kind if kind.name == "decimal" else DataType("decimal", _DIGITS[kind.name], 0)


def exact_decimal(operand: Expression) -> DataType:
    """The decimal type of an operand beside a decimal: an integer literal has just its digits."""
    if operand.literal and operand.type.is_integer and operand.value is not None:
        return DataType("decimal", len(str(abs(operand.value))), 0)
    if operand.type.name in ("smallint", "bigint") and operand.value is not None:
        raise UnsupportedExpression(
            f"{operand.value} of type {operand.type.ddl()} beside a decimal may be a literal or a cast"
        )
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
    if {left.name, right.name} == {"date", "timestamp"}:
        return DataType("timestamp")
    raise UnsupportedExpression(f"{left.ddl()} and {right.ddl()} meet in a conversion that Catalyst decides")


def widest(kinds: Iterable[DataType]) -> DataType:
    """Return the type to which values of all types are widened; that of a bare NULL where nothing else is."""
    return functools.reduce(common_type, kinds, VOID)


def common_of(left: Expression, right: Expression) -> DataType:
    """Like :func:`common_type`, for two operands of which one may be a date or a timestamp written as text."""
    for one, other in ((left, right), (right, left)):
        if one.type.name in ("date", "timestamp") and other.type.name == "string" and other.literal:
            return one.type
    return common_type(left.type, right.type)


def widened(operand: Expression, kind: DataType) -> Expression:
    """Return the operand as ``kind``, to which :func:`common_type` widens it."""
    if operand.type == kind:
        return operand
    if operand.type == VOID:
        return literal(None, kind)
    if operand.value is not None and (operand.literal or operand.type.is_integer):
        return literal(_widened_value(operand, kind), kind)
    # a date far away may not fit into a timestamp
    return Expression(kind, operand.nullable, operand.fallible or kind.name == "timestamp", _widening(operand, kind))


def _widened_value(operand: Expression, kind: DataType) -> Any:
    if kind.name == "date" and operand.type.name == "string":
        return read_date(operand.value)
    if kind.name == "timestamp" and operand.type.name == "string":
        return read_moment(operand.value)
    if kind.name == "timestamp":
        return datetime.datetime.combine(operand.value, datetime.time(), datetime.timezone.utc)
    if is_floating(kind):
        return float(operand.value)
    return operand.value


def read_date(text: str) -> datetime.date:
    """A date literal of four, two and two digits; any other form is left to Catalyst."""
    try:
        if not _ISO_DATE.fullmatch(text):
            raise ValueError(text)
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UnsupportedExpression(f"{text!r} is read as a date") from None


def read_moment(text: str) -> datetime.datetime:
    """A timestamp literal without a zone, or with Z.

    ``2026-01-31``, ``2026-01-31 08:30:00``, with up to six digits of a fraction.
    """
    moment_match = _ISO_MOMENT.fullmatch(text)
    try:
        if moment_match is None:
            raise ValueError(text)
        day, clock, fraction = moment_match.groups()
        moment = datetime.datetime.fromisoformat(f"{day}T{clock or '00:00:00'}")
    except ValueError:
        raise UnsupportedExpression(f"{text!r} is read as a timestamp") from None
    return moment.replace(microsecond=int((fraction or "").ljust(6, "0")), tzinfo=datetime.timezone.utc)


def _widening(operand: Expression, kind: DataType) -> Any:
    target = kind.to_arrow()
    if kind.name == "timestamp":
        return lambda frame: midnights(operand.array(frame))
    if kind.name == "decimal" and operand.type.is_integer:
        wide = pa.decimal128(20, 0)
        return lambda frame: pc.cast(pc.cast(operand.run(frame), wide), target)
    if operand.type.name == "decimal" and is_floating(kind):
        return lambda frame: decimal_to_double(operand.array(frame), operand.type)
    # bigint to double rounds to the nearest double, as in Java
    return lambda frame: pc.cast(operand.run(frame), target, safe=False)


def decimal_to_double(array: Any, kind: DataType) -> Any:
    """Exactly rounded: an unscaled value below 2^53 is exact as a double, and so is a power of ten up to 22.

    Others one by one.
    """
    if len(array) == 0:
        return pa.array([], pa.float64())
    halves = np.frombuffer(array.buffers()[1], np.int64, 2 * len(array), 16 * array.offset)
    low, high = halves[::2], halves[1::2]
    if kind.scale <= 22 and (kind.precision <= 15 or ((np.abs(low) < 1 << 53) & (high == low >> 63)).all()):
        return masked(low.astype(np.float64) / np.float64(10**kind.scale), array, pa.float64())
    return pa.array([None if value is None else float(value) for value in array.to_pylist()], pa.float64())
