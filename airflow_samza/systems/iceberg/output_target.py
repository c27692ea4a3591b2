"""Table that an output writes, as the plan has found it: what tasks need of it, so that they need no catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK
from airflow_samza.systems.iceberg.output_options import OutputOptions
from airflow_samza.systems.iceberg.transforms import PartitionField, is_transform
from airflow_samza.systems.tables.columns import TableField, columns_of, fields_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FILE_BYTES = 512 * 2**20
_CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli")


@dataclass(frozen=True)
class OutputTarget:
    """Table of an output. ``data`` is the URI of the folder of its data files; ``spec`` is the id of its partitioning.

    ``run`` names the run that writes, among all runs of all roots.
    """

    run: str
    table: str
    uuid: str
    data: str
    spec: int
    columns: tuple[TableField, ...]
    partition: tuple[PartitionField, ...]
    compression: str
    file_bytes: int

    @cached_property
    def partition_columns(self) -> list[tuple[PartitionField, TableField]]:
        """The fields of the partition spec, each with its column."""
        by_id = {column.id: column for column in self.columns}
        return [(field, by_id[field.source]) for field in self.partition]

    @cached_property
    def declared(self) -> Schema:
        """The columns as those of a stream."""
        return Schema(fields_of(self.columns, self.table))

    @classmethod
    def of(cls, fixed: Mapping[str, Any]) -> OutputTarget:
        """Return the table from the JSON that :func:`fix_target` has made."""
        return cls(
            str(fixed["run"]),
            str(fixed["table"]),
            str(fixed["uuid"]),
            str(fixed["data"]),
            int(fixed["spec_id"]),
            columns_of(fixed["columns"]),
            tuple(PartitionField(*field) for field in fixed["partition"]),
            str(fixed["compression"]),
            int(fixed["file_bytes"]),
        )


def fix_target(table: Table, stream: str, run: str) -> dict[str, Any]:
    """Return, as JSON, what tasks need to write to a table; one that cannot be written here is a ``TopicError``."""
    metadata, name = table.metadata, ".".join(table.name())
    properties = table.properties
    spec = metadata.spec()
    partition = [PartitionField(field.name, field.source_id, str(field.transform)) for field in spec.fields]
    columns = metadata.schema().model_dump(mode="json", by_alias=True)["fields"]
    top = {int(column["id"]) for column in columns}
    for field in partition:
        if not is_transform(field.transform) or field.source not in top:
            raise _rejected(name, stream, f"is partitioned by {field.transform} ({field.name})")
    written_format = properties.get("write.format.default", "parquet")
    if written_format.lower() != "parquet":
        raise _rejected(name, stream, f"keeps its files as {written_format}")
    if metadata.format_version not in (1, 2):
        raise _rejected(name, stream, f"has format version {metadata.format_version}")
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    return {
        "kind": "iceberg",
        "run": run,
        "table": name,
        "uuid": str(metadata.table_uuid),
        "data": properties.get("write.data.path", f"{metadata.location.rstrip('/')}/data").rstrip("/"),
        "spec_id": spec.spec_id,
        "columns": columns,
        "partition": [list(field) for field in partition],
        "compression": codec if codec in _CODECS else "none",
        "file_bytes": int(properties.get("write.target-file-size-bytes", _FILE_BYTES)),
    }


def _rejected(table: str, stream: str, what: str) -> TopicError:
    return TopicError(
        f"The table {table} of the output {stream!r} {what}, which is not written here.",
        hint=f"Write it by a system of kind spark (format iceberg): {READ_BY_SPARK}.",
        table=table,
        stream=stream,
    )


def check_messages(target: OutputTarget, messages: Schema, stream: str) -> None:
    """Reject messages that do not fit the columns of a table, by name. Numbers may widen; what may be null may lack."""
    by_name = {column.name: column for column in target.columns}
    names = [field.name for field in messages.fields]
    for field in messages.fields:
        if field.name not in by_name:
            raise _misfit(
                f"The table {target.table} has no column {field.name!r}, and the messages of the output {stream!r} "
                "have one of this name.",
                f"{did_you_mean(field.name, by_name)}Add the column to the table, or leave it out with select. The "
                f"table's columns are {listed(by_name)}.",
                target,
                stream,
                field.name,
            )
    for column, declared in zip(target.columns, target.declared.fields, strict=True):
        if column.name not in names:
            if column.required:
                raise _misfit(
                    f"The table {target.table} requires the column {column.name!r}, and the messages of the output "
                    f"{stream!r} have none of this name.",
                    f"{did_you_mean(column.name, names)}Name it so with select; their columns are {listed(names)}.",
                    target,
                    stream,
                    column.name,
                )
            continue
        kind = messages[column.name].type
        if not kind.reads_as(declared.type) or (kind.is_integer and _narrower(declared.type.name, kind.name)):
            raise _misfit(
                f"Column {column.name!r} of the output {stream!r} is {kind.ddl()}, and in the table {target.table} it "
                f"is {column.type.word} ({declared.type.ddl()}).",
                f"Cast it with select: cast({column.name} as {declared.type.ddl()}) as {column.name}.",
                target,
                stream,
                column.name,
            )


_INTEGERS: Sequence[str] = ("tinyint", "smallint", "int", "bigint")


def _narrower(name: str, than: str) -> bool:
    return name in _INTEGERS and _INTEGERS.index(name) < _INTEGERS.index(than)


def _misfit(text: str, hint: str, target: OutputTarget, stream: str, column: str) -> SchemaError:
    return SchemaError(text, hint=hint, table=target.table, stream=stream, column=column)


def columns_unknown(options: OutputOptions, stream: str) -> SchemaError:
    """Return the error for a table that is to be made, of which nobody knows the columns before the run."""
    return SchemaError(
        f"The table {options.table} of the output {stream!r} is to be made, and the columns of its messages are not "
        "known before the run.",
        hint="Declare them: schema= of the output stream.",
        table=options.table,
        stream=stream,
    )
