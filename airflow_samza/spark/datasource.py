"""Topics of the log as a PySpark data source: the format ``samza`` of ``spark.read``, ``readStream`` and ``write``.

Reading gives the user messages of the topic as of the moment the query was planned, one Spark partition per topic
partition; with ``metadata=true`` also ``_partition`` and ``_offset``. Control messages are not shown. A stream reads
on as they are committed, and with ``section`` ends where the run ends that writes it (:func:`await_end`). Writing
appends all rows in one commit, each to the partition of its key.

>>> # register(spark)
>>> # spark.read.format("samza").option("root", root).option("topic", "page-views").load()
>>> # options = {"root": root, "topic": "page-views", "key": "member_id"}
>>> # frame.write.format("samza").options(**options).mode("append").save()
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.launch.code_shipping import packed_package
from airflow_samza.spark.hidden_options import is_remote
from airflow_samza.spark.topic_source.options import flag, named_topic, range_of
from airflow_samza.spark.topic_source.reading import TopicPartition, TopicView, rows_of
from airflow_samza.spark.topic_source.stream import SamzaStreamReader, await_end
from airflow_samza.systems.system import Publication

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["SamzaDataSource", "await_end", "register"]


def register(spark: SparkSession) -> None:
    """Make the format ``samza`` known to a session.

    One of Spark Connect is sent this package, which its server may not have.
    """
    if is_remote(spark):
        _send_package(spark)
    spark.dataSource.register(SamzaDataSource)


def _send_package(spark: SparkSession) -> None:
    data = packed_package()
    path = list(sys.path)
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, f"airflow_samza-{hashlib.sha256(data).hexdigest()[:16]}.zip")
        package.write_bytes(data)
        spark.addArtifacts(str(package), pyfile=True)
    sys.path[:] = path  # Spark puts what it sends first on the path of this process, which has it already


class SamzaDataSource(DataSource):
    """The format ``samza``.

    Options: ``root`` (of the log), ``topic``; to read: ``metadata``, ``section`` (the run whose section of a shared
    stream is read), ``startingOffsets`` and ``endingOffsets`` (JSON, partition to offset, the end exclusive); of
    streams: ``startingOffsets`` may be ``earliest`` (the default) or ``latest``, ``maxOffsetsPerTrigger`` is the size
    of a batch, and ``failOnReplaced=false`` reads on where a run has replaced what was read; to write: ``key``
    (columns, with commas), ``partitions`` (makes the topic when it is missing).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "samza"

    def schema(self) -> str:
        """Return the columns of the topic, and the metadata's where they were asked for."""
        system, stream = named_topic(self.options)
        declared = system.metadata([stream])
        if stream.name not in declared:
            system.topic(stream.name)  # says that it is missing, and what to do
        ddl = declared[stream.name].schema
        if ddl is None:
            raise TopicError(
                f"The topic {stream.name!r} has no columns yet: nothing was written to it, and nobody declared any.",
                hint="Give the columns: spark.read.format('samza').schema('id bigint, …').",
                stream=stream.name,
            )
        return f"{ddl}, _partition int, _offset bigint" if flag(self.options, "metadata") else ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what was there when the query was planned."""
        return SamzaReader(dict(self.options), tuple(schema.fieldNames()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Read on as messages are committed."""
        return SamzaStreamReader(dict(self.options), tuple(schema.fieldNames()))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Appends; a topic is never overwritten."""
        if overwrite:
            raise ConfigError(
                "A topic cannot be overwritten.",
                hint="Write with mode('append'), or to a topic of another name.",
                key="mode",
                value="overwrite",
            )
        return SamzaWriter(dict(self.options))


class SamzaReader(DataSourceReader):
    """Reads one topic; every Spark partition is one topic partition."""

    def __init__(self, options: dict[str, str], columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        self._view = TopicView.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one Spark partition per topic partition that has something to read, and at least one."""
        ranges = [
            TopicPartition(partition, start, end, self._view.slice)
            for partition, (start, end) in enumerate(range_of(self._options, self._view.slice["offsets"]))
        ]
        return [piece for piece in ranges if piece.end > piece.start] or ranges[:1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the user messages of a partition as Arrow batches."""
        assert isinstance(partition, TopicPartition)
        return rows_of(self._options, self._columns, partition)


@dataclass
class Staged(WriterCommitMessage):
    """The rows that one Spark task staged."""

    description: dict[str, Any]


class SamzaWriter(DataSourceArrowWriter):
    """Appends rows in one commit: each Spark task stages a segment, the driver publishes them together."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._write_id = f"dataframe-{uuid.uuid4().hex}"
        self._key = tuple(name.strip() for name in options.get("key", "").split(",") if name.strip())
        system, stream = named_topic(options)
        if stream.partitions is not None:
            system.create([stream])
        if system.topic(stream.name).partitions > 1 and not self._key:
            raise ConfigError(
                f"The topic {stream.name!r} has several partitions, and no key says which row goes where.",
                hint="Name the key's columns: .option('key', 'member_id').",
                key="key",
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one Spark partition's rows."""
        system, stream = named_topic(self._options)
        producer = system.producer(stream, f"{self._write_id}-{uuid.uuid4().hex}")
        try:
            for batch in iterator:
                if self._key:
                    producer.write_keyed(batch, self._key)
                else:
                    producer.write(0, batch)
            return Staged(dict(producer.finish()))
        except BaseException:
            producer.abort()
            raise

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish what all tasks staged, at once; a second call changes nothing."""
        system, stream = named_topic(self._options)
        staged = {task: message.description for task, message in enumerate(messages) if isinstance(message, Staged)}
        system.publish(stream, Publication(producer=self._write_id, generation="1", epoch=0, staged=staged))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what was staged."""
        system, stream = named_topic(self._options)
        topic = system.topic(stream.name)
        for message in messages:
            if isinstance(message, Staged) and message.description.get("segment"):
                system.filesystem.delete(topic.segment_path(message.description["segment"]))
