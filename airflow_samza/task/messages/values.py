"""Arrow columns as Python values, whole columns at a time.

Stores of low-level tasks and remote tables get values by it.
"""

from __future__ import annotations

import dataclasses
import datetime
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_samza.errors import SchemaError
from airflow_samza.row import Row
from airflow_samza.schema import DataType, Field


def python_values(array: pa.Array, kind: DataType) -> list[Any]:
    """A column's values as Python objects; timestamps are aware (UTC), naive for ``timestamp_ntz``."""
    name = kind.name
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if name in ("timestamp", "timestamp_ntz"):
        return _datetimes(array, name == "timestamp")
    if name == "date":
        return _dates(array)
    return array.to_pylist()  # type: ignore[no-any-return]  # Arrow has no types


def key_values(batch: pa.RecordBatch, names: Sequence[str]) -> list[Any]:
    """Return the key of each row: the value of its column, a tuple of several; None where the batch has no key."""
    if not names or not set(names) <= set(batch.schema.names):  # of a stream that is only named, the table has it
        return [None] * int(batch.num_rows)
    columns: list[list[Any]] = [batch.column(name).to_pylist() for name in names]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def values_or_none(batch: pa.RecordBatch, name: str | None) -> list[Any]:
    """Return the values of a column; None for each row where there is no such column."""
    return batch.column(name).to_pylist() if name in batch.schema.names else [None] * int(batch.num_rows)


def beyond_python(column: pa.Array, field: Field) -> SchemaError:
    """The error for a column that holds a time outside of Python's calendar, which Arrow and Spark know."""
    shown = "a time"
    if field.type.name in ("timestamp", "timestamp_ntz", "date"):
        days = field.type.name == "date"
        far = max(pc.min_max(column.view(pa.int32() if days else pa.int64())).as_py().values(), key=abs)
        shown = str(np.datetime64(far, "D") if days else np.datetime64(far, "us"))
    return SchemaError(
        f"Column {field.name!r} holds {shown}, which is not in the years 1 to 9999, and Python has no "
        f"{field.type.ddl()} for it.",
        hint="Leave such messages out before with where, or make a text or a number of the column with select.",
        column=field.name,
    )


def _datetimes(array: pa.Array, aware: bool) -> list[Any]:
    # As differences to 1970, which numpy makes many times faster than pyarrow makes times with a zone. A null is None
    # among them.
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc if aware else None)
    micros = array.view(pa.int64())
    if array.null_count:
        since = micros.fill_null(_NOT_A_TIME).to_numpy(zero_copy_only=False).view("m8[us]").tolist()
        return [None if delta is None else epoch + delta for delta in since]
    return [epoch + delta for delta in micros.to_numpy(zero_copy_only=False).view("m8[us]").tolist()]


_NOT_A_TIME = -(2**63)


def _dates(array: pa.Array) -> list[Any]:
    values = array.to_numpy(zero_copy_only=False).tolist()
    # numpy gives numbers for what is no date of Python's; Arrow raises an error.
    return array.to_pylist() if int in set(map(type, values)) else values  # type: ignore[no-any-return]  # Arrow has no types


def nested_conversion(kind: DataType, annotation: Any) -> Callable[[Any], Any] | None:
    """Return the conversion of a nested value of ``to_pylist`` to what the user declared; None when none is needed."""
    annotation = _bare(annotation)
    arguments = typing.get_args(annotation)
    if kind.name == "struct":
        make: Any = annotation if isinstance(annotation, type) and dataclasses.is_dataclass(annotation) else None
        hints = typing.get_type_hints(make) if make is not None else {}
        inner = [nested_conversion(c, hints.get(name)) for name, c in zip(kind.names, kind.children, strict=True)]
        names = kind.names

        def build(value: Mapping[str, Any]) -> Any:
            fields = {
                n: value[n] if c is None or value[n] is None else c(value[n]) for n, c in zip(names, inner, strict=True)
            }
            return make(**fields) if make is not None else Row(fields)

        return build
    if kind.name == "array":
        child = nested_conversion(kind.children[0], arguments[0] if arguments else None)
        wrap: Any = tuple if typing.get_origin(annotation) is tuple else list
        if child is None and wrap is list:
            return None
        return lambda value: wrap(v if child is None or v is None else child(v) for v in value)
    if kind.name == "map":
        child = nested_conversion(kind.children[1], arguments[1] if len(arguments) > 1 else None)
        return lambda value: {k: v if child is None or v is None else child(v) for k, v in value}
    if kind.name == "timestamp":
        return lambda value: value.astimezone(datetime.timezone.utc)
    return None


def _bare(annotation: Any) -> Any:
    """An annotation without ``| None`` and ``Annotated``."""
    if typing.get_origin(annotation) is typing.Annotated:
        return _bare(typing.get_args(annotation)[0])
    members = [member for member in typing.get_args(annotation) if member is not type(None)]
    if len(members) == 1 and len(typing.get_args(annotation)) == 2 and type(None) in typing.get_args(annotation):
        return _bare(members[0])
    return annotation
