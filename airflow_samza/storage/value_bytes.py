"""Values as bytes (decision 41): a mask of nulls, then columns of a fixed width, then texts and nested values.

One row is turned at a time, or whole columns. The layout says the types, so the bytes do not. A nested value is
MessagePack (decision 71).
"""

from __future__ import annotations

import datetime
import decimal
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType, Schema
from airflow_samza.storage.key_bytes import EPOCH_DAY, WIDE, fixed_binary, microseconds, time_of, unscaled

_LETTERS = {
    "boolean": "?",
    "tinyint": "b",
    "smallint": "h",
    "int": "i",
    "bigint": "q",
    "float": "f",
    "double": "d",
    "date": "i",
    "timestamp": "q",
    "timestamp_ntz": "q",
    "decimal": "16s",
}


class ValueBytes:
    """The values of one layout: tuples of one Python value per column."""

    def __init__(self, value: Schema) -> None:
        self._types = [field.type for field in value.fields]
        self._fixed = [kind.name in _LETTERS for kind in self._types]
        self._bits = (len(self._types) + 7) // 8
        letters = "".join(_LETTERS.get(kind.name, "I") for kind in self._types)
        self._head = struct.Struct(f"<{self._bits}s{letters}")
        self._read = [_reader(kind) for kind in self._types]
        # Most values are numbers and texts as Python has them.
        self._as_they_are = [
            kind.name in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double") for kind in self._types
        ]

    def encoded(self, values: Sequence[Any]) -> bytes:
        """Return the bytes of a value."""
        missing = 0
        head: list[Any] = []
        tails = []
        for place, (value, kind) in enumerate(zip(values, self._types, strict=True)):
            if value is None:
                missing |= 1 << place
                head.append(bytes(16) if kind.name == "decimal" else 0)
            elif self._as_they_are[place]:
                head.append(value)
            elif self._fixed[place]:
                head.append(_plain(value, kind))
            else:
                tail = _tail(value, kind)
                head.append(len(tail))
                tails.append(tail)
        return b"".join((self._head.pack(missing.to_bytes(self._bits, "little"), *head), *tails))

    def decoded(self, data: bytes) -> tuple[Any, ...]:
        """Return the value of bytes."""
        bits, *head = self._head.unpack_from(data)
        missing = int.from_bytes(bits, "little")
        at = self._head.size
        for place, kind in enumerate(self._types):
            if missing >> place & 1:
                head[place] = None
            elif self._as_they_are[place]:
                continue
            elif self._fixed[place]:
                head[place] = _shown(head[place], kind)
            else:
                end = at + head[place]
                head[place] = self._read[place](data[at:end])
                at = end
        return tuple(head)

    def encoded_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the bytes of every row's value, as a binary array."""
        rows = len(columns[0])
        fields: list[tuple[str, Any]] = [("missing", f"V{self._bits}")]
        fields += [
            (f"c{place}", _LETTERS_OF_NUMPY.get(_LETTERS.get(kind.name, "I"), ""))
            for place, kind in enumerate(self._types)
        ]
        head = np.zeros(rows, np.dtype(fields))
        missing = np.zeros((rows, self._bits), np.uint8)
        tails = []
        for place, (column, kind) in enumerate(zip(columns, self._types, strict=True)):
            if column.null_count:
                is_null = column.is_null().to_numpy(zero_copy_only=False)
                missing[is_null, place // 8] |= np.uint8(1 << place % 8)
            if self._fixed[place]:
                head[f"c{place}"] = _numbers(column, kind)
                continue
            tail = _tails(column, kind)
            head[f"c{place}"] = (
                np.diff(np.frombuffer(tail.buffers()[1], np.int32, rows + 1, tail.offset * 4)) if rows else 0
            )
            tails.append(tail)
        head["missing"] = missing.reshape(-1).view(f"V{self._bits}") if rows else head["missing"]
        heads = fixed_binary(head.view(np.uint8).reshape(rows, head.dtype.itemsize), head.dtype.itemsize)
        return pc.binary_join_element_wise(heads, *tails, b"") if tails else heads


_LETTERS_OF_NUMPY = {
    "?": "?",
    "b": "<i1",
    "h": "<i2",
    "i": "<i4",
    "q": "<i8",
    "f": "<f4",
    "d": "<f8",
    "16s": "V16",
    "I": "<u4",
}


def _plain(value: Any, kind: DataType) -> Any:
    if kind.name == "date":
        return value.toordinal() - EPOCH_DAY
    if kind.name == "decimal":
        return unscaled(value, kind.scale).to_bytes(16, "little", signed=True)
    return microseconds(value)


def _shown(value: Any, kind: DataType) -> Any:
    if kind.name == "date":
        return datetime.date.fromordinal(value + EPOCH_DAY)
    if kind.name == "decimal":
        return decimal.Decimal(int.from_bytes(value, "little", signed=True)).scaleb(-kind.scale, WIDE)
    return time_of(value, kind.name == "timestamp")


def _numbers(column: pa.Array, kind: DataType) -> Any:
    """Return a fixed-width column as numpy writes it into the head; zero where it is null."""
    if kind.name == "decimal":
        if not len(column):
            return np.empty(0, "V16")
        words = np.frombuffer(column.buffers()[1], "<u8", 2 * len(column), column.offset * 16).copy()
        if column.null_count:
            words.reshape(-1, 2)[column.is_null().to_numpy(zero_copy_only=False)] = 0
        return words.view("V16")
    if kind.name == "date":
        column = column.cast(pa.int32())
    elif kind.name in ("timestamp", "timestamp_ntz"):
        column = column.cast(pa.int64())
    if column.null_count:
        column = column.fill_null(False if kind.name == "boolean" else 0)
    return column.to_numpy(zero_copy_only=False)


def _tails(column: pa.Array, kind: DataType) -> pa.Array:
    if kind.name in ("string", "binary"):
        column = column.cast(pa.binary())
        return column.fill_null(b"") if column.null_count else column
    return pa.array([b"" if value is None else _tail(value, kind) for value in column.to_pylist()], pa.binary())


def _tail(value: Any, kind: DataType) -> bytes:
    return value.encode() if kind.name == "string" else bytes(value) if kind.name == "binary" else _nested(value)


def _reader(kind: DataType) -> Callable[[bytes], Any]:
    """Return what makes a value of a text, of bytes or of what is nested; nothing asks it for other types."""
    if kind.name == "string":
        return bytes.decode
    return msgspec.msgpack.Decoder(_python_type(kind)).decode if kind.children else bytes


def _python_type(kind: DataType) -> Any:
    """Return the Python type of a nested value, each part of which may be null."""
    parts = [_python_type(child) for child in kind.children]
    if kind.name == "array":
        python_type: Any = list[parts[0]]  # type: ignore[valid-type]  # a type made here
    elif kind.name == "map":
        python_type = list[tuple[parts[0], parts[1]]]  # type: ignore[valid-type]  # a type made here
    elif kind.name == "struct":
        python_type = _typed_dict("struct", dict(zip(kind.names, parts, strict=True)))
    else:
        python_type = _PYTHON_TYPES[kind.name]
    return python_type | None


_nested = msgspec.msgpack.Encoder(order="deterministic").encode
_typed_dict: Any = TypedDict
_PYTHON_TYPES: dict[str, Any] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), int),
    **dict.fromkeys(("timestamp", "timestamp_ntz"), datetime.datetime),
    **dict.fromkeys(("float", "double"), float),
    "boolean": bool,
    "date": datetime.date,
    "decimal": decimal.Decimal,
    "string": str,
    "binary": bytes,
}
