"""Records of a block of Avro: as many as it claims, up to its last byte.

The library reads a block as one array. What the length or the depth of whose values data decide, an array of nulls or
a record inside of itself, it never sees: that is read over here, so that no file fills a stack or the memory
(decision 107).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from airflow_samza.systems.files.formats.avro_blocks import Block, long_bytes
from airflow_samza.systems.files.formats.avro_types import AvroTypes
from airflow_samza.systems.files.formats.varints import read_zigzag

BATCH_ROWS = 16_384
"""Records turned into Python objects at once."""

MOST_EMPTY = 2**20
"""Records without a byte in a file: twenty bytes can claim any number of them."""


class RecordReader:
    """Reader of the records of one file."""

    def __init__(self, library: ModuleType, types: AvroTypes) -> None:
        self._library = library
        self._types = types
        self._least = types.least_bytes(types.root)
        self._empty = 0
        self._array = library.parse_schema({"type": "array", "items": types.root})
        self._runs = self._in_runs()

    def _in_runs(self) -> list[tuple[Any, Any]]:
        """Return the fields in their order: runs that the library reads (a schema), or the type of one to read over."""
        runs: list[tuple[Any, Any]] = []
        run: list[Any] = []
        for field in self._types.root["fields"]:
            if self._types.unread(field["type"]) is None:
                run.append(field)
                continue
            runs += [(self._parsed(run), None), (None, field["type"])]
            run = []
        return [*runs, (self._parsed(run), None)]

    def _parsed(self, fields: list[Any]) -> Any:
        """Return a record of some fields as the library takes it; it knows the named types of the file already."""
        named = [{**field, "type": _by_name(field["type"])} for field in fields]
        record = {"type": "record", "name": "samza_run", "fields": named}
        return self._library.parse_schema(record, dict(self._types.named))

    def rows(self, block: Block) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of a block in pieces; one that does not hold what it claims is a ``ValueError``."""
        number, count, data = block
        if count * self._least > len(data):
            raise ValueError(f"block {number} claims {count} records, more than its {len(data)} bytes can hold")
        try:
            if self._least == 0:
                yield from self._without_bytes(block)
            elif len(self._runs) == 1 and count <= BATCH_ROWS:
                yield self._as_array(block)
            else:
                yield from self._one_by_one(block)
        except _Wrong as error:
            raise ValueError(f"block {number} {error}") from error
        except Exception as error:
            raise ValueError(
                f"block {number} does not hold the {count} records that it claims ({type(error).__name__}: {error})"
            ) from error

    def _as_array(self, block: Block) -> list[dict[str, Any]]:
        source = io.BytesIO(long_bytes(block.claimed) + block.data + b"\0")
        try:
            rows: list[dict[str, Any]] = self._library.schemaless_reader(source, self._array, None)
            if len(rows) == block.claimed and not source.read(1):
                return rows
        except Exception:  # what stands behind the records was read as more of them
            for _ in self._one_by_one(block):
                pass
        raise _Wrong(f"has bytes behind the {block.claimed} records that it claims")

    def _one_by_one(self, block: Block) -> Iterator[list[dict[str, Any]]]:
        source = io.BytesIO(block.data)
        rows: list[dict[str, Any]] = []
        for _ in range(block.claimed):
            row: dict[str, Any] = {}
            for schema, over in self._runs:
                if schema is None:
                    source.seek(end_of(self._types, over, block.data, source.tell()))
                else:
                    row.update(self._library.schemaless_reader(source, schema, None))
            rows.append(row)
            if len(rows) == BATCH_ROWS:
                yield rows
                rows = []
        if source.read(1):
            raise _Wrong(f"has bytes behind the {block.claimed} records that it claims")
        if rows:
            yield rows

    def _without_bytes(self, block: Block) -> Iterator[list[dict[str, Any]]]:
        if block.data:
            raise _Wrong("has bytes, and its records take none")
        self._empty += block.claimed
        if self._empty > MOST_EMPTY:
            raise _Wrong(
                f"claims {block.claimed} records that take no bytes, and of such at most {MOST_EMPTY:,} "
                "of a file are read"
            )
        row = self._library.schemaless_reader(io.BytesIO(), self._types.root, None)
        for start in range(0, block.claimed, BATCH_ROWS):
            yield [row] * min(BATCH_ROWS, block.claimed - start)


def end_of(types: AvroTypes, schema: Any, data: bytes, place: int, *, deepest: int | None = None) -> int:
    """Return the place behind a value; its depth is a list's here, not a stack's.

    With ``deepest`` a value is looked through that the library reads next: more values inside of one another, or more
    items without bytes than are read of a file, are a ``ValueError``.
    """
    left = [(schema, 0)]
    empty = 0
    while left:
        one, depth = left.pop()
        if deepest is not None and depth > deepest:
            raise ValueError(f"more than {deepest:,} values inside of one another")
        kind = types.resolved(one)
        if isinstance(kind, list):
            chosen, place = _long(data, place)
            if not 0 <= chosen < len(kind):
                raise ValueError("a union has no such branch")
            left.append((kind[chosen], depth + 1))
            continue
        name = kind["type"]
        if name in ("record", "error"):
            left.extend((field["type"], depth + 1) for field in reversed(kind["fields"]))
        elif name in ("array", "map"):
            count, place = _long(data, place)
            if count < 0:  # the bytes of the items are there
                size, place = _long(data, place)
                if deepest is None:
                    place += _sized(size, data, place)
                    left.append((kind, depth))
                    continue
                count = -count
            if count:
                items = ["string", kind["values"]] if name == "map" else [kind["items"]]
                left.append((kind, depth))
                if any(types.least_bytes(item) for item in items):
                    inner = [(item, depth + 1) for item in reversed(items)]
                    left.extend(inner * _sized(count, data, place))
                else:
                    empty += count * types.values(kind["items"])  # keys of a map have bytes
            if deepest is not None and empty > MOST_EMPTY:
                raise ValueError(f"an array of more than {MOST_EMPTY:,} values that take no bytes")
        elif name in ("int", "long", "enum"):
            _, place = _long(data, place)
        elif name in ("string", "bytes"):
            size, place = _long(data, place)
            place += _sized(size, data, place)
        elif name != "null":
            place += _sized(types.least_bytes(kind), data, place)
    return place


def _by_name(schema: Any) -> Any:
    """Return a schema with the names of named types in their places."""
    if isinstance(schema, list):
        return [_by_name(one) for one in schema]
    if isinstance(schema, str):
        return schema
    if "name" in schema:
        return schema["name"]
    return {key: _by_name(value) if key in ("type", "items", "values") else value for key, value in schema.items()}


class _Wrong(ValueError):
    """Claim of a block that does not hold."""


def _sized(size: int, data: bytes, place: int) -> int:
    """Return a size, or a count of values of which each takes a byte, where so much is left."""
    if not 0 <= size <= len(data) - place:
        raise EOFError("its bytes end within a record")
    return size


def _long(data: bytes, place: int) -> tuple[int, int]:
    try:
        return read_zigzag(data, place, "")
    except IndexError:
        raise EOFError("its bytes end within a record") from None
