"""Topics between stages on a real broker: what lies there, what is read, and what happens to a topic meanwhile."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from confluent_kafka.admin import ConfigResource, ResourceType

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage, decode
from airflow_samza.errors import TopicError
from airflow_samza.systems.kafka.own_topics.frames import unframed
from airflow_samza.systems.kafka.own_topics.store import OwnTopics, broker_topic
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.log.maintenance import sweep
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding
from tests.support.kafka_outputs import read_all
from tests.support.kafka_topics import Topics
from tests.support.topic_contract import STREAM, batch, publish, ssp

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

END = EndOfStreamMessage("task-0", 1, stream_id="views")


@pytest.fixture
def between(kafka: Kafka, tmp_path: Path) -> OwnTopics:
    made = KafkaSystem("events", SystemBinding("kafka", {"bootstrap.servers": kafka.address}), str(tmp_path)).own_topics
    made.create([STREAM])
    return made


def at_brokers(between: OwnTopics, name: str = STREAM.name) -> str:
    found = between.topic(name).messages
    assert found is not None
    return str(found["topic"])


def ids(between: OwnTopics, partition: int = 0) -> list[int]:
    runs = [run for run in between.consumer(STREAM).read(ssp(partition), None) if isinstance(run, MessageRun)]
    return [number for run in runs for number in run.batch.column("id").to_pylist()]


def test_a_partition_holds_arrow_batches_and_then_the_control_messages_of_their_producer(between: OwnTopics) -> None:
    mark = WatermarkMessage("task-0", 1, timestamp=9)
    publish(between, 0, {0: batch(0, 5), 2: batch(5, 2)}, (mark, END))
    seen = read_all(between.store.brokers.access.addresses, at_brokers(between))
    values = [[message.value or b"" for message in seen if message.partition == number] for number in range(3)]
    assert [len(found) for found in values] == [3, 2, 3]
    assert unframed(values[0][0], None, "views").column("id").to_pylist() == [0, 1, 2, 3, 4]
    for found in values:
        assert [decode(value, stream="views", partition=0, offset=0) for value in found[-2:]] == [mark, END]


def test_a_topic_keeps_its_messages_until_it_is_deleted(between: OwnTopics, topics: Topics) -> None:
    (asked,) = topics.admin.describe_configs([ConfigResource(ResourceType.TOPIC, at_brokers(between))]).values()
    found = asked.result(60)
    assert (found["retention.ms"].value, found["retention.bytes"].value) == ("-1", "-1")


def test_messages_come_in_the_order_in_which_the_brokers_got_them(between: OwnTopics) -> None:
    writers = [between.producer(STREAM, f"task-{task}") for task in range(2)]
    staged = {}
    for task in (1, 0):
        writers[task].write(0, batch(task * 10, 2))
        staged[task] = writers[task].finish()
    between.publish(STREAM, Publication("app/run/stage", "1.1", 0, staged))
    assert ids(between) == [10, 11, 0, 1]


def test_what_dead_attempts_have_sent_is_passed_by(between: OwnTopics) -> None:
    for epoch in range(3):
        dead = between.producer(STREAM, "dead")
        dead.write(0, batch(1000, 5))
        dead.finish()
        publish(between, epoch, {0: batch(epoch * 2, 2)})
    assert ids(between) == [0, 1, 2, 3, 4, 5]
    assert len(read_all(between.store.brokers.access.addresses, at_brokers(between))) == 6


def noise(rows: int, size: int) -> pa.RecordBatch:
    """Rows that nothing compresses."""
    return pa.record_batch(
        {"id": pa.array(range(rows), pa.int64()), "name": [os.urandom(size // 2).hex() for _ in range(rows)]}
    )


@pytest.mark.parametrize(("rows", "size"), [(40, 300_000), (2, 3_000_000)], ids=["many rows", "large rows"])
def test_no_batch_is_too_large_for_the_topic(between: OwnTopics, rows: int, size: int) -> None:
    sent = noise(rows, size)
    dead, writer = between.producer(STREAM, "dead"), between.producer(STREAM, "task-0")
    for first in range(rows):  # their messages lie among each other
        dead.write(0, sent.slice(first, 1))
        writer.write(0, sent.slice(first, 1))
    staged = {0: writer.finish()}
    dead.finish()
    between.publish(STREAM, Publication("app/run/stage", "1.1", 0, staged))
    runs = [run for run in between.consumer(STREAM).read(ssp(0), None) if isinstance(run, MessageRun)]
    assert pa.Table.from_batches([run.batch for run in runs]).combine_chunks() == pa.Table.from_batches([sent])


def test_a_topic_that_was_deleted_or_made_anew_is_said_to_be(between: OwnTopics, topics: Topics) -> None:
    publish(between, 0, {0: batch(0, 3)})
    writer = between.producer(STREAM, "task-0")
    writer.write(0, batch(3, 3))
    staged = {0: writer.finish()}
    name = at_brokers(between)
    topics.delete(name)
    between.store.brokers.create(name, 3)
    said = "in which the messages of 'views/run 1/1.1' lie, was deleted, or created again"
    with pytest.raises(TopicError, match=said):
        ids(between)
    with pytest.raises(TopicError, match=said):
        between.publish(STREAM, Publication("app/run/stage", "1.1", 1, staged))
    assert between.identity(STREAM) is None  # by which a stage that has begun knows it, too


def test_messages_that_are_gone_are_said_to_be(between: OwnTopics, topics: Topics) -> None:
    publish(between, 0, {0: batch(0, 3)})
    publish(between, 1, {0: batch(3, 3)})
    topics.expire(at_brokers(between), 1)
    with pytest.raises(
        TopicError, match=r"has lost messages of 'views/run 1/1\.1': partition 0 no longer has the one at offset 0"
    ):
        ids(between)


def test_a_topic_with_another_count_at_the_brokers_is_rejected(between: OwnTopics, topics: Topics) -> None:
    identity = json.loads(between.filesystem.read("identity.json"))["identity"]
    other = StreamSpec("views/run 2/1.1", partitions=2)
    between.store.brokers.create(broker_topic(identity, other.name), 5)
    with pytest.raises(TopicError, match="has 5 partitions, and the run was planned with 2"):
        between.create([other])
    assert between.topics() == [STREAM.name]
    assert topics.system.brokers.find(broker_topic(identity, other.name)) is not None


def test_a_topic_is_deleted_with_its_record(between: OwnTopics) -> None:
    name, brokers = at_brokers(between), between.store.brokers
    found = between.expiring(STREAM.name)
    assert found is not None
    assert not found.delete(lambda: True)
    assert brokers.find(name) is not None
    assert found.delete()
    assert brokers.find(name) is None
    assert between.filesystem.list("kafka/events") == []


def test_a_sweep_deletes_what_a_run_has_left_that_died_in_between(between: OwnTopics, tmp_path: Path) -> None:
    name, brokers = at_brokers(between), between.store.brokers
    (tmp_path / between.topic(STREAM.name).directory / "topic.json").unlink()
    files, hours = between.filesystem, 3_600_000
    now = int(Path(tmp_path, "kafka", "events", f"{name}.json").stat().st_mtime * 1000)
    assert sweep(files, "events", now, store=between.store).topics == []  # it may be being made
    assert sweep(files, "events", now + 2 * hours, store=between.store, dry=True).topics == [STREAM.name]
    assert brokers.find(name) is not None
    assert sweep(files, "events", now + 2 * hours, store=between.store).topics == [STREAM.name]
    assert brokers.find(name) is None


def test_the_log_under_the_root_leaves_them_alone_and_says_where_they_lie(between: OwnTopics) -> None:
    publish(between, 0, {0: batch(0, 3)})
    log = LogSystem("log", SystemBinding("log"), between.filesystem.root)
    found = log.expiring(STREAM.name)
    assert found is not None
    found.expire(0)
    assert sweep(log.filesystem, "log").topics == []
    with pytest.raises(TopicError, match="not in the system 'log'") as rejected:
        log.consumer(STREAM)
    assert rejected.value.hint == "Ask that system: --of events"
    assert ids(between) == [0, 1, 2]


def test_two_roots_with_runs_of_one_name_have_topics_of_their_own(between: OwnTopics, tmp_path: Path) -> None:
    other = OwnTopics(between.store.brokers, str(tmp_path / "other"))
    other.create([STREAM])
    publish(other, 0, {0: batch(0, 3)})
    assert at_brokers(other) != at_brokers(between)
    assert ids(between) == []
