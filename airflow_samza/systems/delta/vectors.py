"""Deletion vectors of Delta tables: where the log says that they are, and the positions in them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import UUID

from airflow_samza.systems.delta.state import count
from airflow_samza.systems.files.formats.file_format import InputFile, reading
from airflow_samza.systems.files.location import Location
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
