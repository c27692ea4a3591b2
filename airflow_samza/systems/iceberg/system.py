"""The system ``iceberg``: the tables of a catalog, and their consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.formats.options import declared_partitions
from airflow_samza.systems.iceberg.catalogs import find_table, load_table, opened_catalog
from airflow_samza.systems.iceberg.options import CatalogSettings, TableOptions
from airflow_samza.systems.iceberg.reading import IcebergConsumer
from airflow_samza.systems.iceberg.slicing import fix_slice, table_schema
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.system import (
    ColumnBound,
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
    SystemProducer,
)


class IcebergSystem:
    """System of the tables of an Iceberg catalog: bounded inputs, of which the plan fixes the snapshot.

    Options of the binding: ``root`` (a folder with a catalog of its own), or ``type``, ``uri`` and other properties of
    pyiceberg; ``catalog`` (its name, for catalogs in a database), ``partitions`` (of inputs that declare none; 1).
    """

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None) -> None:
        self.name = name
        self.binding = binding
        self.settings = CatalogSettings.of(name, binding)
        self._storage = TableStorage(self.settings.properties)

    @property
    def admin(self) -> IcebergSystem:
        """The system is its own admin."""
        return self

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts of streams whose table exists, and its columns where none are declared.

        The count never follows from the files, which change from snapshot to snapshot.
        """
        metadata: dict[str, StreamMetadata] = {}
        read = [stream for stream in streams if not stream.written]
        if not read:
            return metadata
        with opened_catalog(self.settings) as catalog:
            for stream in read:
                options = TableOptions.of(stream)
                table = find_table(catalog, options.identifier)
                if table is not None:
                    columns = table_schema(table, stream)
                    metadata[stream.name] = StreamMetadata(self._partitions(stream), schema=columns)
        return metadata

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the files of the snapshot that a stream means, and which partition reads what of them."""
        return self.slice_within(stream, ())

    def slice_within(self, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range without files that cannot have a row that fulfils all bounds."""
        options = TableOptions.of(stream)
        with opened_catalog(self.settings) as catalog:
            table = load_table(catalog, self.settings, options.identifier, stream.name)
            return fix_slice(table, stream, self._partitions(stream), self._storage, bounds)

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> IcebergConsumer:
        """Return a consumer of a slice; without one, of the snapshot that the stream means now."""
        return IcebergConsumer(self._storage, stream, slice if slice is not None else self.slice(stream))

    def location(self, stream: StreamSpec) -> str:
        """Return the catalog and the name of a stream's table."""
        return f"{self.settings.place}#{'.'.join(TableOptions.of(stream).identifier)}"

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Reject outputs: tables are read."""
        for stream in streams:
            self.check_writable(stream)

    def check_writable(self, stream: StreamSpec) -> NoReturn:
        """Reject the output."""
        raise TopicError(
            f"The output {stream.name!r} lies in the system {self.name!r} of kind iceberg, which reads "
            "tables and does not write them.",
            hint="Write it by a system of kind spark (format iceberg), or to files.",
            stream=stream.name,
            system=self.name,
        )

    def producer(self, stream: StreamSpec, writer: str) -> SystemProducer:
        """Reject the output."""
        self.check_writable(stream)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Reject the output."""
        self.check_writable(stream)

    def _partitions(self, stream: StreamSpec) -> int:
        if stream.partitions is not None:
            return declared_partitions(stream.partitions, of=f"Stream {stream.name!r}")
        return declared_partitions(self.binding.options.get("partitions") or 1, of=f"System {self.name!r}")
