"""Keys as bytes that have the order of the keys: one at a time, or a snapshot's columns at once (decision 41).

Whole numbers, dates and times are big-endian with the sign turned round; texts and bytes end in two zero bytes where a
further column follows, and a zero byte among them becomes ``00 ff``.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType, Schema

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_NAIVE_EPOCH = datetime.datetime(1970, 1, 1)
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
"""The first day of 1970, as Python counts days."""

_SIGN = 1 << 63
_DECIMAL_SIGN = 1 << 127
WIDE = decimal.Context(prec=76)
"""A context in which no decimal of ours is rounded."""

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], "tuple[Any, int]"]


class KeyBytes:
    """The keys of one layout: plain values, or tuples of them where the key has several columns."""

    def __init__(self, key: Schema) -> None:
        types = [field.type for field in key.fields]
        self._types = types
        self._encode = [_encoder(kind, last=place == len(types) - 1) for place, kind in enumerate(types)]
        self._decode = [_decoder(kind, last=place == len(types) - 1) for place, kind in enumerate(types)]

    def encoded(self, key: Any) -> bytes:
        """Return the bytes of a key."""
        if len(self._encode) == 1:
            return self._encode[0](key)
        return b"".join(encode(value) for encode, value in zip(self._encode, key, strict=True))

    def decoded(self, data: bytes) -> Any:
        """Return the key of bytes."""
        if len(self._decode) == 1:
            return self._decode[0](data, 0)[0]
        values, at = [], 0
        for decode in self._decode:
            value, at = decode(data, at)
            values.append(value)
        return tuple(values)

    def encoded_columns(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Return the bytes of every row's key, as a binary array."""
        last = len(columns) - 1
        parts = [
            _column(column, kind, place == last)
            for place, (column, kind) in enumerate(zip(columns, self._types, strict=True))
        ]
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def fixed_binary(values: np.ndarray[Any, Any], width: int) -> pa.Array:
    """Return rows of so many bytes as a binary array."""
    rows = len(values)
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32) if width else np.zeros(rows + 1, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values))]
    return pa.Array.from_buffers(pa.binary(), rows, buffers)


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Return a decimal as the whole number that Arrow keeps."""
    return int(value.scaleb(scale, WIDE))


def microseconds(value: datetime.datetime) -> int:
    """Return a time since 1970, whether it knows its zone or not."""
    past = value - (_EPOCH if value.tzinfo is not None else _NAIVE_EPOCH)
    return (past.days * 86_400 + past.seconds) * 1_000_000 + past.microseconds


def time_of(micros: int, zoned: bool) -> datetime.datetime:
    """Return the time that :func:`microseconds` counted."""
    return (_EPOCH if zoned else _NAIVE_EPOCH) + datetime.timedelta(microseconds=micros)


def _encoder(kind: DataType, last: bool) -> Encode:
    name = kind.name
    if kind.is_integer:
        return lambda value: (value + _SIGN).to_bytes(8, "big")
    if name == "boolean":
        return lambda value: b"\x01" if value else b"\x00"
    if name == "date":
        return lambda value: (value.toordinal() - EPOCH_DAY + _SIGN).to_bytes(8, "big")
    if name in ("timestamp", "timestamp_ntz"):
        return lambda value: (microseconds(value) + _SIGN).to_bytes(8, "big")
    if name == "decimal":
        return lambda value: (unscaled(value, kind.scale) + _DECIMAL_SIGN).to_bytes(16, "big")
    if name == "string":
        return (lambda value: value.encode()) if last else (lambda value: _closed(value.encode()))
    return bytes if last else _closed


def _decoder(kind: DataType, last: bool) -> Decode:
    name = kind.name
    if name == "boolean":
        return lambda data, at: (data[at] != 0, at + 1)
    if name == "decimal":
        return lambda data, at: (
            decimal.Decimal(int.from_bytes(data[at : at + 16], "big") - _DECIMAL_SIGN).scaleb(-kind.scale, WIDE),
            at + 16,
        )
    if name in ("string", "binary"):
        as_text = name == "string"

        def text(data: bytes, at: int) -> tuple[Any, int]:
            part, end = (data[at:], len(data)) if last else _opened(data, at)
            return part.decode() if as_text else part, end

        return text
    if name == "date":
        return lambda data, at: (datetime.date.fromordinal(_number(data, at) + EPOCH_DAY), at + 8)
    if name in ("timestamp", "timestamp_ntz"):
        zoned = name == "timestamp"
        return lambda data, at: (time_of(_number(data, at), zoned), at + 8)
    return lambda data, at: (_number(data, at), at + 8)


def _number(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big") - _SIGN


def _closed(data: bytes) -> bytes:
    return bytes(data).replace(b"\x00", b"\x00\xff") + b"\x00\x00"


def _opened(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1] == 0:
            return data[at:end].replace(b"\x00\xff", b"\x00"), end + 2
        end += 2


def _column(column: pa.Array, kind: DataType, last: bool) -> pa.Array:
    name = kind.name
    if name in ("string", "binary"):
        data = column.cast(pa.binary())
        if last:
            return data
        # A zero byte inside is rare, and Arrow's replacement of bytes looks for a text.
        return pa.array([_closed(value) for value in data.to_pylist()], pa.binary())
    if name == "boolean":
        return fixed_binary(column.cast(pa.uint8()).to_numpy(zero_copy_only=False), 1)
    if name == "decimal":
        words = (
            np.frombuffer(column.buffers()[1], "<u8", 2 * len(column), column.offset * 16)
            if len(column)
            else np.empty(0, "<u8")
        )
        both = np.empty((len(column), 2), ">u8")
        both[:, 0] = words[1::2] ^ np.uint64(_SIGN)
        both[:, 1] = words[0::2]
        return fixed_binary(both, 16)
    whole = column.cast(pa.int32()).cast(pa.int64()) if name == "date" else column.cast(pa.int64())
    turned = whole.to_numpy(zero_copy_only=False).view(np.uint64) ^ np.uint64(_SIGN)
    return fixed_binary(turned.astype(">u8"), 8)
