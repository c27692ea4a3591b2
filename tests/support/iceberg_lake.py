"""Iceberg tables that tests make with pyiceberg, and commits that it cannot make: files of deletes, and Puffin files."""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.io.pyarrow import (
    _dataframe_to_data_files,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import AddSnapshotUpdate, AssertTableUUID, SetSnapshotRefUpdate
from pyiceberg.typedef import Record
from pyroaring import BitMap
from sqlalchemy.exc import IntegrityError

from airflow_samza.systems.iceberg.catalogs import opened_catalog
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.table_inputs import rows_of as rows_of, stream as stream

_numbers = itertools.count(1)


def system_at(folder: Path | str, **options: Any) -> IcebergSystem:
    """Return the system of the embedded catalog in a folder."""
    return IcebergSystem("lake", SystemBinding("iceberg", {"root": str(folder), **options}), f"{folder}.root")


@contextmanager
def catalog_at(folder: Path | str) -> Iterator[Catalog]:
    """Let the embedded catalog of a folder be asked, which is made when it is missing."""
    with opened_catalog(system_at(folder).settings, create=True) as catalog:
        with suppress(IntegrityError):  # another process has made it since pyiceberg looked
            catalog.create_namespace_if_not_exists("web")
        yield catalog


def table_of(
    folder: Path | str, schema: Any, *rows: Sequence[Mapping[str, Any]], name: str = "web.views", **more: Any
) -> Table:
    """Return a new table, with a commit for each of the lists of rows."""
    with catalog_at(folder) as catalog:
        table = catalog.create_table(name, schema, **more)
        for one in rows:
            append(table, one)
        return table


def append(table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    table.append(pa.Table.from_pylist(list(rows), schema=schema_to_pyarrow(table.schema())))


def compact(table: Table, operation: Operation = Operation.REPLACE) -> None:
    """Put the rows of a table into one file by one snapshot, as a rewrite of data files does, and as others may."""
    rows, former = table.scan().to_arrow(), [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction:
        with transaction.update_snapshot().overwrite() as update:
            for file in former:
                update.delete_data_file(file)
            for file in _dataframe_to_data_files(table.metadata, rows, table.io):
                update.append_data_file(file)
        for one in transaction._updates:
            if isinstance(one, AddSnapshotUpdate):
                object.__setattr__(one.snapshot, "summary", Summary(operation))


def data_file(
    table: Table, rows: pa.Table, partition: Sequence[Any] = (), *, ids: bool = True, row_group_size: int | None = None
) -> DataFile:
    """Return a data file of rows that was written, and is in no snapshot; rows without ``ids`` have no statistics."""
    path = f"{table.location()}/data/{next(_numbers):05d}.parquet"
    local = Path(path.removeprefix("file://"))
    local.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, local, row_group_size=row_group_size)
    statistics: dict[str, Any] = {}
    if ids:
        statistics = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(local),
            compute_statistics_plan(table.schema(), table.properties),
            parquet_path_to_id_mapping(table.schema()),
        ).to_serialized_dict()
    else:
        statistics["record_count"] = rows.num_rows
    return _file(table, DataFileContent.DATA, path, FileFormat.PARQUET, partition, **statistics)


def add_files(table: Table, *files: DataFile) -> None:
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as appending:
        for file in files:
            appending.append_data_file(file)


def _file(
    table: Table, content: DataFileContent, path: str, kind: FileFormat, partition: Sequence[Any], **more: Any
) -> DataFile:
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=kind,
        partition=Record(*partition),
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        sort_order_id=None,
        spec_id=table.spec().spec_id,
        equality_ids=more.pop("equality_ids", None),
        key_metadata=None,
        **more,
    )
    file.spec_id = table.spec().spec_id
    return file


def delete_positions(
    table: Table,
    positions: Mapping[str, Sequence[int]],
    partition: Sequence[Any] = (),
    *,
    vectors: bool = False,
    said: FileFormat = FileFormat.PARQUET,
) -> None:
    """Commit deletes of rows of data files by their positions: a Puffin file of vectors, or a file ``said`` to be of a format."""
    path = f"{table.location()}/data/{next(_numbers):05d}-deletes.{'puffin' if vectors else 'parquet'}"
    local = Path(path.removeprefix("file://"))
    if vectors:
        local.write_bytes(puffin(positions))
    else:
        pairs = sorted((file, one) for file, many in positions.items() for one in many)
        columns = {"file_path": [file for file, _ in pairs], "pos": [one for _, one in pairs]}
        pq.write_table(pa.table(columns), local)
    count = sum(len(many) for many in positions.values())
    kind = FileFormat.PUFFIN if vectors else said
    _commit_deletes(table, _file(table, DataFileContent.POSITION_DELETES, path, kind, partition, record_count=count))


def delete_equal(table: Table, rows: pa.Table, ids: Sequence[int], name: str = "") -> None:
    """Commit deletes of rows that equal others in some columns."""
    path = f"{table.location()}/data/{name or f'{next(_numbers):05d}-equal.parquet'}"
    pq.write_table(rows, path.removeprefix("file://"))
    content = DataFileContent.EQUALITY_DELETES
    file = _file(table, content, path, FileFormat.PARQUET, (), record_count=rows.num_rows, equality_ids=list(ids))
    _commit_deletes(table, file)


def puffin(positions: Mapping[str, Sequence[int]]) -> bytes:
    """Return a Puffin file with the deletion vectors of data files."""
    data, blobs = b"PFA1", []
    for file, many in positions.items():
        blob = vector(many)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [2147483546],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": file, "cardinality": str(len(many))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": blobs, "properties": {}}).encode()
    return data + b"PFA1" + footer + len(footer).to_bytes(4, "little") + bytes(4) + b"PFA1"


def vector(positions: Sequence[int], *, runs: bool = True) -> bytes:
    """Return a deletion vector: a roaring bitmap of 64 bits in its frame."""
    by_upper: dict[int, list[int]] = {}
    for one in positions:
        by_upper.setdefault(one >> 32, []).append(one & 0xFFFFFFFF)
    content = len(by_upper).to_bytes(8, "little")
    for upper, lower in sorted(by_upper.items()):
        bitmap = BitMap(lower)
        if runs:
            bitmap.run_optimize()
        content += upper.to_bytes(4, "little") + bitmap.serialize()
    framed = b"\xd1\xd3\x39\x64" + content
    return len(framed).to_bytes(4, "big") + framed + zlib.crc32(framed).to_bytes(4, "big")


class _DeletesWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def _commit_deletes(table: Table, file: DataFile) -> None:
    table.refresh()
    metadata: Any = table.metadata
    number = next(_numbers)
    current = metadata.current_snapshot()
    assert current is not None
    snapshot_id, sequence = 10**15 + number, metadata.last_sequence_number + 1
    manifest = f"{table.location()}/metadata/deletes-{number}.avro"
    output = table.io.new_output(manifest)
    with _DeletesWriter(table.spec(), table.schema(), output, snapshot_id, "deflate") as writer:
        entry = ManifestEntry.from_args(
            status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=None, data_file=file
        )
        writer.add_entry(entry)
    location = f"{table.location()}/metadata/list-{number}.avro"
    listed = table.io.new_output(location)
    with write_manifest_list(2, listed, snapshot_id, current.snapshot_id, sequence, "deflate") as lists:
        lists.add_manifests([*current.manifests(table.io), writer.to_manifest_file()])
    made: Any = Snapshot
    snapshot = made(
        snapshot_id=snapshot_id,
        parent_snapshot_id=current.snapshot_id,
        sequence_number=sequence,
        manifest_list=location,
        summary=Summary(Operation.DELETE),
        schema_id=metadata.current_schema_id,
    )
    moved: Any = SetSnapshotRefUpdate
    head = moved(ref_name="main", type="branch", snapshot_id=snapshot_id)
    table._do_commit((AddSnapshotUpdate(snapshot=snapshot), head), (AssertTableUUID(uuid=metadata.table_uuid),))
