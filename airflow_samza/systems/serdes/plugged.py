"""A serde of the user's: a class with ``to_bytes`` and ``from_bytes``, one message at a time.

Its errors are the user's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_samza.application.rejections import imported
from airflow_samza.errors import ConfigError
from airflow_samza.row import Row
from airflow_samza.systems.files.formats.nested import rows_of
from airflow_samza.systems.serdes.decoding import decoded_each
from airflow_samza.systems.serdes.serde import BadMessage, Decoded, Serde


class PluggedSerde(Serde):
    """Serde that calls the user's.

    ``to_bytes(row) -> bytes`` gets a Row, ``from_bytes(data)`` gives a dict, a Row or a dataclass instance.
    """

    def __init__(self, schema: pa.Schema, name: str, stream: str) -> None:
        self._schema = schema
        self._name = name
        self._serde = _users_serde(name, stream)

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return what ``to_bytes`` gives."""
        encoded = []
        for place, row in enumerate(rows_of(batch)):
            try:
                value = self._serde.to_bytes(Row(row))
            except Exception as error:
                raise BadMessage(place, f"{type(error).__name__}: {error}", raised=error) from error
            if not isinstance(value, bytes | bytearray | memoryview):
                raise BadMessage(place, f"to_bytes of {self._name} gives {type(value).__name__}, and no bytes")
            encoded.append(bytes(value))
        return pa.array(encoded, pa.binary())

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return what ``from_bytes`` gives; behind the first message that it rejects it is not called."""
        return decoded_each(values, self._read_one, self._schema, first_only=True).whole()

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return what ``from_bytes`` gives, message by message."""
        return decoded_each(values, self._read_one, self._schema)

    def _read_one(self, value: bytes | None) -> dict[str, Any]:
        if value is None:
            raise BadMessage(0, "it has no value")
        try:
            message = self._serde.from_bytes(value)
        except Exception as error:
            raise BadMessage(0, f"{type(error).__name__}: {error}", raised=error) from error
        if dataclasses.is_dataclass(message) and not isinstance(message, type):
            message = {field.name: getattr(message, field.name) for field in dataclasses.fields(message)}
        if not isinstance(message, Mapping):
            raise BadMessage(0, f"from_bytes of {self._name} gives {type(message).__name__}, and no message")
        unknown = sorted(str(name) for name in message if name not in self._schema.names)
        if unknown:
            columns = ", ".join(self._schema.names)
            raise BadMessage(0, f"from_bytes of {self._name} gives a column {unknown[0]!r}; the columns are {columns}")
        return dict(message)


def _users_serde(name: str, stream: str) -> Any:
    def rejected(what: str, hint: str) -> ConfigError:
        return ConfigError(
            f"The serde of stream {stream!r} is {name!r}, which {what}.",
            hint=hint,
            key="serde",
            value=name,
            stream=stream,
        )

    target = imported(name, f"The serde of stream {stream!r}", key="serde", stream=stream)
    try:
        serde = target if _is_serde(target) and not isinstance(target, type) else target()
    except TypeError as error:
        raise rejected(
            f"cannot be made without arguments: {error}", "Name a class, or a function, that takes none."
        ) from error
    if not _is_serde(serde):
        raise rejected(
            "has no to_bytes and from_bytes", "Define both: to_bytes(message) -> bytes and from_bytes(data) -> message."
        )
    return serde


def _is_serde(value: object) -> bool:
    return callable(getattr(value, "to_bytes", None)) and callable(getattr(value, "from_bytes", None))
