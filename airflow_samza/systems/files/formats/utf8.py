"""Checks that text is UTF-8: Arrow reads what Parquet and ORC call text without looking."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types


def is_text(column: pa.Array) -> bool:
    """Return whether all text in a column, at any depth, is UTF-8.

    Values are looked through together: one by one it takes ten times as long.
    """
    kind = column.type
    if types.is_string(kind):
        return not len(column) or _is_plain(column) or _is_valid(column)
    if types.is_dictionary(kind):
        return is_text(column.dictionary)
    if types.is_struct(kind):
        return all(is_text(inner) for inner in column.flatten())
    if types.is_map(kind):
        return is_text(column.keys) and is_text(column.items)
    return not types.is_list(kind) or is_text(column.flatten())


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
