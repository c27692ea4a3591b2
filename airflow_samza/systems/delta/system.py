"""The system ``delta``: the tables in a folder, and their consumers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import pyarrow.fs as pafs

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.log import DeltaLog, find_log
from airflow_samza.systems.delta.options import DeltaSettings, TableOptions
from airflow_samza.systems.delta.reading import DeltaConsumer
from airflow_samza.systems.delta.slicing import fix_slice, table_schema
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.options import partition_count
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.system import (
    ColumnBound,
    Publication,
    StreamMetadata,
    StreamSpec,
    SystemBinding,
    SystemProducer,
)


class DeltaSystem:
    """System of the Delta tables in a folder: bounded inputs, of which the plan fixes the version.

    Options of the binding: ``root``, ``partitions`` (of inputs that declare none; 1), and the options of the storage of
    a root that is a URL. The table ``web.views`` lies in the folder ``web/views`` below the root.
    """

    def __init__(self, name: str, binding: SystemBinding, root: str | None = None) -> None:
        self.name = name
        self.binding = binding
        self.settings = DeltaSettings.of(name, binding)
        self._root: Location | None = None

    @property
    def admin(self) -> DeltaSystem:
        """The system is its own admin."""
        return self

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts of streams whose table exists, and its columns where none are declared.

        The count never follows from the files, which change from version to version.
        """
        metadata: dict[str, StreamMetadata] = {}
        for stream in streams:
            log = None if stream.written else self._found(stream)
            if log is not None:
                metadata[stream.name] = StreamMetadata(self._partitions(stream), schema=table_schema(log, stream))
        return metadata

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the files of the version that a stream means, and which partition reads what of them."""
        return self.slice_within(stream, ())

    def slice_within(self, stream: StreamSpec, bounds: Sequence[ColumnBound]) -> dict[str, Any]:
        """Return the input range without files that cannot have a row that fulfils all bounds."""
        log = self._found(stream)
        if log is None:
            raise self._missing(stream)
        return fix_slice(log, stream, self._partitions(stream), bounds)

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> DeltaConsumer:
        """Return a consumer of a slice; without one, of the version that the stream means now."""
        return DeltaConsumer(self._table(stream), stream, slice if slice is not None else self.slice(stream))

    def location(self, stream: StreamSpec) -> str:
        """Return the folder of a stream's table."""
        return str(self._table(stream))

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Reject outputs: tables are read."""
        for stream in streams:
            self.check_writable(stream)

    def check_writable(self, stream: StreamSpec) -> NoReturn:
        """Reject the output."""
        raise TopicError(
            f"The output {stream.name!r} lies in the system {self.name!r} of kind delta, which reads tables and does "
            "not write them.",
            hint="Write it by a system of kind spark (format delta), or to files.",
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
        return partition_count(stream, self.name, self.binding)

    def _table(self, stream: StreamSpec) -> Location:
        if self._root is None:
            self._root = self.settings.opened()
        return self._root / TableOptions.of(stream).path

    def _found(self, stream: StreamSpec) -> DeltaLog | None:
        return find_log(self._table(stream), TableOptions.of(stream).table, stream.name)

    def _missing(self, stream: StreamSpec) -> TopicError:
        table, name = self._table(stream), TableOptions.of(stream).table
        with storage_errors(path=str(table.parent), stream=stream.name, doing="list"):
            infos = table.filesystem.get_file_info(pafs.FileSelector(table.parent.path, allow_not_found=True))
        folders = sorted(
            info.path.rstrip("/").rpartition("/")[2] for info in infos if info.type == pafs.FileType.Directory
        )
        there = f"{table.parent} has the folders {listed(folders[:10])}. " if folders else ""
        return TopicError(
            f"The table {name} of stream {stream.name!r} does not exist: there is no log of Delta in {table} (system "
            f"{self.name!r}).",
            hint=f"{did_you_mean(table.name, folders) or there}Check table= of the stream, and the root of the system.",
            table=name,
            stream=stream.name,
            system=self.name,
        )
