"""The system of kind ``spark``: whatever a DataFrame reader reads and a writer writes (decision 64).

Tasks and planners never have a Spark session, so both directions go through a topic of the run
(``StreamSpec.through``): the stage runner fills it from the reader once, before the stage reads it, and writes it out
after the epoch is committed. What a retry reads is therefore what the first attempt read, and what is written is what
was committed. The plan step binds it; the stage runner fills its topics and writes them out.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import ConfigError, StageLost
from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.delivery import Delivery
from airflow_samza.systems.filesystems.filesystem import root_identity
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.maintenance import ExpiringLogTopic
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.spark.tables import SparkTable
from airflow_samza.systems.system import Publication, StreamMetadata, StreamSpec, System, SystemBinding, SystemProducer

KIND = "spark"


@dataclass(frozen=True)
class Staged:
    """Output that is to be written: ``offsets`` ([from, to) per partition) of a topic of the run.

    ``schema`` (DDL) are its columns. ``transaction`` names the writer, apart from those of other roots, and grows from
    publication to publication, for tables that know one again.
    """

    topic: str
    slice: Mapping[str, Any]
    schema: str | None
    rows: int
    transaction: tuple[str, int]


class TableWriter(Protocol):
    """Writer of tables: a driver process's Spark session."""

    def write(self, table: SparkTable, staged: Staged) -> None:
        """Write all rows, as the table's mode says. It may be called again for the same rows."""


@runtime_checkable
class CarriedByDriver(System, Protocol):
    """A system that tasks do not reach: the driver process carries its streams through topics of the run."""

    writer: TableWriter | None
    """Writes tables; set in driver processes only."""

    def table(self, stream: StreamSpec) -> SparkTable:
        """Return the stream as Spark sees it."""

    def publish_read(self, stream: StreamSpec, publication: Publication) -> None:
        """Publish what Spark has read of a stream to the topic that it goes through."""


class SparkSystem:
    """System of what Spark reads and writes. ``writer`` is set in driver processes only."""

    def __init__(self, name: str, binding: SystemBinding, root: str) -> None:
        self.name = name
        self.binding = binding
        self.writer: TableWriter | None = None
        self.log = LogSystem(name, SystemBinding(EMBEDDED), root)
        self._identity = ""

    @property
    def admin(self) -> SparkSystem:
        """The system is its own admin."""
        return self

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the declared partition counts, and how far the topics of streams that are being read reach."""
        metadata = {}
        for stream in streams:
            of_log = self.log.admin.metadata([_topic(stream)]) if stream.through is not None else {}
            if of_log:
                metadata[stream.name] = of_log[_topic(stream).name]
            elif stream.through is None:
                self.table(stream)
                metadata[stream.name] = StreamMetadata(self._partitions(stream), schema=stream.schema)
        return metadata

    def _partitions(self, stream: StreamSpec) -> int:
        """Return the stream's declared count, else the system's, else 1."""
        said = stream.partitions if stream.partitions is not None else self.binding.options.get("partitions", 1)
        try:
            count = int(said)
        except ValueError:
            count = 0
        if not 1 <= count <= MAX_PARTITIONS:
            raise ConfigError(
                f"The system {self.name!r} (spark) has partitions={said!r}.",
                hint=f"Write a whole number from 1 to {MAX_PARTITIONS:,}.",
                key=f"systems.{self.name}.partitions",
                value=str(said),
            )
        return count

    def create(self, streams: Sequence[StreamSpec]) -> None:
        """Make the topics that streams go through."""
        self.log.admin.create([_topic(stream) for stream in streams if stream.through is not None])

    def table(self, stream: StreamSpec) -> SparkTable:
        """Return the stream as Spark sees it."""
        return SparkTable.of(self.name, self.binding, stream)

    def delivery(self, stream: StreamSpec) -> Delivery:
        """Return the delivery of an output, by its mode and format."""
        return self.table(stream).delivery

    def slice(self, stream: StreamSpec) -> dict[str, Any]:
        """Return the partition count of a stream that Spark has not read yet, else its input range in the topic."""
        if stream.through is None:
            self.table(stream)
            return {"kind": KIND, "partitions": self._partitions(stream), "offsets": None}
        return {**self.log.slice(_topic(stream)), "kind": KIND}

    def identity(self, stream: StreamSpec) -> str | None:
        """Return the identity of the topic that the stream goes through; None when there is none."""
        return self.log.identity(_topic(stream))

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> LogConsumer:
        """Return a consumer of the topic that the stream goes through."""
        return self.log.consumer(_topic(stream), slice)

    def producer(self, stream: StreamSpec, writer: str) -> SystemProducer:
        """Return a producer of the topic that the stream goes through."""
        return self.log.producer(_topic(stream), writer)

    def check_writable(self, stream: StreamSpec) -> None:
        """Reject options that contradict each other; whether Spark may write there is known when it does."""
        self.table(stream)

    def publish(self, stream: StreamSpec, publication: Publication) -> dict[str, Any]:
        """Stage an epoch's output, and write it to the table unless a record says that this is done.

        Dying between the write and the record repeats the write: ``SparkTable.delivery`` says what comes of that.
        """
        table = self.table(stream)
        facts = self.log.publish(_topic(stream), publication)
        written: dict[str, Any] = {
            "table": table.place,
            "mode": table.mode,
            "rows": facts["rows"],
            "bytes": facts["bytes"],
        }
        if table.waits_for_the_end and not publication.final:
            return written
        record = self._record(stream, publication)
        if self.log.filesystem.exists(record):
            return written
        if self.writer is None:
            raise StageLost(
                f"The output {stream.name!r} is committed, and not yet written to {table.place} (system "
                f"{self.name!r}, spark), which only a stage runner can do.",
                hint="Submit the stage again: it goes on from the commit, and runs no task again.",
                stream=stream.name,
            )
        if facts["rows"] or table.waits_for_the_end:  # to append nothing is to do nothing
            self.writer.write(table, self._staged(stream, publication, facts, whole=table.waits_for_the_end))
        self.log.filesystem.put_if_absent(record, json.dumps(written, sort_keys=True).encode())
        return written

    def publish_read(self, stream: StreamSpec, publication: Publication) -> None:
        """Publish what Spark has read of a stream to the topic that it goes through."""
        self.log.publish(_topic(stream), publication)

    def expiring(self, name: str) -> ExpiringLogTopic | None:
        """Return a topic that a stream goes through."""
        return self.log.expiring(name)

    def _staged(self, stream: StreamSpec, publication: Publication, facts: Mapping[str, Any], *, whole: bool) -> Staged:
        topic = _topic(stream)
        slice_ = dict(self.log.slice(topic))
        if not whole:  # else all that this generation's epochs have staged: the topic is its own
            slice_["offsets"] = facts["offsets"]
        plan, stage = parse_generation(publication.generation, numbers=2)
        version = (plan * 10**6 + stage) * 10**9 + publication.epoch
        rows = sum(end - start for start, end in slice_["offsets"])
        schema = self.log.admin.metadata([topic])[topic.name].schema
        self._identity = self._identity or root_identity(self.log.filesystem)
        writer = f"{self._identity}/{publication.producer}/{stream.name}"
        return Staged(topic.name, slice_, schema, rows, (writer, version))

    def _record(self, stream: StreamSpec, publication: Publication) -> str:
        assert stream.through is not None
        return f"{self.log.topic(stream.through).directory}/written/{publication.generation}.{publication.epoch}.json"


def _topic(stream: StreamSpec) -> StreamSpec:
    """Return the topic that a stream goes through, as the log sees it."""
    if stream.through is None:
        raise ConfigError(
            f"The stream {stream.name!r} lies in Spark, and no topic is named that it goes through.",
            hint="This is a defect of airflow_samza; please report it with the plan.",
            key="through",
        )
    return dataclasses.replace(stream, name=stream.through, path=None, format=None, options=(), serde=None)
