"""Types of Avro as columns: which column a field of a record is, and how its values become one.

Logical types are ours, not the library's: it gives the numbers and bytes that a file holds, so that a value that no
Python object can hold is none for it. A logical type that is not known, or not sound, is left out of account, as the
format demands.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from airflow_samza.systems.files.formats.plain_types import NoColumn

LOGICAL = "samza.logicalType"
"""The name under which logical types stand in a schema that the library gets: it has none of its own to apply."""

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}

_TIMES: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
}
"""Logical types by what they are made of; a time of day is made a number by whoever reads the file."""

_WIDEST = 38

_LEAST_BYTES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "string": 1, "bytes": 1}

_WIDENED = (({"int", "long"}, pa.int64()), ({"float", "double"}, pa.float64()))
"""Unions of numbers, as Spark widens them."""


def without_logical(schema: Any) -> Any:
    """Return a schema in which the library sees no logical types."""
    if isinstance(schema, list):
        return [without_logical(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        LOGICAL if key == "logicalType" else key: without_logical(value) if key in _INSIDE else value
        for key, value in schema.items()
        if key not in ("default", "aliases")  # a file holds every field, so these say nothing about it
    }


_INSIDE = ("type", "items", "values", "fields")

_COMPOSED = ("record", "error", "array", "map")

_ENDLESS = "an Avro type that contains itself"

_MOST_FIELDS = 100_000
"""Fields of all records of a file, those of a type counted wherever it stands: a kilobyte can describe any number."""


class AvroTypes:
    """Types of the records of one file, by names; ``root`` is their schema, as the library has parsed it."""

    def __init__(self, root: Any) -> None:
        # Those that another schema of a registry defines stand beside the record.
        self.named: dict[str, Any] = dict(root.get("__named_schemas", {})) if isinstance(root, dict) else {}
        self._register(root)
        self.root = self.resolved(root)
        self._least: dict[str, int] = {}
        self._values: dict[str, int] = {}
        self._unread: dict[str, str | None] = {}
        self._fields = 0

    def _register(self, schema: Any) -> None:
        if isinstance(schema, list):
            for one in schema:
                self._register(one)
        elif isinstance(schema, dict):
            if schema.get("type") in ("record", "error", "enum", "fixed"):
                self.named[schema["name"]] = schema
            size = schema.get("size", 0)
            if schema.get("type") == "fixed" and not (isinstance(size, int) and size >= 0):
                raise ValueError(f"its fixed type {schema['name']!r} has the size {size!r}, no number of bytes")
            for key in _INSIDE:
                self._register(schema.get(key))

    def resolved(self, schema: Any) -> Any:
        """Return the type behind names and brackets: a list (a union), or a dictionary with a simple ``type``."""
        while not isinstance(schema, list):
            if isinstance(schema, str):
                if schema in _SIMPLE:
                    return {"type": schema}
                schema = self.named[schema]
            kind = schema["type"]
            if isinstance(kind, str) and (kind in _SIMPLE or kind in _COMPOSED):
                return schema
            schema = kind
        return schema

    def fields(self) -> list[pa.Field]:
        """Return the columns of a record; one that can be none has the type :class:`NoColumn`."""
        fields = []
        for field in self.root["fields"]:
            why = self.unread(field["type"])
            kind, nullable = (NoColumn(why), True) if why else self._column(field["type"])
            fields.append(pa.field(field["name"], kind, nullable))
        return fields

    def unread(self, schema: Any) -> str | None:
        """Return the reason why the library must not read values of a type, None when it may.

        Their depth, or their length, is what the data say.
        """
        kind = self.resolved(schema)
        if isinstance(kind, list):
            return self._unread_of(kind)
        name = kind.get("name")
        if name in self._unread:
            return self._unread[name]
        if name is not None:
            self._unread[name] = _ENDLESS  # while its parts are looked at
        why = self._unread_of(_parts(kind))
        if why is None and kind["type"] == "array" and self.least_bytes(kind["items"]) == 0:
            why = "an array of Avro values that take no bytes"
        if name is not None:
            self._unread[name] = why
        return why

    def _unread_of(self, parts: Iterable[Any]) -> str | None:
        found = {self.unread(part) for part in parts} - {None}
        return _ENDLESS if _ENDLESS in found else next(iter(found), None)

    def _column(self, schema: Any) -> tuple[pa.DataType, bool]:
        """Return the column type, and whether it may be null."""
        resolved = self.resolved(schema)
        if not isinstance(resolved, list):
            return self._plain(resolved), resolved["type"] == "null"
        kinds = [kind for kind in map(self.resolved, resolved) if kind["type"] != "null"]
        nullable = len(kinds) < len(resolved)
        if not kinds:
            return pa.null(), True
        if len(kinds) == 1:
            return self._plain(kinds[0]), nullable
        for numbers, widened in _WIDENED:
            if all(kind["type"] in numbers and LOGICAL not in kind for kind in kinds):
                return widened, nullable
        shown = " and ".join(str(kind.get("name", kind["type"])) for kind in kinds)
        return NoColumn(f"a union of the Avro types {shown}"), nullable

    def _plain(self, schema: dict[str, Any]) -> pa.DataType:
        name, logical = schema["type"], schema.get(LOGICAL)
        if logical == "decimal" and name in ("bytes", "fixed"):
            precision, scale = schema.get("precision"), schema.get("scale", 0)
            if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
                if precision <= _WIDEST:
                    return pa.decimal128(precision, scale)
                return NoColumn(f"decimal({precision},{scale})")
        if logical == "uuid" and (name == "string" or (name == "fixed" and schema.get("size") == 16)):
            return pa.string()
        if (name, logical) in _TIMES:
            return _TIMES[name, str(logical)]
        if name in ("record", "error"):
            inner = []
            for field in schema["fields"]:
                self._fields += 1
                if self._fields > _MOST_FIELDS:
                    raise ValueError(f"its schema has more than {_MOST_FIELDS:,} fields")
                kind, nullable = self._column(field["type"])
                inner.append(pa.field(field["name"], kind, nullable))
            return pa.struct(inner)
        if name == "array":
            items = self._column(schema["items"])[0]
            return items if isinstance(items, NoColumn) else pa.list_(items)
        if name == "map":
            values = self._column(schema["values"])[0]
            return values if isinstance(values, NoColumn) else pa.map_(pa.string(), values)
        return _SIMPLE[name]

    def least_bytes(self, schema: Any) -> int:
        """Return the bytes that a value takes at least; 0 is what it always takes."""
        resolved = self.resolved(schema)
        if isinstance(resolved, list):
            return 1 + min((self.least_bytes(one) for one in resolved), default=0)
        name = resolved["type"]
        if name not in ("record", "error"):
            return int(resolved["size"]) if name == "fixed" else _LEAST_BYTES.get(name, 1)
        if resolved["name"] not in self._least:
            self._least[resolved["name"]] = 1  # while it is computed: a record inside of itself takes some
            self._least[resolved["name"]] = sum(self.least_bytes(field["type"]) for field in resolved["fields"])
        return self._least[resolved["name"]]

    def values(self, schema: Any) -> int:
        """Return the number of values that one of a type without bytes consists of: itself, and all inside."""
        kind = self.resolved(schema)
        if "fields" not in kind:
            return 1
        if kind["name"] not in self._values:
            self._values[kind["name"]] = 1 + sum(self.values(field["type"]) for field in kind["fields"])
        return self._values[kind["name"]]


def _parts(kind: dict[str, Any]) -> Iterator[Any]:
    if kind["type"] in ("record", "error"):
        yield from (field["type"] for field in kind["fields"])
    elif kind["type"] == "array":
        yield kind["items"]
    elif kind["type"] == "map":
        yield kind["values"]


def readable(kind: pa.DataType) -> pa.DataType:
    """Return the type without the fields that can be no column."""
    if types.is_struct(kind):
        return pa.struct([f.with_type(readable(f.type)) for f in kind if not isinstance(f.type, NoColumn)])
    if types.is_map(kind):
        return pa.map_(kind.key_type, readable(kind.item_type))
    return pa.list_(readable(kind.value_type)) if types.is_list(kind) else kind


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as the library reads them, as a column of a type of :meth:`AvroTypes.fields`."""
    if types.is_struct(kind):
        if not kind.num_fields:
            return pa.array([None if value is None else {} for value in values], kind)
        inner = [column([None if row is None else row[f.name] for row in values], f.type) for f in kind]
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=missing)
    if types.is_map(kind):
        pairs = [list(row.items()) if row is not None else () for row in values]
        keys = pa.array([key for row in pairs for key, _ in row], pa.string())
        items = column([item for row in pairs for _, item in row], kind.item_type)
        return pa.MapArray.from_arrays(_offsets(pairs, values), keys, items)
    if types.is_list(kind):
        items = column([item for row in values if row is not None for item in row], kind.value_type)
        return pa.ListArray.from_arrays(_offsets(values, values), items)
    if types.is_temporal(kind):
        return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    if types.is_decimal(kind):
        return _decimals(values, kind)
    if types.is_string(kind) and any(isinstance(value, bytes) for value in values):
        return pa.array([None if value is None else str(uuid.UUID(bytes=value)) for value in values], kind)
    return pa.array(values, kind)


def _offsets(lists: Sequence[Any], values: Sequence[Any]) -> pa.Array:
    """Return where each list begins; a place that is null makes its list null."""
    ends = np.cumsum([0, *(0 if one is None else len(one) for one in lists)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise ValueError("more items in lists than a column can hold")
    return pa.array(ends.astype(np.int32), mask=np.array([*(value is None for value in values), False]))


def _decimals(values: Sequence[bytes | None], kind: pa.Decimal128Type) -> pa.Array:
    """Return whole numbers in bytes, the first ones the highest, as decimals of the type's scale."""
    beyond = 10**kind.precision
    held = bytearray()
    for value in values:
        number = int.from_bytes(value or b"", "big", signed=True)
        if not -beyond < number < beyond:
            raise ValueError(f"a decimal of more than the {kind.precision} digits of its type")
        held += number.to_bytes(16, "little", signed=True)
    nulls = pa.array([value is not None for value in values], pa.bool_())
    return pa.Array.from_buffers(kind, len(values), [nulls.buffers()[1], pa.py_buffer(bytes(held))])
