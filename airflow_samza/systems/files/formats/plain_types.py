"""Types that files have and streams have not, as those that streams have: the same rule for every format.

A UUID is text, JSON is text, half-precision numbers are ``float``, a time of day is ``bigint``: microseconds since
midnight, whatever unit the file has. Other types that Arrow knows by name count as what they are stored as. A column of
a type that no stream can have is left out when a file is read. Formats, and tables of lakes, take their columns through
it.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.systems.files.formats.nested import offsets_of

_DASHES = (8, 13, 18, 23)
_LENGTH = len(str(uuid.UUID(int=0)))
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)


class NoColumn(pa.ExtensionType):  # type: ignore[misc]  # Arrow has no types
    """Type of a column of a file that no stream can read; ``what`` says what the file has there, for people.

    No value of it exists: a file that has such columns is read without them.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(pa.null(), "airflow_samza.no_column")

    def __arrow_ext_serialize__(self) -> bytes:
        """Return what the type differs by from others of its name."""
        return self.what.encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> NoColumn:
        """Return the type again."""
        return cls(serialized.decode())

    def __hash__(self) -> int:
        return hash(self.what)

    def __str__(self) -> str:
        return self.what


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type as which a file's type is read; most are read as they are."""
    if isinstance(kind, NoColumn):
        return kind
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_time(kind):
        return pa.int64()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_struct(kind):
        return pa.struct([field.with_type(plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if types.is_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = plain_type(kind.value_type)
        return kind if inner.equals(kind.value_type) else pa.list_(inner)
    return kind


def as_plain(column: pa.Array) -> pa.Array:
    """Return a column in its plain type; a time finer than microseconds is a ``pyarrow.ArrowInvalid``."""
    kind = column.type
    if plain_type(kind).equals(kind):
        return column
    if isinstance(kind, pa.UuidType):
        return uuid_texts(column.storage)
    if isinstance(kind, pa.BaseExtensionType):
        return as_plain(column.storage)
    if types.is_time(kind):
        return pc.cast(pc.cast(column, pa.time64("us")), pa.int64())
    if types.is_float16(kind):
        return pc.cast(column, pa.float32())
    if types.is_struct(kind):
        inner = [as_plain(column.field(place)) for place in range(kind.num_fields)]
        fields = [field.with_type(one.type) for field, one in zip(kind, inner, strict=True)]
        return pa.StructArray.from_arrays(inner, fields=fields, mask=pc.is_null(column))
    if types.is_map(kind):
        return pa.MapArray.from_arrays(offsets_of(column), as_plain(column.keys), as_plain(column.items))
    if not types.is_list(kind):
        column = pc.cast(column, pa.list_(kind.value_type))
    return pa.ListArray.from_arrays(offsets_of(column), as_plain(column.values))


def uuid_texts(column: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return values of 16 bytes as their 36 characters."""
    count = len(column)
    held = np.frombuffer(column.buffers()[1] or b"", np.uint8)[column.offset * 16 : (column.offset + count) * 16]
    digits = np.stack([_DIGITS[held >> 4], _DIGITS[held & 15]], axis=-1).reshape(count, 32)
    texts = np.full((count, _LENGTH), ord("-"), np.uint8)
    texts[:, [place for place in range(_LENGTH) if place not in _DASHES]] = digits
    offsets = np.arange(count + 1, dtype=np.int32) * _LENGTH
    uuids = pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(texts.tobytes()))
    return pc.if_else(pc.is_valid(column), uuids, pa.scalar(None, pa.string())) if column.null_count else uuids
