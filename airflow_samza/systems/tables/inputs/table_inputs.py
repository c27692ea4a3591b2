"""Systems whose streams are tables, as inputs: what is alike for all formats of tables.

The systems of Delta and Iceberg derive from it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from airflow_samza.systems.files.formats.options import partition_count
from airflow_samza.systems.system import ColumnBound, StreamMetadata, StreamSpec, SystemBinding
from airflow_samza.systems.tables.inputs.arrivals import (
    LOOK_SECONDS,
    ArrivalsRequest,
    TableHistory,
    arrived_range,
    changes_range,
    reject_one_version,
    reject_other_table,
)
from airflow_samza.systems.tables.inputs.changes import changed_range
from airflow_samza.systems.tables.inputs.table_version import TableVersion

S = TypeVar("S")


class Tables(Protocol):
    """The tables of a system, while its catalog is open."""

    def find(self, stream: StreamSpec) -> TableVersion | None:
        """Return the version of a table that a stream means; None: there is no table."""
        ...

    def load(self, stream: StreamSpec, intake: Mapping[str, Any] | None = None) -> TableHistory:
        """Return the version of a table that is there, for a stream that was read up to the record ``intake``."""
        ...


class TableInputs(ABC):
    """Part of a system of tables that reads them."""

    versions: tuple[str, ...]
    """The options that choose one version for ever."""

    def __init__(self, name: str, binding: SystemBinding) -> None:
        self.name = name
        self.binding = binding

    @property
    def admin(self: S) -> S:
        """The system is its own admin."""
        return self

    @abstractmethod
    def tables(self) -> AbstractContextManager[Tables]:
        """Open the catalog."""

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts of streams whose table exists, and its columns where none are declared.

        The count never follows from the files, which change from version to version.
        """
        read = [stream for stream in streams if not stream.written]
        if not read:
            return {}
        with self.tables() as tables:
            found = [version for stream in read if (version := tables.find(stream)) is not None]
            return {
                one.stream.name: StreamMetadata(self.partitions(one.stream), schema=one.schema().ddl()) for one in found
            }

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the files of the version that a stream means, and which partition reads what of them."""
        return self.slice_within(stream, ())

    def slice_within(self, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range without files that cannot have a row that fulfils all bounds."""
        with self.tables() as tables:
            return tables.load(stream).input_range(self.partitions(stream), bounds)

    def changes(self, stream: StreamSpec, since: str, remedy: str, *, carried: bool = False) -> dict[str, Any]:
        """Return the range of the rows that are in one only of two versions; with ``carried``, in both."""
        with self.tables() as tables:
            return changed_range(tables.load(stream), self.partitions(stream), since, remedy, carried=carried)

    def arrived(
        self,
        stream: StreamSpec,
        intake: Mapping[str, Any] | None,
        *,
        first_chunk: int = 0,
        all_of_it: bool = False,
        unread: bool = False,
        bounds: Sequence[ColumnBound] = (),
    ) -> dict[str, Any]:
        """Return the range of what was appended, or changed, since the record ``intake``; None: of all rows there are.

        Files without a row that fulfils all ``bounds`` are left out; of changes none, as rows may cancel out.
        """
        reject_one_version(stream, self.versions)
        with self.tables() as tables:
            version = tables.load(stream, intake)
            if intake is not None:
                reject_other_table(version, intake)
            request = ArrivalsRequest(version, intake, self.partitions(stream), first_chunk, unread)
            return changes_range(request) if stream.changes else arrived_range(request, bounds)

    def look_seconds(self, stream: StreamSpec) -> float:
        """Return how long a continuous run waits between two looks at the table."""
        return LOOK_SECONDS

    def partitions(self, stream: StreamSpec) -> int:
        """Return the partition count of an input."""
        return partition_count(stream, self.name, self.binding)
