"""Reading of data files of Delta: columns by physical names or field ids, rows less those of deletion vectors.

Values of partitions are those of the plan, which also finds in the log where vectors are.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.state import count
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK, InputFile, reading
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.file_columns import FileField, file_fields, named_fields
from airflow_samza.systems.tables.inputs.change_columns import CHANGE
from airflow_samza.systems.tables.inputs.consumer import TableConsumer
from airflow_samza.systems.tables.inputs.table_version import input_file
from airflow_samza.systems.tables.vectors import Positions, bitmap_positions, part_of, vector_positions

_INLINE, _BESIDE = "i", "u"
_UUID_LENGTH = 20
_FRAME = 8
"""Bytes around a vector in a file: its length before it, its sum behind it."""
_BEHIND_VERSION = 1

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


class DeltaVector(NamedTuple):
    """Vector of a data file: at ``offset`` of the file ``path`` below the table's folder, or ``inline`` itself."""

    length: int
    rows: int
    path: str | None = None
    offset: int | None = None
    inline: str | None = None

    @classmethod
    def of_log(cls, described: Mapping[str, Any]) -> DeltaVector | None:
        """Return the vector that a log describes; None: it lies elsewhere, as those of a shallow clone do."""
        kind, text = described["storageType"], str(described["pathOrInlineDv"])
        length, rows = count(described["sizeInBytes"]), count(described["cardinality"])
        if kind == _INLINE:
            return cls(length, rows, inline=text)
        if kind != _BESIDE:
            return None
        folder, name = text[:-_UUID_LENGTH], UUID(bytes=z85(text[-_UUID_LENGTH:]))
        path = f"{folder}/deletion_vector_{name}.bin" if folder else f"deletion_vector_{name}.bin"
        offset = described.get("offset")
        return cls(length, rows, path, _BEHIND_VERSION if offset is None else count(offset))


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


def z85(text: str) -> bytes:
    """Return the bytes that a text of base 85 is, with the digits of ZeroMQ.

    >>> z85("HelloWorld").hex()
    '864fd26fb559f75b'
    """
    return base64.b85decode(text.translate(_TO_B85))


def deleted_positions(table: Location, vector: DeltaVector, rows: int, stream: str) -> Positions:
    """Return the positions of deleted rows of a data file that has some rows; more are an error."""
    if vector.inline is not None:
        inline = InputFile(table.filesystem, table.path, vector.length, f"(a vector in the log of {table})", stream)
        with reading(inline, "deletion vector"):
            return bitmap_positions(z85(vector.inline)[: vector.length], rows)
    assert vector.path is not None
    assert vector.offset is not None
    file = input_file(table / vector.path, vector.offset + vector.length + _FRAME, stream)
    with reading(file, "deletion vector"), file.random_access() as source:
        return vector_positions(part_of(source, vector.offset, vector.length + _FRAME), rows)
