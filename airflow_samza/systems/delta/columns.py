"""Columns of a Delta table from the schema in its metadata, in the form that input ranges of tables have.

A column is found in files by its physical name, or by its field id, as the mode of its column mapping says; statistics
and values of partitions have physical names in each mode.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.systems.delta.state import TableState
from airflow_samza.systems.tables.columns import TableField, columns_of

_WORDS = {"integer": "int", "timestamp": "timestamptz", "timestamp_ntz": "timestamp"}
"""Types of Delta that Iceberg, whose words input ranges have, names otherwise."""

MAPPED = "columnMapping"
"""The feature of tables whose columns have other names in files."""

ID, PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
"""Properties of a field: the number and the name by which files have it."""

MODE, UNMAPPED = "delta.columnMapping.mode", "none"
MODES = (UNMAPPED, "name", "id")


@dataclass(frozen=True)
class TableColumns:
    """Columns of a version: described as JSON for the input range, and the physical name of each by its name.

    ``partitions`` are the names of those by which the table is partitioned; ``by_id`` tells that files are read by
    field ids.
    """

    described: list[Any]
    physical: Mapping[str, str]
    partitions: tuple[str, ...]
    by_id: bool

    @classmethod
    def of(cls, state: TableState) -> TableColumns:
        """Return the columns of a state of a table."""
        mode = state.configuration.get(MODE, UNMAPPED)
        protocol = state.protocol
        if protocol["minReaderVersion"] < 2 or (
            protocol.get("readerFeatures") is not None and MAPPED not in protocol["readerFeatures"]
        ):
            mode = UNMAPPED  # a property without the feature means nothing
        if mode not in MODES:
            raise state.log.damaged(f"{MODE} is {mode!r}")
        with state.log.understood("its schema"):
            fields = json.loads(state.metadata["schemaString"])["fields"]
            described = [_field(field, mode) for field in fields]
            physical = {str(field["name"]): _physical(field, mode) for field in fields}
            columns_of(described)
            partitions = tuple(map(str, state.metadata.get("partitionColumns") or ()))
        unknown = next((name for name in partitions if name not in physical), None)
        if unknown is not None:
            raise state.log.damaged(f"it is partitioned by {unknown}, which is no column")
        return cls(described, physical, partitions, mode == "id")

    @property
    def fields(self) -> tuple[TableField, ...]:
        """The columns as values."""
        return columns_of(self.described)


def _physical(field: Mapping[str, Any], mode: str) -> str:
    return str(field["name"] if mode == UNMAPPED else field["metadata"][PHYSICAL])


def _field(field: Mapping[str, Any], mode: str) -> dict[str, Any]:
    physical = _physical(field, mode)
    described = {
        "id": int(field["metadata"][ID]) if mode == "id" else physical,
        "name": str(field["name"]),
        "type": _type(field["type"], mode),
        "required": not field.get("nullable", True),
    }
    number = field["metadata"].get(ID) if mode == "name" else None
    return {
        **described,
        **({"file-name": physical} if physical != described["name"] else {}),
        **({"file-id": int(number)} if number is not None else {}),
    }


def _type(kind: Any, mode: str) -> Any:
    if not isinstance(kind, Mapping):
        return _WORDS.get(str(kind), str(kind))
    word = kind["type"]
    if word == "struct":
        return {"type": "struct", "fields": [_field(field, mode) for field in kind["fields"]]}
    if word == "array":
        element, required = _type(kind["elementType"], mode), not kind["containsNull"]
        return {"type": "list", "element-id": 0, "element": element, "element-required": required}
    if word == "map":
        key, value = _type(kind["keyType"], mode), _type(kind["valueType"], mode)
        required = not kind["valueContainsNull"]
        return {"type": "map", "key-id": 0, "key": key, "value-id": 0, "value": value, "value-required": required}
    return str(word)
