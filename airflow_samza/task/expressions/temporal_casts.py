"""Casts from and to dates and timestamps, in UTC."""

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
from airflow_samza.task.expressions.days import DAY, as_dates, as_moments, date_text, days_of, moment_text, numbers_of
from airflow_samza.task.expressions.expression import EvaluationFailure, checked, masked, values_of
from airflow_samza.task.expressions.text_casts import SPACE, Conversion

_SECOND = 1_000_000
_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL | re.ASCII)


def temporal(source: DataType, target: DataType) -> tuple[Conversion, bool] | None:
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


def midnights(dates: Any) -> Any:
    """Dates as the timestamps at which they begin."""
    days = days_of(dates)
    if len(days) and np.abs(days).max() > (1 << 63) // DAY:
        raise EvaluationFailure("ARITHMETIC_OVERFLOW", "A date does not fit into timestamp.")
    return as_moments(days * DAY, dates)


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
