"""Text in columns: whether it is UTF-8, and values that text formats write as text (points in time, dates, bytes).

Arrow reads what Parquet and ORC call text without looking, so it is looked at here.
"""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.systems.files.formats.nested import leaves_of


def is_text_leaf(kind: pa.DataType) -> bool:
    """Return whether a text format carries values of this type as text of a certain form."""
    return bool(types.is_timestamp(kind) or types.is_date(kind) or types.is_binary(kind))


def parse_text(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of text as timestamps (ISO 8601; without an offset: UTC), dates (ISO 8601) or bytes (base64).

    Text of another form is a ``pyarrow.ArrowInvalid``.
    """
    if types.is_timestamp(kind):
        return _timestamps(column, kind)
    if types.is_binary(kind):
        try:
            return pa.array(
                [None if v is None else base64.b64decode(v, validate=True) for v in column.to_pylist()], kind
            )
        except ValueError as error:
            raise pa.ArrowInvalid(f"text that is not base64: {error}") from error
    return pc.cast(column, kind)


def _timestamps(column: pa.Array, kind: pa.TimestampType) -> pa.Array:
    naive = pa.timestamp(kind.unit)
    if kind.tz is None:
        return pc.cast(column, naive)
    # Casting wants all values with an offset or all without: sort them apart by their form.
    with_offset = pc.match_substring_regex(column, r"(Z|[+-]\d\d(:?\d\d)?)$")
    date_only = pc.match_substring_regex(column, r"^\d{4}-\d\d-\d\d$")  # the day of a date looks like an offset
    with_offset = pc.and_(with_offset, pc.invert(date_only))
    missing = pa.scalar(None, column.type)
    zoned = pc.cast(pc.if_else(with_offset, column, missing), kind)
    unzoned = pc.assume_timezone(pc.cast(pc.if_else(with_offset, missing, column), naive), kind.tz)
    return pc.coalesce(zoned, unzoned)


def is_text(column: pa.Array) -> bool:
    """Return whether all text in a column, at any depth, is UTF-8."""
    return all(_is_valid(leaf) for leaf in leaves_of(column) if types.is_string(leaf.type))


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
