"""Consumers of tables of Iceberg: columns by field ids, rows less those that files of deletes name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.iceberg.deletes import DeleteFile, deleted_positions
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.inputs.consumer import TableConsumer
from airflow_samza.systems.tables.projection import FileField, file_fields
from airflow_samza.systems.tables.vectors import Positions


class IcebergConsumer(TableConsumer):
    """Consumer of one input range. Offsets count the rows of a partition in the order of its files, without deleted."""

    def __init__(self, storage: TableStorage, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        super().__init__(stream, slice)
        self._storage = storage
        self._snapshot = slice["snapshot"]
        self._names = slice["names"]
        self._deletes = [DeleteFile(**one) for one in slice["deletes"]]

    def place(self, path: str) -> Location:
        """Return the place of a data file of the range."""
        return self._storage.at(path)

    def positions(self, places: Sequence[int], listed: Mapping[str, Any], rows: int) -> list[Positions]:
        """Return the positions of rows of a data file that some of the range's deletes have: of its ``rows``."""
        files = [self._deletes[place] for place in places]
        path, stream = listed["path"], self.stream.name
        return [deleted_positions(self._storage.at(one.path), one, path, rows, stream) for one in files]

    def file_fields(self, schema: pa.Schema, file: InputFile, listed: Mapping[str, Any]) -> tuple[FileField, ...]:
        """Return the columns of a data file by their field ids, or by the table's name mapping."""
        fields = file_fields(schema, self._names)
        if fields is None:
            raise TopicError(
                f"File {file.shown} of the table {self._table} (stream {file.stream!r}) has no field ids, and "
                "the table has no name mapping, so that nobody knows which column is which.",
                hint=f"Set the table's property schema.name-mapping.default, or rewrite the file; or {READ_BY_SPARK}.",
                file=file.shown,
                stream=file.stream,
            )
        return fields

    def removal(self) -> tuple[str, str, dict[str, Any]]:
        """Return what has become of the planned snapshot."""
        return (
            f"the plan reads the snapshot {self._snapshot}, which has been removed since",
            "a snapshot that is there; keep snapshots for longer than runs take (older_than of expire_snapshots)",
            {"snapshot": self._snapshot},
        )
