"""A compiled expression: how it is made, the rows it is evaluated on, and how it ends: with values, or failed.

Operators with SQL, aggregations and expectations evaluate them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType

VOID = DataType("void")
"""The type of a bare NULL."""

BOOLEAN = DataType("boolean")
INT = DataType("int")
BIGINT = DataType("bigint")
DOUBLE = DataType("double")
STRING = DataType("string")


class UnsupportedExpression(Exception):
    """Error for an expression outside the subset that surely equals Spark; the text is the reason, a half sentence."""


REPEATED = "conditions repeat beside one that can fail, which Catalyst may drop"
DECIDED_AHEAD = "a condition that Catalyst may decide ahead stands beside one that can fail"


class EvaluationFailure(Exception):
    """A row on which the expression has no value.

    ``condition`` is Spark's error condition, such as ``DIVIDE_BY_ZERO``.
    """

    def __init__(self, condition: str, sentence: str) -> None:
        self.condition = condition
        self.sentence = sentence
        super().__init__(f"[{condition}] {sentence}")


def checked(kernel: Callable[..., Any], failure: Callable[[], EvaluationFailure]) -> Callable[..., Any]:
    """Return a kernel that fails as Spark does, where Arrow's finds that a result does not fit."""

    def run(*operands: Any) -> Any:
        try:
            return kernel(*operands)
        except pa.ArrowInvalid:
            raise failure() from None

    return run


@lru_cache(maxsize=1)
def spark_release() -> tuple[int, int]:
    """Return the feature release of the Spark that is installed, whose results expressions have to equal.

    (0, 0) where none is.
    """
    for distribution in ("pyspark", "pyspark-client"):
        with suppress(PackageNotFoundError):
            major, minor, *_ = version(distribution).split(".")
            return int(major), int(minor)
    return 0, 0


def no_timestamp(condition: str = "ARITHMETIC_OVERFLOW") -> EvaluationFailure:
    """Return the failure of a time that is before the first timestamp, or behind the last."""
    return EvaluationFailure(condition, "A timestamp does not fit.")


class Frame:
    """The columns of some rows, decoded; a restricted frame filters a column only when it is asked for."""

    __slots__ = ("_columns", "_mask", "_parent", "num_rows")

    def __init__(
        self, columns: Sequence[pa.Array], num_rows: int, parent: Frame | None = None, mask: pa.Array = None
    ) -> None:
        self._columns: list[pa.Array | None] = list(columns)
        self.num_rows = num_rows
        self._parent = parent
        self._mask = mask

    def column(self, place: int) -> pa.Array:
        """Column number ``place``."""
        column = self._columns[place]
        if column is None:
            assert self._parent is not None
            column = self._columns[place] = self._parent.column(place).filter(self._mask)
        elif pa.types.is_dictionary(column.type):
            column = self._columns[place] = column.dictionary_decode()
        return column

    def where(self, mask: pa.Array, count: int) -> Frame:
        """The ``count`` rows for which ``mask`` (without nulls) is true."""
        return Frame([None] * len(self._columns), count, self, mask)


@dataclass(frozen=True)
class Expression:
    """An expression compiled for one schema.

    ``run`` gives an Arrow array of the frame's length, or a scalar. ``fallible``: a row can make it fail, so
    that it must not be evaluated on rows on which Spark would not evaluate it. ``value`` is the Python value of a
    constant, where it is known; ``literal`` marks one that is a literal for Catalyst, too, or whose type would be the
    same if it were. ``place`` is that of a column of the input as it is.
    """

    type: DataType
    nullable: bool
    fallible: bool
    run: Callable[[Frame], Any]
    literal: bool = False
    value: Any = None
    place: int | None = None

    def array(self, frame: Frame) -> pa.Array:
        """The value for every row, as an array."""
        result = self.run(frame)
        if isinstance(result, pa.Scalar):
            return pa.repeat(result, frame.num_rows)
        return result.combine_chunks() if isinstance(result, pa.ChunkedArray) else result

    def array_where(self, frame: Frame, mask: pa.Array) -> pa.Array:
        """The value for the rows for which ``mask`` (no nulls) is true and null elsewhere.

        No other row is evaluated.
        """
        count = mask.true_count
        if count == frame.num_rows:
            return self.array(frame)
        if count == 0:
            return pa.nulls(frame.num_rows, self.type.to_arrow())
        values = self.array(frame.where(mask, count))
        chosen = mask.to_numpy(zero_copy_only=False)
        places = np.cumsum(chosen) - 1
        return values.take(pa.array(places, pa.int64(), mask=~chosen))


def literal(value: Any, kind: DataType) -> Expression:
    """A constant."""
    scalar = pa.scalar(None) if kind == VOID else pa.scalar(value, kind.to_arrow())
    return Expression(kind, value is None, False, lambda frame: scalar, literal=True, value=value)


def column(place: int, kind: DataType, nullable: bool) -> Expression:
    """A column of the input."""
    return Expression(kind, nullable, False, lambda frame: frame.column(place), place=place)


def is_true(mask: pa.Array) -> pa.Array:
    """A condition's result with null as false."""
    return mask if mask.null_count == 0 else pc.fill_null(mask, False)


def values_of(array: pa.Array, fill: Any = 0) -> Any:
    """A numeric array as numpy values; what stands at nulls is ``fill``."""
    return (array if array.null_count == 0 else array.fill_null(fill)).to_numpy(zero_copy_only=False)


def masked(values: Any, like: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numpy values as an Arrow array with the nulls of ``like``."""
    if like.null_count == 0:
        return pa.array(values, kind)
    return pa.array(values, kind, mask=like.is_null().to_numpy(zero_copy_only=False))


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
