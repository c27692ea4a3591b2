"""Waiting for topics from Airflow: the watcher of an asset, and the sensor on a consumer group's lag."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from airflow.sdk import Asset, AssetWatcher, BaseHook, Connection
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from airflow_samza.assets import kafka_topic
from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import AirflowException, AirflowNotFoundException, TaskDeferred
from airflow_samza.provider.triggers import kafka as kafka_triggers
from airflow_samza.sensors import SamzaKafkaLagSensor
from airflow_samza.systems.kafka.group_offsets import commit_offsets
from airflow_samza.triggers import KafkaLagTrigger, KafkaMessagesTrigger
from demo.kafka import Kafka
from tests.support.airflow_names import deserialize, serialize
from tests.support.kafka_topics import Topics, numbered
from tests.support.kafka_users import logged_in

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

GROUP = "readers"


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch, kafka: Kafka) -> dict[str, Connection]:
    """Airflow's connections, by id."""
    known = {"kafka_default": connection(kafka.address)}

    def get(conn_id: str) -> Connection:
        if conn_id not in known:
            raise AirflowNotFoundException(conn_id)
        return known[conn_id]

    monkeypatch.setattr(BaseHook, "get_connection", get)
    monkeypatch.setattr(kafka_triggers, "STORED_SECONDS", 0.05)
    return known


def connection(address: str, **extra: str) -> Connection:
    text = json.dumps({"bootstrap.servers": address, **extra})
    return Connection(conn_id="kafka_default", conn_type="kafka", extra=text)


@pytest.fixture
def topic(topics: Topics) -> str:
    return topics.make(partitions=2)


class Store:
    """The state of the one asset that a trigger watches, as Airflow 3.3 gives it."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))


def trigger(topic: str, store: Any = None, **given: Any) -> KafkaMessagesTrigger:
    """A trigger as a triggerer makes it, from what was stored."""
    made = KafkaMessagesTrigger(topic=topic, **{"poll_interval": 0.1, **given})
    found: KafkaMessagesTrigger = _again(made)
    found.asset_state_store = store
    return found


def _again(made: Any) -> Any:
    _, arguments = made.serialize()
    stored: Any = deserialize(serialize(arguments))
    return type(made)(**stored)


@asynccontextmanager
async def watching(watcher: KafkaMessagesTrigger) -> AsyncIterator[Callable[[], asyncio.Task[Any]]]:
    """Makes a task that waits for the next event of a trigger; at the end it is cancelled, as triggerers do."""
    events: Any = watcher.run()
    waiting: list[asyncio.Task[Any]] = []

    async def next_payload() -> Any:
        return (await asyncio.wait_for(anext(events), 60)).payload

    def following() -> asyncio.Task[Any]:
        waiting.append(asyncio.create_task(next_payload()))
        return waiting[-1]

    try:
        yield following
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await events.aclose()


def first_event(watcher: KafkaMessagesTrigger) -> dict[str, Any]:
    async def play() -> dict[str, Any]:
        async with watching(watcher) as following:
            return dict(await following())

    return asyncio.run(play())


def test_messages_are_announced_once_by_partition(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1, 2]))

    async def play() -> None:
        async with watching(trigger(topic)) as following:
            found = await following()
            assert (found["topic"], found["messages"], found["offsets"]) == (topic, 2, [[0, 2], [0, 0]])
            topics.send(topic, numbered([3], 1))
            found = await following()
            assert (found["messages"], found["offsets"]) == (1, [[2, 2], [0, 1]])

    asyncio.run(play())


def test_what_is_not_committed_is_no_news(topics: Topics, topic: str) -> None:
    producer = topics.transaction(topic, numbered([1]), end="leave open")

    async def play() -> None:
        async with watching(trigger(topic)) as following:
            event = following()
            topics.send(topic, numbered([2], 1))
            found = await event
            assert found["offsets"] == [[0, 0], [0, 1]]
            producer.commit_transaction(30)
            topics.await_markers(topic)
            assert (await following())["offsets"] == [[0, 2], [1, 1]]

    asyncio.run(play())


def test_a_triggerer_that_starts_again_goes_on_behind_what_was_announced(topics: Topics, topic: str) -> None:
    store = Store()
    topics.send(topic, numbered([1, 2]))

    async def play() -> None:
        async with watching(trigger(topic, store)) as following:
            await following()
            following()
            while not store.kept:
                await asyncio.sleep(0.01)

    asyncio.run(play())
    topics.send(topic, numbered([3]))
    assert first_event(trigger(topic, store))["offsets"] == [[2, 3], [0, 0]]


def test_what_was_not_stored_yet_is_announced_again(topics: Topics, topic: str) -> None:
    store = Store()
    topics.send(topic, numbered([1, 2]))
    assert first_event(trigger(topic, store))["messages"] == 2  # the triggerer dies here
    assert first_event(trigger(topic, store))["messages"] == 2


def test_without_a_store_everything_is_announced_once_more(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1, 2]))
    assert first_event(trigger(topic))["messages"] == 2
    assert first_event(trigger(topic))["messages"] == 2


def test_a_store_that_fails_stops_no_watch(topics: Topics, topic: str) -> None:
    class Broken(Store):
        async def aget(self, key: str, default: Any = None) -> Any:
            raise ValueError("several assets")

        async def aset(self, key: str, value: Any) -> None:
            raise ValueError("several assets")

    topics.send(topic, numbered([1]))

    async def play() -> None:
        async with watching(trigger(topic, Broken())) as following:
            await following()
            topics.send(topic, numbered([2]))
            assert (await following())["messages"] == 1

    asyncio.run(play())


def test_few_messages_wait_for_more(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1, 2]))

    async def play() -> None:
        async with watching(trigger(topic, min_messages=3)) as following:
            event = following()
            await asyncio.sleep(0.5)
            topics.send(topic, numbered([3], 1))
            assert (await event)["messages"] == 3

    asyncio.run(play())


def test_events_keep_their_distance_also_over_a_restart(
    topics: Topics, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, slept = Store(), []
    store.kept[kafka_triggers.ANNOUNCED] = {"topic_id": "another", "ends": [], "at": time.time()}

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        topics.send(topic, numbered([1]))

    monkeypatch.setattr("airflow_samza.provider.triggers.kafka.asyncio.sleep", sleep)
    assert first_event(trigger(topic, store, at_most_every=3600))["messages"] == 1
    assert 3500 < slept[0] <= 3600


def test_a_topic_that_is_created_again_is_news_from_its_beginning(topics: Topics, topic: str) -> None:
    store = Store()
    store.kept[kafka_triggers.ANNOUNCED] = {"topic_id": "a former one", "ends": [7, 7], "at": 0.0}
    topics.send(topic, numbered([1]))
    assert first_event(trigger(topic, store))["offsets"] == [[0, 1], [0, 0]]


@pytest.mark.parametrize("missing", ["topic", "connection", "brokers"])
def test_what_is_missing_is_a_warning_and_the_watch_goes_on(
    missing: str,
    topics: Topics,
    connections: dict[str, Connection],
    kafka: Kafka,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = topics.name("later")
    if missing == "connection":
        del connections["kafka_default"]
    elif missing == "brokers":
        connections["kafka_default"] = connection("127.0.0.1:1")
    sentences = {
        "topic": f"There is no topic '{name}'",
        "connection": "The connection 'kafka_default' is not defined",
        "brokers": "The brokers 127.0.0.1:1 of the system 'kafka_default' cannot be asked",
    }

    async def play() -> None:
        watcher = trigger(name)
        async with watching(watcher) as following:
            event = following()
            while sentences[missing] not in caplog.text:
                await asyncio.sleep(0.05)
            connections["kafka_default"] = connection(kafka.address)
            topics.make("later")
            topics.send(name, numbered([1]))
            assert (await event)["messages"] == 1
        assert caplog.text.count(sentences[missing]) == 1

    monkeypatch.setattr("airflow_samza.provider.connections.kafka.ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(KafkaMessagesTrigger, "log", logging.getLogger("watched"))
    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(play(), 60))


def test_the_event_loop_never_waits_for_brokers(
    connections: dict[str, Connection], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.provider.connections.kafka.ANSWER_SECONDS", 1.0)
    connections["kafka_default"] = connection("127.0.0.1:1")

    async def play() -> int:
        async with watching(trigger(topic)) as following:
            event = following()
            turns = 0
            while turns < 100:  # each a moment; brokers that are not there are waited for much longer
                await asyncio.sleep(0.001)
                turns += 1
            assert not event.done()
            return turns

    assert asyncio.run(play()) == 100


def test_equal_watchers_are_one_for_airflow(topic: str) -> None:
    one, other = KafkaMessagesTrigger(topic=topic), KafkaMessagesTrigger(topic=topic, min_messages=1)
    assert BaseEventTrigger.hash(*one.serialize()) == BaseEventTrigger.hash(*other.serialize())
    more = KafkaMessagesTrigger(topic=topic, min_messages=2)
    assert BaseEventTrigger.hash(*one.serialize()) != BaseEventTrigger.hash(*more.serialize())


def test_a_topics_asset_takes_the_watcher(topic: str) -> None:
    watcher = AssetWatcher(name="views", trigger=KafkaMessagesTrigger(topic=topic))
    assert kafka_topic(topic, "kafka:9092", watchers=[watcher]).watchers == [watcher]


@pytest.mark.parametrize("wrong", [{"min_messages": 0}, {"at_most_every": -1}, {"poll_interval": 0}])
def test_numbers_that_cannot_be_are_rejected(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=rf"{name}=.* of the trigger on the topic 'views' is too little"):
        KafkaMessagesTrigger(topic="views", **wrong)


# -- the lag of a group ------------------------------------------------------------------------------------------------


def sensor(topic: str, **given: Any) -> SamzaKafkaLagSensor:
    usual: dict[str, Any] = {"task_id": "lag", "group": GROUP, "topics": [topic], "deferrable": False}
    return SamzaKafkaLagSensor(**{**usual, "poke_interval": 0.05, **given})


def test_a_group_that_has_read_all_but_so_much_is_enough(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1, 2, 3]))
    found = sensor(topic, at_most=1)
    assert not found.poke({}).is_done
    commit_offsets(topics.system.brokers, GROUP, topic, {0: 2})
    reached = found.poke({})
    assert (bool(reached.is_done), reached.xcom_value) == (True, {topic: 1})
    assert not sensor(topic, at_most="0").poke({}).is_done


def test_what_is_expired_is_no_lag(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1, 2, 3]))
    topics.expire(topic, 2)
    assert sensor(topic, at_most=1).poke({}).xcom_value == {topic: 1}


def test_a_sensor_waits_deferred_and_looks_again(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1]))
    waiting = sensor(topic, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    assert isinstance(deferred.value.trigger, KafkaLagTrigger)
    commit_offsets(topics.system.brokers, GROUP, topic, {0: 1})
    assert asyncio.run(ended(_again(deferred.value.trigger))) is None
    assert waiting.execute_complete({}, None, **(deferred.value.kwargs or {})) == {topic: 0}


async def ended(waiting: KafkaLagTrigger) -> Any:
    event: TriggerEvent = await asyncio.wait_for(anext(waiting.run()), 60)
    return event.payload


def test_what_no_time_fixes_is_said_by_the_task(topics: Topics, topic: str) -> None:
    topics.send(topic, numbered([1]))
    waiting = sensor(topic, deferrable=True)
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    topics.delete(topic)
    asyncio.run(ended(_again(deferred.value.trigger)))
    with pytest.raises(AirflowException, match=rf"There is no topic '{topic}' in the system 'kafka_default'"):
        waiting.execute_complete({}, None, **(deferred.value.kwargs or {}))


def test_brokers_that_are_away_are_waited_for(
    connections: dict[str, Connection], topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.provider.connections.kafka.ANSWER_SECONDS", 0.5)
    connections["kafka_default"] = connection("127.0.0.1:1")
    assert not sensor(topic).poke({}).is_done
    with pytest.raises(TaskDeferred):
        sensor(topic, deferrable=True).execute({})


@pytest.fixture
def wrong_password(kafka: Kafka, connections: dict[str, Connection]) -> None:
    connections["kafka_default"] = connection(
        kafka.sasl_address, **{**logged_in(kafka, "bob"), "sasl.password": "wrong"}
    )


def test_a_wrong_password_is_one_sentence(wrong_password: None, topic: str) -> None:
    with pytest.raises(AirflowException, match="do not let the user 'bob' in by SCRAM-SHA-512"):
        sensor(topic).poke({})


@pytest.mark.parametrize(
    ("conn_id", "sentence"),
    [("nowhere", "The connection 'nowhere' is not defined"), ("files", "is of type 'fs', and brokers of Kafka")],
)
def test_a_connection_that_leads_nowhere_is_one_sentence(
    conn_id: str, sentence: str, topic: str, connections: dict[str, Connection]
) -> None:
    connections["files"] = Connection(conn_id="files", conn_type="fs", extra='{"path": "/data"}')
    with pytest.raises(AirflowException, match=sentence):
        sensor(topic, kafka_conn_id=conn_id).poke({})


def test_a_bound_that_is_no_number_is_rejected(topic: str) -> None:
    with pytest.raises(AirflowException, match="at_most='some' of the task 'lag' is no number of offsets"):
        sensor(topic, at_most="some").poke({})


# -- assets ------------------------------------------------------------------------------------------------------------


def test_a_topic_has_one_uri_whatever_the_order_of_its_brokers() -> None:
    uri = "kafka://kafka-1:9092,kafka-2:9093/views"
    assert kafka_topic("views", "kafka-2:9093,kafka-1").uri == uri
    assert kafka_topic("views", ["SASL_SSL://Kafka-1:9092", "kafka-2:9093"]).uri == uri
    assert Asset("views", uri="kafka://kafka-2:9093,kafka-1/views/").uri == uri  # as Airflow makes it, by our handler


def test_an_asset_without_a_topic_or_brokers_is_rejected() -> None:
    with pytest.raises(ConfigError, match="has no brokers"):
        kafka_topic("views", " ")
    with pytest.raises(ConfigError, match="has no topic"):
        kafka_topic("", "kafka")
    with pytest.raises(ValueError, match="is not of the form kafka://broker:9092/topic"):
        Asset("views", uri="kafka://kafka-1/a/b")
