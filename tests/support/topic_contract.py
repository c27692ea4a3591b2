"""Systems of topics for the contract: every registered kind, by what it can do, and a topic that tests write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pytest

from airflow_samza.control.messages import ControlMessage
from airflow_samza.system_kinds import SystemKind, find_kind, kinds
from airflow_samza.systems.bindings import bind_system
from airflow_samza.systems.capabilities import HasSections, WritesByKey
from airflow_samza.systems.kafka.own_topics.store import OwnTopics
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import (
    Publication,
    StreamSpec,
    System,
    SystemBinding,
    SystemConsumer,
    SystemStreamPartition,
)

STREAM = StreamSpec("views/run 1/1.1", partitions=3, schema="id bigint, name string")

ON_SERVERS = {
    "log on HDFS": ("log", "hdfs"),
    "log on S3": ("log", "s3"),
    "log on Azure": ("log", "azure"),
    "log on Google Cloud Storage": ("log", "gcs"),
    "kafka": ("kafka", "kafka"),
}
"""Kinds in places that a fixture starts: what tests call them, the kind, and the fixture."""

MARKS = {
    "hdfs": [pytest.mark.hdfs],
    "s3": [pytest.mark.extended],
    "kafka": [pytest.mark.kafka, pytest.mark.timeout(300)],
    "azure": [pytest.mark.nightly],
    "gcs": [pytest.mark.nightly],
}
"""Marks of what runs over a fixture."""


class TopicConsumer(SystemConsumer, Protocol):
    """A consumer that knows the columns of its topic before it reads."""

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of the topic, also of an empty one; None when nobody has declared or written any."""
        ...


@runtime_checkable
class TopicSystem(System, HasSections, Protocol):
    """A system of topics that are made, listed and appended to by hand, as notebooks and the command line do."""

    def consumer(self, stream: StreamSpec, slice: Mapping[str, Any] | None = None) -> TopicConsumer:
        """Return a consumer that reads the topic as of the slice, or as it is now."""
        ...

    def topics(self) -> list[str]:
        """Return the names of all topics."""
        ...

    def append(
        self,
        name: str,
        rows: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        *,
        key: Sequence[str] = (),
        partitions: int | None = None,
        schema: str | None = None,
    ) -> dict[str, Any]:
        """Append rows to a topic, all or nothing; make it when it is missing and ``partitions`` says how many."""
        ...


def kind_of(name: str) -> SystemKind:
    found = find_kind(ON_SERVERS[name][0] if name in ON_SERVERS else name)
    assert found is not None
    return found


def systems_with(*capabilities: type) -> list[object]:
    """Return the parameters of the fixture ``system``: the kinds that have topics, and these capabilities."""
    names = [name for name in dict.fromkeys((*kinds(), *ON_SERVERS)) if _has_topics(kind_of(name))]
    return [
        pytest.param(name, marks=MARKS.get(ON_SERVERS[name][1], [])) if name in ON_SERVERS else name
        for name in names
        if all(issubclass(_topics_of(name), capability) for capability in capabilities)
    ]


def name_of(parameter: object) -> str:
    """Return what tests call the kind of a parameter."""
    return parameter if isinstance(parameter, str) else str(getattr(parameter, "values")[0])  # noqa: B009


def _has_topics(kind: SystemKind) -> bool:
    return kind.traits.carries_control or kind.traits.own_topics


def _topics_of(name: str) -> type:
    return OwnTopics if name == "kafka" else kind_of(name).load()


def bound_topics(request: pytest.FixtureRequest, tmp_path: Path) -> TopicSystem:
    """Return the system that a test's parameter names, in a place of its own."""
    kind, fixture = ON_SERVERS.get(request.param, (request.param, None))
    if fixture == "kafka":
        return KafkaSystem("topics", brokers_of(request), str(tmp_path)).own_topics
    if fixture is None:
        root = str(tmp_path)
    elif fixture == "hdfs":
        root = f"{request.getfixturevalue(fixture).webhdfs}{tmp_path}"
    else:
        root = request.getfixturevalue(fixture).url(f"{tmp_path.parent.name}/{tmp_path.name}")
    bound = bind_system("topics", SystemBinding(kind), root)
    assert isinstance(bound, TopicSystem)
    return bound


def brokers_of(request: pytest.FixtureRequest) -> SystemBinding:
    return SystemBinding("kafka", {"bootstrap.servers": request.getfixturevalue("kafka").address})


def ssp(partition: int, stream: StreamSpec = STREAM) -> SystemStreamPartition:
    return SystemStreamPartition("topics", stream.name, partition)


def batch(first: int, rows: int) -> pa.RecordBatch:
    ids = range(first, first + rows)
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "name": [f"n{number}" for number in ids]})


def publish(
    system: TopicSystem,
    epoch: int,
    rows: dict[int, pa.RecordBatch],
    control: tuple[ControlMessage, ...] = (),
    generation: str = "1.1",
    producer: str = "app/run/stage",
) -> dict[str, object]:
    writer = system.producer(STREAM, f"{producer}-{generation}-{epoch}")
    for partition, piece in rows.items():
        writer.write(partition, piece)
    return system.publish(STREAM, Publication(producer, generation, epoch, {0: writer.finish()}, control))


def write_keyed(writer: object, rows: pa.RecordBatch) -> None:
    assert isinstance(writer, WritesByKey)
    writer.write_keyed(rows, ["id"])
