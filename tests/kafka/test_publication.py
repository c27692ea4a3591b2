"""Outputs over a real broker: each message once, whoever publishes, however often, and in whatever order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.capabilities import OutputClaim
from airflow_samza.systems.kafka import publication as publishing
from airflow_samza.systems.kafka.markers import Markers
from airflow_samza.systems.kafka.publication import Publisher
from airflow_samza.systems.kafka.writing import Writer
from tests.support.kafka_outputs import (
    PRODUCER,
    ids_of,
    new_topic,
    outputs,
    publication,
    read_all,
    rows,
    stage,
    stream,
)

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

HOUR = ("2024-01-01T00:00:00+00:00", "2024-01-01T01:00:00+00:00")


def claim(generation: str = "1.1", run: str = "run", interval: tuple[str, str] | None = None) -> OutputClaim:
    return OutputClaim(f"app/{run}/stage", generation, interval)


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "CHUNK_ROWS", 40)


def test_readers_see_nothing_before_the_publication_and_all_after(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    found.claim(spec, claim())
    staged = stage(found, spec, [rows(0, 60), rows(60, 40)])
    assert read_all(kafka.address, spec.name) == []
    facts = found.publish(spec, publication(staged, final=True))
    assert (facts["topic"], facts["rows"]) == (spec.name, 100)
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(100))


def test_publishing_again_publishes_nothing(kafka: Kafka, tmp_path: Path) -> None:
    spec = stream(new_topic())
    found = outputs(kafka.address, tmp_path)
    found.create([spec])
    staged = stage(found, spec, [rows(0, 30)])
    for _ in range(2):
        assert found.publish(spec, publication(staged))["rows"] == 30
    assert outputs(kafka.address, tmp_path).publish(spec, publication(staged))["rows"] == 30
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(30))


@pytest.mark.usefixtures("small_transactions")
def test_each_transaction_is_seen_whole_and_messages_of_a_key_keep_their_order(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    staged = stage(found, spec, [rows(0, 130)])
    seen: list[int] = []
    commit = Writer.commit

    def noting(writer: Writer, *arguments: Any) -> None:
        seen.append(len(read_all(kafka.address, spec.name)))
        commit(writer, *arguments)

    monkeypatch.setattr(Writer, "commit", noting)
    found.publish(spec, publication(staged))
    assert seen == sorted(set(seen))
    assert len(seen) > 2
    by_key: dict[bytes | None, list[int]] = {}
    for message in read_all(kafka.address, spec.name):
        by_key.setdefault(message.key, []).append(json.loads(message.value or b"")["id"])
    assert sorted(number for ids in by_key.values() for number in ids) == list(range(130))
    assert all(ids == sorted(ids) for ids in by_key.values())


def test_the_epochs_of_a_continuous_run_come_one_by_one(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    found.claim(spec, claim())
    for epoch in range(4):  # the third has no messages
        staged = stage(found, spec, [rows(10 * epoch, 0 if epoch == 2 else 10)])
        found.publish(spec, publication(staged, epoch, final=epoch == 3))
        assert len(read_all(kafka.address, spec.name)) == 10 * (epoch + 1 - (epoch >= 2))
    assert not [*(tmp_path / "topics").rglob("*.arrow")]  # what is published is kept no longer


def test_an_empty_output_publishes_nothing(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    assert found.publish(spec, publication(stage(found, spec, [rows(0, 0)]), final=True))["rows"] == 0
    assert read_all(kafka.address, spec.name) == []
    assert found.standing(spec, PRODUCER) is None


@pytest.mark.usefixtures("small_transactions")
def test_a_zombie_is_fenced_and_its_open_transaction_is_never_seen(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(new_topic(), on_rerun="append")
    later = stream(spec.name, "app/out/run/1.2", on_rerun="append")
    zombie, winner = outputs(kafka.address, tmp_path), outputs(kafka.address, tmp_path)
    zombie.create([spec, later])
    zombie.claim(spec, claim("1.1"))
    staged, again = stage(zombie, spec, [rows(0, 100)]), stage(winner, later, [rows(0, 100)])
    commits: list[object] = []
    commit = Writer.commit

    def interrupted(writer: Writer, *arguments: Any) -> None:
        commits.append(writer)
        if len(commits) == 2:  # the second transaction of the zombie is open, and its messages have been sent
            monkeypatch.setattr(Writer, "commit", commit)
            winner.claim(later, claim("1.2"))
            winner.publish(later, publication(again, generation="1.2"))
        commit(writer, *arguments)

    monkeypatch.setattr(Writer, "commit", interrupted)
    with pytest.raises(TopicError, match=r"Generation 1\.1 may no longer publish.*1\.2 has taken over") as raised:
        zombie.publish(spec, publication(staged))
    assert raised.value.facts["winner"] == "1.2"
    ids = ids_of(read_all(kafka.address, spec.name))
    first = len(ids) - 100
    assert 0 < first < 100  # what the zombie had committed before, which cannot be taken back
    assert sorted(ids) == sorted([*range(first), *range(100)])


def test_a_generation_that_was_superseded_before_it_published_publishes_nothing(kafka: Kafka, tmp_path: Path) -> None:
    spec = stream(new_topic())
    later = stream(spec.name, "app/out/run/1.2")
    zombie, winner = outputs(kafka.address, tmp_path), outputs(kafka.address, tmp_path)
    zombie.create([spec, later])
    zombie.claim(spec, claim("1.1"))
    staged = stage(zombie, spec, [rows(0, 10)])
    winner.claim(later, claim("1.2"))
    with pytest.raises(TopicError, match="has taken over"):
        zombie.publish(spec, publication(staged))
    with pytest.raises(TopicError, match="has taken over"):
        zombie.claim(spec, claim("1.1"))
    assert read_all(kafka.address, spec.name) == []
    winner.publish(later, publication(stage(winner, later, [rows(0, 10)]), generation="1.2"))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(10))


@pytest.mark.usefixtures("small_transactions")
def test_two_publishers_of_one_generation_publish_each_message_once(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(new_topic())
    one, other = outputs(kafka.address, tmp_path), outputs(kafka.address, tmp_path)
    one.create([spec])
    staged = stage(one, spec, [rows(0, 100)])
    commits: list[object] = []
    commit = Writer.commit

    def interrupted(writer: Writer, *arguments: Any) -> None:
        commits.append(writer)
        if len(commits) == 2:
            other.publish(spec, publication(staged))
        commit(writer, *arguments)

    monkeypatch.setattr(Writer, "commit", interrupted)
    one.publish(spec, publication(staged))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(100))


def test_publishers_that_fence_each_other_for_ever_give_up(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(new_topic())
    one, other = outputs(kafka.address, tmp_path), outputs(kafka.address, tmp_path)
    one.create([spec])
    staged = stage(one, spec, [rows(0, 10)])
    begin = Writer.begin

    def interrupted(writer: Writer) -> None:
        begin(writer)
        other._publisher(spec, PRODUCER).take_turn()

    monkeypatch.setattr(Writer, "begin", interrupted)
    with pytest.raises(StorageUnavailable, match="fence each other"):
        one.publish(spec, publication(staged))
    assert read_all(kafka.address, spec.name) == []


def test_at_least_once_needs_no_transaction_and_publishes_what_was_staged(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reject(*_: object) -> None:
        raise AssertionError("a transaction")

    monkeypatch.setattr(Writer, "_call", reject)
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic(), delivery="at_least_once")
    found.create([spec])
    found.check_writable(spec)
    assert "at least once" in found.describe_output(spec, claim())
    found.claim(spec, claim())
    for epoch in range(2):
        staged = stage(found, spec, [rows(50 * epoch, 50)])
        for _ in range(2):
            found.publish(spec, publication(staged, epoch))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(100))


def test_rejects_a_rerun_of_what_is_published(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    found.claim(spec, claim(interval=HOUR))
    found.publish(spec, publication(stage(found, spec, [rows(0, 12)])))
    sentence = "12 messages are published to .* already, by generation 1.1 of this run: messages cannot be taken back"
    for ask in (found.describe_output, found.claim):
        with pytest.raises(TopicError, match=sentence):
            ask(spec, claim("2.1", interval=HOUR))  # a clear of the plan
        with pytest.raises(TopicError, match="already, by the run 'run'"):
            ask(spec, claim(run="backfill", interval=HOUR))
        ask(spec, claim(run="next", interval=(HOUR[1], "2024-01-01T02:00:00+00:00")))
    found.claim(spec, claim(interval=HOUR))  # a retry is no rerun
    assert len(read_all(kafka.address, spec.name)) == 12


def test_appends_a_rerun_where_the_output_permits_it(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic(), on_rerun="append")
    later = stream(spec.name, "app/out/run/2.1", on_rerun="append")
    found.create([spec, later])
    found.claim(spec, claim(interval=HOUR))
    found.publish(spec, publication(stage(found, spec, [rows(0, 12)])))
    assert "12 messages are published already by generation 1.1" in found.describe_output(
        later, claim("2.1", interval=HOUR)
    )
    found.claim(later, claim("2.1", interval=HOUR))
    found.publish(later, publication(stage(found, later, [rows(0, 12)]), generation="2.1"))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == sorted([*range(12), *range(12)])
    assert found.standing(spec, PRODUCER) == "2.1"


def test_runs_under_different_roots_know_nothing_of_each_other(kafka: Kafka, tmp_path: Path) -> None:
    spec = stream(new_topic())
    for root in ("production", "trial"):
        found = outputs(kafka.address, tmp_path / root)
        found.create([spec])
        found.claim(spec, claim(interval=HOUR))
        found.publish(spec, publication(stage(found, spec, [rows(0, 5)])))
    assert len(read_all(kafka.address, spec.name)) == 10


def test_rejects_a_publication_whose_marker_has_vanished(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = stream(new_topic())
    outputs(kafka.address, tmp_path).create([spec])
    outputs(kafka.address, tmp_path).claim(spec, claim())
    monkeypatch.setattr(Markers, "read", lambda *_: {})
    found = outputs(kafka.address, tmp_path)
    with pytest.raises(TopicError, match="does not have the marker of this run's output"):
        found.publish(spec, publication(stage(found, spec, [rows(0, 5)])))
    assert read_all(kafka.address, spec.name) == []


def test_makes_a_topic_that_is_missing_with_the_planned_count_and_rejects_another_one(
    kafka: Kafka, tmp_path: Path
) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    topic = found.brokers.find(spec.name)
    assert topic is not None
    assert topic.partitions == 3
    other = stream(spec.name)
    with pytest.raises(TopicError, match="has 3 partitions, and the run was planned with 4"):
        found.create([other.__class__(**{**vars(other), "partitions": 4})])


def test_rejects_a_publication_to_a_topic_that_is_gone(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    staged = stage(found, spec, [rows(0, 5)])
    admin = AdminClient({"bootstrap.servers": kafka.address})
    (deleted,) = admin.delete_topics([spec.name]).values()
    deleted.result(30)
    with pytest.raises(TopicError, match=f"There is no topic '{spec.name}'"):
        found.publish(spec, publication(staged))


def test_rejects_a_message_that_no_broker_takes_before_anything_is_committed(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    producer = found.producer(spec, "task-0")
    large = pa.record_batch({"id": pa.array([1, 2], pa.int64()), "name": ["small", "x" * 800_000]})
    with pytest.raises(TopicError, match=r"with the key 'x+…' has 1,600,0\d\d bytes, and the topic takes 1,048,588"):
        producer.write_keyed(large, spec.key)


def test_messages_that_brokers_do_not_take_are_published_by_the_next_try(kafka: Kafka, tmp_path: Path) -> None:
    found, spec = outputs(kafka.address, tmp_path), stream(new_topic())
    found.create([spec])
    staged = stage(found, spec, [rows(0, 20)])
    away = outputs("127.0.0.1:1", tmp_path, patience=1.0)
    away._largest = {spec.name: 1_000_000}
    away.brokers.find = found.brokers.find  # type: ignore[method-assign]
    with pytest.raises(StorageUnavailable):
        away.publish(spec, publication(staged))
    found.publish(spec, publication(staged))
    assert sorted(ids_of(read_all(kafka.address, spec.name))) == list(range(20))


def test_a_look_at_markers_waits_for_what_had_begun(kafka: Kafka, tmp_path: Path) -> None:
    spec = stream(new_topic())
    found = outputs(kafka.address, tmp_path, patience=2.0)
    found.create([spec])
    publisher: Publisher = found._publisher(spec, PRODUCER)
    publisher.take_turn()
    assert publisher._writer is not None
    publisher._writer.begin()
    publisher._writer._client.produce(found._markers.name, b"{}", publisher._key, publisher._partition)
    publisher._writer._client.flush()
    with pytest.raises(StorageUnavailable, match="could not be read up to their end"):
        outputs(kafka.address, tmp_path, patience=1.0).describe_output(spec, claim())
    publisher.take_turn()  # which ends the open transaction
    assert publisher.marker is None
