"""Output of files: a try at a task writes one file, and it is staged until its epoch is published (decision 84).

Its rows are read back, staged or published since, to compare what two runs have written.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

from airflow_samza.errors import TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import Written, rows_missing
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.files.durable_files import make_directory, sync_directory, sync_file
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.formats.casts import Conformer
from airflow_samza.systems.files.formats.file_format import FileWriter, check_codec, open_format
from airflow_samza.systems.files.formats.options import FileOptions
from airflow_samza.systems.files.formats.times import reject_times
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.output_records import own_path, part_name, producer_hash
from airflow_samza.systems.files.reading import FilesConsumer
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemStreamPartition


class FilesProducer:
    """Producer that writes the rows of one try at a task to one staged file, which is made with the first row."""

    def __init__(self, output: Location, stream: StreamSpec, format_name: str, writer_name: str) -> None:
        self.output = output
        self.stream = stream
        self.options = FileOptions.of(stream)
        self.format_name = format_name
        self.takes_dictionaries = format_name == "parquet"  # whose pages have dictionaries, too
        self.format = open_format(format_name)
        check_codec(self.format, format_name, self.options, stream.name)
        name = re.sub(r"[^A-Za-z0-9_.=-]", "_", writer_name).strip(".") or "attempt"
        own = producer_hash(writer_name, stream.name)  # two outputs of a task may share the folder
        self.staged = own_path(output, f"staging/{name}-{own}.{format_name}")
        self.schema: pa.Schema | None = Schema.of(stream.schema).to_arrow() if stream.schema else None
        if self.schema is not None:
            self.format.check(self.schema, stream.name, self.options)
        self.rows = 0
        self.conformer: tuple[pa.Schema, Conformer] | None = None
        self.sink: pa.NativeFile | None = None
        self.writer: FileWriter | None = None
        self._described: dict[str, Any] | None = None

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append rows; the partition plays no part, a task writes one file."""
        if self.schema is None:
            self.schema = decoded(batch.slice(0, 0)).schema.remove_metadata()
            self.format.check(self.schema, self.stream.name, self.options)
        if not batch.num_rows:
            return
        if self.conformer is None or not batch.schema.equals(self.conformer[0]):
            conformer = Conformer.check(
                batch.schema,
                self.schema,
                file=f"({self.staged.name}, being written)",
                stream=self.stream.name,
                options=self.options,
                dictionaries=self.takes_dictionaries,
            )
            self.conformer = (batch.schema, conformer)
        batch = self.conformer[1].apply(batch)
        if self.format.times is not None:
            reject_times(batch, self.format.times, stream=self.stream.name, format_name=self.format_name)
        with storage_errors(path=str(self.staged), stream=self.stream.name, doing="write"):
            self._open(self.schema).write(batch)
        self.rows += batch.num_rows

    def _open(self, schema: pa.Schema) -> FileWriter:
        if self.writer is None:
            make_directory(self.staged.parent)
            self.sink = self.output.filesystem.open_output_stream(self.staged.path, compression=None)
            self.writer = self.format.writer(self.sink, schema, self.options)
        return self.writer

    def finish(self) -> dict[str, Any]:
        """Close the file; describe it by its path below the output, rows and bytes. No rows: no file."""
        if self._described is None:
            files = []
            if self.writer is not None and self.sink is not None:
                with storage_errors(path=str(self.staged), stream=self.stream.name, doing="write"):
                    self.writer.close()
                    self.sink.close()
                    sync_file(self.staged)
                    sync_directory(self.staged.parent)
                    size = int(self.output.filesystem.get_file_info(self.staged.path).size)
                files.append(
                    {"path": self.staged.path[len(self.output.path) :].lstrip("/"), "rows": self.rows, "bytes": size}
                )
            self._described = {
                "format": self.format_name,
                "files": files,
                "rows": self.rows,
                "bytes": sum(file["bytes"] for file in files),
                "schema": Schema.of(self.schema).ddl() if self.schema is not None and self.schema.names else None,
            }
        return self._described

    def abort(self) -> None:
        """Remove the staged file; an abort ignores errors of the storage."""
        if self.writer is not None and self._described is None:
            with suppress(OSError, pa.ArrowException, ValueError):
                self.writer.close()  # first, or it would try when it is collected, on a closed sink
        with suppress(OSError, pa.ArrowException, ValueError):
            if self.sink is not None:
                self.sink.close()
        with suppress(OSError):
            self.output.filesystem.delete_file(self.staged.path)


def reject_file(output: Location, stream: StreamSpec) -> None:
    """Reject an output where a file lies instead of a directory."""
    if output.filesystem.get_file_info(output.path).is_file:
        raise TopicError(
            f"The output {output} of stream {stream.name!r} is a file, and a directory is needed.",
            hint="Move the file away, or give the stream another path.",
            path=str(output),
            stream=stream.name,
        )


def written_rows(output: Location, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files of one task, where they lie now."""
    described = written.described
    kind = str(described["format"])
    part = part_name(
        written.task,
        producer_hash(written.producer, stream.name),
        written.generation,
        written.epoch,
        kind,
    )
    for file in described["files"]:
        with storage_errors(path=str(output), stream=stream.name, doing="read"):
            places = [(output / name).path for name in (str(file["path"]), part)]
            infos = [info for info in output.filesystem.get_file_info(places) if info.is_file]
        if not infos:
            raise rows_missing(stream.name, str(output / part))
        slice_ = {
            "format": kind,
            "partitions": 1,
            "files": [{"path": infos[0].path, "size": int(infos[0].size), "mtime": None, "columns": {}}],
            "splits": [[[0, 0, None]]],
            "schema": described["schema"],
        }
        consumer = FilesConsumer(output, dataclasses.replace(stream, timestamp=None, tolerant=False), slice_)
        for envelope in consumer.read(SystemStreamPartition("", stream.name, 0), None):
            if isinstance(envelope, MessageRun):
                yield envelope.batch
