"""Checks of the stores of low-level tasks: the types of their keys and values."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from airflow_samza.application.descriptors import StoreDescriptor
from airflow_samza.application.identifiers import checked_id
from airflow_samza.application.rejections import located, reject
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.windows import duration_ms
from airflow_samza.config import STORE_BACKENDS
from airflow_samza.errors import SchemaError
from airflow_samza.schema import Field, Schema, declared_type

_SORTED = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
)
"""The types of keys. Floats are not among them: what comes out of arithmetic is hardly ever equal to what was put."""


def declared_store(
    name: object, key: object, value: object, backend: object = "memory", ttl: object = None
) -> StoreDescriptor:
    """Return the store that a user declares."""
    checked = checked_id(name, "store")
    with located():
        keys, _ = _columns("key", key)
        values, plain = _columns("value", value)
    for field in keys.fields:
        if field.type.name not in _SORTED:
            reject(
                f"The key of store {checked!r} has the type {field.type.ddl()}, which keys cannot have",
                hint=f"Use {', '.join(_SORTED[:-1])} or {_SORTED[-1]}; several columns make a tuple.",
                store=checked,
            )
    if backend not in STORE_BACKENDS:
        reject(
            f"The store {checked!r} has backend={backend!r}, which is not known",
            hint='Write "memory", or "rocksdb" for state that does not fit into memory, or is too large to load in '
            "each epoch.",
            store=checked,
        )
    with located():
        ttl_ms = None if ttl is None else duration_ms(cast("str", ttl))
    never_null = Schema(tuple(replace(field, nullable=False) for field in keys.fields))
    return StoreDescriptor(checked, never_null, values, plain, str(backend), ttl_ms, SourceLocation.of_caller())


def _columns(word: str, declared: object) -> tuple[Schema, bool]:
    """Return the columns, and whether they are one plain value, which is so for a type."""
    if isinstance(declared, str) and len(declared.split()) > 1:
        try:
            return _plain(word, declared), True  # "map<string, int>"
        except SchemaError:
            return Schema.of(declared), False
    try:
        return (_plain(word, declared), True) if isinstance(declared, str) else (Schema.of(declared), False)
    except SchemaError:
        return _plain(word, declared), True


def _plain(word: str, declared: object) -> Schema:
    return Schema((Field(word, declared_type(declared, f"the {word}"), nullable=False),))
