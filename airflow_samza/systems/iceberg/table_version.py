"""A version of an Iceberg table, which is a snapshot, as an input reads it: by the metadata of the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.systems.files.formats.file_format import TimeRange
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import Unit
from airflow_samza.systems.iceberg.planning import PlannedFiles, files_of, filter_of
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.columns import TableField, columns_of
from airflow_samza.systems.tables.inputs.table_version import TableFile, TableVersion

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema as TableSchema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

KIND = "iceberg"
_NAME_MAPPING = "schema.name-mapping.default"


class IcebergVersion(TableVersion):
    """Snapshot of a table, read with the columns of ``schema``; None: of one to which nothing was ever committed.

    Keys of its input ranges beside those of all tables: ``location`` (of the table), ``names`` (its name mapping, for
    files without field ids). ``snapshot`` is a text.
    """

    kind = KIND
    word = "snapshot"

    def __init__(
        self,
        table: Table,
        snapshot: Snapshot | None,
        schema: TableSchema,
        stream: StreamSpec,
        storage: TableStorage,
        columns: Sequence[TableField] | None = None,
    ) -> None:
        self.table = table
        self.snapshot = snapshot
        self.table_schema = schema
        super().__init__(
            stream,
            ".".join(table.name()),
            str(table.metadata.table_uuid),
            str(snapshot.snapshot_id) if snapshot is not None else None,
            columns_of(self._columns) if columns is None else columns,
        )
        self.storage = storage

    @cached_property
    def _columns(self) -> list[Any]:
        return described(self.table_schema)

    def facts(self) -> dict[str, Any]:
        """Return the columns, and what else files are read by."""
        mapping = self.table.metadata.name_mapping() if _NAME_MAPPING in self.table.properties else None
        return {
            "location": self.table.location(),
            "columns": self._columns,
            "names": None if mapping is None else mapping.model_dump(mode="json", by_alias=True),
        }

    def files(self, bounds: Sequence[ColumnBound] = (), within: TimeRange | None = None) -> list[TableFile]:
        """Return the data files that the bounds in the manifests do not rule out, by path."""
        if self.snapshot is None:
            return []
        where = self.filter(bounds, within)
        return files_of(self.table, self.snapshot, self.table_schema, where, self.storage, self.stream)

    def files_of(self, found: Sequence[DataFile]) -> list[TableFile]:
        """Return files of the table's manifests as readers have them; their deletes are entries of their own."""
        files = PlannedFiles(self.table, self.table_schema, self.stream)
        return [files.of(one) for one in found]

    def filter(self, bounds: Sequence[ColumnBound], within: TimeRange | None = None) -> BooleanExpression:
        """Return conditions as a filter for manifests and files."""
        return filter_of(bounds, within, {column.name: column for column in self.columns})

    def units(self, files: Sequence[TableFile], threshold: int) -> list[Unit]:
        """Return the units of files; a place that cannot be read is rejected."""
        for folder in dict.fromkeys(file.path.rpartition("/")[0] for file in files):
            self.storage.at(folder)
        return super().units(files, threshold)

    def place(self, path: str) -> Location:
        """Return the place of a data file."""
        return self.storage.at(path)

    def at(self, number: int | str) -> IcebergVersion | None:
        """Return another snapshot, read by the same schema, with the columns that it had if it names them."""
        then = self.table.metadata.snapshot_by_id(int(number))
        if then is None:
            return None
        schemas = self.table.metadata.schemas
        own = next((one for one in schemas if one.schema_id == then.schema_id), self.table_schema)
        return IcebergVersion(
            self.table, then, self.table_schema, self.stream, self.storage, columns_of(described(own))
        )

    def hint(self, name: str, others: Iterable[str]) -> str:
        """Return what became of a column that the snapshot does not have."""
        names = {column.id: column.name for column in self.columns}
        former = [
            field.field_id for schema in self.table.metadata.schemas for field in schema.fields if field.name == name
        ]
        renamed = next((names[number] for number in former if number in names), None)
        if renamed is not None:
            return f"It is named {renamed!r} in this snapshot, which keeps its field id: declare that name."
        if former:
            return "Other snapshots have it, and this one does not: leave it out of schema=, or read one that has it."
        return f"{did_you_mean(name, others)}Its columns are {listed(names.values())}."


def described(schema: TableSchema) -> list[Any]:
    """Return the columns of a schema as JSON."""
    fields: list[Any] = schema.model_dump(mode="json", by_alias=True)["fields"]
    return fields
