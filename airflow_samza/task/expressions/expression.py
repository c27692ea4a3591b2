"""A compiled expression, the rows it is evaluated on, and the two ways in which it can end: unsupported, or failed.

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
