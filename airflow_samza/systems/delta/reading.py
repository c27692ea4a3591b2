"""Consumers of Delta tables: columns by physical names or field ids, values of partitions from the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.vectors import DeltaVector, deleted_positions
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.inputs.change_columns import CHANGE
from airflow_samza.systems.tables.inputs.consumer import TableConsumer
from airflow_samza.systems.tables.projection import FileField, file_fields, named_fields
from airflow_samza.systems.tables.vectors import Positions


class DeltaConsumer(TableConsumer):
    """Consumer of one input range. Offsets count the rows of a partition in the order of its files, without deleted."""

    def __init__(self, table: Location, stream: StreamSpec, slice: Mapping[str, Any]) -> None:
        super().__init__(stream, slice)
        self._place = table
        self._version = slice["version"]
        self._by_id = bool(slice["by_id"])
        self._vectors = [DeltaVector(**one) for one in slice["deletes"]]

    def place(self, path: str) -> Location:
        """Return the place of a data file of the range."""
        return self._place / path

    def file_fields(self, schema: pa.Schema, file: InputFile, listed: Mapping[str, Any]) -> tuple[FileField, ...]:
        """Return the columns of a data file, without those of which the partition's value counts."""
        fields = named_fields(schema) if not self._by_id else file_fields(schema, None)
        if fields is None:
            raise TopicError(
                f"File {file.shown} of the table {self._table} (stream {file.stream!r}) has no field ids, by which "
                "the table maps its columns.",
                hint=f"Rewrite the file; or {READ_BY_SPARK}.",
                file=file.shown,
                stream=file.stream,
            )
        if listed.get("feed"):  # whose column of changes has no field id
            fields = tuple(field._replace(id=CHANGE) if field.name == CHANGE else field for field in fields)
        constants = listed.get("constants", {})
        return tuple(field for field in fields if str(field.id) not in constants)

    def positions(self, places: Sequence[int], listed: Mapping[str, Any], rows: int) -> list[Positions]:
        """Return the positions of rows of a data file that some of the range's deletes have: of its ``rows``."""
        return [deleted_positions(self._place, self._vectors[place], rows, self.stream.name) for place in places]

    def removal(self) -> tuple[str, str, dict[str, Any]]:
        """Return what has become of the planned version."""
        return (
            f"the plan reads version {self._version}, of which VACUUM has removed files since",
            "the newest version; keep files for longer than runs take, by the table's property "
            "delta.deletedFileRetentionDuration or by RETAIN of VACUUM",
            {"version": self._version},
        )
