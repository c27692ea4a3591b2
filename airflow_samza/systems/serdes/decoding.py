"""Messages that are read in parts, put together again, and those that are read one by one.

What a library or the user's code reads one by one comes as dicts, and becomes a batch here. No value is adjusted. All
serdes go through it.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from airflow_samza.quoting import quoted
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde


def merged(parts: Sequence[tuple[Any, Decoded]]) -> Decoded:
    """Return what was read of parts of an array, in its order; each comes with the places (numbers) of its values."""
    batches, rows, bad = [], [], []
    for places, decoded in parts:
        batches.append(decoded.batch)
        rows.append(np.delete(places, [one.place for one in decoded.bad]))
        bad += [one.at(int(places[one.place])) for one in decoded.bad]
    bad.sort(key=lambda one: one.place)
    if len(batches) == 1:
        return Decoded(batches[0], bad)
    order = np.argsort(np.concatenate(rows), kind="stable")
    return Decoded(pa.concat_batches(batches).take(pa.array(order)), bad)


class ValueSerde(Serde):
    """Serde of messages that have a value each: one without is bad."""

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return the messages that have a value, and can be read."""
        values = values.cast(pa.binary())
        if not values.null_count:
            return self.decode_present(values)
        valid = pc.is_valid(values)
        decoded = self.decode_present(values.filter(valid))
        mask = valid.to_numpy(zero_copy_only=False)
        places = np.flatnonzero(mask).tolist()
        bad = [one.at(places[one.place]) for one in decoded.bad]
        bad += [BadMessage(place, "it has no value") for place in np.flatnonzero(~mask).tolist()]
        return Decoded(decoded.batch, sorted(bad, key=lambda one: one.place))

    @abstractmethod
    def decode_present(self, values: pa.Array) -> Decoded:
        """Return the messages that can be read of values, none of which is null."""


def reject_nulls(values: pa.Array) -> None:
    """Reject nulls: a message without a value has no bytes, and no columns."""
    if values.null_count:
        raise BadMessage(int(pc.index(pc.is_null(values), True).as_py()), "it has no value")


def decoded_each(
    values: pa.Array, read: Callable[[Any], Mapping[str, Any]], schema: pa.Schema, *, first_only: bool = False
) -> Decoded:
    """Return what is read of values, one by one; ``first_only``: behind the first bad one nothing is read.

    What cannot be read is a :class:`BadMessage`, of whatever place.
    """
    messages: list[Mapping[str, Any] | BadMessage] = []
    for place, value in enumerate(values.to_pylist()):
        try:
            messages.append(read(value))
        except BadMessage as bad:
            messages.append(bad.at(place))
            if first_only:
                break
    return decoded_rows(messages, schema)


def decoded_rows(messages: Sequence[Mapping[str, Any] | BadMessage], schema: pa.Schema) -> Decoded:
    """Return the batch of messages whose keys are columns of the schema, and the bad ones among them.

    A value that does not fit its column makes its message a bad one.
    """
    bad = {one.place: one for one in messages if isinstance(one, BadMessage)}
    rows = [(place, row) for place, row in enumerate(messages) if not isinstance(row, BadMessage)]
    arrays = []
    for field in schema:
        values = [row.get(field.name) for _, row in rows]
        unfit = _unfit(values, field)
        if not unfit:
            taken = [_for_arrow(value, field.type) for value in values] if field.type.num_fields else values
            try:
                arrays.append(pa.array(taken, field.type))
                continue
            except (pa.ArrowException, OverflowError, ValueError):
                unfit = _too_large(taken, values, field)
        for place, why in unfit:
            bad.setdefault(rows[place][0], BadMessage(rows[place][0], why))
    if len(bad) + len(rows) > len(messages):
        return decoded_rows([bad.get(place, row) for place, row in enumerate(messages)], schema)
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return Decoded(pa.RecordBatch.from_arrays(arrays, schema=nullable), [bad[place] for place in sorted(bad)])


def _unfit(values: list[Any], field: pa.Field) -> list[tuple[int, str]]:
    """Return the places of values that are not of a column's own Python type, and why."""
    if set(map(type, values)) <= {*_CLASSES.get(field.type.id, ())[:1], type(None)}:
        return []
    return [
        (place, f"{field.name!r} has {quoted(value, 60)}, which is no {field.type}")
        for place, value in enumerate(values)
        if not _fits(value, field.type)
    ]


def _too_large(taken: list[Any], values: list[Any], field: pa.Field) -> list[tuple[int, str]]:
    """Return the places of values that Arrow cannot hold, and why."""
    problems = []
    for place, value in enumerate(taken):
        try:
            pa.array([value], field.type)
        except (pa.ArrowException, OverflowError, ValueError) as error:
            problems.append(
                (place, f"{field.name!r} has {quoted(values[place], 60)}, which {field.type} cannot hold ({error})")
            )
    return problems


_CLASSES: dict[int, tuple[type, ...]] = {
    kind.id: classes
    for classes, kinds in {
        (bool,): (pa.bool_(),),
        (int,): (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        (float, int): (pa.float32(), pa.float64()),
        (str,): (pa.string(),),
        (bytes,): (pa.binary(),),
        (Decimal, int): (pa.decimal128(1),),
        (datetime.date,): (pa.date32(),),
    }.items()
    for kind in kinds
}
"""The Python classes of values that fit, by the type of the column; values of the first alone fit at a glance."""


def _fits(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value is of a type's own Python type, at every depth; its size is Arrow's to judge."""
    if value is None:
        return True
    if types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        return (
            isinstance(value, Mapping)
            and set(value) <= set(fields)
            and all(_fits(value[name], fields[name]) for name in value)
        )
    if types.is_map(kind):
        return isinstance(value, Mapping) and all(
            _fits(key, kind.key_type) and _fits(item, kind.item_type) for key, item in value.items()
        )
    if types.is_list(kind):
        return isinstance(value, list | tuple) and all(_fits(item, kind.value_type) for item in value)
    if types.is_timestamp(kind):
        return isinstance(value, datetime.datetime) and (value.tzinfo is None) == (kind.tz is None)
    if isinstance(value, bool | datetime.datetime):
        return types.is_boolean(kind) and isinstance(value, bool)
    return isinstance(value, _CLASSES[kind.id])


def _for_arrow(value: Any, kind: pa.DataType) -> Any:
    """Return a value that fits, as Arrow takes it."""
    if value is None or not kind.num_fields:
        return value
    if types.is_map(kind):
        return [(_for_arrow(key, kind.key_type), _for_arrow(item, kind.item_type)) for key, item in value.items()]
    if types.is_struct(kind):
        return {f.name: _for_arrow(value.get(f.name), f.type) for f in kind}
    return [_for_arrow(item, kind.value_type) for item in value]
