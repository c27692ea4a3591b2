"""Comparisons, logic of three values, null tests, IN.

With Spark's order of NaN (equal to itself, greater than all) and of -0.0 (= 0.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.arithmetic import of_both
from airflow_samza.task.expressions.coercion import NESTED, common_of, is_floating, widened, widest
from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    DECIDED_AHEAD,
    VOID,
    Expression,
    Frame,
    UnsupportedExpression,
    is_true,
    literal,
)

_KERNELS = {"=": "equal", "<>": "not_equal", "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
_OPPOSITES = {"<>": "=", ">=": "<", "<=": ">"}
_HASHED_IN = 10
"""Above this many literals Spark looks values up in a hash set, in which -0.0 and 0.0 differ."""


def comparison(symbol: str, left: Expression, right: Expression) -> Expression:
    """``left symbol right``; null when either is null."""
    left, right = _same_type(left, right)
    floating = is_floating(left.type)
    return of_both(BOOLEAN, left, right, lambda one, other: compared(symbol, one, other, floating))


def _same_type(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    if VOID in (left.type, right.type):
        raise UnsupportedExpression("a value is compared with NULL, which is never true (IS NULL tests for it)")
    kind = common_of(left, right)
    if kind.name in NESTED:
        raise UnsupportedExpression(f"values of type {kind.ddl()} are compared")
    return widened(left, kind), widened(right, kind)


def compared(symbol: str, one: Any, other: Any, floating: bool) -> Any:
    """Two values of one type compared; ``floating``: NaN may occur."""
    if not floating:
        return pc.call_function(_KERNELS[symbol], [one, other])
    if symbol in _OPPOSITES:
        return pc.invert(compared(_OPPOSITES[symbol], one, other, True))
    plain = pc.call_function(_KERNELS[symbol], [one, other])
    first, second = pc.is_nan(one), pc.is_nan(other)
    if symbol == "=":
        extra = pc.and_(first, second)
    elif symbol == "<":
        extra = pc.and_not(second, first)
    else:
        extra = pc.and_not(first, second)
    return pc.or_(plain, extra)


def null_safe_equal(left: Expression, right: Expression) -> Expression:
    """``left <=> right``: null equals null; never null itself."""
    if VOID in (left.type, right.type):
        operand = right if left.type == VOID else left
        return is_null(operand)
    left, right = _same_type(left, right)
    floating = is_floating(left.type)

    def run(frame: Frame) -> Any:
        one, other = left.array(frame), right.array(frame)
        equal = compared("=", one, other, floating)
        if equal.null_count == 0:
            return equal
        return pc.if_else(equal.is_valid(), equal, pc.and_(one.is_null(), other.is_null()))

    return Expression(BOOLEAN, False, left.fallible or right.fallible, run)


def is_null(operand: Expression) -> Expression:
    """``operand IS NULL``."""
    _check_tested(operand)
    return Expression(BOOLEAN, False, operand.fallible, lambda frame: operand.array(frame).is_null())


def _check_tested(operand: Expression) -> None:
    if operand.type == VOID:
        raise UnsupportedExpression("NULL is tested for null")
    if operand.fallible and not operand.nullable:
        raise UnsupportedExpression(
            "a value that is never null but can fail is tested for null, which Catalyst may drop"
        )


def is_not_null(operand: Expression) -> Expression:
    """``operand IS NOT NULL``."""
    _check_tested(operand)
    return Expression(BOOLEAN, False, operand.fallible, lambda frame: operand.array(frame).is_valid())


def _condition(operand: Expression) -> Expression:
    if operand.type != BOOLEAN:
        raise UnsupportedExpression(f"a condition is of type {operand.type.ddl()}")
    return operand


def negation(operand: Expression) -> Expression:
    """``NOT operand``."""
    operand = _condition(operand)
    return Expression(BOOLEAN, operand.nullable, operand.fallible, lambda frame: pc.invert(operand.array(frame)))


def conjunction(left: Expression, right: Expression) -> Expression:
    """``left AND right``; the right side is evaluated only where the left is not false."""
    return _logic("and_kleene", False, left, right)


def disjunction(left: Expression, right: Expression) -> Expression:
    """``left OR right``; the right side is evaluated only where the left is not true."""
    return _logic("or_kleene", True, left, right)


def _logic(kernel: str, decided: bool, left: Expression, right: Expression) -> Expression:
    left, right = _condition(left), _condition(right)
    if (left.literal and right.fallible) or (right.literal and left.fallible):
        raise UnsupportedExpression(DECIDED_AHEAD)

    def run(frame: Frame) -> Any:
        one = left.array(frame)
        if not right.fallible:
            return pc.call_function(kernel, [one, right.run(frame)])
        open_rows = one if not decided else pc.invert(one)
        if open_rows.null_count:
            open_rows = pc.fill_null(open_rows, True)
        other = right.array_where(frame, open_rows)
        if open_rows.true_count < len(open_rows):
            other = pc.if_else(open_rows, other, pa.scalar(decided))
        return pc.call_function(kernel, [one, other])

    return Expression(BOOLEAN, left.nullable or right.nullable, left.fallible or right.fallible, run)


def between(operand: Expression, low: Expression, high: Expression) -> Expression:
    """``operand BETWEEN low AND high``."""
    return conjunction(comparison(">=", operand, low), comparison("<=", operand, high))


def contained(operand: Expression, choices: Sequence[Expression]) -> Expression:
    """``operand IN (choices)``: null when nothing is equal and the operand or a choice is null."""
    if any(choice.fallible for choice in choices):
        raise UnsupportedExpression("a choice of IN can fail")
    if operand.type == VOID:
        raise UnsupportedExpression("NULL IN (…) is always null")
    kind = _type_of_all([operand, *choices])
    if kind.name in NESTED:
        raise UnsupportedExpression(f"values of type {kind.ddl()} are compared")
    if kind.name == "float" or (is_floating(kind) and len(choices) > _HASHED_IN):
        raise UnsupportedExpression(f"IN compares {kind.ddl()} values by a hash set")
    operand = widened(operand, kind)
    some_null = any(choice.literal and choice.value is None for choice in choices)
    choices = [widened(choice, kind) for choice in choices if not (choice.literal and choice.value is None)]
    nullable = operand.nullable or some_null or any(choice.nullable for choice in choices)
    if not choices:
        raise UnsupportedExpression("IN has no choice but NULL")
    if all(choice.literal for choice in choices) and not is_floating(kind):
        return Expression(
            BOOLEAN,
            nullable,
            operand.fallible,
            _looked_up(operand, [choice.value for choice in choices], kind, some_null),
        )

    def run(frame: Frame) -> Any:
        value = operand.array(frame)
        floating = is_floating(kind)
        is_in = reduce(pc.or_kleene, (compared("=", value, choice.run(frame), floating) for choice in choices))
        return pc.or_kleene(is_in, pa.scalar(None, pa.bool_())) if some_null else is_in

    return Expression(BOOLEAN, nullable, operand.fallible, run)


def _type_of_all(operands: Sequence[Expression]) -> DataType:
    kind = operands[0].type
    if kind.name in ("date", "timestamp") and all(
        o.type.name in (kind.name, "void") or (o.type.name == "string" and o.literal) for o in operands
    ):
        return kind
    return widest(operand.type for operand in operands)


def _looked_up(operand: Expression, values: Sequence[Any], kind: DataType, some_null: bool) -> Any:
    choices = pa.array(values, kind.to_arrow())

    def run(frame: Frame) -> Any:
        value = operand.array(frame)
        is_in = pc.is_in(value, value_set=choices)
        if some_null:
            is_in = pc.if_else(is_in, is_in, pa.scalar(None, pa.bool_()))
        return is_in if value.null_count == 0 else pc.if_else(value.is_valid(), is_in, pa.scalar(None, pa.bool_()))

    return run


def chosen(branches: Sequence[tuple[Expression, Expression]], default: Expression | None) -> Expression:
    """``CASE WHEN condition THEN value … ELSE default END``: a value is evaluated only for the rows that take it."""
    values = [value for _, value in branches] + ([default] if default is not None else [])
    if any(condition.literal for condition, _ in branches):
        raise UnsupportedExpression("a condition of CASE is constant")
    kind = widest(value.type for value in values)
    if kind == VOID:
        raise UnsupportedExpression("CASE has no value but NULL")
    if kind.name in NESTED and any(value.type != kind for value in values):
        raise UnsupportedExpression(f"CASE gives values of type {kind.ddl()}")
    ready = [(_condition(condition), widened(value, kind)) for condition, value in branches]
    otherwise = widened(default, kind) if default is not None else literal(None, kind)

    def run(frame: Frame) -> Any:
        left = pa.repeat(pa.scalar(True), frame.num_rows)
        taken: list[tuple[Any, Any]] = []
        for condition, value in ready:
            mask = is_true(condition.array_where(frame, left) if condition.fallible else condition.array(frame))
            mask = pc.and_(mask, left)
            left = pc.and_not(left, mask)
            taken.append((mask, value.array_where(frame, mask) if value.fallible else value.run(frame)))
        result = otherwise.array_where(frame, left) if otherwise.fallible else otherwise.run(frame)
        for mask, value in reversed(taken):
            result = pc.if_else(mask, value, result)
        return result

    fallible = otherwise.fallible or any(c.fallible or v.fallible for c, v in ready)
    return Expression(kind, otherwise.nullable or any(v.nullable for _, v in ready), fallible, run)
