"""A version of a table as an input reads it, and the input range that is made of it: alike for all formats of tables.

A format of tables derives from it, in a folder of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.schema import Schema
from airflow_samza.systems.files.formats.file_format import InputFile, TimeRange
from airflow_samza.systems.files.packing import Unit, pack
from airflow_samza.systems.files.slicing import split_threshold, time_range, warn_of_few_tasks
from airflow_samza.systems.system import ColumnBound, StreamSpec
from airflow_samza.systems.tables.columns import TableField
from airflow_samza.systems.tables.inputs.slicing import checked_columns, units_of


class TableFile(NamedTuple):
    """Data file of a version: bytes, rows (with deleted ones; None: not known), and its partition.

    ``partition`` is for people, by the names of columns or partition fields; ``constants`` are the values of columns
    that are the same in all rows, by their ids, as :func:`~airflow_samza.systems.tables.projection.constant` takes
    them. ``deletes`` describe themselves by ``plain``. ``begins`` is the least event time, in the column's unit; None:
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
    def opened(self, file: TableFile) -> InputFile:
        """Return a data file, ready to be opened."""

    @abstractmethod
    def hint(self, name: str, others: Iterable[str]) -> str:
        """Return what to do about a declared column that is not there; ``others`` are those that are not declared."""

    @abstractmethod
    def at(self, number: int | str) -> TableVersion | None:
        """Return another version of the table as this stream reads it; None: it cannot be read any more."""

    def schema(self) -> Schema:
        """Return the columns of the stream; a declared schema has to fit those of the table."""
        return checked_columns(self.columns, self.name, self.stream, self.hint)

    def units(self, files: Sequence[TableFile], threshold: int) -> list[Unit]:
        """Return the units of files; those of more bytes than the threshold are cut by row groups."""
        return units_of(files, threshold, self.opened)

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
            "deletes": [one.plain() for one in deletes],
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


def _described(file: TableFile, indexes: Mapping[Any, int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"path": file.path, "size": file.size, "rows": file.rows}
    for name in ("partition", "constants"):
        if getattr(file, name):
            facts[name] = getattr(file, name)
    return {**facts, "deletes": [indexes[one] for one in file.deletes]} if file.deletes else facts
