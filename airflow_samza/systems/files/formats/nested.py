"""Nested columns and their values, taken apart: one walk for all formats.

Formats, serdes and the columns of lakes' tables walk by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types


def leaves_of(column: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns of plain values of which a column is made, at any depth: itself, where it is plain.

    Of a list only what its rows hold counts; of a dictionary all values do.
    """
    kind = column.type
    if types.is_struct(kind):
        inner = column.flatten()
    elif types.is_map(kind):
        inner = [column.keys, column.items]
    elif types.is_list(kind) or types.is_large_list(kind):
        inner = [column.flatten()]
    elif types.is_dictionary(kind):
        inner = [column.dictionary]
    else:
        yield column
        return
    for one in inner:
        yield from leaves_of(one)


def offsets_of(column: pa.Array) -> pa.Array:
    """Return where each list begins; a place that is null makes its list null."""
    missing = np.append(pc.is_null(column).to_numpy(zero_copy_only=False), False)
    return pa.array(column.offsets.to_numpy(), pa.int32(), mask=missing)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the rows of a batch; a map is a dict."""
    columns = [
        [python_value(value, field.type) for value in batch.column(place).to_pylist()]
        for place, field in enumerate(batch.schema)
    ]
    return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def python_value(value: Any, kind: pa.DataType, leaf: Callable[[Any, pa.DataType], Any] | None = None) -> Any:
    """Return a value of Arrow with maps as dicts, and plain values as they are, or as ``leaf`` makes them."""
    if value is None:
        return None
    if types.is_map(kind):
        return {python_value(key, kind.key_type, leaf): python_value(item, kind.item_type, leaf) for key, item in value}
    if types.is_struct(kind):
        return {field.name: python_value(value[field.name], field.type, leaf) for field in kind}
    if types.is_list(kind):
        return [python_value(item, kind.value_type, leaf) for item in value]
    return value if leaf is None else leaf(value, kind)
