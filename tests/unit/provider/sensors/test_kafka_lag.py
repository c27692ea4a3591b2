"""The sensor on a consumer group's lag: what is small enough, and what it waits for."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from typing import Any

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.provider.airflow_versions import AirflowException, TaskDeferred
from airflow_samza.provider.sensors.kafka_lag import SamzaKafkaLagSensor
from airflow_samza.provider.triggers import kafka as kafka_triggers
from airflow_samza.provider.triggers.kafka import KafkaLagTrigger
from tests.support.known_topics import KnownTopics


@pytest.fixture(autouse=True)
def brokers(monkeypatch: pytest.MonkeyPatch) -> KnownTopics:
    """Brokers with five offsets in two topics, of which the group has read two."""
    brokers = KnownTopics({"views": [3, 1], "clicks": [1]}, {}, {("readers", "views"): {0: 2}})
    brokers.answer_for_groups(monkeypatch)
    monkeypatch.setattr(kafka_triggers, "find_brokers", lambda conn_id: brokers)
    return brokers


def sensor(**given: Any) -> SamzaKafkaLagSensor:
    usual: dict[str, Any] = {"task_id": "lag", "group": "readers", "topics": ["views", "clicks"], "deferrable": False}
    return SamzaKafkaLagSensor(**{**usual, **given})


def test_the_lag_of_all_topics_together_may_be_as_great_as_at_most() -> None:
    assert not sensor(at_most=2).poke({}).is_done
    reached = sensor(at_most="3").poke({})
    assert (bool(reached.is_done), reached.xcom_value) == (True, {"views": 2, "clicks": 1})


def test_without_a_number_all_has_to_be_read(brokers: KnownTopics) -> None:
    assert not sensor().poke({}).is_done
    brokers.committed = {("readers", "views"): {0: 3, 1: 1}, ("readers", "clicks"): {0: 1}}
    assert sensor().poke({}).is_done


def test_one_topic_may_be_given_by_its_name() -> None:
    assert sensor(topics="clicks", at_most=1).poke({}).xcom_value == {"clicks": 1}


def test_brokers_that_are_away_are_waited_for(brokers: KnownTopics) -> None:
    brokers.failing = [StorageUnavailable("The brokers are away.")] * 2
    found = sensor(at_most=9).poke({})
    assert (bool(found.is_done), found.xcom_value) == (False, None)
    with pytest.raises(TaskDeferred):
        sensor(at_most=9, deferrable=True).execute({})


def test_each_look_says_how_far_the_group_is_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(SamzaKafkaLagSensor, "log", logging.getLogger("watched"))
    caplog.set_level(logging.INFO, "watched")
    sensor(at_most=2).poke({})
    assert caplog.messages == ["The group 'readers' has 3 offsets left to read: 1 of 'clicks', 2 of 'views'."]


def test_a_missing_topic_fails_the_task() -> None:
    with pytest.raises(AirflowException, match="There is no topic 'gone' in the system 'kafka_default'"):
        sensor(topics=["gone"]).poke({})


@pytest.mark.parametrize("bound", ["few", None])
def test_a_bound_that_is_no_number_is_rejected_when_it_is_rendered(bound: Any) -> None:
    with pytest.raises(AirflowException, match=f"at_most={bound!r} of the task 'lag' is no number of offsets"):
        sensor(at_most=bound).poke({})


def test_a_sensor_that_is_not_deferrable_waits_in_its_worker() -> None:
    assert sensor(at_most=3).execute({}) == {"views": 2, "clicks": 1}


def test_it_waits_in_the_triggerer_and_looks_again(brokers: KnownTopics) -> None:
    waiting = sensor(at_most="2", deferrable=True, kafka_conn_id="kafka_eu", poke_interval=7, timeout=100)
    before = time.time()
    with pytest.raises(TaskDeferred) as deferred:
        waiting.execute({})
    trigger, kwargs = deferred.value.trigger, dict(deferred.value.kwargs or {})
    assert isinstance(trigger, KafkaLagTrigger)
    assert (trigger.conn_id, trigger.group, trigger.topics, trigger.at_most, trigger.poll_interval) == (
        "kafka_eu",
        "readers",
        ["views", "clicks"],
        2,
        7,
    )
    assert before + 100 <= kwargs["deadline"] <= time.time() + 100
    assert deferred.value.timeout is not None
    assert deferred.value.timeout <= timedelta(seconds=100)
    with pytest.raises(TaskDeferred):
        waiting.execute_complete({}, None, **kwargs)
    brokers.committed["readers", "clicks"] = {0: 1}
    assert waiting.execute_complete({}, None, **kwargs) == {"views": 2, "clicks": 0}


def test_a_deadline_that_has_passed_gives_the_triggerer_no_time() -> None:
    with pytest.raises(TaskDeferred) as deferred:
        sensor(deferrable=True).execute_complete({}, None, deadline=time.time() - 5)
    assert deferred.value.timeout == timedelta(0)


def test_a_lag_that_is_small_enough_needs_no_triggerer() -> None:
    assert sensor(at_most=3, deferrable=True).execute({}) == {"views": 2, "clicks": 1}
