"""Text of CSV as values of a column's type, in the unambiguous forms that Spark's reader accepts.

Whole numbers are digits with a sign, so ``0x1F``, ``1_000``, ``1e3`` and spaces are none. Numbers with a fraction may
have an exponent; what is too large for a ``double`` or ``float`` does not become infinite. ``NaN``, ``Inf`` and
``Infinity`` are read in any letter case.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.systems.files.formats.text_values import parse_text

_TYPES = (pa.int64(), pa.bool_(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.float64())

_INFINITE = r"(?i)^[+-]?inf(inity)?$"


def parse_column(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text in its type; one value that has none is a ``pyarrow.ArrowInvalid``."""
    if types.is_string(kind):
        return column
    if types.is_integer(kind):
        return _integers(column, kind)
    if types.is_floating(kind):
        return _floats(column, kind)
    if types.is_timestamp(kind) or types.is_date(kind):
        return parse_text(column, kind)
    return pc.cast(column, kind)


def type_of(column: pa.Array) -> pa.DataType:
    """Return the type in which all values of a column of text are read; text where none is, or there are no values."""
    if column.null_count < len(column):
        for kind in _TYPES:
            try:
                parse_column(column, kind)
            except pa.ArrowInvalid:
                continue
            return kind
    return pa.string()


def _integers(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        numbers = pc.cast(column, kind)
    except pa.ArrowInvalid:
        numbers = pc.cast(pc.replace_substring_regex(column, r"^\+([0-9])", r"\1"), kind)
    if _holds_x(column):
        raise pa.ArrowInvalid("a hexadecimal number")
    return numbers


def _holds_x(column: pa.Array) -> bool:
    """Return whether Arrow can have read hexadecimal digits.

    The buffer of texts is looked through at once, so there may be none for all that.
    """
    data = column.buffers()[2]
    if data is None:
        return False
    content = data.to_pybytes()
    if b"x" not in content and b"X" not in content:
        return False
    return bool(pc.any(pc.match_substring_regex(column, "[xX]")).as_py())


def _floats(column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        numbers = pc.cast(column, kind)
    except pa.ArrowInvalid:
        column = pc.ascii_trim_whitespace(column)
        numbers = pc.cast(column, kind)
    infinite = pc.is_inf(numbers)
    if pc.any(infinite).as_py() and not pc.all(pc.match_substring_regex(column.filter(infinite), _INFINITE)).as_py():
        raise pa.ArrowInvalid("a number that is too large")
    return numbers
