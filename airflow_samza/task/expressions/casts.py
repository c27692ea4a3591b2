"""``CAST`` among the simple types, ANSI, in UTC: what does not fit is an error, a fraction is cut off toward zero."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.quoting import quoted
from airflow_samza.schema import DataType
from airflow_samza.task.expressions.coercion import decimal_to_double, is_floating
from airflow_samza.task.expressions.days import (
    as_dates,
    as_moments,
    date_text,
    days_of,
    midnights,
    moment_text,
    numbers_of,
)
from airflow_samza.task.expressions.expression import (
    VOID,
    EvaluationFailure,
    Expression,
    Frame,
    UnsupportedExpression,
    checked,
    literal,
    masked,
    values_of,
)
from airflow_samza.task.expressions.text_casts import SPACE, Conversion, texts

_SECOND = 1_000_000
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def cast(operand: Expression, kind: DataType) -> Expression:
    """``CAST(operand AS kind)``."""
    if operand.type == kind:
        return operand
    if operand.type == VOID:
        return literal(None, kind)
    convert, fallible = _conversion(operand.type, kind)

    def run(frame: Frame) -> Any:
        return convert(operand.array(frame))

    forced = operand.type.name == "string" or (
        is_floating(operand.type) and kind.is_integer
    )  # nullable by Catalyst's types
    value = _folded(operand, convert)
    return Expression(
        kind, operand.nullable or forced, value is None and (fallible or operand.fallible), run, value=value
    )


def _folded(operand: Expression, convert: Conversion) -> Any:
    """Return the value of a literal that is cast; the result is no literal, since Catalyst types it as a cast."""
    if operand.value is None:
        return None
    try:
        return convert(pa.array([operand.value], operand.type.to_arrow()))[0].as_py()
    except EvaluationFailure:
        return None


def _conversion(source: DataType, target: DataType) -> tuple[Conversion, bool]:
    """The conversion of an array, and whether a value can make it fail."""
    for rule in (_between_integers, _between_floating, _to_integers, _booleans, _decimals, texts, _temporal):
        conversion = rule(source, target)
        if conversion is not None:
            return conversion
    raise UnsupportedExpression(f"a {source.ddl()} is cast to {target.ddl()}")


def _unsafe(target: DataType) -> Conversion:
    kind = target.to_arrow()
    return lambda array: pc.cast(array, kind, safe=False)


def _checked(target: DataType, condition: str) -> Conversion:
    return checked(partial(pc.cast, target_type=target.to_arrow()), partial(_too_great, condition, target))


def _too_great(condition: str, target: DataType) -> EvaluationFailure:
    return EvaluationFailure(condition, f"A value does not fit into {target.ddl()}.")


def _between_integers(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    if not (source.is_integer and target.is_integer):
        return None
    narrower = BITS[target.name] < BITS[source.name]
    return (_checked(target, "CAST_OVERFLOW"), True) if narrower else (_unsafe(target), False)


def _between_floating(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    if is_floating(target) and (source.is_integer or is_floating(source)):
        return _unsafe(target), False
    return None


def _to_integers(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    if not (is_floating(source) and target.is_integer):
        return None
    bits = BITS[target.name]
    limit = np.float64(2.0 ** (bits - 1))
    dtype = np.dtype(f"int{bits}")
    kind = target.to_arrow()

    def convert(array: pa.Array) -> pa.Array:
        values = values_of(array).astype(np.float64, copy=False)
        # Spark lets 2^63 pass as a bigint: as a double it equals the greatest one
        fits = (values >= -limit) & (values <= limit) if bits == 64 else (values > -limit - 1) & (values < limit)
        if not fits.all():
            raise _too_great("CAST_OVERFLOW", target)
        if bits == 64 and (values == limit).any():
            whole = np.where(
                values == limit, np.iinfo(np.int64).max, np.where(values == limit, 0.0, values).astype(np.int64)
            )
        else:
            whole = values.astype(dtype)
        return masked(whole, array, kind)

    return convert, True


def _booleans(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    if source.name == "boolean" and (target.is_integer or is_floating(target)):
        kind = target.to_arrow()
        return lambda array: pc.cast(pc.cast(array, pa.int8()), kind), False
    if target.name == "boolean" and (source.is_integer or is_floating(source) or source.name == "decimal"):
        return lambda array: pc.not_equal(array, pa.scalar(0, array.type)), False
    return None


def _decimals(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    if target.name == "decimal" and source.is_integer:
        wide = pa.decimal128(38, 0)
        rescale = _checked(target, "NUMERIC_VALUE_OUT_OF_RANGE")
        digits = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}[source.name]
        return lambda array: rescale(pc.cast(array, wide)), target.precision - target.scale < digits
    if source.name == "decimal" == target.name:
        if target.scale < source.scale:
            return _rounded(source, target)
        fits = target.precision - target.scale >= source.precision - source.scale
        return _checked(target, "NUMERIC_VALUE_OUT_OF_RANGE"), not fits
    if source.name == "decimal" and target.name == "double":
        return lambda array: decimal_to_double(array, source), False
    if source.name == "decimal" and target.is_integer:
        if source.precision == 38:
            return None
        whole, roomy = _checked(target, "CAST_OVERFLOW"), pa.decimal128(source.precision + 1, source.scale)
        return lambda array: whole(pc.trunc(pc.cast(array, roomy))), True
    return None


def _rounded(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    """To fewer digits after the point: halves go away from zero."""
    if source.precision == 38:
        return None
    roomy = pa.decimal128(source.precision + 1, source.scale)
    rescale = _checked(target, "NUMERIC_VALUE_OUT_OF_RANGE")
    fits = target.precision - target.scale > source.precision - source.scale
    return lambda array: rescale(
        pc.round(pc.cast(array, roomy), target.scale, round_mode="half_towards_infinity")
    ), not fits


def _temporal(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    """The conversion and whether it can fail; None for what is not among dates, timestamps, their texts and seconds."""
    if target.name == "date" and source.name == "timestamp":
        return lambda moments: as_dates(days_of(moments), moments), False
    if target.name == "date" and source.name == "string":
        return read_dates, True
    if target.name == "timestamp" and source.name == "date":
        return midnights, True
    if target.name == "string" and source.name in ("date", "timestamp"):
        return date_text if source.name == "date" else moment_text, False
    if source.name == "timestamp" and target.name == "double":
        return lambda moments: masked(numbers_of(moments) / np.float64(_SECOND), moments, pa.float64()), False
    if source.name == "timestamp" and target.is_integer:
        return _seconds(target), target.name != "bigint"
    if target.name == "timestamp" and source.is_integer:
        return _moments, False
    return None


def _seconds(target: DataType) -> Conversion:
    kind = target.to_arrow()
    failure = partial(EvaluationFailure, "CAST_OVERFLOW", f"A timestamp does not fit into {target.ddl()}.")
    fitting = checked(pc.cast, failure)
    return lambda moments: fitting(masked(numbers_of(moments) // _SECOND, moments, pa.int64()), kind)


def _moments(seconds: Any) -> Any:
    values = values_of(seconds).astype(np.int64)
    limits = np.iinfo(np.int64)
    result = np.where(np.abs(values) <= limits.max // _SECOND, values, 0) * _SECOND
    result = np.where(
        values > limits.max // _SECOND, limits.max, np.where(values < -(limits.max // _SECOND), limits.min, result)
    )
    return as_moments(result, seconds)


def read_date(text: str) -> int:
    """The days of a text.

    A year of 4 to 7 digits, perhaps a month, perhaps a day, perhaps a blank or T and anything.
    """
    match = _DATE.fullmatch(text.strip(SPACE))
    if match is not None:
        sign, year, month, day = match.groups()
        days = _day_of(-int(year) if sign == "-" else int(year), int(month or 1), int(day or 1))
        if days is not None:
            return days
    raise EvaluationFailure("CAST_INVALID_INPUT", f"The text {quoted(text, 80)} is no date.")


def read_dates(texts: Any, read: Callable[[str], int | None] = read_date) -> Any:
    """Texts as dates; ``read`` reads those of an unusual form."""
    plain = pc.match_substring_regex(texts, r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z")
    if plain.true_count == len(texts) - texts.null_count:
        try:
            return pc.cast(texts, pa.date32())
        except pa.ArrowInvalid:
            pass  # one of them is no day of the calendar; below it is found
    days = [None if text is None else read(text) for text in texts.to_pylist()]
    return pa.array(days, pa.int32()).view(pa.date32())


def _day_of(year: int, month: int, day: int) -> int | None:
    if not 1 <= month <= 12:
        return None
    first = np.datetime64((year - 1970) * 12 + month - 1, "M")
    days = int(first.astype("datetime64[D]").astype(np.int64)) + day - 1
    inside = (
        day >= 1 and days < int((first + 1).astype("datetime64[D]").astype(np.int64)) and -(1 << 31) <= days < 1 << 31
    )
    return days if inside else None
