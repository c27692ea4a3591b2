"""Offsets that runs commit to a consumer group for people: after the commit, forward only, at nobody's cost."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.systems.kafka.group_offsets import GroupCommitter, commit_offsets, committed_offsets, group_lag
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from demo.kafka import Kafka
from tests.support.kafka_runs import NOON, Running, Runs, hour
from tests.support.kafka_topics import Sent, Topics, numbered
from tests.support.kafka_users import logged_in
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

GROUP = "people"


class Group:
    """The group that people look at."""

    def __init__(self, runs: Runs) -> None:
        self.brokers, self.topic = runs.topics.system.brokers, runs.topic

    @property
    def committed(self) -> dict[int, int]:
        return committed_offsets(self.brokers, GROUP, self.topic, range(2))

    @property
    def lag(self) -> int:
        return group_lag(self.brokers, GROUP, [self.topic]).offsets


@pytest.fixture
def runs(tmp_path: Path, topics: Topics) -> Runs:
    return Runs(tmp_path, topics, partitions=2)


@pytest.fixture
def group(runs: Runs) -> Group:
    return Group(runs)


@pytest.fixture
def member(runs: Runs) -> Iterator[Consumer]:
    """A member that has joined the group, for which nobody else may commit therefore."""
    found = Consumer({"bootstrap.servers": runs.topics.address, "group.id": GROUP, "auto.offset.reset": "earliest"})
    found.subscribe([runs.topic])
    until(lambda: found.poll(0.1) is None and bool(found.assignment()), 60)
    yield found
    found.close()


def test_a_run_commits_what_it_has_read(runs: Runs, group: Group) -> None:
    runs.send(1, 2)
    runs.send(3, partition=1)
    assert (group.committed, group.lag) == ({}, 3)
    plan = runs.plan("told")
    assert "what is read is committed to the consumer group 'people'" in plan.notes["views"]["views"]
    assert group.committed == {}
    runs.finish(plan)
    assert (group.committed, group.lag) == ({0: 2, 1: 1}, 0)


def test_a_run_of_an_interval_commits_how_far_it_has_looked(runs: Runs, group: Group) -> None:
    runs.topics.send(runs.topic, [Sent('{"id":1}', at=NOON), Sent('{"id":2}', at=NOON + 3_600_000)])
    runs.whole("told_hourly", interval=hour(0))
    assert runs.ids() == [1]
    assert group.lag == 0


def test_a_continuous_run_commits_epoch_after_epoch(runs: Runs, group: Group) -> None:
    runs.send(1)
    running = Running(runs, "told")
    running.reads(1)
    runs.topics.transaction(runs.topic, numbered([2, 3], 1))
    running.reads(1, 2, 3)
    until(lambda: group.lag == 0, 60)
    assert group.committed == {0: 1, 1: 3}  # the marker of the transaction counts
    runs.here.runtime.stop(running.plan)
    running.join()
    assert not running.errors


def test_a_rerun_leaves_a_group_where_it_stands_and_says_so(
    runs: Runs, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    runs.send(1, 2)
    first = runs.plan("told")
    runs.here.stages(first)
    runs.send(3, 4)
    commit_offsets(group.brokers, GROUP, runs.topic, {0: 4})
    caplog.clear()
    with caplog.at_level(logging.WARNING, "airflow_samza.kafka"):
        runs.here.stages(first, generation=2)
    assert group.committed[0] == 4
    assert f"has committed more of '{runs.topic}' than this run has read (partitions 0)" in caplog.text


def test_runs_go_by_none_of_it(runs: Runs, group: Group) -> None:
    runs.send(1, 2)
    commit_offsets(group.brokers, GROUP, runs.topic, {0: 2})
    runs.whole("told")
    assert runs.ids() == [1, 2]


def test_a_group_that_takes_no_offsets_is_a_warning(
    runs: Runs, group: Group, member: Consumer, caplog: pytest.LogCaptureFixture
) -> None:
    runs.send(1, 2)
    with caplog.at_level(logging.WARNING, "airflow_samza.kafka"):
        runs.whole("told")
    assert runs.ids() == [1, 2]
    assert f"What was read of '{runs.topic}' was not committed to the group 'people'" in caplog.text
    assert group.committed == {}


def test_brokers_that_do_not_answer_are_asked_once_in_a_while(
    runs: Runs, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def no_answer(*_: object) -> dict[int, int]:
        asked.append(1)
        raise TopicError("No answer.", hint="Wait.")

    monkeypatch.setattr("airflow_samza.systems.kafka.group_offsets.committed_offsets", no_answer)
    groups = GroupCommitter(runs.topics.system.brokers)
    for offset in (1, 2, 3):
        groups.tell(GROUP, runs.topic, {0: offset})
    assert len(asked) == 1


def test_who_finishes_a_stage_for_a_runner_that_has_died_commits_too(
    runs: Runs, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.send(1, 2)
    plan = runs.plan("told")

    def die(point: str) -> None:
        if point == "after-commit":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("airflow_samza.runs.finish.reach", die)
        with pytest.raises(KeyboardInterrupt):
            runs.here.stages(plan)
    assert group.committed == {}
    runs.here.stages(plan)
    assert group.committed == {0: 2, 1: 0}


def test_a_plan_rejects_a_group_that_may_not_be_written(kafka: Kafka, runs: Runs) -> None:
    system = KafkaSystem("events", SystemBinding("kafka", logged_in(kafka, "bob")))
    spec = StreamSpec(runs.topic, options=(("group", "somebody-elses"),))
    with pytest.raises(TopicError, match="commit offsets of the consumer group 'somebody-elses'"):
        system.describe_reading(spec)


def test_a_group_has_a_name(runs: Runs) -> None:
    spec = StreamSpec(runs.topic, schema="id bigint", options=(("group", " "),))
    with pytest.raises(ConfigError, match="names no consumer group"):
        runs.topics.system.slice(spec)
