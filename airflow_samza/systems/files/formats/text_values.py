"""Text in columns: whether it is UTF-8, and values that text formats write as text (points in time, dates, bytes).

Arrow reads what Parquet and ORC call text without looking, so it is looked at here.
"""

from __future__ import annotations

import base64

import numpy as np
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
    if types.is_date(kind):
        return pc.cast(column, kind)
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
    """Return whether all text in a column, at any depth, is UTF-8.

    Values are looked through together: one by one it takes ten times as long.
    """
    texts = [leaf for leaf in leaves_of(column) if types.is_string(leaf.type) and len(leaf)]
    return all(_is_plain(leaf) or _is_valid(leaf) for leaf in texts)


def _is_plain(column: pa.StringArray) -> bool:
    """Return whether the bytes of all values are UTF-8, and none begins in the middle of a character."""
    _, offsets, data = column.buffers()
    if data is None or not data.size:
        return True
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    first, last = int(places[0]), int(places[-1])
    content = data.slice(first, last - first)
    if not content.size or content.to_pybytes().isascii():
        return True
    whole = pa.StringArray.from_buffers(1, pa.py_buffer(np.array([0, content.size], np.int32)), content)
    if not _is_valid(whole):
        return False
    starts = places[places < last] - first
    return not ((np.frombuffer(content, np.uint8)[starts] & 0xC0) == 0x80).any()


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
