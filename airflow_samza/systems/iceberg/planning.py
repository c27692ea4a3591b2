"""The data files of a snapshot that may have rows in the range, with their deletes: what its manifests say.

Files are found by pyiceberg's parts of a scan, and not by the scan: a filter is about the columns of the snapshot, not
of the table as it is now, and prunes no deletes; what cannot be read is rejected here (decision 108).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, TimeRange, reading
from airflow_samza.systems.iceberg.bounds import check_address
from airflow_samza.systems.iceberg.reading import DeleteFile, puffin_vectors
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.columns import TIME_UNITS, TableField
from airflow_samza.systems.tables.inputs.table_version import TableFile, input_file

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import ManifestGroupPlanner, Table
    from pyiceberg.table.snapshots import Snapshot

_COMPARED = {"=": "EqualTo", "<": "LessThan", "<=": "LessThanOrEqual", ">": "GreaterThan", ">=": "GreaterThanOrEqual"}

_PRUNED = {"int": int, "long": int, "string": str}
"""Types by whose bounds files are pruned, and the values of bounds; dates are days. No floats: of NaN no statistics
tell."""


def files_of(
    table: Table,
    snapshot: Snapshot,
    schema: Schema,
    where: BooleanExpression,
    storage: TableStorage,
    stream: StreamSpec,
) -> list[TableFile]:
    """Return the data files of a snapshot that the filter does not rule out, by path."""
    from pyiceberg.manifest import INITIAL_SEQUENCE_NUMBER, DataFileContent, ManifestContent
    from pyiceberg.table.delete_file_index import DeleteFileIndex

    manifests = snapshot.manifests(table.io)
    index = DeleteFileIndex()
    name = ".".join(table.name())
    # All deletes count: statistics of the columns that a file of deletes happens to have say nothing about the rest.
    deletes = [one for one in manifests if one.content == ManifestContent.DELETES]
    for entry in _entries(_planner(table, schema, filter_of((), None, {})), deletes):
        if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
            raise _rejected(name, stream.name, "has equality deletes", str(entry.data_file.file_path))
        index.add_delete_file(entry, partition_key=entry.data_file.partition)
    data = [one for one in manifests if one.content == ManifestContent.DATA]
    files = PlannedFiles(table, schema, stream)
    vectors = _Vectors(storage, name, stream.name)
    found = []
    for entry in _entries(_planner(table, schema, where), data):
        file = entry.data_file
        sequence = entry.sequence_number or INITIAL_SEQUENCE_NUMBER
        applied = index.for_data_file(sequence, file, partition_key=file.partition)
        sorted_deletes = sorted(applied, key=lambda one: one.file_path)
        found.append(files.of(file, vectors.deletes(file.file_path, sorted_deletes), sequence))
    return sorted(found)


def added_files(
    table: Table, snapshots: Sequence[Snapshot], schema: Schema, where: BooleanExpression, stream: StreamSpec
) -> list[TableFile]:
    """Return the data files that snapshots have added and the filter does not rule out, snapshot by snapshot."""
    from pyiceberg.manifest import ManifestContent, ManifestEntryStatus

    files, planner = PlannedFiles(table, schema, stream), _planner(table, schema, where)
    found: list[TableFile] = []
    for snapshot in snapshots:
        own = [
            manifest
            for manifest in snapshot.manifests(table.io)
            if manifest.content == ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id
        ]
        found += sorted(
            files.of(entry.data_file)
            for entry in _entries(planner, own)
            if entry.status == ManifestEntryStatus.ADDED and entry.snapshot_id == snapshot.snapshot_id
        )
    return found


def _planner(table: Table, schema: Schema, where: BooleanExpression) -> ManifestGroupPlanner:
    """Return who finds files by a filter about the columns of a schema, which need not be the table's own of now."""
    from pyiceberg.table import ManifestGroupPlanner

    metadata = table.metadata.model_copy(update={"current_schema_id": schema.schema_id})
    return ManifestGroupPlanner(metadata, table.io, where)


def _entries(planner: ManifestGroupPlanner, manifests: Sequence[ManifestFile]) -> Iterator[Any]:
    for entries in planner.plan_manifest_entries(manifests):
        for entry in entries:
            check_address(planner, entry.data_file.file_path)
            yield entry


def _rejected(table: str, stream: str, what: str, file: str) -> TopicError:
    return TopicError(
        f"The table {table} of stream {stream!r} {what}, which are not read here ({file})."
        if what.startswith("has")
        else f"The table {table} of stream {stream!r} {what}, which is not read here ({file}).",
        hint=f"{READ_BY_SPARK[0].upper()}{READ_BY_SPARK[1:]}; or have the table compacted, if that rewrites them.",
        table=table,
        stream=stream,
        file=file,
    )


class PlannedFiles:
    """Data files of a table as readers have them."""

    def __init__(self, table: Table, schema: Schema, stream: StreamSpec) -> None:
        from pyiceberg.schema import index_by_id
        from pyiceberg.transforms import IdentityTransform

        self._table = ".".join(table.name())
        self._stream = stream.name
        times = (field for field in schema.fields if str(field.field_type) in TIME_UNITS)
        self._time: Any = next((field for field in times if field.name == stream.timestamp), None)
        self._fields: dict[int, list[tuple[str, Any, Any, int | None]]] = {}
        types = {number: field.field_type for number, field in index_by_id(schema).items()}
        for spec_id, spec in table.specs().items():
            self._fields[spec_id] = [
                (
                    field.name,
                    field.transform,
                    types.get(field.source_id),
                    field.source_id if isinstance(field.transform, IdentityTransform) else None,
                )
                for field in spec.fields
            ]

    def of(self, file: DataFile, deletes: Iterable[DeleteFile] = (), sequence: int = 0) -> TableFile:
        """Return a data file; one that cannot be read here is rejected."""
        if file.file_format.value != "PARQUET":
            raise _rejected(self._table, self._stream, f"has files of {file.file_format.value}", file.file_path)
        if file.key_metadata is not None:
            raise _rejected(self._table, self._stream, "is encrypted", file.file_path)
        size, rows, begins = file.file_size_in_bytes, file.record_count, self._beginning(file)
        return TableFile(file.file_path, size, rows, *self._partition(file), tuple(deletes), begins, sequence)

    def _beginning(self, file: DataFile) -> int | None:
        """Return the least event time of the stream, by the bounds of a file."""
        from pyiceberg.conversions import from_bytes

        low = (file.lower_bounds or {}).get(self._time.field_id) if self._time is not None else None
        return None if low is None else int(from_bytes(self._time.field_type, low))

    def _partition(self, file: DataFile) -> tuple[dict[str, str], dict[str, Any]]:
        described = [(field, file.partition[place]) for place, field in enumerate(self._fields[file.spec_id])]
        return (
            {name: how.to_human_string(source, one) for (name, how, source, _), one in described if source is not None},
            {str(column): _plain(one) for (_, _, _, column), one in described if column is not None},
        )


def _plain(value: Any) -> Any:
    """Return a partition value as JSON can hold it: whole numbers and texts as they are, bytes in hexadecimal."""
    if value is None or isinstance(value, bool | int | str):
        return value
    return value.hex() if isinstance(value, bytes) else str(value)


class _Vectors:
    """Deletion vectors in Puffin files, of which one may have those of many data files; each is looked at once."""

    def __init__(self, storage: TableStorage, table: str, stream: str) -> None:
        self._storage = storage
        self._table = table
        self._stream = stream
        self._known: dict[str, dict[str, tuple[int, int]]] = {}

    def deletes(self, path: str, applied: Sequence[DataFile]) -> Iterator[DeleteFile]:
        for file in applied:
            if file.file_format.value == "PARQUET":
                yield DeleteFile(file.file_path, file.file_size_in_bytes)
            elif file.file_format.value == "PUFFIN":
                vector = self._of(file).get(path)
                if vector is not None:
                    yield DeleteFile(file.file_path, file.file_size_in_bytes, *vector)
            else:
                raise _rejected(self._table, self._stream, f"has deletes in {file.file_format.value}", file.file_path)

    def _of(self, file: DataFile) -> dict[str, tuple[int, int]]:
        found = self._known.get(file.file_path)
        if found is None:
            opened = input_file(self._storage.at(file.file_path), file.file_size_in_bytes, self._stream)
            with reading(opened, "puffin"), opened.random_access() as source:
                vectors = puffin_vectors(source, file.file_size_in_bytes)
                found = {path: (offset, length) for path, offset, length in vectors}
            self._known[file.file_path] = found
        return found


def filter_of(
    bounds: Sequence[ColumnBound], within: TimeRange | None, columns: Mapping[str, TableField]
) -> BooleanExpression:
    """Return the filter by which manifests and files are pruned; what it leaves out costs time, never a row."""
    from pyiceberg.expressions import AlwaysTrue, And

    found: BooleanExpression = AlwaysTrue()
    for bound in bounds:
        column = columns.get(bound.column)
        one = _expression(bound, column) if column is not None else None
        found = And(found, one) if one is not None else found
    if within is not None and within.column in columns:
        unit = TIME_UNITS.get(columns[within.column].type.word)
        if unit is not None:
            found = And(found, _between(within, unit))
    return found


def _between(within: TimeRange, unit: int) -> BooleanExpression:
    start, end = -(-within.of_statistics // unit), -(-within.end // unit)
    return _made("And", _made("GreaterThanOrEqual", within.column, start), _made("LessThan", within.column, end))


def _expression(bound: ColumnBound, column: TableField) -> BooleanExpression | None:
    if bound.op in ("is null", "is not null"):
        if column.type.fields:
            return None
        return _made("IsNull" if bound.op == "is null" else "NotNull", column.name)
    word = column.type.word
    values = bound.value if bound.op == "in" else (bound.value,)
    kind = _PRUNED.get(word)
    if kind is None and word == "date":
        if bound.op in ("<", ">") and bound.value in (date.min, date.max):
            return None  # pyiceberg counts on by a day for the partition, and knows no such day
        values = tuple(value.toordinal() - _EPOCH for value in values)
    elif kind is None or any(type(value) is not kind for value in values):
        return None
    if bound.op == "in":
        return _made("In", column.name, set(values))
    return _made(_COMPARED[bound.op], column.name, values[0])


def _made(name: str, *arguments: Any) -> BooleanExpression:
    """Return an expression of pyiceberg, whose types only know the calls of its own visitors."""
    from pyiceberg import expressions

    expression: BooleanExpression = getattr(expressions, name)(*arguments)
    return expression


_EPOCH = 719_163
"""The ordinal of 1970-01-01."""
