"""Means of decimals, exact.

A sum of up to 38 digits and a count give a quotient that is rounded half up, as Spark's ``avg``.
"""

from __future__ import annotations

import decimal
from typing import TYPE_CHECKING, Any

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.expression import EvaluationFailure

if TYPE_CHECKING:
    import pyarrow as pa

_DIGITS = 38
"""Digits after the point to which Spark divides before it rounds to those of the result."""

_EXACT = decimal.Context(prec=2 * _DIGITS)


def decimal_means(totals: pa.Array, counts: pa.Array, result: DataType) -> pa.Array:
    """The mean per row, of type ``result``; null where the count is 0.

    Raises :class:`EvaluationFailure` for one that does not fit.
    """
    import numpy as np
    import pyarrow as pa

    counted = counts.to_numpy(zero_copy_only=False)
    scale = totals.type.scale
    more = 10 ** (result.scale - scale)
    small = _small(totals, counted, (1 << 61) // more) if scale <= 18 else None
    known = pa.array(counted != 0)
    if small is None:
        pairs = zip(totals.to_pylist(), counted.tolist(), strict=True)
        return pa.array(
            [None if not count else _mean(total, count, scale, result) for total, count in pairs], result.to_arrow()
        )
    # below these bounds whole numbers of 64 bits hold everything, and rounding once is the same as rounding twice
    divisor = np.where(counted == 0, 1, counted)
    rounded = (2 * np.abs(small) * more + divisor) // (2 * divisor)
    return _unscaled(np.where(small < 0, -rounded, rounded), known, result.to_arrow())


def _small(totals: pa.Array, counts: Any, bound: int) -> Any:
    """The unscaled totals as 64-bit numbers; None when one is not below the bound, or a count is enormous."""
    import numpy as np

    if len(totals) == 0:
        return np.array([], np.int64)
    halves = np.frombuffer(totals.buffers()[1], np.int64, 2 * len(totals), 16 * totals.offset)
    low = np.where(counts == 0, 0, halves[::2])
    high = np.where(counts == 0, 0, halves[1::2])
    fits = (high == low >> 63) & (low > -bound) & (low < bound)
    return low if fits.all() and counts.max() < 1 << 40 else None


def _unscaled(values: Any, known: pa.Array, kind: pa.DataType) -> pa.Array:
    """Unscaled 64-bit numbers as decimals."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    halves = np.empty(2 * len(values), np.int64)
    halves[::2], halves[1::2] = values, values >> 63
    made = pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(halves)])
    return pc.if_else(known, made, pa.scalar(None, kind))


def _mean(total: decimal.Decimal, count: int, scale: int, result: DataType) -> decimal.Decimal:
    unscaled = int(total.scaleb(scale, _EXACT))
    value = _half_up(_half_up(unscaled * 10 ** (_DIGITS - scale), count), 10 ** (_DIGITS - result.scale))
    if abs(value) >= 10**result.precision:
        raise EvaluationFailure("NUMERIC_VALUE_OUT_OF_RANGE", f"The mean does not fit into {result.ddl()}.")
    return decimal.Decimal(value).scaleb(-result.scale, _EXACT)


def _half_up(dividend: int, divisor: int) -> int:
    """The quotient as a whole number; halves go away from zero."""
    rounded = (2 * abs(dividend) + divisor) // (2 * divisor)
    return rounded if dividend >= 0 else -rounded
