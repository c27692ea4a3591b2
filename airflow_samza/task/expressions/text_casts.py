"""Casts of texts to numbers and booleans, and of numbers to texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.quoting import quoted
from airflow_samza.schema import DataType
from airflow_samza.task.expressions.expression import EvaluationFailure, checked

SPACE = "".join(map(chr, [*range(0x21), 0x7F]))
"""Characters that Spark trims from a text before it reads a number: ASCII white space and control characters."""

_JAVA_SPACE = "".join(map(chr, range(0x21)))
_PLAIN = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_NUMBER = re.compile(r"([+-]?)(?:NaN|Infinity|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?)", re.ASCII)
_SPECIAL = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "+infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
    "nan": "nan",
}
_TRUE, _FALSE = ["t", "true", "y", "yes", "1"], ["f", "false", "n", "no", "0"]
"""The words, in any case, that are read as booleans."""

Conversion = Callable[[Any], Any]


def texts(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
    """The conversion and whether it can fail; None for what is not among texts, numbers and booleans."""
    # Smaller decimals Arrow writes with an exponent.
    is_plain = source.is_integer or source.name == "boolean" or (source.name == "decimal" and source.scale <= 6)
    if target.name == "string" and is_plain:
        return lambda array: pc.cast(array, pa.string()), False
    if source.name != "string":
        return None
    if target.is_integer:
        return _integers(target), True
    if target.name in ("float", "double"):
        return read_floats(target), True
    return (_booleans, True) if target.name == "boolean" else None


def _invalid(array: Any, good: Any, target: DataType) -> EvaluationFailure:
    first = array.filter(pc.fill_null(pc.invert(good), False))[0].as_py()
    return EvaluationFailure("CAST_INVALID_INPUT", f"The text {quoted(first, 80)} is no {target.ddl()}.")


def _integers(target: DataType) -> Conversion:
    kind = target.to_arrow()
    failure = partial(EvaluationFailure, "CAST_INVALID_INPUT", f"A text does not fit into {target.ddl()}.")
    fitting = checked(pc.cast, failure)

    def convert(array: Any) -> Any:
        trimmed = pc.ascii_trim(array, characters=SPACE)
        good = pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]+\z")
        if good.true_count < len(array) - array.null_count:
            raise _invalid(array, good, target)
        return fitting(pc.replace_substring_regex(trimmed, r"\A\+", ""), kind)

    return convert


def read_number(text: str, target: DataType) -> str:
    """A number as Java reads it, as a text that Arrow reads."""
    match = _NUMBER.fullmatch(text.strip(_JAVA_SPACE))
    if match is not None:
        sign, digits = match.groups()
        return sign + digits if digits else "nan" if "NaN" in match.group() else f"{sign}inf"
    special = _SPECIAL.get(text.strip(_JAVA_SPACE).lower())
    if special is None:
        raise EvaluationFailure("CAST_INVALID_INPUT", f"The text {quoted(text, 80)} is no {target.ddl()}.")
    return special


def read_floats(target: DataType, read: Callable[[str, DataType], str | None] = read_number) -> Conversion:
    """Return the conversion of texts to numbers with a fraction; ``read`` reads those of an unusual form."""
    kind = target.to_arrow()

    def convert(array: Any) -> Any:
        good = pc.match_substring_regex(array, _PLAIN)
        if good.true_count < len(array) - array.null_count:
            array = pa.array([None if text is None else read(text, target) for text in array.to_pylist()], pa.string())
        return pc.cast(pc.replace_substring_regex(array, r"\A\+", ""), kind)

    return convert


def read_booleans(texts: Any) -> Any:
    """Texts as booleans, null where one is none."""
    words = pc.ascii_lower(pc.ascii_trim(texts, characters=SPACE))
    yes, no = pc.is_in(words, value_set=pa.array(_TRUE)), pc.is_in(words, value_set=pa.array(_FALSE))
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _booleans(array: Any) -> Any:
    values = read_booleans(array)
    if values.null_count > array.null_count:
        raise _invalid(array, pc.or_(values.is_valid(), array.is_null()), DataType("boolean"))
    return values
