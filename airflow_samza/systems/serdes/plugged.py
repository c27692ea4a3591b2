"""A serde of the user's: a class with ``to_bytes`` and ``from_bytes``, one message at a time.

Its errors are the user's own.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_samza.errors import ConfigError
from airflow_samza.row import Row
from airflow_samza.systems.serdes.built_in import reject_nulls
from airflow_samza.systems.serdes.rows import batch_from, rows_of
from airflow_samza.systems.serdes.serde import BadMessage


class PluggedSerde:
    """Serde that calls the user's.

    ``to_bytes(row) -> bytes`` gets a Row, ``from_bytes(data)`` gives a dict, a Row or a dataclass instance.
    """

    def __init__(self, schema: pa.Schema, name: str, stream: str) -> None:
        self._schema = schema
        self._name = name
        self._serde = _made(name, stream)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return what ``to_bytes`` gives."""
        found = []
        for place, row in enumerate(rows_of(batch)):
            try:
                value = self._serde.to_bytes(Row(row))
            except Exception as error:
                raise BadMessage(place, f"{type(error).__name__}: {error}", raised=error) from error
            if not isinstance(value, bytes | bytearray | memoryview):
                raise BadMessage(place, f"to_bytes of {self._name} gives {type(value).__name__}, and no bytes")
            found.append(bytes(value))
        return pa.array(found, pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return what ``from_bytes`` gives."""
        reject_nulls(values)
        rows = []
        for place, value in enumerate(values.to_pylist()):
            try:
                message = self._serde.from_bytes(value)
            except Exception as error:
                raise BadMessage(place, f"{type(error).__name__}: {error}", raised=error) from error
            rows.append(self._row(message, place))
        return batch_from(rows, self._schema)

    def _row(self, message: object, place: int) -> dict[str, Any]:
        if dataclasses.is_dataclass(message) and not isinstance(message, type):
            message = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
        if not isinstance(message, Mapping):
            raise BadMessage(place, f"from_bytes of {self._name} gives {type(message).__name__}, and no message")
        unknown = sorted(str(name) for name in message if name not in self._schema.names)
        if unknown:
            columns = ", ".join(self._schema.names)
            raise BadMessage(
                place, f"from_bytes of {self._name} gives a column {unknown[0]!r}; the columns are {columns}"
            )
        return dict(message)


def _made(name: str, stream: str) -> Any:
    module_name, _, attributes = name.partition(":")

    def rejected(what: str, hint: str) -> ConfigError:
        return ConfigError(
            f"The serde of stream {stream!r} is {name!r}, which {what}.",
            hint=hint,
            key="serde",
            value=name,
            stream=stream,
        )

    try:
        found: Any = importlib.import_module(module_name)
    except ImportError as error:
        raise rejected(
            f"cannot be imported: {error}", "Put its folder on the Python path, or correct the name."
        ) from error
    for attribute in attributes.split("."):
        if not hasattr(found, attribute):
            raise rejected(f"is not there: {module_name!r} has no {attributes!r}", "Correct the name.")
        found = getattr(found, attribute)
    try:
        made = found()
    except TypeError as error:
        raise rejected(
            f"cannot be made without arguments: {error}", "Name a class, or a function, that takes none."
        ) from error
    if not callable(getattr(made, "to_bytes", None)) or not callable(getattr(made, "from_bytes", None)):
        raise rejected(
            "has no to_bytes and from_bytes", "Define both: to_bytes(message) -> bytes and from_bytes(data) -> message."
        )
    return made
