"""Reading structs, maps and arrays, and making structs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.schema import DataType
from airflow_samza.task.expressions.coercion import is_floating, widened
from airflow_samza.task.expressions.expression import (
    BOOLEAN,
    INT,
    VOID,
    EvaluationFailure,
    Expression,
    Frame,
    Function,
    UnsupportedExpression,
    applied,
    constant,
    need,
)
from airflow_samza.task.expressions.predicates import compared


def field_of(operand: Expression, name: str) -> Expression:
    """``operand.name`` of a struct; names are compared without case."""
    if operand.type.name != "struct":
        raise UnsupportedExpression(f"field {name!r} of a {operand.type.ddl()}")
    places = [place for place, field in enumerate(operand.type.names) if field.lower() == name.lower()]
    if len(places) != 1:
        raise UnsupportedExpression(f"field {name!r} is in {operand.type.ddl()} {len(places) or 'no'} times")
    place = places[0]
    kind = operand.type.children[place]
    return applied(kind, [operand], lambda structs: pc.struct_field(structs, place), nullable=True)


def item(operand: Expression, key: Expression) -> Expression:
    """``operand[key]``: of an array from 0 on, of a map by a literal key (null when it is missing)."""
    if operand.type.name == "map":
        return _looked_up(operand, key)
    if operand.type.name != "array" or not key.type.is_integer:
        raise UnsupportedExpression(f"[{key.type.ddl()}] of a {operand.type.ddl()}")

    def places(keys: Any, sizes: Any) -> Any:
        if ((keys < 0) | (keys >= sizes)).any():
            raise EvaluationFailure("INVALID_ARRAY_INDEX", "An index is outside of its array.")
        return keys

    return _element(operand, key, places, fails=True)


def element_at(operand: Expression, key: Expression) -> Expression:
    """``element_at(operand, key)``: of an array from 1 on, or from -1 backwards."""
    if operand.type.name == "map":
        return _looked_up(operand, key)

    def places(keys: Any, sizes: Any) -> Any:
        if (np.abs(keys) > sizes).any() or (keys == 0).any():
            first = np.flatnonzero((np.abs(keys) > sizes) | (keys == 0))[0]
            outside = abs(keys[first]) > sizes[first]
            raise EvaluationFailure(
                "INVALID_ARRAY_INDEX_IN_ELEMENT_AT" if outside else "INVALID_INDEX_OF_ZERO",
                "An index is outside of its array.",
            )
        return np.where(keys > 0, keys - 1, sizes + keys)

    return _element(
        need("element_at", operand, "array"), need("element_at", key, "int", "smallint", "tinyint"), places, fails=True
    )


def get(operand: Expression, key: Expression) -> Expression:
    """``get(operand, key)``: of an array from 0 on, null outside."""

    def places(keys: Any, sizes: Any) -> Any:
        return np.where((keys < 0) | (keys >= sizes), -1, keys)

    return _element(need("get", operand, "array"), need("get", key, "int", "smallint", "tinyint"), places, fails=False)


def _element(operand: Expression, key: Expression, places: Any, *, fails: bool) -> Expression:
    """The element at ``places(keys, sizes)``, null for a place of -1.

    Both are asked only for rows on which neither is null.
    """
    kind = operand.type.children[0]

    def kernel(lists: Any, keys: Any) -> Any:
        valid = pc.and_(lists.is_valid(), keys.is_valid()).to_numpy(zero_copy_only=False)
        sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)[valid].astype(np.int64)
        indexes = places(keys.fill_null(0).to_numpy(zero_copy_only=False)[valid].astype(np.int64), sizes)
        starts = lists.offsets.to_numpy()[:-1][valid]
        positions = np.full(len(lists), -1, np.int64)
        positions[valid] = np.where(indexes < 0, -1, starts + indexes)
        return lists.values.take(pa.array(positions, mask=positions < 0))

    return applied(kind, [operand, key], kernel, fails=fails, nullable=True)


def _looked_up(operand: Expression, key: Expression) -> Expression:
    keys, kind = operand.type.children
    if key.value is None:
        raise UnsupportedExpression("a map is read by a key that is no literal")
    is_simple = keys.name in ("string", "tinyint", "smallint", "int", "bigint", "boolean", "date")
    if not is_simple or (key.type != keys and not (keys.name == "bigint" and key.type == INT)):
        raise UnsupportedExpression(f"a {operand.type.ddl()} is read by a {key.type.ddl()}")
    wanted_key = pa.scalar(key.value, keys.to_arrow())
    return applied(kind, [operand], lambda maps: pc.map_lookup(maps, wanted_key, "first"), nullable=True)


def size(operand: Expression) -> Expression:
    """``size(operand)`` of an array or map; null for null."""
    need("size", operand, "array", "map")

    def kernel(lists: Any) -> Any:
        if pa.types.is_map(lists.type):
            starts = lists.offsets.to_numpy()
            return pa.array(np.diff(starts), pa.int32(), mask=lists.is_null().to_numpy(zero_copy_only=False))
        return pc.list_value_length(lists)

    return applied(INT, [operand], kernel)


def array_contains(operand: Expression, value: Expression) -> Expression:
    """``array_contains(operand, value)``: null when it is not found and an element is null."""
    need("array_contains", operand, "array")
    kind = operand.type.children[0]
    if kind.children or value.value is None:
        raise UnsupportedExpression("array_contains looks for what is no literal")
    if value.type != kind and not (value.literal and value.type == INT and kind.name == "bigint"):
        raise UnsupportedExpression(f"array_contains looks for a {value.type.ddl()} in a {operand.type.ddl()}")
    element = pa.scalar(widened(value, kind).value, kind.to_arrow())

    def kernel(lists: Any) -> Any:
        starts = lists.offsets.to_numpy().astype(np.int64)
        elements = lists.values
        equal = compared("=", elements, element, is_floating(kind))
        hits = np.concatenate([[0], np.cumsum(pc.fill_null(equal, False).to_numpy(zero_copy_only=False))])
        holes = np.concatenate([[0], np.cumsum(elements.is_null().to_numpy(zero_copy_only=False))])
        is_found = hits[starts[1:]] > hits[starts[:-1]]
        unknown = ~is_found & (holes[starts[1:]] > holes[starts[:-1]])
        return pa.array(is_found, mask=unknown | lists.is_null().to_numpy(zero_copy_only=False))

    return applied(BOOLEAN, [operand], kernel, nullable=True)


def struct_of(names: list[str], operands: list[Expression]) -> Expression:
    """A struct of values; never null itself."""
    if len({name.lower() for name in names}) < len(names) or any(operand.type == VOID for operand in operands):
        raise UnsupportedExpression("a struct has two fields of one name, or NULL without a type")
    kind = DataType("struct", children=tuple(operand.type for operand in operands), names=tuple(names))
    fields = list(kind.to_arrow())

    def run(frame: Frame) -> Any:
        return pa.StructArray.from_arrays([operand.array(frame) for operand in operands], fields=fields)

    return Expression(kind, False, any(operand.fallible for operand in operands), run)


def named_struct(*operands: Expression) -> Expression:
    """``named_struct(name, value, …)``."""
    if len(operands) % 2:
        raise UnsupportedExpression("named_struct has a name without a value")
    return struct_of([constant("named_struct", name, "string") for name in operands[::2]], list(operands[1::2]))


FUNCTIONS = {
    "element_at": Function(element_at, 2, 2),
    "get": Function(get, 2, 2),
    "size": Function(size),
    "cardinality": Function(size),
    "array_size": Function(lambda operand: size(need("array_size", operand, "array"))),
    "array_contains": Function(array_contains, 2, 2),
    "named_struct": Function(named_struct, 2, None),
}
