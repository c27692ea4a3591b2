"""Functions that choose among their arguments: coalesce and its kin, greatest and least."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import pyarrow.compute as pc

from airflow_samza.task.expressions.coercion import NESTED, is_floating, widened, widest
from airflow_samza.task.expressions.expression import VOID, Expression, Frame, Function, UnsupportedExpression, literal
from airflow_samza.task.expressions.predicates import chosen, compared, comparison


def coalesce(*operands: Expression) -> Expression:
    """The first operand that is not null; an operand is evaluated only for the rows on which all before it are null."""
    ready = _same_type("coalesce", operands)
    if not operands[0].nullable:  # a literal, too, but not to the types of decimal arithmetic
        return dataclasses.replace(ready[0], literal=False, place=None)

    def run(frame: Frame) -> Any:
        result = ready[0].array(frame)
        for operand in ready[1:]:
            if result.null_count == 0:
                break
            missing = result.is_null()
            result = pc.if_else(
                missing, operand.array_where(frame, missing) if operand.fallible else operand.run(frame), result
            )
        return result

    return Expression(ready[0].type, all(o.nullable for o in operands), any(o.fallible for o in ready), run)


def _same_type(name: str, operands: tuple[Expression, ...]) -> list[Expression]:
    kind = widest(operand.type for operand in operands)
    if kind == VOID:
        raise UnsupportedExpression(f"{name} has no argument but NULL")
    if kind.name in NESTED and any(operand.type != kind for operand in operands):
        raise UnsupportedExpression(f"{name} is given values of type {kind.ddl()}")
    return [widened(operand, kind) for operand in operands]


def nullif(operand: Expression, other: Expression) -> Expression:
    """Null where both are equal, else the first."""
    return chosen([(comparison("=", operand, other), literal(None, operand.type))], operand)


def extreme(name: str, symbol: str, *operands: Expression) -> Expression:
    """The greatest or the least operand that is not null; NaN is greater than all."""
    ready = _same_type(name, operands)
    kind = ready[0].type
    if kind.name in NESTED:
        raise UnsupportedExpression(f"{name} is given values of type {kind.ddl()}")
    floating = is_floating(kind)

    def run(frame: Frame) -> Any:
        result = ready[0].array(frame)
        for operand in ready[1:]:
            value = operand.array(frame)
            better = pc.fill_null(compared(symbol, value, result, floating), False)  # of equal ones the first stays
            better = pc.or_(better, pc.and_(result.is_null(), value.is_valid()))
            result = pc.if_else(better, value, result)
        return result

    return Expression(kind, all(o.nullable for o in operands), any(o.fallible for o in ready), run)


FUNCTIONS = {
    "coalesce": Function(coalesce, 1, None),
    "nvl": Function(coalesce, 2, 2),
    "ifnull": Function(coalesce, 2, 2),
    "nullif": Function(nullif, 2, 2),
    "greatest": Function(partial(extreme, "greatest", ">"), 2, None),
    "least": Function(partial(extreme, "least", "<"), 2, None),
}
