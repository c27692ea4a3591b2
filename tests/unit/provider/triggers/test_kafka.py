"""Triggers on topics of Kafka: what they announce, what they remember, and what they wait for."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, StorageUnavailable
from airflow_samza.provider.triggers import client_threads, kafka as kafka_triggers
from airflow_samza.provider.triggers.kafka import ANNOUNCED, STORED_SECONDS, KafkaLagTrigger, KafkaMessagesTrigger
from airflow_samza.runs.records.liveness import identity
from tests.support.airflow_names import deserialize, serialize
from tests.support.known_topics import KnownTopics

AWAY = StorageUnavailable("The brokers are away.")


class Script:
    """The pauses of a trigger, which end at once; ``meanwhile`` is what happens in them, one after the other."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self.meanwhile: list[Callable[[], object]] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        assert len(self.pauses) < 50, "it waits for ever"
        if self.meanwhile:
            self.meanwhile.pop(0)()


class Store:
    """The state of the one asset that a trigger watches, as Airflow 3.3 gives it."""

    def __init__(self, kept: Any = None) -> None:
        self.kept = {} if kept is None else {ANNOUNCED: kept}

    async def aget(self, key: str, default: Any = None) -> Any:
        return self.kept.get(key, default)

    async def aset(self, key: str, value: Any) -> None:
        self.kept[key] = json.loads(json.dumps(value))


class BrokenStore(Store):
    async def aget(self, key: str, default: Any = None) -> Any:
        raise ValueError("several assets")

    async def aset(self, key: str, value: Any) -> None:
        raise ValueError("several assets")


@pytest.fixture
def brokers() -> KnownTopics:
    return KnownTopics({"views": [2, 0]})


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    script = Script()
    for module in (kafka_triggers, client_threads):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=script.sleep))
    return script


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, brokers: KnownTopics) -> list[str]:
    """The connections of which brokers were asked for."""
    asked: list[str] = []

    def find_brokers(conn_id: str) -> KnownTopics:
        asked.append(conn_id)
        return brokers

    monkeypatch.setattr(kafka_triggers, "find_brokers", find_brokers)
    return asked


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    for kind in (KafkaMessagesTrigger, KafkaLagTrigger):
        monkeypatch.setattr(kind, "log", logging.getLogger("watched"))
    caplog.set_level(logging.INFO, "watched")
    return caplog


def watcher(store: Any = None, **given: Any) -> KafkaMessagesTrigger:
    made = KafkaMessagesTrigger(topic="views", **given)
    if store is not None:
        made.asset_state_store = store
    return made


def events(trigger: KafkaMessagesTrigger, count: int = 1) -> list[dict[str, Any]]:
    """Return the first events of a trigger, which ends then as a triggerer ends it."""

    async def watch() -> list[dict[str, Any]]:
        watching: Any = trigger.run()
        try:
            return [(await anext(watching)).payload for _ in range(count)]
        finally:
            await watching.aclose()

    return asyncio.run(asyncio.wait_for(watch(), 60))


# -- messages of a topic -----------------------------------------------------------------------------------------------


def test_each_message_is_announced_once_by_partition(brokers: KnownTopics, script: Script, asked: list[str]) -> None:
    script.meanwhile = [lambda: None, lambda: brokers.ends.update(views=[2, 1])]
    first, second = events(watcher(), 2)
    assert first == {"topic": "views", "topic_id": "views-1", "messages": 2, "offsets": [[0, 2], [0, 0]]}
    assert (second["messages"], second["offsets"]) == (1, [[2, 2], [0, 1]])


def test_nothing_new_is_no_event(brokers: KnownTopics, script: Script, asked: list[str]) -> None:
    brokers.ends["views"] = [0, 0]
    script.meanwhile = [lambda: None, lambda: None, lambda: brokers.ends.update(views=[0, 1])]
    assert events(watcher())[0]["offsets"] == [[0, 0], [0, 1]]
    assert len(script.pauses) == 3


def test_few_messages_wait_until_there_are_enough(brokers: KnownTopics, script: Script, asked: list[str]) -> None:
    script.meanwhile = [lambda: brokers.ends.update(views=[2, 1])]
    assert events(watcher(min_messages=3))[0]["messages"] == 3
    assert script.pauses == [10.0]


def test_the_position_is_kept_once_airflow_has_stored_the_event(
    brokers: KnownTopics, script: Script, asked: list[str]
) -> None:
    store, kept_before_the_pause = Store(), []
    script.meanwhile = [lambda: kept_before_the_pause.append(dict(store.kept))]
    script.meanwhile += [lambda: brokers.ends.update(views=[3, 0])]
    before = time.time()
    events(watcher(store), 2)
    assert script.pauses[0] == STORED_SECONDS
    assert kept_before_the_pause == [{}]
    kept = store.kept[ANNOUNCED]
    assert (kept["topic_id"], kept["ends"]) == ("views-1", [2, 0])
    assert before <= kept["at"] <= time.time()


def test_a_triggerer_that_starts_again_goes_on_behind_what_was_announced(
    brokers: KnownTopics, script: Script, asked: list[str]
) -> None:
    brokers.ends["views"] = [3, 0]
    store = Store({"topic_id": "views-1", "ends": [2, 0], "at": 0.0})
    assert events(watcher(store))[0]["offsets"] == [[2, 3], [0, 0]]


@pytest.mark.parametrize("store", [None, Store(), Store("of another release"), BrokenStore()])
def test_all_is_announced_where_no_position_is_known(store: Any, script: Script, asked: list[str]) -> None:
    assert events(watcher(store))[0]["offsets"] == [[0, 2], [0, 0]]


def test_a_store_that_fails_is_a_warning_and_the_watch_goes_on(
    brokers: KnownTopics, script: Script, asked: list[str], told: pytest.LogCaptureFixture
) -> None:
    script.meanwhile = [lambda: None, lambda: brokers.ends.update(views=[3, 0])]
    assert [event["messages"] for event in events(watcher(BrokenStore()), 2)] == [2, 1]
    assert "What was announced of the topic 'views' is not known: several assets" in told.text
    assert "What was announced of the topic 'views' cannot be kept: several assets" in told.text


def test_events_keep_their_distance_also_over_a_restart(script: Script, asked: list[str], brokers: KnownTopics) -> None:
    store = Store({"topic_id": "views-1", "ends": [2, 0], "at": time.time()})
    script.meanwhile = [lambda: brokers.ends.update(views=[3, 0])]
    events(watcher(store, at_most_every=timedelta(hours=1)))
    assert script.pauses == [pytest.approx(3600, abs=60)]


def test_without_a_distance_looks_are_a_poll_interval_apart(
    script: Script, asked: list[str], brokers: KnownTopics
) -> None:
    store = Store({"topic_id": "views-1", "ends": [2, 0], "at": time.time()})
    script.meanwhile = [lambda: brokers.ends.update(views=[3, 0])]
    events(watcher(store, poll_interval=timedelta(seconds=7)))
    assert script.pauses == [7.0]


def test_brokers_are_looked_up_once_while_they_answer(script: Script, asked: list[str], brokers: KnownTopics) -> None:
    script.meanwhile = [lambda: None, lambda: None, lambda: brokers.ends.update(views=[2, 1])]
    events(watcher(conn_id="kafka_eu"), 2)
    assert asked == ["kafka_eu"]


def test_a_watch_of_brokers_that_fail_goes_on_by_the_connection_as_it_is_then(
    brokers: KnownTopics, script: Script, asked: list[str], told: pytest.LogCaptureFixture
) -> None:
    brokers.failing = [AWAY, AWAY, ValueError("no answer of Kafka's")]
    assert events(watcher())[0]["messages"] == 2
    assert asked == ["kafka_default"] * 4
    assert [record.getMessage() for record in told.records] == [  # the same problem is logged once
        "The topic 'views' cannot be watched at present: The brokers are away.",
        "The topic 'views' cannot be watched at present: ValueError: no answer of Kafka's",
        "The topic 'views' is watched again.",
    ]


def test_a_problem_that_comes_back_is_logged_again(
    brokers: KnownTopics, script: Script, asked: list[str], told: pytest.LogCaptureFixture
) -> None:
    brokers.failing = [AWAY]
    script.meanwhile = [lambda: None, lambda: None, lambda: brokers.failing.append(AWAY)]
    script.meanwhile += [lambda: brokers.ends.update(views=[3, 0])]
    events(watcher(), 2)
    assert told.text.count("cannot be watched at present") == 2


def test_a_watcher_made_anew_elsewhere_is_the_same() -> None:
    made = watcher(conn_id="c", min_messages=3, at_most_every=timedelta(minutes=1), poll_interval=5)
    path, arguments = made.serialize()
    assert path == "airflow_samza.triggers.KafkaMessagesTrigger"
    stored: Any = serialize(arguments)
    again: Any = deserialize(stored)
    assert KafkaMessagesTrigger(**again).serialize() == made.serialize()
    assert again == {"topic": "views", "conn_id": "c", "min_messages": 3, "at_most_every": 60.0, "poll_interval": 5.0}


@pytest.mark.parametrize(
    ("name", "least", "too_little"), [("min_messages", 1, 0), ("at_most_every", 0.0, -1), ("poll_interval", 0.1, 0.09)]
)
def test_numbers_that_cannot_be_are_rejected(name: str, least: Any, too_little: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{name}=.* of the trigger on the topic 'views' is too little") as raised:
        watcher(**{name: too_little})
    assert raised.value.hint == f"Give at least {least}."
    watcher(**{name: least})


# -- the lag of a group ------------------------------------------------------------------------------------------------


def lag_trigger(**given: Any) -> KafkaLagTrigger:
    usual = {"conn_id": "kafka_eu", "group": "readers", "topics": ["views"], "at_most": 1, "poll_interval": 3.0}
    return KafkaLagTrigger(**{**usual, **given})


def test_a_lag_is_waited_for_until_it_is_small_enough(
    brokers: KnownTopics,
    script: Script,
    asked: list[str],
    told: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers.answer_for_groups(monkeypatch)
    script.meanwhile = [lambda: None, lambda: brokers.committed.update({("readers", "views"): {0: 1}})]
    assert events_of_lag(lag_trigger()) == [None]
    assert script.pauses == [3.0, 3.0]
    assert asked == ["kafka_eu"] * 3
    assert [record.getMessage() for record in told.records] == [  # what has not changed is logged once
        "The group 'readers' has 2 offsets left to read: 2 of 'views'.",
        "The group 'readers' has 1 offsets left to read: 1 of 'views'.",
    ]


def test_brokers_that_are_away_are_waited_for(
    brokers: KnownTopics, script: Script, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.answer_for_groups(monkeypatch)
    brokers.failing = [AWAY]
    assert events_of_lag(lag_trigger(at_most=2)) == [None]
    assert script.pauses == [3.0]


def test_an_error_that_no_time_mends_wakes_the_task(
    script: Script, asked: list[str], told: pytest.LogCaptureFixture
) -> None:
    assert events_of_lag(lag_trigger(topics=["gone"])) == [None]
    assert script.pauses == [3.0]  # the task may not meet it, and defer at once
    assert "There is no topic 'gone'" in told.text


def test_an_airflow_that_does_not_answer_wakes_the_task_which_looks_by_itself(
    script: Script, told: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_brokers(conn_id: str) -> None:
        raise RuntimeError("The API server is restarting.")

    monkeypatch.setattr(kafka_triggers, "find_brokers", find_brokers)
    assert events_of_lag(lag_trigger()) == [None]
    assert "The API server is restarting." in told.text


def test_a_trigger_on_a_lag_knows_the_process_that_defers_wherever_it_is_made_anew() -> None:
    made = lag_trigger()
    path, arguments = made.serialize()
    assert path == "airflow_samza.triggers.KafkaLagTrigger"
    assert made.deferred_by == identity()
    elsewhere = lag_trigger(**{**arguments, "deferred_by": {"pid": 7, "place": "another"}})
    assert elsewhere.serialize()[1] == {**arguments, "deferred_by": {"pid": 7, "place": "another"}}


def events_of_lag(trigger: KafkaLagTrigger) -> list[Any]:
    async def wait() -> list[Any]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(asyncio.wait_for(wait(), 60))
