"""A function of the subset.

The number of its arguments, how it is built, and how they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.expression import Expression, Frame, UnsupportedExpression

STRING = DataType("string")


@dataclass(frozen=True)
class Function:
    """A function of the subset.

    ``build`` takes ``least`` to ``most`` compiled arguments (``most`` None: any number).
    """

    build: Callable[..., Expression]
    least: int = 1
    most: int | None = 1

    def takes(self, count: int) -> bool:
        """Return whether it takes that many arguments."""
        return self.least <= count and (self.most is None or count <= self.most)


def need(name: str, operand: Expression, *kinds: str) -> Expression:
    """The operand, whose type must be one of ``kinds`` as it stands: what Catalyst would cast is left to Catalyst."""
    if operand.type.name not in kinds:
        raise UnsupportedExpression(f"{name} is given a {operand.type.ddl()}")
    return operand


def constant(name: str, operand: Expression, *kinds: str) -> Any:
    """The value of a literal operand (or a literal that is cast) of one of ``kinds``."""
    if operand.value is None:
        raise UnsupportedExpression(f"an argument of {name} is no literal")
    return need(name, operand, *kinds).value


def arrays(frame: Frame, operands: Sequence[Expression]) -> list[Any]:
    """The operands' values, left to right.

    Like Spark, one that can fail is not evaluated where one before it is null.
    """
    columns: list[Any] = []
    valid_rows: pa.Array | None = None
    for operand in operands:
        if operand.fallible and valid_rows is not None:
            columns.append(operand.array_where(frame, valid_rows))
        else:
            columns.append(operand.array(frame))
        if columns[-1].null_count and len(columns) < len(operands):
            valid = columns[-1].is_valid()
            valid_rows = valid if valid_rows is None else pc.and_(valid_rows, valid)
    return columns


def applied(
    kind: DataType,
    operands: Sequence[Expression],
    kernel: Callable[..., Any],
    *,
    fails: bool = False,
    nullable: bool = False,
) -> Expression:
    """``kernel`` over the operands' arrays: null where an operand is null.

    ``fails``: it can raise an EvaluationFailure. ``nullable``: it can give null also where no operand is.
    """

    def run(frame: Frame) -> Any:
        return kernel(*arrays(frame, operands))

    fallible = fails or any(operand.fallible for operand in operands)
    return Expression(kind, nullable or any(operand.nullable for operand in operands), fallible, run)


def row_by_row(kind: DataType, function: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that calls ``function`` with Python values, for what Arrow has no kernel for."""
    target = kind.to_arrow()

    def kernel(*columns: Any) -> pa.Array:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], target)

    return kernel
