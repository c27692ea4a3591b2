"""Records in Avro's binary encoding, field by field over all messages at once.

A cursor stands in every message; each field moves all of them. A message in which anything is unusual (a length that
leads out of it, a number that its column cannot hold, a text that is no UTF-8, bytes behind the record) is flagged, and
left to fastavro, which reads it or says what is wrong. So this module has to be right only where it flags nothing
(decision 86).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

Numbers = np.ndarray[Any, Any]

_PADDING = 16
"""Bytes behind the data, into which cursors at its end may look."""

_LONGEST = 10
"""Bytes of the longest number."""

_DEEPEST = 20
"""Records inside of one another; a schema that contains itself has no columns."""

_MOST_NODES = 10_000
"""Readers of fields, those of a type counted wherever it stands: a kilobyte of a schema can describe any number."""

_DAY_RANGE = (-719162, 2932896)
"""The days from the year 1 to 9999, counted from 1970: those of Python's dates, as which fastavro reads them."""

_EXACT = {4: 2**24, 8: 2**53}
"""Whole numbers up to which floating ones have each, by their size."""


@dataclass(slots=True)
class _Types:
    """Named types of a schema that have been met, and the readers that were made."""

    named: dict[str, Any] = field(default_factory=dict)
    nodes: int = 0


class Unsupported(Exception):
    """Schema, or pair of a field and a column, that is read one message at a time."""


@dataclass(slots=True, eq=False)
class Cursors:
    """Positions in messages of one buffer, and those that are flagged; they stay in order."""

    data: Numbers
    pos: Numbers
    end: Numbers
    flagged: Numbers

    @classmethod
    def of(cls, values: pa.Array) -> Cursors:
        """Return cursors at the beginnings of values (none null)."""
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4).astype(np.int64)
        held = np.frombuffer(values.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
        data = np.concatenate([held, np.zeros(_PADDING, np.uint8)])
        offsets -= offsets[0]
        return cls(data, offsets[:-1].copy(), offsets[1:], np.zeros(len(values), bool))

    def some(self, rows: Numbers) -> Cursors:
        """Return the cursors of some messages."""
        return Cursors(self.data, self.pos[rows], self.end[rows], self.flagged[rows])

    def moved(self, rows: Numbers, other: Cursors) -> None:
        """Take over positions and flags of some messages."""
        self.pos[rows] = other.pos
        self.flagged[rows] = other.flagged

    def move(self, to: Numbers) -> None:
        """Move to positions; one that is outside of its message flags it."""
        out = to > self.end
        if out.any():
            self.flagged |= out
            to = np.minimum(to, self.end)
        self.pos = to

    def numbers(self) -> Numbers:
        """Return the whole numbers that stand at the cursors: zigzag, seven bits a byte."""
        pos = self.pos
        byte = self.data[pos]
        numbers = (byte & 0x7F).astype(np.uint64)
        pos = pos + 1
        rows = np.flatnonzero(byte & 0x80)
        for number in range(1, _LONGEST):
            if not len(rows):
                break
            byte = self.data[pos[rows]]
            numbers[rows] |= (byte & 0x7F).astype(np.uint64) << np.uint64(7 * number)
            pos[rows] += 1
            if number == _LONGEST - 1:
                self.flagged[rows[byte > 1]] = True
            rows = rows[byte >= 0x80]
        self.move(pos)
        decoded: Numbers = (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)
        return decoded

    def numbers_within(self, low: int, high: int) -> Numbers:
        """Return the whole numbers that stand at the cursors; one outside of a range is 0, and flagged."""
        numbers = self.numbers()
        wrong = (numbers < low) | (numbers > high)
        if wrong.any():
            self.flagged |= wrong
            numbers = np.where(wrong, 0, numbers)
        return numbers

    def fixed(self, size: int) -> Numbers:
        """Return the bytes that stand at the cursors, a row each."""
        rows = self.data[np.minimum(self.pos, len(self.data) - size)[:, None] + np.arange(size)]
        self.move(self.pos + size)
        return rows

    def spans(self, sizes: Numbers) -> tuple[Numbers, Numbers]:
        """Move behind so many bytes; return where they begin and end: nowhere, where that is outside of a message."""
        wrong = (sizes < 0) | (sizes > self.end - self.pos)
        if wrong.any():
            self.flagged |= wrong
            sizes = np.where(wrong, 0, sizes)
        start = self.pos
        self.pos = start + sizes
        return start, self.pos


Node = Callable[[Cursors], pa.Array]
"""Reads a field of all messages, and moves their cursors behind it."""


def _bytes_of(cursors: Cursors, start: Numbers, end: Numbers) -> pa.Array:
    """Return the bytes between positions: every second of an array over the whole buffer."""
    offsets = np.full(2 * len(start) + 1, len(cursors.data), np.int32)
    offsets[:-1:2], offsets[1::2] = start, end
    whole = pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(cursors.data)]
    )
    return whole.take(pa.array(np.arange(0, len(whole), 2)))


def _text_of(cursors: Cursors, start: Numbers, end: Numbers) -> pa.Array:
    binary = _bytes_of(cursors, start, end)
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid:
        texts = []
        for row, value in enumerate(binary.to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                cursors.flagged[row] = True
                texts.append(None)
        return pa.array(texts, pa.string())


def _sized(build: Callable[[Cursors, Numbers, Numbers], pa.Array], size: int | None = None) -> Node:
    def read(cursors: Cursors) -> pa.Array:
        sizes = cursors.numbers() if size is None else np.full(len(cursors.pos), size)
        return build(cursors, *cursors.spans(sizes))

    return read


def _whole(kind: pa.DataType, low: int, high: int, times: int = 1) -> Node:
    """Return what reads numbers of a range, into a type whose values are these many times as many."""
    dtype = f"i{kind.bit_width // 8}"

    def read(cursors: Cursors) -> pa.Array:
        numbers = cursors.numbers_within(low, high)
        whole = pa.array((numbers * times if times != 1 else numbers).astype(dtype))
        return whole if types.is_integer(kind) else whole.view(kind)

    return read


def _whole_as_floating(kind: pa.DataType) -> Node:
    most = _EXACT[kind.bit_width // 8]

    def read(cursors: Cursors) -> pa.Array:
        return pa.array(cursors.numbers_within(-most, most).astype(f"f{kind.bit_width // 8}"))

    return read


def _floating(size: int) -> Node:
    def read(cursors: Cursors) -> pa.Array:
        return pa.array(cursors.fixed(size).view(f"<f{size}").reshape(-1).astype(f"=f{size}"))

    return read


def _boolean(cursors: Cursors) -> pa.Array:
    values = cursors.fixed(1).reshape(-1)
    cursors.flagged |= values > 1
    return pa.array(values.astype(bool))


def _enum(symbols: list[str]) -> Node:
    names = pa.array(symbols, pa.string())

    def read(cursors: Cursors) -> pa.Array:
        return names.take(pa.array(cursors.numbers_within(0, len(symbols) - 1)))

    return read


def _maybe(inner: Node, value_branch: int, branches: int) -> Node:
    """Return what reads one of these branches, of which all but the one of ``inner`` are null."""

    def read(cursors: Cursors) -> pa.Array:
        chosen = cursors.numbers_within(0, branches - 1)
        taken = chosen == value_branch
        if taken.all():
            return inner(cursors)
        rows = np.flatnonzero(taken)
        some = cursors.some(rows)
        values = inner(some)
        cursors.moved(rows, some)
        places = np.zeros(len(chosen), np.int64)
        places[rows] = np.arange(len(rows))
        return values.take(pa.array(places, mask=~taken))

    return read


def _record(record: Any, kind: pa.DataType, met: _Types, depth: int) -> Node:
    declared = {one.name: one.type for one in kind}
    fields = [
        (one["name"], node_of(one["type"], declared.get(one["name"]), met, depth + 1)) for one in record["fields"]
    ]

    def read(cursors: Cursors) -> pa.Array:
        values = {name: node(cursors) for name, node in fields}
        if not declared:  # a struct of nothing would have no length
            return pa.nulls(len(cursors.pos))
        columns = [
            values[name] if name in values else pa.nulls(len(cursors.pos), type_) for name, type_ in declared.items()
        ]
        return pa.StructArray.from_arrays(columns, fields=[pa.field(*one) for one in declared.items()])

    return read


_ANY: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
"""The columns of fields that nobody declared: they are read over."""

_PLAIN: dict[tuple[str, pa.DataType], Node] = {
    ("float", pa.float32()): _floating(4),
    ("double", pa.float64()): _floating(8),
    ("boolean", pa.bool_()): _boolean,
    ("bytes", pa.binary()): _sized(_bytes_of),
    ("string", pa.string()): _sized(_text_of),
}
"""Readers of plain fields, by their types and those of their columns; numbers are read into several."""

_SECONDS = {"millis": 1000, "micros": 1_000_000}


def node_of(schema: Any, kind: pa.DataType | None, met: _Types, depth: int = 0) -> Node:
    """Return what reads a field of an Avro type into a column (None: nobody declared it), or raise Unsupported."""
    met.nodes += 1
    if depth > _DEEPEST or met.nodes > _MOST_NODES:
        raise Unsupported
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1 or len(schema) > 2:
            raise Unsupported
        inner = node_of(others[0], kind, met, depth + 1)
        return _maybe(inner, schema.index(others[0]), len(schema))
    if isinstance(schema, str):
        if schema in met.named:
            return node_of(met.named[schema], kind, met, depth + 1)
        schema = {"type": schema}
    name, logical = schema["type"], schema.get("logicalType")
    if not isinstance(name, str):
        return node_of(name, kind, met, depth + 1)
    if "name" in schema:
        met.named[schema["name"]] = schema
    if name == "record" and (kind is None or types.is_struct(kind)):
        return _record(schema, kind if kind is not None else pa.struct([]), met, depth)
    if name == "null":
        return lambda cursors: pa.nulls(len(cursors.pos), kind or pa.null())
    if kind is None:
        logical, kind = None, _ANY.get(name)
    if kind is None and name in met.named:
        return node_of(name, kind, met, depth + 1)
    if kind is None:
        raise Unsupported
    if logical is not None:
        return _logical(name, str(logical), kind)
    if name in ("int", "long"):
        if types.is_integer(kind):
            bound = 2 ** (kind.bit_width - 1)
            return _whole(kind, -bound, bound - 1)
        if types.is_float32(kind) or types.is_float64(kind):
            return _whole_as_floating(kind)
    elif (name, kind) in _PLAIN:
        return _PLAIN[name, kind]
    elif name == "enum" and types.is_string(kind):
        return _enum(schema["symbols"])
    elif name == "fixed" and types.is_binary(kind):
        return _sized(_bytes_of, schema["size"])
    raise Unsupported


def _logical(name: str, logical: str, kind: pa.DataType) -> Node:
    """Return what reads dates and timestamps; the others are fastavro's."""
    first, last = _DAY_RANGE
    if logical == "date" and types.is_date32(kind):
        return _whole(kind, first, last)
    local = logical.startswith("local-")
    unit = logical.removeprefix("local-").removeprefix("timestamp-")
    if name == "long" and unit in _SECONDS and "timestamp-" in logical and types.is_timestamp(kind):
        a_second = _SECONDS[unit]
        if kind.unit == "us" and (kind.tz is None) == local:
            low, high = first * 86400 * a_second, (last + 1) * 86400 * a_second - 1
            return _whole(kind, low, high, _SECONDS["micros"] // a_second)
    raise Unsupported


class RecordColumns:
    """Reader of records of one schema into declared columns; a column that they do not have is null."""

    def __init__(self, record: Any, schema: pa.Schema) -> None:
        if not len(schema):
            raise Unsupported
        self._schema = pa.schema([one.with_nullable(True) for one in schema])
        self._read = _record(record, pa.struct([pa.field(one.name, one.type) for one in schema]), _Types(), 0)

    def read(self, values: pa.Array) -> tuple[pa.RecordBatch, Numbers]:
        """Return the columns of values (none null), and which messages are flagged: their rows mean nothing."""
        cursors = Cursors.of(values)
        record = self._read(cursors)
        cursors.flagged |= cursors.pos != cursors.end
        columns = [record.field(place) for place in range(len(self._schema))]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema), cursors.flagged
