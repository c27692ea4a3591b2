"""Input range of a table, fixed once: the snapshot, its files, packed into the declared partitions, as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.file_format import InputFile
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import cut_from, time_range, warn_of_few_tasks
from airflow_samza.systems.iceberg.deletes import DeleteFile
from airflow_samza.systems.iceberg.options import TableOptions
from airflow_samza.systems.iceberg.planning import TableFile, files_of, filter_of
from airflow_samza.systems.iceberg.snapshots import chosen_snapshot, schema_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.changes import (
    carried_parts,
    changed_parts,
    changed_range,
    check_comparable,
    not_there,
)
from airflow_samza.systems.tables.columns import TableField, columns_of
from airflow_samza.systems.tables.slicing import checked_columns, units_of

if TYPE_CHECKING:
    from pyiceberg.schema import Schema as TableSchema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

KIND = "iceberg"
_NAME_MAPPING = "schema.name-mapping.default"


def table_schema(table: Table, stream: StreamSpec) -> str:
    """Return the columns of the snapshot that a stream reads, as DDL; a declared schema has to fit them."""
    options = TableOptions.of(stream)
    schema = schema_of(table.metadata, options, chosen_snapshot(table.metadata, options, stream.name))
    return _checked(columns_of(_json(schema)), table, stream).ddl()


def fix_slice(
    table: Table, stream: StreamSpec, partitions: int, storage: TableStorage, bounds: Sequence[ColumnBound]
) -> dict[str, Any]:
    """Return the input range of a stream: what of the snapshot ``bounds`` and the data interval leave to be read.

    Keys beside those of every system: ``table``, ``location`` (of the table), ``snapshot`` (its id as a text),
    ``table_id``, ``bytes``, ``rows`` (with deleted ones), ``schema`` (DDL, when none is declared), ``columns`` (as the
    table's metadata has them), ``names`` (its name mapping, for files without field ids), ``files``, ``deletes``, and
    ``splits``: per partition [file, start, end] in row groups.
    """
    options = TableOptions.of(stream)
    snapshot = chosen_snapshot(table.metadata, options, stream.name)
    schema = schema_of(table.metadata, options, snapshot)
    columns = columns_of(_json(schema))
    within = time_range(stream)
    files: list[TableFile] = []
    if snapshot is not None:
        where = filter_of(bounds, within, {column.name: column for column in columns})
        files = files_of(table, snapshot, schema, where, storage, stream)
    total = sum(file.size for file in files)
    warn_of_few_tasks(stream, partitions, total)
    units = cut_units(files, cut_from(total, partitions), storage, stream.name)
    return {
        **described_range(table, stream, snapshot, schema, files),
        "partitions": partitions,
        "offsets": None,
        "splits": [[list(split) for split in splits] for splits in pack(units, partitions)],
    }


def fix_changes(
    table: Table, stream: StreamSpec, partitions: int, storage: TableStorage, since: str, remedy: str, *, carried: bool
) -> dict[str, Any]:
    """Return the range of the rows that are in one only of two snapshots; with ``carried``, in both."""
    options, everything = TableOptions.of(stream), filter_of((), None, {})
    snapshot = chosen_snapshot(table.metadata, options, stream.name)
    schema = schema_of(table.metadata, options, snapshot)
    name = ".".join(table.name())
    former: list[TableFile] = []
    check_comparable((), table_columns(schema), "the beginning", name, remedy)
    if since:
        then = table.metadata.snapshot_by_id(int(since))
        if then is None:
            raise not_there(since, name, "snapshot", remedy)
        columns_then = columns_at(table, then, schema)
        check_comparable(columns_then, table_columns(schema), f"the snapshot {since}", name, remedy)
        former = files_of(table, then, schema, everything, storage, stream)
    files = [] if snapshot is None else files_of(table, snapshot, schema, everything, storage, stream)
    parts = (carried_parts if carried else changed_parts)(former, files, lambda file: file.deletes)
    return changed_range(
        parts,
        lambda some: described_range(table, stream, snapshot, schema, some),
        lambda some, threshold: cut_units(some, threshold, storage, stream.name),
        partitions,
        remedy,
    )


def described_range(
    table: Table, stream: StreamSpec, snapshot: Snapshot | None, schema: TableSchema, files: Sequence[TableFile]
) -> dict[str, Any]:
    """Return the keys of an input range that do not depend on how it is cut into partitions."""
    described = _json(schema)
    found = _checked(columns_of(described), table, stream)
    deletes = list(dict.fromkeys(one for file in files for one in file.deletes))
    places = {one: place for place, one in enumerate(deletes)}
    mapping = table.metadata.name_mapping() if _NAME_MAPPING in table.properties else None
    return {
        "kind": KIND,
        "table": ".".join(table.name()),
        "location": table.location(),
        "snapshot": str(snapshot.snapshot_id) if snapshot is not None else None,
        "table_id": str(table.metadata.table_uuid),
        "bytes": sum(file.size for file in files),
        "rows": sum(file.rows for file in files),
        "schema": None if stream.schema is not None else found.ddl(),
        "columns": described,
        "names": None if mapping is None else mapping.model_dump(mode="json", by_alias=True),
        "files": [_described(file, places) for file in files],
        "deletes": [one.plain() for one in deletes],
    }


def cut_units(files: Sequence[TableFile], threshold: int, storage: TableStorage, stream: str) -> list[Unit]:
    """Return the units of files; those of more bytes than the threshold are cut by row groups."""
    for folder in dict.fromkeys(file.path.rpartition("/")[0] for file in files):
        storage.at(folder)  # a place that cannot be read is rejected here
    return units_of(files, threshold, lambda file: input_file(storage, file.path, file.size, stream))


def table_columns(schema: TableSchema) -> tuple[TableField, ...]:
    """Return the columns of a schema of a table."""
    return columns_of(_json(schema))


def columns_at(table: Table, snapshot: Snapshot, schema: TableSchema) -> tuple[TableField, ...]:
    """Return the columns that a table had at a snapshot; those of ``schema`` where the snapshot names no schema."""
    return table_columns(next((one for one in table.metadata.schemas if one.schema_id == snapshot.schema_id), schema))


def _json(schema: Any) -> list[Any]:
    fields: list[Any] = schema.model_dump(mode="json", by_alias=True)["fields"]
    return fields


def _described(file: TableFile, places: Mapping[DeleteFile, int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": file.path, "size": file.size, "rows": file.rows}
    for name in ("partition", "constants"):
        if getattr(file, name):
            facts[name] = getattr(file, name)
    return {**facts, "deletes": [places[one] for one in file.deletes]} if file.deletes else facts


def input_file(storage: TableStorage, path: str, size: int, stream: str) -> InputFile:
    """Return a data file, ready to be opened."""
    place = storage.at(path)
    return InputFile(place.filesystem, place.path, size, str(place), stream)


def _checked(columns: Sequence[TableField], table: Table, stream: StreamSpec) -> Schema:
    return checked_columns(
        columns, ".".join(table.name()), stream, lambda name, others: _without(name, others, columns, table)
    )


def _without(wanted: str, others: Iterable[str], columns: Sequence[TableField], table: Table) -> str:
    """Return the hint for a declared column that the snapshot does not have: what became of it."""
    names = {column.id: column.name for column in columns}
    former = {
        field.field_id: schema.schema_id
        for schema in table.metadata.schemas
        for field in schema.fields
        if field.name == wanted
    }
    renamed = next((names[number] for number in former if number in names), None)
    if renamed is not None:
        return f"It is named {renamed!r} in this snapshot, which keeps its field id: declare that name."
    if former:
        return "Other snapshots have it, and this one does not: leave it out of schema=, or read one that has it."
    return f"{did_you_mean(wanted, others)}Its columns are {listed(names.values())}."
