"""Table that an output writes, as the plan finds it: what tasks need of it, so that they need no catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK
from airflow_samza.systems.iceberg.bounds import check_address
from airflow_samza.systems.tables.output_target import CODECS, FILE_BYTES
from airflow_samza.systems.tables.transforms import PartitionField, SortField, is_transform

if TYPE_CHECKING:
    from pyiceberg.table import Table

MANY = 500
"""Snapshots or manifests of a table beyond which a plan says that they make commits slow: by half a second each."""


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
    check_address(table, table.location_provider().metadata_path)
    codec = properties.get("write.parquet.compression-codec", "zstd").lower()
    return {
        "kind": "iceberg",
        "run": run,
        "table": name,
        "location": metadata.location,
        "uuid": str(metadata.table_uuid),
        "data": data_folder(table),
        "spec_id": spec.spec_id,
        "columns": columns,
        "partition": [list(field) for field in partition],
        "compression": codec if codec in CODECS else "none",
        "file_bytes": int(properties.get("write.target-file-size-bytes", FILE_BYTES)),
        **_sort_order(table, top),
        **_growth(table),
    }


def _sort_order(table: Table, top: set[int]) -> dict[str, Any]:
    """Return the sort order of a table, if its files can be sorted by it; otherwise they say that they are not."""
    order, kinds = table.sort_order(), {field.field_id: str(field.field_type) for field in table.schema().fields}
    fields = [
        SortField(
            field.source_id,
            str(field.transform),
            descending=field.direction.value == "desc",
            nulls_first=field.null_order.value == "nulls-first",
        )
        for field in order.fields
    ]
    if not all(is_transform(field.transform) and field.source in top for field in fields):
        return {}
    if any(field.transform != "identity" and kinds[field.source] == "uuid" for field in fields):
        return {}
    return {"sort": [list(field) for field in fields], "sort_id": order.order_id} if fields else {}


def _growth(table: Table) -> dict[str, Any]:
    """Return how many snapshots and manifests a table has, where they make commits slow."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return {}
    counts = {"snapshots": len(table.metadata.snapshots), "manifests": len(snapshot.manifests(table.io))}
    return {name: count for name, count in counts.items() if count > MANY}


def data_folder(table: Table) -> str:
    """Return the URI of the folder of a table's data files, where the table may have one."""
    default = f"{table.metadata.location.rstrip('/')}/data"
    folder = str(table.properties.get("write.data.path", default)).rstrip("/")
    check_address(table, folder)
    return folder


def _rejected(table: str, stream: str, what: str) -> TopicError:
    return TopicError(
        f"The table {table} of the output {stream!r} {what}, which is not written here.",
        hint=f"Write it by a system of kind spark (format iceberg): {READ_BY_SPARK}.",
        table=table,
        stream=stream,
    )
