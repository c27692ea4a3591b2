"""Delta tables that tests make with deltalake, and logs that it cannot write: they are written by hand."""

from __future__ import annotations

import base64
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap

from airflow_samza.systems.delta.reading import _B85, _Z85
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.table_inputs import rows_of as rows_of, stream as stream

_MAGIC = (1681511377).to_bytes(4, "little")


def system_at(folder: Path | str, **options: Any) -> DeltaSystem:
    """Return the system of the tables in a folder."""
    return DeltaSystem("lake", SystemBinding("delta", {"root": str(folder), **options}))


def table_of(
    folder: Path | str, schema: pa.Schema, *rows: Sequence[Mapping[str, Any]], name: str = "web.views", **more: Any
) -> DeltaTable:
    """Return a new table, with a version for each of the lists of rows after the empty version 0."""
    place = Path(folder, *name.split("."))
    table = DeltaTable.create(str(place), schema=schema, **more)
    for one in rows:
        append(table, one, schema)
    return table


def append(table: DeltaTable, rows: Sequence[Mapping[str, Any]], schema: pa.Schema, **more: Any) -> None:
    write_deltalake(table, pa.Table.from_pylist(list(rows), schema=schema), mode=more.pop("mode", "append"), **more)


def column(name: str, kind: Any, *, nullable: bool = True, **metadata: Any) -> dict[str, Any]:
    """Return a field of a schema, as the log has it."""
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def mapped(name: str, kind: Any, number: int, physical: str) -> dict[str, Any]:
    """Return a field of a table with column mapping."""
    names = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": physical}
    return {**column(name, kind), "metadata": names}


class HandMade:
    """A table whose log and files a test writes itself."""

    def __init__(
        self,
        folder: Path | str,
        columns: Sequence[Mapping[str, Any]],
        *,
        partitions: Sequence[str] = (),
        reader: int = 1,
        features: Sequence[str] | None = None,
        configuration: Mapping[str, str] | None = None,
        name: str = "web.views",
    ) -> None:
        self.place = Path(folder, *name.split("."))
        self.log = self.place / "_delta_log"
        self.log.mkdir(parents=True)
        self.next = 0
        self.protocol: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": 7 if features else 2}
        if features is not None:
            self.protocol |= {"readerFeatures": list(features), "writerFeatures": list(features)}
        self.metadata: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": list(columns)}),
            "partitionColumns": list(partitions),
            "configuration": dict(configuration or {}),
        }

    def begin(self) -> None:
        """Write the first commit."""
        self.commit({"protocol": self.protocol}, {"metaData": self.metadata})

    def commit(self, *actions: Mapping[str, Any], written: datetime | None = None, **info: Any) -> int:
        """Write a commit; return its version."""
        version, self.next = self.next, self.next + 1
        lines = [json.dumps(one) for one in ({"commitInfo": info}, *actions)]
        path = self.log / f"{version:020}.json"
        path.write_text("\n".join(lines) + "\n")
        if written is not None:
            os.utime(path, (written.timestamp(), written.timestamp()))
        return version

    def file(self, path: str, rows: pa.Table, **more: Any) -> dict[str, Any]:
        """Write a data file, and return the action that adds it."""
        place = self.place / path
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, place, row_group_size=more.pop("row_group_size", None))
        stats = more.pop("stats", {"numRecords": rows.num_rows})
        added = {"path": path, "partitionValues": {}, "size": place.stat().st_size, "dataChange": True, **more}
        return {"add": {"modificationTime": 0, "stats": json.dumps(stats), **added}}

    def checkpoint(self, actions: Iterable[Mapping[str, Any]], name: str, folder: str = "") -> Path:
        """Write actions as a file of a checkpoint."""
        path = self.log / folder / name
        path.parent.mkdir(exist_ok=True)
        kinds = pa.schema(
            [
                ("protocol", _PROTOCOL),
                ("metaData", _METADATA),
                ("add", _ADD),
                ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64())])),
            ]
        )
        pq.write_table(pa.Table.from_pylist([dict(one) for one in actions], schema=kinds), path)
        return path


_TEXTS = pa.map_(pa.string(), pa.string())
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _TEXTS),
    ]
)
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("deletionVector", _VECTOR),
    ]
)


def bitmap(positions: Iterable[int]) -> bytes:
    """Return the bitmap of a deletion vector."""
    uppers: dict[int, list[int]] = {}
    for position in positions:
        uppers.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    parts = [_MAGIC, len(uppers).to_bytes(8, "little")]
    for upper, lower in sorted(uppers.items()):
        parts += [upper.to_bytes(4, "little"), BitMap(lower).serialize()]
    return b"".join(parts)


def z85_text(data: bytes) -> str:
    return base64.b85encode(data).decode().translate(str.maketrans(_B85, _Z85))


def inline_vector(positions: Sequence[int]) -> dict[str, Any]:
    """Return the description of a vector that is in the log itself."""
    data = bitmap(positions)
    text = z85_text(data + bytes(-len(data) % 4))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(positions)}


def vector_file(table: Path, *vectors: Sequence[int], prefix: str = "") -> list[dict[str, Any]]:
    """Write vectors into one file, and return their descriptions."""
    name = uuid.uuid4()
    content, found = b"\x01", []
    for positions in vectors:
        data = bitmap(positions)
        found.append(
            {
                "storageType": "u",
                "pathOrInlineDv": prefix + z85_text(name.bytes),
                "offset": len(content),
                "sizeInBytes": len(data),
                "cardinality": len(positions),
            }
        )
        content += len(data).to_bytes(4, "big") + data + zlib.crc32(data).to_bytes(4, "big")
    place = table / prefix
    place.mkdir(parents=True, exist_ok=True)
    (place / f"deletion_vector_{name}.bin").write_bytes(content)
    return found
