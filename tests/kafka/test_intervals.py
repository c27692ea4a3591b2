"""Input ranges of a data interval over a real broker: exactly the messages whose timestamps lie in it."""

from __future__ import annotations

import random
import time

import pytest

from airflow_samza.systems.system import StreamSpec
from tests.support.kafka_topics import Sent, Topics, end, offsets, read, rows

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

HOUR = 3_600_000
NOON = 1_700_000_000_000


def sliced(topic: str, first: int, last: int) -> StreamSpec:
    """The stream of an interval [first, last) in milliseconds."""
    return StreamSpec(
        topic,
        schema="id bigint, sent timestamp",
        timestamp="sent",
        interval=(first * 1000, last * 1000),
        options=(("timestamp_column", "sent"),),
    )


def ids(topics: Topics, stream: StreamSpec) -> list[int]:
    return [row["id"] for row in rows(read(topics.system, stream, topics.system.slice(stream)))]


def test_messages_out_of_the_order_of_time_are_each_of_one_interval(topics: Topics) -> None:
    topic, chance = topics.make(), random.Random(3)
    times = [NOON + chance.randint(-HOUR, 2 * HOUR) for _ in range(300)]
    times[7], times[11] = NOON, NOON + HOUR  # the first of an interval, and the first behind it
    topics.send(topic, [Sent(f'{{"id":{number}}}', at=at) for number, at in enumerate(times)])
    for first in (NOON - HOUR, NOON, NOON + HOUR):
        expected = [number for number, at in enumerate(times) if first <= at < first + HOUR]
        assert ids(topics, sliced(topic, first, first + HOUR)) == expected


def test_late_messages_behind_the_markers_of_transactions_are_read(topics: Topics) -> None:
    """A marker has the brokers' time, years behind the replayed messages, and ends no interval."""
    topic = topics.make()
    topics.transaction(topic, [Sent('{"id":0}', at=NOON)])
    topics.transaction(topic, [Sent('{"id":1}', at=NOON + HOUR)])
    topics.transaction(topic, [Sent('{"id":2}', at=NOON + 1)])
    assert ids(topics, sliced(topic, NOON, NOON + HOUR)) == [0, 2]
    assert ids(topics, sliced(topic, NOON + HOUR, NOON + 2 * HOUR)) == [1]


def test_an_interval_without_messages_is_complete_and_empty(topics: Topics) -> None:
    topic = topics.make(partitions=2)
    topics.send(topic, [Sent('{"id":0}', at=NOON)])
    for first in (NOON - HOUR, NOON + 1, NOON + HOUR):
        stream = sliced(topic, first, first + 1)
        fixed = topics.system.slice(stream)
        for partition in range(2):
            found = read(topics.system, stream, fixed, partition)
            assert rows(found) == []
            assert end(found) == fixed["offsets"][partition][1]
    assert topics.system.slice(sliced(topic, NOON + 1, NOON + 2))["offsets"] == [[1, 1], [0, 0]]


def test_where_brokers_set_the_times_the_range_ends_with_the_interval(topics: Topics) -> None:
    topic = topics.make(message_timestamp_type="LogAppendTime")
    ends = []
    for number in range(3):
        topics.send(topic, [Sent(f'{{"id":{number}}}', at=NOON)])
        ends.append(time.time_ns() // 1_000_000 + 1)
        while time.time_ns() // 1_000_000 <= ends[-1]:
            pass
    stream = sliced(topic, ends[0], ends[1])
    assert topics.system.slice(stream)["offsets"] == [[1, 2]]
    assert ids(topics, stream) == [1]


def test_a_range_by_time_starts_at_the_first_message_of_its_time(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number}}}', at=NOON + number) for number in range(100)])
    stream = sliced(topic, NOON + 90, NOON + 95)
    fixed = topics.system.slice(stream)
    assert fixed["offsets"] == [[90, 100]]
    assert offsets(read(topics.system, stream, fixed)) == [90, 91, 92, 93, 94]


def test_messages_that_come_after_the_plan_are_of_no_interval_of_it(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent('{"id":0}', at=NOON)])
    stream = sliced(topic, NOON, NOON + HOUR)
    fixed = topics.system.slice(stream)
    topics.send(topic, [Sent('{"id":1}', at=NOON)])
    assert [row["id"] for row in rows(read(topics.system, stream, fixed))] == [0]
    assert ids(topics, stream) == [0, 1]


def test_the_bounds_of_an_interval_are_exact_below_a_millisecond(topics: Topics) -> None:
    topic = topics.make()
    topics.send(topic, [Sent(f'{{"id":{number}}}', at=NOON + number) for number in range(4)])
    spec = sliced(topic, NOON, NOON)
    half = StreamSpec(
        spec.name,
        schema=spec.schema,
        timestamp="sent",
        options=spec.options,
        interval=(NOON * 1000 + 500, NOON * 1000 + 2500),
    )
    assert ids(topics, half) == [1, 2]
