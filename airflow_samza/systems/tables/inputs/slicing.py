"""Parts of the input ranges of all tables: the columns of the stream, and the units into which files are cut."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.systems.files.formats.casts import fits, shown
from airflow_samza.systems.files.formats.file_format import InputFile, open_format, reading
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.packing import Unit
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.tables.columns import TableField, column_type, fields_of
from airflow_samza.systems.tables.inputs.change_columns import CHANGE_FIELDS


class _File(Protocol):
    @property
    def size(self) -> int: ...


File = TypeVar("File", bound=_File)


def units_of(files: Sequence[File], threshold: int, opened: Callable[[File], InputFile]) -> list[Unit]:
    """Return the units of files; the footers of those of more bytes are looked at, and they are cut by row groups.

    ``opened`` returns a file as it is read; of thousands that one task each reads whole, none is.
    """
    units: list[Unit] = []
    for number, file in enumerate(files):
        if file.size > threshold:
            large = opened(file)
            with reading(large, "parquet"):
                units += open_format("parquet").units(number, large, None, FileOptions())
        else:
            units.append(Unit(number, 0, None, file.size))
    return units


def checked_columns(
    columns: Sequence[TableField], name: str, stream: StreamSpec, hint: Callable[[str, Iterable[str]], str]
) -> Schema:
    """Return the columns that a stream has: the declared ones, if the table's fit them, else those of the table.

    A stream of changes has those of changes, too. ``hint`` says what to do about a declared column that the table does
    not have, given the table's columns that are not declared.
    """
    marks = _marks(columns, name, stream) if stream.changes else ()
    if stream.schema is None:
        return Schema((*fields_of(columns, name), *marks))
    declared = Schema.of(stream.schema)
    by_name = {column.name: column for column in columns}
    marked = {mark.name: mark.type for mark in marks}
    for field in declared.fields:
        if field.name in marked:
            _check_mark(field, marked[field.name], stream)
            continue
        column = by_name.get(field.name)
        if column is None:
            raise SchemaError(
                f"The table {name} has no column {field.name!r}, which stream {stream.name!r} declares.",
                hint=hint(field.name, [other for other in by_name if other not in declared]),
                stream=stream.name,
                table=name,
                column=field.name,
            )
        kind = column_type(column, name)
        if not fits(kind.to_arrow(), field.type.to_arrow(), FileOptions()):
            raise SchemaError(
                f"Column {field.name!r} of the table {name} is {kind.ddl()}, and stream {stream.name!r} declares it as "
                f"{shown(field.type.to_arrow())}.",
                hint=f"Declare {field.name!r} as {kind.ddl()} and convert it in the application.",
                stream=stream.name,
                table=name,
                column=field.name,
                declared=field.type.ddl(),
                found=kind.ddl(),
            )
    return declared


def _marks(columns: Sequence[TableField], name: str, stream: StreamSpec) -> tuple[Field, ...]:
    """Return the columns that changes have beside those of their table, which may not have such names in any case."""
    names = {mark.name for mark in CHANGE_FIELDS}
    taken = next((column.name for column in columns if column.name.lower() in names), None)
    if taken is not None:
        raise SchemaError(
            f"The table {name} has a column {taken!r}, and the input {stream.name!r} with changes=True gives this name "
            "to a column of changes.",
            hint="Rename the column of the table, or leave changes= out.",
            stream=stream.name,
            table=name,
            column=taken,
        )
    return CHANGE_FIELDS


def _check_mark(field: Field, kind: DataType, stream: StreamSpec) -> None:
    if field.type != kind:
        raise SchemaError(
            f"Stream {stream.name!r} declares {field.name!r} as {field.type.ddl()}, and changes have it as "
            f"{kind.ddl()}.",
            hint=f"Declare {field.name!r} as {kind.ddl()} and convert it in the application.",
            stream=stream.name,
            column=field.name,
            declared=field.type.ddl(),
        )
