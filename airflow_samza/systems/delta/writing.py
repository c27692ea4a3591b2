"""Tables that can be written: their features, and what the plan fixes of one, so that tasks need not read its log."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.columns import TableColumns
from airflow_samza.systems.delta.log import DeltaLog
from airflow_samza.systems.delta.partition_values import WRITTEN, partition_text
from airflow_samza.systems.delta.state import AddedFile, TableState
from airflow_samza.systems.delta.table_version import KIND, check_features, newer_protocol
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK
from airflow_samza.systems.output_slots import APPEND
from airflow_samza.systems.tables.output_target import CODECS, FILE_BYTES

FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "identityColumns",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features of writers that are known here; those that demand something of each commit are rejected where in use."""

APPEND_ONLY = "delta.appendOnly"
_WITH_FEATURES = 7
"""Version of the protocol of which writers have a list of features; there is no later one."""
_IN_USE = {
    "delta.invariants": "has an invariant",
    "delta.generationExpression": "is generated",
    "delta.identity.start": "is an identity column",
    "CURRENT_DEFAULT": "has a default value",
}
"""Demands of a column on writers, by the property in its metadata."""
_SIZE = re.compile(r"(\d+)\s*(b|k|kb|m|mb|g|gb)?", re.IGNORECASE)
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30}


def check_written(state: TableState, mode: str) -> TableColumns:
    """Return the columns of a table that an output may write; one that demands what is not done here is rejected."""
    log = state.log
    with log.understood("its protocol or metadata"):
        check_features(state)
        least = int(state.protocol.get("minWriterVersion", 0))
        unknown = sorted(set(state.protocol.get("writerFeatures") or ()) - FEATURES)
        if least > _WITH_FEATURES:
            raise _rejected(log, newer_protocol(least))
        if least == _WITH_FEATURES and unknown:
            raise _rejected(log, f"has the feature {unknown[0]}")
        configuration = state.configuration
        constraint = next((name for name in configuration if name.startswith("delta.constraints.")), None)
        if constraint is not None:
            raise _rejected(log, f"has the CHECK constraint {constraint.removeprefix('delta.constraints.')}")
        fields = json.loads(state.metadata["schemaString"])["fields"]
        for path, metadata in _with_inner(fields, ""):
            demand = next((text for name, text in _IN_USE.items() if name in metadata), None)
            if demand is not None:
                raise _rejected(log, f"has the column {path!r}, which {demand},")
        columns = TableColumns.of(state)
    for column in columns.fields:
        word = column.type.word
        if column.name in columns.partitions and word not in WRITTEN and not word.startswith("decimal"):
            raise _rejected(log, f"is partitioned by the column {column.name!r} of the type {word}")
    if mode != APPEND and is_append_only(state):
        raise TopicError(
            f"The table {log.name} of the output {log.stream!r} has {APPEND_ONLY}, and a run "
            "replaces what was written before.",
            hint='Declare mode="append" on the output, or take the property from the table.',
            table=log.name,
            stream=log.stream,
        )
    return columns


def added_file(columns: TableColumns, described: Mapping[str, Any], stats: str | Mapping[str, Any] | None) -> AddedFile:
    """Return a data file that was written here as the log has it."""
    words = {column.name: column.type.word for column in columns.fields}
    pairs = zip(columns.partitions, described["partition"], strict=True)
    partition = {columns.physical[name]: partition_text(value, words[name]) for name, value in pairs}
    path = str(described["path"])
    return AddedFile(path, int(described["bytes"]), partition, stats, None, quote(path))


def is_append_only(state: TableState) -> bool:
    """Return whether no file of a table may be taken out of it."""
    return state.configuration.get(APPEND_ONLY, "").lower() == "true"


def fix_target(state: TableState, mode: str, run: str) -> dict[str, Any]:
    """Return, as JSON, what tasks need to write to a table; one that cannot be written here is rejected."""
    columns = check_written(state, mode)
    by_name = {column.name: column for column in columns.fields}
    codec = state.configuration.get("delta.parquet.compression.codec", "snappy").lower()
    return {
        "kind": KIND,
        "run": run,
        "table": state.log.name,
        "uuid": state.table_id,
        "data": "",
        "spec_id": partitioning(columns),
        "columns": columns.described,
        "partition": [[name, by_name[name].id, "identity"] for name in columns.partitions],
        "compression": codec if codec in CODECS else "none",
        "file_bytes": _file_bytes(state),
        "in_files": False,
    }


def partitioning(columns: TableColumns) -> int:
    """Return a number for the columns by which a table is partitioned."""
    return zlib.crc32(json.dumps(columns.partitions).encode())


def _file_bytes(state: TableState) -> int:
    match = _SIZE.fullmatch(state.configuration.get("delta.targetFileSize", "").strip())
    if match is None or not int(match[1]):
        return FILE_BYTES
    return int(match[1]) << _UNITS[(match[2] or "b")[0].lower()]


def _with_inner(fields: Any, path: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metadata of columns and of the fields within them, by their paths."""
    for field in fields:
        name = f"{path}{field['name']}"
        yield name, field.get("metadata") or {}
        yield from _within_type(field["type"], name)


def _within_type(kind: Any, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(kind, Mapping):
        yield from _with_inner(kind.get("fields", ()), f"{name}.")
        for inner in ("elementType", "keyType", "valueType"):
            if inner in kind:
                yield from _within_type(kind[inner], name)


def _rejected(log: DeltaLog, what: str) -> TopicError:
    return TopicError(
        f"The table {log.name} of the output {log.stream!r} {what.rstrip(',')}, and such tables are not written here.",
        hint=f"Write it by a system of kind spark (format delta): {READ_BY_SPARK}.",
        table=log.name,
        stream=log.stream,
    )
