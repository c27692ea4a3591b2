"""Batches as messages (dicts) and back, for serdes that convert one message at a time. No value is adjusted."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from airflow_samza.systems.serdes.serde import BadMessage


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the messages of a batch; a map is a dict."""
    columns = [
        [_given(value, field.type) for value in batch.column(place).to_pylist()]
        for place, field in enumerate(batch.schema)
    ]
    return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def batch_from(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of messages whose keys are columns of the schema.

    The first value that does not fit is a :class:`BadMessage`.
    """
    arrays = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        for place, value in enumerate(values):
            if not _fits(value, field.type):
                raise BadMessage(place, f"{field.name!r} has {_shown(value)}, which is no {field.type}")
        arrays.append(_array(values, field))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.with_nullable(True) for field in schema]))


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    taken = [_taken(value, field.type) for value in values]
    try:
        return pa.array(taken, field.type)
    except (pa.ArrowException, OverflowError, ValueError):
        for place, value in enumerate(taken):
            try:
                pa.array([value], field.type)
            except (pa.ArrowException, OverflowError, ValueError) as error:
                why = f"{field.name!r} has {_shown(values[place])}, which {field.type} cannot hold ({error})"
                raise BadMessage(place, why) from None
        raise


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value is of a type's own Python type, at every depth; its size is Arrow's to judge."""
    if value is None:
        return True
    if types.is_struct(kind):
        fields = {kind.field(place).name: kind.field(place).type for place in range(kind.num_fields)}
        return (
            isinstance(value, Mapping)
            and set(value) <= set(fields)
            and all(_fits(value[name], fields[name]) for name in value)
        )
    if types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else ()
        return isinstance(value, Mapping) and all(
            _fits(key, kind.key_type) and _fits(item, kind.item_type) for key, item in pairs
        )
    if types.is_list(kind):
        return isinstance(value, list | tuple) and all(_fits(item, kind.value_type) for item in value)
    if types.is_boolean(kind):
        return isinstance(value, bool)
    if types.is_integer(kind):
        return isinstance(value, int) and not isinstance(value, bool)
    if types.is_floating(kind):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if types.is_decimal(kind):
        return isinstance(value, int | Decimal) and not isinstance(value, bool)
    if types.is_timestamp(kind):
        return isinstance(value, datetime.datetime) and (value.tzinfo is None) == (kind.tz is None)
    if types.is_date(kind):
        return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)
    return isinstance(value, str if types.is_string(kind) else bytes)


def _given(value: Any, kind: pa.DataType) -> Any:
    """Return a value of Arrow as people take it."""
    if value is None or not kind.num_fields:
        return value
    if types.is_map(kind):
        return {_given(key, kind.key_type): _given(item, kind.item_type) for key, item in value}
    if types.is_struct(kind):
        return {f.name: _given(value[f.name], f.type) for f in map(kind.field, range(kind.num_fields))}
    return [_given(item, kind.value_type) for item in value]


def _taken(value: Any, kind: pa.DataType) -> Any:
    """Return a value that fits, as Arrow takes it."""
    if value is None or not kind.num_fields:
        return value
    if types.is_map(kind):
        return [(_taken(key, kind.key_type), _taken(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {f.name: _taken(value.get(f.name), f.type) for f in map(kind.field, range(kind.num_fields))}
    return [_taken(item, kind.value_type) for item in value]
