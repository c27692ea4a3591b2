"""Reading of input ranges over a real broker: what lies in a range is read, once, and its end is always reached."""

from __future__ import annotations

import datetime
import os
import random

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, SchemaError, TopicError
from airflow_samza.systems.kafka import reading as reading_module
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition, UnreadableRun
from tests.support.kafka_topics import Sent, Topics, end, numbered, offsets, read, rows
from tests.support.waiting import until

pytestmark = pytest.mark.kafka

IDS = "id bigint"


def test_a_range_is_read_up_to_its_end_though_the_topic_has_grown(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, numbered(range(5)))
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    topics.send(topic, numbered(range(5, 9)))
    for _ in range(2):  # a retry reads the same
        found = read(topics.system, stream, fixed)
        assert [row["id"] for row in rows(found)] == [0, 1, 2, 3, 4]
        assert end(found) == 5
    assert len(rows(read(topics.system, stream))) == 9


def test_partitions_are_read_apart(topics: Topics) -> None:
    topic = topics.make(partitions=3)
    for partition in range(3):
        topics.send(topic, numbered(range(partition * 10, partition * 10 + partition), partition))
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    assert fixed["offsets"] == [[0, 0], [0, 1], [0, 2]]
    assert [[row["id"] for row in rows(read(topics.system, stream, fixed, p))] for p in range(3)] == [
        [],
        [10],
        [20, 21],
    ]


def test_an_empty_topic_ends_at_once(topics: Topics) -> None:
    stream = StreamSpec(topics.make(), schema=IDS)
    found = read(topics.system, stream)
    assert rows(found) == []
    assert end(found) == 0


def test_a_part_of_a_range_is_read_without_an_end_of_stream(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, numbered(range(10)))
    stream = StreamSpec(topic, schema=IDS)
    place = SystemStreamPartition("events", topic, 0)
    found = list(topics.system.consumer(stream).read(place, OffsetRange(3, 7)))
    assert offsets(found) == [3, 4, 5, 6]
    assert all(isinstance(envelope, MessageRun) for envelope in found)


def test_aborted_messages_and_markers_are_left_out_and_the_end_is_reached_behind_them(topics: Topics) -> None:
    topic = topics.make()
    topics.transaction(topic, numbered(range(3)))
    topics.transaction(topic, numbered(range(100, 105)), end="abort")
    topics.send(topic, numbered([3]))
    topics.transaction(topic, numbered(range(200, 203)), end="abort")
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    found = read(topics.system, stream, fixed)
    assert [row["id"] for row in rows(found)] == [0, 1, 2, 3]
    assert offsets(found) == [0, 1, 2, 10]
    assert end(found) == 15 == fixed["offsets"][0][1]


def test_messages_of_an_open_transaction_are_of_the_next_range(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, numbered([0]))
    producer = topics.transaction(topic, numbered([1]), end="leave open")
    topics.send(topic, numbered([2]))
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    assert fixed["offsets"] == [[0, 1]]
    assert [row["id"] for row in rows(read(topics.system, stream, fixed))] == [0]
    producer.commit_transaction(60)
    topics.await_markers(topic)
    assert [row["id"] for row in rows(read(topics.system, stream, fixed))] == [0]
    assert [row["id"] for row in rows(read(topics.system, stream))] == [0, 1, 2]


def test_a_compacted_topic_is_read_with_its_holes_and_to_its_end(topics: Topics) -> None:
    topic = topics.make(
        cleanup_policy="compact", segment_bytes="1048576", segment_ms="100", min_cleanable_dirty_ratio="0.01"
    )
    topics.send(topic, [Sent('{"id":1}', "a"), Sent('{"id":2}', "b"), Sent('{"id":3}', "a"), Sent('{"id":4}', "a")])
    stream = StreamSpec(topic, schema=IDS)

    def compacted() -> bool:
        topics.send(topic, [Sent('{"id":9}', "z")])  # a segment is closed by a message behind its time
        return offsets(read(topics.system, stream))[:2] == [1, 3]

    until(compacted)
    found = read(topics.system, stream)
    assert [row["id"] for row in rows(found)][:2] == [2, 4]
    assert end(found) == topics.system.slice(stream)["offsets"][0][1]


def test_what_was_deleted_before_it_was_read_is_an_error_that_counts_it(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, numbered(range(10)))
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    topics.expire(topic, 4)
    with pytest.raises(TopicError, match=r"Up to 4 messages .* are gone: partition 0 .* offsets from 0 up to 4\."):
        read(topics.system, stream, fixed)
    assert [row["id"] for row in rows(read(topics.system, stream))] == [4, 5, 6, 7, 8, 9]


def test_a_stream_that_skips_goes_on_behind_what_was_deleted(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.make()
    topics.send(topic, numbered(range(10)))
    stream = StreamSpec(topic, schema=IDS, options=(("on_expired", "skip"),))
    fixed = topics.system.slice(stream)
    topics.expire(topic, 4)
    found = read(topics.system, stream, fixed)
    assert [row["id"] for row in rows(found)] == [4, 5, 6, 7, 8, 9]
    assert "Up to 4 messages" in caplog.text
    topics.expire(topic, 10)
    found = read(topics.system, stream, fixed)
    assert (rows(found), end(found)) == ([], 10)


def test_what_is_deleted_while_it_is_read_is_an_error_that_counts_it(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in ("_AT_A_TIME", "_BATCH"):
        monkeypatch.setattr(reading_module, bound, 10)
    topic = topics.make()
    padding = "x" * 100_000
    topics.send(topic, [Sent(f'{{"id":{number},"padding":"{padding}"}}') for number in range(600)])
    stream = StreamSpec(topic, schema="id bigint, padding string")
    place = SystemStreamPartition("events", topic, 0)
    reading = topics.system.consumer(stream).read(place, None)
    seen = offsets([next(reading)])
    topics.expire(topic, 590)  # more than the client holds in memory lies between
    with pytest.raises(TopicError, match=r"messages .* are gone: partition 0 .* up to 590\.") as error:
        seen.extend(offset for envelope in reading for offset in offsets([envelope]))
    assert seen == list(range(len(seen)))
    assert f"from {len(seen)} up to" in str(error.value)


def test_rejects_a_topic_that_was_created_again(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, numbered(range(3)))
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    topics.delete(topic)
    with pytest.raises(TopicError, match="There is no topic"):
        read(topics.system, stream, fixed)
    until(lambda: _made(topics))
    topics.send(topic, numbered(range(10, 20)))
    with pytest.raises(TopicError, match="was created again since the run was planned"):
        read(topics.system, stream, fixed)
    with pytest.raises(TopicError, match="was created again since the run was planned"):
        topics.system.has_news(stream, fixed)


def _made(topics: Topics) -> bool:
    """Return whether the topic could be created again: its deletion takes a moment."""
    from confluent_kafka import KafkaException

    try:
        topics.make()
    except KafkaException:
        return False
    return True


def test_rejects_a_topic_that_does_not_exist(topics: Topics) -> None:
    stream = StreamSpec(topics.name("nothing"), schema=IDS)
    assert topics.system.metadata([stream]) == {}
    with pytest.raises(TopicError, match="There is no topic 'nothing-"):
        topics.system.slice(stream)


def test_rejects_another_partition_count_than_the_planned_one(topics: Topics) -> None:
    topic = topics.make(partitions=2)
    stream = StreamSpec(topic, partitions=2, schema=IDS)
    fixed = topics.system.slice(stream)
    topics.widen(topic, 3)
    until(lambda: topics.system.brokers.topic(topic).partitions == 3)
    assert rows(read(topics.system, stream, fixed)) == []
    with pytest.raises(TopicError, match="has 3 partitions, and the run was planned with 2"):
        topics.system.slice(stream)


def test_the_facts_of_messages_are_columns(topics: Topics) -> None:
    topic = topics.make()
    headers = [("trace", b"1"), ("trace", b"2"), ("none", None)]
    topics.send(topic, [Sent('{"id":7}', "k", 1_700_000_000_123, headers=headers), Sent('{"id":8}')])
    options = {f"{fact}_column": f"its_{fact}" for fact in ("key", "timestamp", "partition", "offset", "headers")}
    schema = (
        "id bigint, its_key string, its_timestamp timestamp, its_partition int, its_offset bigint, "
        "its_headers array<struct<key: string, value: binary>>"
    )
    stream = StreamSpec(topic, schema=schema, options=tuple(options.items()))
    first, second = rows(read(topics.system, stream))
    assert first == {
        "id": 7,
        "its_key": "k",
        "its_timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=datetime.timezone.utc),
        "its_partition": 0,
        "its_offset": 0,
        "its_headers": [{"key": name, "value": value} for name, value in headers],
    }
    assert (second["id"], second["its_key"], second["its_offset"], second["its_headers"]) == (8, None, 1, [])
    some = rows(read(topics.system, stream, columns=["its_offset", "its_key"]))
    assert some == [{"its_offset": 0, "its_key": "k"}, {"its_offset": 1, "its_key": None}]


def test_a_stream_without_columns_has_those_of_kafka(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent(b"\xff\x00", b"\xfe", 1000), Sent(None, "gone", 2000)])
    stream = StreamSpec(topic)
    assert [(row["key"], row["value"], row["offset"]) for row in rows(read(topics.system, stream))] == [
        (b"\xfe", b"\xff\x00", 0),
        (b"gone", None, 1),
    ]
    (metadata,) = topics.system.metadata([stream]).values()
    assert metadata.schema is not None
    assert metadata.schema.startswith("key binary, value binary")
    assert (metadata.oldest, metadata.head) == ((0,), (2,))


def test_a_message_without_a_value_is_a_row_of_nulls(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent(None, "a"), Sent('{"id":1}', "b"), Sent(None, "c"), Sent('{"id":2}', "d")])
    stream = StreamSpec(topic, schema="id bigint, k string", options=(("key_column", "k"),))
    assert [(row["id"], row["k"]) for row in rows(read(topics.system, stream))] == [
        (None, "a"),
        (1, "b"),
        (None, "c"),
        (2, "d"),
    ]


def test_a_message_that_cannot_be_read_is_named_by_its_place(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent('{"id":0}'), Sent(None), Sent("no json", headers=[("h", b"1")]), Sent('{"id":3}')])
    with pytest.raises(SchemaError, match=rf"The message at {topic}/0 offset 2 cannot be read by its serde"):
        read(topics.system, StreamSpec(topic, schema=IDS))
    found = read(topics.system, StreamSpec(topic, schema=IDS, tolerant=True))
    bad = [run for run in found if isinstance(run, UnreadableRun)]
    assert [(run.offset, run.texts, run.headers) for run in bad] == [(2, ["no json"], ['[["h", "1"]]'])]
    assert offsets(found) == [0, 1, 2, 3]


def test_keys_are_read_by_the_type_of_their_column(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent('{"id":0}', (7).to_bytes(8, "big")), Sent('{"id":1}'), Sent("no json", b"x")])
    options = (("key_column", "k"),)
    stream = StreamSpec(topic, schema="id bigint, k bigint", options=options, tolerant=True)
    found = read(topics.system, stream)
    good = [run for run in found if isinstance(run, MessageRun) and not isinstance(run, UnreadableRun)]
    assert rows(good) == [{"id": 0, "k": 7}, {"id": 1, "k": None}]
    assert [(run.offset, run.texts) for run in found if isinstance(run, UnreadableRun)] == [(2, ["no json"])]
    with pytest.raises(SchemaError, match="offset 2 cannot be read"):
        read(topics.system, StreamSpec(topic, schema="k bigint", options=options))


def test_random_transactions_are_read_as_a_model_has_them(topics: Topics) -> None:
    seed = int(os.environ.get("KAFKA_SEED", "7"))
    chance = random.Random(seed)
    topic = topics.make()
    expected: list[int] = []
    for number in range(12):
        sent = numbered(range(number * 100, number * 100 + chance.randint(1, 40)))
        how = chance.choice(["plain", "commit", "abort"])
        if how == "plain":
            topics.send(topic, sent)
        else:
            topics.transaction(topic, sent, end=how)
        if how != "abort":
            expected += [int(str(message.key)) for message in sent]
    stream = StreamSpec(topic, schema=IDS)
    fixed = topics.system.slice(stream)
    found = read(topics.system, stream, fixed)
    assert [row["id"] for row in rows(found)] == expected, f"KAFKA_SEED={seed}"
    last = fixed["offsets"][0][1]
    place = SystemStreamPartition("events", topic, 0)
    consumer, cut = topics.system.consumer(stream, fixed), chance.randint(0, last)
    parts = [*consumer.read(place, OffsetRange(0, cut)), *consumer.read(place, OffsetRange(cut, last))]
    assert [row["id"] for row in rows(parts)] == expected, f"KAFKA_SEED={seed} cut={cut}"


@pytest.mark.parametrize(
    ("stream", "sentence"),
    [
        (StreamSpec("x", options=(("key_column", "k"),)), "declares no columns"),
        (StreamSpec("x", schema=IDS, options=(("key_column", "k"),)), "names the column 'k'"),
        (StreamSpec("x", schema="k date", options=(("key_column", "k"),)), "declared date"),
        (StreamSpec("x", schema=IDS, options=(("group.id", "g"),)), "does not know"),
        (StreamSpec("x", schema=IDS, options=(("on_expired", "perhaps"),)), "is not known"),
        (StreamSpec("x", schema="at timestamp", timestamp="at", interval=(0, 1)), "inside of the messages"),
        (
            StreamSpec("x", schema="k string", options=(("key_column", "k"), ("offset_column", "k"))),
            "name one column",
        ),
    ],
)
def test_rejects_options_and_columns_that_cannot_be(stream: StreamSpec, sentence: str, topics: Topics) -> None:
    with pytest.raises((ConfigError, SchemaError), match=sentence):
        topics.system.slice(stream)


def test_two_partitions_are_read_in_turn(topics: Topics) -> None:
    topic = topics.make(partitions=2)
    for partition in range(2):
        topics.send(topic, numbered(range(10), partition))
    stream = StreamSpec(topic, schema=IDS)
    consumer = topics.system.consumer(stream)
    readings = [consumer.read(SystemStreamPartition("events", topic, p), None) for p in range(2)]
    first = [next(reading) for reading in readings]
    readings[0].close()  # type: ignore[attr-defined]
    assert [len(rows([envelope])) for envelope in first] == [10, 10]
    assert end([*readings[1]]) == 10


def test_rejects_a_column_that_there_is_not(topics: Topics) -> None:
    stream = StreamSpec(topics.make(), schema=IDS)
    with pytest.raises(SchemaError, match="no column 'name'"):
        read(topics.system, stream, columns=["name"])


def test_columns_have_the_declared_types(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent('{"id":1}', at=5)])
    schema = "id bigint, at bigint, n bigint"
    stream = StreamSpec(topic, schema=schema, options=(("timestamp_column", "at"), ("partition_column", "n")))
    run = read(topics.system, stream)[0]
    assert isinstance(run, MessageRun)
    assert run.batch.schema.types == [pa.int64()] * 3
    assert run.batch.to_pylist() == [{"id": 1, "at": 5, "n": 0}]


def test_reports_news_when_messages_came_behind_a_range(topics: Topics) -> None:
    topic = topics.make()
    stream = StreamSpec(topic, schema=IDS)
    before = topics.system.slice(stream)
    assert not topics.system.has_news(stream, before)
    topics.send(topic, numbered([1]))
    assert topics.system.has_news(stream, before)
    assert not topics.system.has_news(stream, topics.system.slice(stream))


def test_the_identity_of_a_topic_is_that_of_its_ranges(topics: Topics) -> None:
    stream = StreamSpec(topics.make(), schema=IDS)
    assert topics.system.identity(stream) == topics.system.slice(stream)["topic"]
    assert topics.system.identity(StreamSpec(topics.name("nothing"))) is None
