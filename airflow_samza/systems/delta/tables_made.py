"""Tables that an output makes because it says so."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import count
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.schema import DataType, Schema
from airflow_samza.systems.delta.columns import ID, MAPPED, MODE, PHYSICAL, UNMAPPED
from airflow_samza.systems.delta.log import commit_path
from airflow_samza.systems.delta.options import OutputOptions
from airflow_samza.systems.delta.partition_values import WRITTEN
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.tables.options import MADE
from airflow_samza.systems.tables.output_target import check_known

_WORDS = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_NTZ = "timestamp_ntz"
_IN_NAMES = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that no column of a table without column mapping has."""


def make_table(
    files: Filesystem, options: OutputOptions, columns: Schema, stream: str, note: Callable[[str], None]
) -> None:
    """Make a table, unless another process has been quicker; its id is noted before."""
    check_columns(options, columns, stream)
    features = ["timestampNtz"] if any(_has(field.type, _NTZ) for field in columns.fields) else []
    is_mapped, numbers = _is_mapped(options), count(1)
    fields = [_field(numbers if is_mapped else None, one.name, one.type, one.nullable) for one in columns.fields]
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    properties = {MADE: "true", **options.properties}
    if is_mapped:
        protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
        properties["delta.columnMapping.maxColumnId"] = str(next(numbers) - 1)  # for whoever adds a column
    if features:
        features += [MAPPED] if is_mapped else []
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        protocol["writerFeatures"] = [*features, "appendOnly"]
    now = int(time.time() * 1000)
    partitions = [column for column, _ in options.partition_by]
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": partitions,
        "configuration": properties,
        "createdTime": now,
    }
    info = {"timestamp": now, "operation": "CREATE TABLE", "operationParameters": {}}
    note(str(metadata["id"]))
    files.put_if_absent(commit_path(0), encoded([{"commitInfo": info}, {"protocol": protocol}, {"metaData": metadata}]))


def encoded(actions: Iterable[dict[str, Any]]) -> bytes:
    """Return actions as a commit has them.

    Characters stand in it as they are: readers by Arrow (deltalake 1.6) take an escaped pair for another one.
    """
    return "".join(f"{json.dumps(one, separators=(',', ':'), ensure_ascii=False)}\n" for one in actions).encode()


def check_columns(options: OutputOptions, columns: Schema, stream: str) -> None:
    """Reject columns that no table has, and partitions that cannot be."""
    check_known((column for column, _ in options.partition_by), columns, stream, "partitioned", "partition_by")
    lower: dict[str, str] = {}
    for path in _paths(columns.names, [field.type for field in columns.fields]):
        other = lower.setdefault(path.lower(), path)
        if (_IN_NAMES.search(path) and path in columns and not _is_mapped(options)) or other != path:
            why = f"differs from {other!r} by its case alone" if other != path else "has one of ' ,;{}()=' in its name"
            raise ConfigError(
                f"The output {stream!r} makes the table {options.table}, and the column {path!r} {why}.",
                hint="Give the column another name with select"
                + (f', or the table the property {MODE}="name".' if other == path else "."),
                key="create",
                value=path,
            )
    for column, _ in options.partition_by:
        kind = columns[column].type
        if _word(kind) not in WRITTEN and kind.name not in (_NTZ, "decimal", *_WORDS):
            raise ConfigError(
                f"The output {stream!r} is partitioned by the column {column!r}, which is {kind.ddl()}.",
                hint="Partition by whole numbers, texts, dates, times, booleans or decimals.",
                key="partition_by",
                value=column,
            )
    if columns.names and len(options.partition_by) >= len(columns.names):
        raise ConfigError(
            f"The output {stream!r} is partitioned by all of its columns, and files need one that is none of them.",
            hint="Leave a column out of partition_by.",
            key="partition_by",
            value=", ".join(column for column, _ in options.partition_by),
        )


def _paths(names: Iterable[str], kinds: Iterable[DataType]) -> Iterator[str]:
    """Yield the ways to columns and to the fields within them."""
    for name, kind in zip(names, kinds, strict=True):
        yield name
        inner = {"array": ("element",), "map": ("key", "value")}.get(kind.name, kind.names)
        yield from (f"{name}.{path}" for path in _paths(inner, kind.children))


def _is_mapped(options: OutputOptions) -> bool:
    return options.properties.get(MODE, UNMAPPED) != UNMAPPED


def _field(numbers: Iterator[int] | None, name: str, kind: DataType, nullable: bool = True) -> dict[str, Any]:
    """Return a field as metadata has it; with ``numbers`` it is mapped by the next one and by a name of its own."""
    metadata = {} if numbers is None else {ID: next(numbers), PHYSICAL: f"col-{uuid.uuid4()}"}
    return {"name": name, "type": _type(numbers, kind), "nullable": nullable, "metadata": metadata}


def _type(numbers: Iterator[int] | None, kind: DataType) -> Any:
    if kind.name == "struct":
        return {"type": "struct", "fields": list(map(partial(_field, numbers), kind.names, kind.children))}
    if kind.name == "array":
        return {"type": "array", "elementType": _type(numbers, kind.children[0]), "containsNull": True}
    if kind.name == "map":
        key, value = map(partial(_type, numbers), kind.children)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    return kind.ddl() if kind.name == "decimal" else _word(kind)


def _word(kind: DataType) -> str:
    return _WORDS.get(kind.name, kind.name)


def _has(kind: DataType, name: str) -> bool:
    return kind.name == name or any(_has(child, name) for child in kind.children)
