"""A version of a table as an input reads it, its columns, and the input range of it: alike for all formats of tables.

A format of tables derives from it, in a folder of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.errors import SchemaError
from airflow_samza.schema import DataType, Field, Schema
from airflow_samza.systems.files.formats.casts import fits, shown
from airflow_samza.systems.files.formats.file_format import InputFile, TimeRange, open_format, reading
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import split_threshold, time_range, warn_of_few_tasks
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.columns import TableField, column_type, fields_of
from airflow_samza.systems.tables.inputs.change_columns import CHANGE_FIELDS


class TableFile(NamedTuple):
    """Data file of a version: bytes, rows (with deleted ones; None: not known), and its partition.

    ``partition`` is for people, by the names of columns or partition fields; ``constants`` are the values of columns
    that are the same in all rows, by their ids, as :func:`~airflow_samza.systems.tables.file_columns.constant` takes
    them. ``deletes`` are named tuples. ``begins`` is the least event time, in the column's unit; None:
    the stream has none, or the table does not say. ``sequence`` is the sequence number of the newest rows, of Iceberg.
    """

    path: str
    size: int
    rows: int | None
    partition: dict[str, str]
    constants: dict[str, Any]
    deletes: tuple[Any, ...] = ()
    begins: int | None = None
    sequence: int = 0


class TableVersion(ABC):
    """Version of a table, with the columns with which a stream reads it.

    ``word`` is the format's word for a version, and ``number`` is the version's own; None: of a table without any.
    """

    kind: str
    word: str

    def __init__(
        self, stream: StreamSpec, name: str, table_id: str, number: int | str | None, columns: Sequence[TableField]
    ) -> None:
        self.stream = stream
        self.name = name
        self.table_id = table_id
        self.number = number
        self.columns = columns

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the keys of an input range that this format alone has, and ``columns``, described as JSON."""

    @abstractmethod
    def files(self, bounds: Sequence[ColumnBound] = (), within: TimeRange | None = None) -> list[TableFile]:
        """Return the data files, without those that cannot have a row that fulfils all conditions."""

    @abstractmethod
    def files_of(self, found: Sequence[Any]) -> list[TableFile]:
        """Return files that the table's metadata has as readers have them, without deletes that are apart from them."""

    @abstractmethod
    def place(self, path: str) -> Location:
        """Return the place of a data file, as its description has the path."""

    @abstractmethod
    def hint(self, name: str, others: Iterable[str]) -> str:
        """Return what to do about a declared column that is not there; ``others`` are those that are not declared."""

    @abstractmethod
    def at(self, number: int | str) -> TableVersion | None:
        """Return another version of the table as this stream reads it; None: it cannot be read any more."""

    def schema(self) -> Schema:
        """Return the columns of the stream: the declared ones, if the table's fit them, else those of the table.

        A stream of changes has those of changes, too.
        """
        marks = _marks(self.columns, self.name, self.stream) if self.stream.changes else ()
        if self.stream.schema is None:
            return Schema((*fields_of(self.columns, self.name), *marks))
        declared = Schema.of(self.stream.schema)
        by_name = {column.name: column for column in self.columns}
        marked = {mark.name: mark.type for mark in marks}
        for field in declared.fields:
            if field.name in marked:
                _check_mark(field, marked[field.name], self.stream)
                continue
            column = by_name.get(field.name)
            if column is None:
                raise SchemaError(
                    f"The table {self.name} has no column {field.name!r}, which stream {self.stream.name!r} declares.",
                    hint=self.hint(field.name, [other for other in by_name if other not in declared]),
                    stream=self.stream.name,
                    table=self.name,
                    column=field.name,
                )
            kind = column_type(column, self.name)
            if not fits(kind.to_arrow(), field.type.to_arrow(), FileOptions()):
                raise SchemaError(
                    f"Column {field.name!r} of the table {self.name} is {kind.ddl()}, and stream {self.stream.name!r} "
                    f"declares it as {shown(field.type.to_arrow())}.",
                    hint=f"Declare {field.name!r} as {kind.ddl()} and convert it in the application.",
                    stream=self.stream.name,
                    table=self.name,
                    column=field.name,
                    declared=field.type.ddl(),
                    found=kind.ddl(),
                )
        return declared

    def units(self, files: Sequence[TableFile], threshold: int) -> list[Unit]:
        """Return the units of files; those of more bytes than the threshold are cut by row groups.

        So their footers are looked at; of thousands of files that one task each reads whole, none is.
        """
        units: list[Unit] = []
        for number, file in enumerate(files):
            if file.size > threshold:
                large = input_file(self.place(file.path), file.size, self.stream.name)
                with reading(large, "parquet"):
                    units += open_format("parquet").units(number, large, None, FileOptions())
            else:
                units.append(Unit(number, 0, None, file.size))
        return units

    def described(self, files: Sequence[TableFile]) -> dict[str, Any]:
        """Return the keys of an input range that do not depend on how it is cut into partitions."""
        schema = self.schema()
        deletes = list(dict.fromkeys(one for file in files for one in file.deletes))
        indexes = {one: index for index, one in enumerate(deletes)}
        rows = [file.rows for file in files]
        return {
            "kind": self.kind,
            "table": self.name,
            self.word: self.number,
            "table_id": self.table_id,
            "bytes": sum(file.size for file in files),
            "rows": None if None in rows else sum(count or 0 for count in rows),
            "schema": None if self.stream.schema is not None else schema.ddl(),
            **self.facts(),
            "files": [_described(file, indexes) for file in files],
            "deletes": list(map(plain_deletes, deletes)),
        }

    def input_range(self, partitions: int, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range of the stream: what ``bounds`` and the data interval leave to be read.

        Keys beside those of every system: ``table``, ``version`` or ``snapshot``, ``table_id``, ``bytes``, ``rows``
        (with deleted ones; None: not known), ``schema`` (DDL, when none is declared), ``columns`` (as Iceberg's
        metadata has them), ``files``, ``deletes``, those of the format, and ``splits``: per partition [file, start,
        end] in row groups.
        """
        files = self.files(bounds, time_range(self.stream))
        total = sum(file.size for file in files)
        warn_of_few_tasks(self.stream, partitions, total)
        units = self.units(files, split_threshold(total, partitions))
        return {
            **self.described(files),
            "partitions": partitions,
            "offsets": None,
            "splits": [[list(split) for split in splits] for splits in pack(units, partitions)],
        }


def plain_deletes(one: Any) -> dict[str, Any]:
    """Return the description of deletes in an input range: the fields of their named tuple that have a value."""
    return {name: value for name, value in one._asdict().items() if value is not None}


def _described(file: TableFile, indexes: Mapping[Any, int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": file.path, "size": file.size, "rows": file.rows}
    for name in ("partition", "constants"):
        if getattr(file, name):
            facts[name] = getattr(file, name)
    return {**facts, "deletes": [indexes[one] for one in file.deletes]} if file.deletes else facts


def input_file(place: Location, size: int, stream: str) -> InputFile:
    """Return a file of a table, ready to be opened."""
    return InputFile(place.filesystem, place.path, size, str(place), stream)


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
