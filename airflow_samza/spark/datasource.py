"""Topics of the log as a PySpark data source: ``spark.read.format("samza")`` and ``write.format("samza")``.

Reading gives the user messages of the topic as of the moment the query was planned, one Spark partition per topic
partition; with ``metadata=true`` also ``_partition`` and ``_offset``. Control messages are not shown. Writing appends
all rows in one commit, each to the partition of its key.

>>> # register(spark)
>>> # spark.read.format("samza").option("root", root).option("topic", "page-views").load()
>>> # options = {"root": root, "topic": "page-views", "key": "member_id"}
>>> # frame.write.format("samza").options(**options).mode("append").save()
"""

from __future__ import annotations

import hashlib
import json
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
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.launch.code_shipping import packed_package
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from airflow_samza.systems.topic_rejections import FROM_ZERO

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

METADATA_COLUMNS = ("_partition", "_offset")
OPTIONS = ("root", "topic", "metadata", "startingOffsets", "endingOffsets", "key", "partitions")


def register(spark: SparkSession) -> None:
    """Make the format ``samza`` known to a session.

    One of Spark Connect is sent this package, which its server may not have.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if not isinstance(spark.range(0), ClassicDataFrame):
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

    Options: ``root`` (of the log), ``topic``; to read: ``metadata``, ``startingOffsets`` and ``endingOffsets`` (JSON,
    partition to offset, the end exclusive); to write: ``key`` (columns, with commas), ``partitions`` (makes the topic
    when it is missing).
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "samza"

    def schema(self) -> str:
        """Return the columns of the topic, and the metadata's where they were asked for."""
        system, stream = _stream(self.options)
        declared = system.admin.metadata([stream])
        if stream.name not in declared:
            system.topic(stream.name)  # says that it is missing, and what to do
        ddl = declared[stream.name].schema
        if ddl is None:
            raise TopicError(
                f"The topic {stream.name!r} has no columns yet: nothing was written to it, and nobody declared any.",
                hint="Give the columns: spark.read.format('samza').schema('id bigint, …').",
                stream=stream.name,
            )
        return f"{ddl}, _partition int, _offset bigint" if _flag(self.options, "metadata") else ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read what was there when the query was planned."""
        return SamzaReader(dict(self.options), tuple(schema.fieldNames()))

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


@dataclass
class TopicPartition(InputPartition):
    """One topic partition and the offsets to read of it."""

    partition: int
    start: int
    end: int


class SamzaReader(DataSourceReader):
    """Reads one topic; every Spark partition is one topic partition."""

    def __init__(self, options: dict[str, str], columns: Sequence[str]) -> None:
        self._options = options
        self._columns = columns
        system, stream = _stream(options)
        self._slice = system.slice(stream)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one Spark partition per topic partition that has something to read, and at least one."""
        ranges = [
            TopicPartition(partition, start, end)
            for partition, (start, end) in enumerate(_bounded(self._options, self._slice["offsets"]))
        ]
        return [piece for piece in ranges if piece.end > piece.start] or ranges[:1]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the user messages of a partition as Arrow batches."""
        import pyarrow as pa

        assert isinstance(partition, TopicPartition)
        system, stream = _stream(self._options)
        consumer = system.consumer(stream, self._slice)
        place = SystemStreamPartition(system.name, stream.name, partition.partition)
        columns = [name for name in self._columns if name not in METADATA_COLUMNS]
        try:
            for envelope in consumer.read(place, OffsetRange(partition.start, partition.end), columns or None):
                if not isinstance(envelope, MessageRun):
                    continue
                rows = envelope.batch.num_rows
                arrays: list[Any] = []
                for name in self._columns:
                    if name == "_partition":
                        arrays.append(pa.repeat(pa.scalar(partition.partition, pa.int32()), rows))
                    elif name == "_offset":
                        arrays.append(pa.array(range(envelope.offset, envelope.offset + rows), pa.int64()))
                    else:
                        arrays.append(envelope.batch.column(name))
                yield pa.RecordBatch.from_arrays(arrays, list(self._columns))
        finally:
            consumer.close()


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
        system, stream = _stream(options)
        if stream.partitions is not None:
            system.admin.create([stream])
        if system.topic(stream.name).partitions > 1 and not self._key:
            raise ConfigError(
                f"The topic {stream.name!r} has several partitions, and no key says which row goes where.",
                hint="Name the key's columns: .option('key', 'member_id').",
                key="key",
            )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage one Spark partition's rows."""
        system, stream = _stream(self._options)
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
        system, stream = _stream(self._options)
        staged = {task: message.description for task, message in enumerate(messages) if isinstance(message, Staged)}
        system.publish(stream, Publication(producer=self._write_id, generation="1", epoch=0, staged=staged))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what was staged."""
        system, stream = _stream(self._options)
        topic = system.topic(stream.name)
        for message in messages:
            if isinstance(message, Staged) and message.description.get("segment"):
                system.filesystem.delete(topic.segment_path(message.description["segment"]))


def _stream(options: Any) -> tuple[LogSystem, StreamSpec]:
    """Return the log and the topic that the options name. Spark hands options on in lower case, too."""
    by_name = {key.lower(): value for key, value in dict(options).items()}
    for name in ("root", "topic"):
        if not by_name.get(name):
            raise ConfigError(
                f"The format samza needs the option {name!r}.",
                hint="spark.read.format('samza').option('root', …).option('topic', …)",
                key=name,
                value=by_name.get(name, ""),
            )
    partitions = by_name.get("partitions")
    if partitions is not None and not str(partitions).isdigit():
        raise ConfigError(
            f"The option partitions is {partitions!r}.", hint="Give a whole number.", key="partitions", value=partitions
        )
    system = LogSystem("samza", SystemBinding("log", {"root": by_name["root"]}))
    return system, StreamSpec(name=by_name["topic"], partitions=int(partitions) if partitions else None)


def _flag(options: Any, name: str) -> bool:
    return str({key.lower(): value for key, value in dict(options).items()}.get(name, "false")).lower() == "true"


def _bounded(options: dict[str, str], ranges: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the offsets to read per partition, within what there is."""
    by_name = {key.lower(): value for key, value in options.items()}
    starts = _offsets(by_name, "startingOffsets", len(ranges))
    ends = _offsets(by_name, "endingOffsets", len(ranges))
    bounded = []
    for partition, (oldest, head) in enumerate(ranges):
        start = min(max(starts.get(partition, oldest), oldest), head)
        bounded.append((start, max(start, min(ends.get(partition, head), head))))
    return bounded


def _offsets(options: dict[str, str], name: str, partitions: int) -> dict[int, int]:
    text = options.get(name.lower())
    if text is None:
        return {}
    try:
        offsets = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"The option {name} is {text!r}.",
            hint='Write JSON from partition to offset: {"0": 100, "1": 250}.',
            key=name,
            value=text,
        ) from error
    for partition in offsets:
        if not 0 <= partition < partitions:
            raise ConfigError(
                f"The option {name} names partition {partition}, and the topic has {partitions}.",
                hint=FROM_ZERO,
                key=name,
                value=text,
            )
    return offsets
