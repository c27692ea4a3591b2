"""The system ``iceberg``: the tables of a catalog, and their consumers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_samza.schema import Schema
from airflow_samza.systems.files.durable_files import delete_file, make_directory
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.options import partition_count
from airflow_samza.systems.iceberg.arrivals import fix_arrivals
from airflow_samza.systems.iceberg.catalogs import find_table, load_table, opened_catalog
from airflow_samza.systems.iceberg.commits import TableView
from airflow_samza.systems.iceberg.options import CatalogSettings, TableOptions
from airflow_samza.systems.iceberg.output import IcebergProducer
from airflow_samza.systems.iceberg.output_options import OutputOptions
from airflow_samza.systems.iceberg.output_target import OutputTarget, check_messages, columns_unknown, fix_target
from airflow_samza.systems.iceberg.publishing import publish
from airflow_samza.systems.iceberg.reading import IcebergConsumer
from airflow_samza.systems.iceberg.slicing import KIND, fix_slice, table_schema
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.tables_made import check_partition_columns, make_table
from airflow_samza.systems.output_slots import OutputSlot, SlotWriter
from airflow_samza.systems.system import (
    ColumnBound,
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table

LOOK_SECONDS = 5.0
"""Time between two looks of a continuous run at a table."""


class IcebergSystem:
    """System of the tables of an Iceberg catalog: bounded inputs, of which the plan fixes the snapshot, and outputs.

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

    def arrived(
        self,
        stream: StreamSpec,
        intake: Mapping[str, Any] | None,
        *,
        first_chunk: int = 0,
        all_of_it: bool = False,
        unread: bool = False,
    ) -> dict[str, Any]:
        """Return the range of what was appended since the record ``intake``; None: of all rows that there are."""
        options = TableOptions.of(stream)
        with opened_catalog(self.settings) as catalog:
            table = load_table(catalog, self.settings, options.identifier, stream.name)
            return fix_arrivals(
                table, stream, self._partitions(stream), self._storage, intake, first_chunk, unread=unread
            )

    def look_seconds(self, stream: StreamSpec) -> float:
        """Return how long a continuous run waits between two looks at the table."""
        return LOOK_SECONDS

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> IcebergConsumer:
        """Return a consumer of a slice; without one, of the snapshot that the stream means now."""
        return IcebergConsumer(self._storage, stream, slice if slice is not None else self.slice(stream))

    def location(self, stream: StreamSpec) -> str:
        """Return the catalog and the name of a stream's table."""
        return f"{self.settings.place}#{'.'.join(TableOptions.of(stream).identifier)}"

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the missing tables of outputs that say so; their columns must be known."""
        for stream in streams:
            options = OutputOptions.of(stream)
            if options.create and stream.schema is not None:
                with opened_catalog(self.settings, create=True) as catalog:
                    if find_table(catalog, options.identifier) is None:
                        make_table(catalog, options, Schema.of(stream.schema), stream.name)

    def fix_output(self, stream: StreamSpec, columns: Schema | None, run: str = "") -> dict[str, Any]:
        """Return what tasks need to write to the table of an output; messages that do not fit it are rejected.

        Of a table that is yet to be made it is its name alone.
        """
        options = OutputOptions.of(stream)
        with self._written(options, stream) as table:
            if table is None:
                if columns is None:
                    raise columns_unknown(options, stream.name)
                check_partition_columns(options, columns, stream.name)
                return {"kind": KIND, "table": options.table, "made": True}
            fixed = fix_target(table, stream.name, run)
            if columns is not None:
                check_messages(OutputTarget.of(fixed), columns, stream.name)
            return fixed

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject a table that does not exist, or cannot be written here, and a folder that may not be written."""
        fixed = self.fix_output(stream, Schema.of(stream.schema) if stream.schema is not None else None)
        if "data" in fixed:
            probe = self._storage.at(f"{fixed['data']}/samza-probe-{uuid.uuid4().hex}")
            with storage_errors(path=str(probe), stream=stream.name, doing="write"):
                make_directory(probe.parent)
                with probe.filesystem.open_output_stream(probe.path, compression=None) as sink:
                    sink.write(b"probe")
                delete_file(probe)

    def producer(self, stream: StreamSpec, writer: str, fixed: Mapping[str, Any] | None = None) -> IcebergProducer:
        """Return a producer of one try at a task; without what the plan has fixed, to the table as it is now."""
        if fixed is None:
            fixed = self.fix_output(stream, None)
        return IcebergProducer(self._storage, stream, writer, OutputTarget.of(fixed))

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Commit an epoch; the facts are table, snapshot, rows, bytes, files and what was superseded."""
        return publish(self.settings, self._storage, stream, publication)

    def standing(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the newest generation of a producer that has committed to a table; None when it never has."""
        newest = self._view(stream).newest(producer, stream.name)
        return None if newest is None else ".".join(map(str, newest))

    def slot_writers(self, stream: StreamSpec, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what readers see."""
        return self._view(stream).writers(slot.code)

    def outside_slots(self, stream: StreamSpec, producers: Iterable[str]) -> list[str]:
        """Return those of some producers whose rows readers see, and who wrote them as no slot."""
        outside = self._view(stream).outside()
        return [producer for producer in producers if producer in outside] if outside else []

    def successor(self, stream: StreamSpec, producer: str) -> str | None:
        """Return the producer of the run that has replaced what a producer wrote; None: it stands, or never wrote."""
        return self._view(stream).successor(producer, stream.name)

    def _view(self, stream: StreamSpec) -> TableView:
        options = OutputOptions.of(stream)
        with self._written(options, stream) as table:
            return TableView.of(options.table, {} if table is None else table.properties)

    @contextmanager
    def _written(self, options: OutputOptions, stream: StreamSpec) -> Iterator[Table | None]:
        """Let the table of an output be asked; None: it is to be made, and the catalog of its folder may be, too."""
        if options.create and self.settings.folder is not None and not os.path.isfile(self.settings.place):
            yield None
            return
        with opened_catalog(self.settings) as catalog:
            yield (
                find_table(catalog, options.identifier)
                if options.create
                else load_table(catalog, self.settings, options.identifier, stream.name, written=True)
            )

    def _partitions(self, stream: StreamSpec) -> int:
        return partition_count(stream, self.name, self.binding)
