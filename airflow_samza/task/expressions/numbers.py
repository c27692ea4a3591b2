"""Functions of numbers.

What Java's and C's libraries round differently (power, exp, the logarithms) is left to Catalyst.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.arithmetic import (
    arithmetic,
    by_divisor,
    does_not_fit,
    modulo,
    negated,
    overflow,
    reject_rounded,
)
from airflow_samza.task.expressions.coercion import common_type, is_numeric, widened
from airflow_samza.task.expressions.expression import (
    BIGINT,
    DOUBLE,
    Expression,
    Function,
    UnsupportedExpression,
    applied,
    checked,
    constant,
    masked,
    spark_release,
    values_of,
)

_BIGINT_LIMIT = 2.0**63

_MOST_DIGITS = 15
"""To this many digits after the point a double is rounded on Arrow.

Powers of ten up to here are exact, and so is the division by them.
"""


def _number(name: str, operand: Expression) -> Expression:
    if not is_numeric(operand.type):
        raise UnsupportedExpression(f"{name} is given a {operand.type.ddl()}")
    return operand


def absolute(operand: Expression) -> Expression:
    """``abs(operand)``."""
    kind = _number("abs", operand).type
    reject_rounded(kind)
    if not kind.is_integer:
        return applied(kind, [operand], pc.abs)

    return applied(kind, [operand], checked(pc.abs_checked, partial(does_not_fit, kind)), fails=True)


def positive(operand: Expression) -> Expression:
    """``+ operand``."""
    if _number("positive", operand).fallible:
        raise UnsupportedExpression("a plus stands before a value that can fail, where Catalyst may leave it out")
    return operand


def whole(name: str, function: Callable[[Any], Any], operand: Expression) -> Expression:
    """``floor(operand)`` and ``ceil(operand)``: a bigint; a decimal without fraction.

    What is beyond a bigint is its limit, and since Spark 4.3 a failure.
    """
    kind = _number(name, operand).type
    if kind.name == "decimal":
        target = DataType("decimal", kind.precision - kind.scale + 1, 0)
        if target.precision > 38:
            raise UnsupportedExpression(f"{name} is given a {kind.ddl()}")
        return (
            operand
            if kind.scale == 0
            else applied(target, [operand], _rounding(kind, target, "down" if name == "floor" else "up"))
        )
    if kind.is_integer:
        return widened(operand, BIGINT)

    def kernel(values: Any) -> Any:
        result = function(values_of(values).astype(np.float64))
        if spark_release() >= (4, 3) and not np.all(_within_bigint(result) | np.isnan(result)):
            raise does_not_fit(BIGINT)
        return masked(_saturated(result), values, pa.int64())

    # With every Spark: a plan may be made beside another one than that of the stage.
    return applied(BIGINT, [operand], kernel, fails=True)


def _rounding(kind: DataType, target: DataType, mode: str) -> Callable[[Any], Any]:
    """Return what rounds decimals to the target's scale, with room for one digit more, which rounding may need."""
    if kind.precision == 38:
        raise UnsupportedExpression(f"a {kind.ddl()} is rounded")
    roomy, final = pa.decimal128(kind.precision + 1, kind.scale), target.to_arrow()
    return lambda values: pc.cast(pc.round(pc.cast(values, roomy), target.scale, round_mode=mode), final)


def _saturated(values: Any) -> Any:
    """Whole doubles as 64-bit integers the way Java casts them: NaN is 0, what is too great is the limit."""
    whole = np.where(_within_bigint(values), values, 0.0).astype(np.int64)
    whole[values >= _BIGINT_LIMIT] = np.iinfo(np.int64).max
    whole[values < -_BIGINT_LIMIT] = np.iinfo(np.int64).min
    return whole


def _within_bigint(values: Any) -> Any:
    return (values >= -_BIGINT_LIMIT) & (values < _BIGINT_LIMIT)


def rounded(operand: Expression, digits: Expression | None = None) -> Expression:
    """``round(operand[, digits])``: halves go away from zero; a double is rounded as it is written."""
    kind = _number("round", operand).type
    places = 0 if digits is None else constant("round", digits, "int")
    if places < 0 or places > _MOST_DIGITS:
        raise UnsupportedExpression(f"round to {places} digits")
    if kind.is_integer:
        return operand
    if kind.name == "decimal":
        scale = min(places, kind.scale)
        target = DataType("decimal", kind.precision - kind.scale + 1 + scale, scale)
        if target.precision > 38:
            raise UnsupportedExpression(f"round is given a {kind.ddl()}")
        return applied(target, [operand], _rounding(kind, target, "half_towards_infinity"))
    if kind.name == "float":
        raise UnsupportedExpression("round is given a float")
    return applied(kind, [operand], lambda values: masked(_half_up(values_of(values), places), values, pa.float64()))


def _half_up(values: Any, places: int) -> Any:
    """Doubles rounded by their shortest decimal form.

    Away from a half the scaled value decides; near one, and where scaling has no fraction left, the decimal
    form decides.
    """
    scale = np.float64(10.0**places)
    with np.errstate(all="ignore"):
        scaled = np.abs(values) * scale
        rest = scaled - np.floor(scaled)
        result = np.copysign(np.floor(scaled + 0.5) / scale, values) + 0.0  # a decimal has no -0
        # the error of scaling is below a unit in the last place, 2.3e-16 of the value; the band is four times as wide
        close = (np.abs(rest - 0.5) <= 1e-15 * scaled) | ~(scaled < 2.0**51)
    finite = np.isfinite(values)
    for place in np.flatnonzero(close & finite):
        result[place] = _written_half_up(float(values[place]), places)
    return result if finite.all() else np.where(finite, result, values)


def _written_half_up(value: float, places: int) -> float:
    written = decimal.Decimal(repr(value))
    if int(written.as_tuple().exponent) >= -places:
        return value
    return float(written.quantize(decimal.Decimal(1).scaleb(-places), decimal.ROUND_HALF_UP, decimal.Context(prec=400)))


def sign(operand: Expression) -> Expression:
    """``sign(operand)``, a double."""
    return applied(
        DOUBLE, [_as_double("sign", operand)], lambda values: masked(_signum(values_of(values)), values, pa.float64())
    )


def _signum(values: Any) -> Any:
    return np.where(values == 0, values, np.sign(values))


def square_root(operand: Expression) -> Expression:
    """``sqrt(operand)``, a double; NaN for what is negative."""
    return applied(DOUBLE, [_as_double("sqrt", operand)], pc.sqrt)


def _as_double(name: str, operand: Expression) -> Expression:
    return widened(_number(name, operand), DOUBLE)


def whole_quotient(left: Expression, right: Expression) -> Expression:
    """``left div right``: a bigint, cut off toward zero."""
    if not (left.type.is_integer and right.type.is_integer):
        raise UnsupportedExpression(f"{left.type.ddl()} div {right.type.ddl()}")

    quotient = checked(pc.divide_checked, partial(overflow, BIGINT))

    def divided(dividend: Any, divisor: Any) -> Any:
        return quotient(dividend, pc.if_else(pc.equal(divisor, 0), pa.scalar(1, pa.int64()), divisor))

    return by_divisor("DIVIDE_BY_ZERO", BIGINT, widened(left, BIGINT), widened(right, BIGINT), divided, fails=True)


def positive_remainder(left: Expression, right: Expression) -> Expression:
    """``pmod(left, right)``: the remainder that has not the dividend's sign but the divisor's."""
    kind = common_type(_number("pmod", left).type, _number("pmod", right).type)
    if kind.name == "decimal":
        raise UnsupportedExpression("pmod is given a decimal")

    def shifted(dividend: Any, divisor: Any) -> Any:
        rest = modulo(dividend, divisor)
        negative = pc.fill_null(pc.less(rest, pa.scalar(0, rest.type)), False)
        if negative.true_count == 0:
            return rest
        return pc.if_else(negative, modulo(pc.add(rest, divisor), divisor), rest)

    return by_divisor("REMAINDER_BY_ZERO", kind, widened(left, kind), widened(right, kind), shifted)


FUNCTIONS = {
    "abs": Function(absolute),
    "floor": Function(partial(whole, "floor", np.floor)),
    **dict.fromkeys(("ceil", "ceiling"), Function(partial(whole, "ceil", np.ceil))),
    "round": Function(rounded, 1, 2),
    "sign": Function(sign),
    "signum": Function(sign),
    "sqrt": Function(square_root),
    "mod": Function(lambda left, right: arithmetic("%", left, right), 2, 2),
    "pmod": Function(positive_remainder, 2, 2),
    "negative": Function(negated),
    "positive": Function(positive),
}
