"""Progress of runs over Kafka: lag behind newer messages, watermarks, idle partitions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from airflow.sdk import BaseHook, Connection

from airflow_samza.provider.stats import gauges_of
from airflow_samza.provider.triggers.deferred_progress import WatchedSystems
from airflow_samza.runs.progress.progress import ProgressReport, describe_progress
from airflow_samza.runs.progress.stage_progress import open_systems, stage_progress
from demo.airflow_settings import free_port
from tests.support.kafka_runs import NOON, Running, Runs
from tests.support.kafka_topics import Sent, Topics, numbered
from tests.support.waiting import until

pytestmark = [pytest.mark.extended, pytest.mark.kafka]

MINUTE = 60_000


@pytest.fixture
def runs(tmp_path: Path, topics: Topics) -> Runs:
    return Runs(tmp_path, topics, partitions=2)


def progress(running: Running) -> ProgressReport:
    """Return the lines of ``airflow-samza status`` and of the task's log."""
    return running.runs.here.runtime.progress(running.handle)


def at(number: int, minutes: int, partition: int = 0) -> Sent:
    return Sent(f'{{"id":{number}}}', at=NOON + minutes * MINUTE, partition=partition)


def test_the_lag_grows_with_what_is_sent_while_nobody_reads(runs: Runs) -> None:
    runs.send(1, 2)
    running = Running(runs, "following")
    running.reads(1, 2)
    until(lambda: progress(running).lag == 0, 60)
    running.cancel()
    runs.send(3, 4)
    runs.topics.transaction(runs.topic, numbered([5], 1))
    found = progress(running)
    assert [(one.offset, one.head, one.lag) for one in found.partitions] == [(2, 4, 2), (0, 2, 2)]
    assert {gauge.name: gauge.value for gauge in gauges_of(found)}["lag"] == 4.0
    assert "4 offsets behind" in describe_progress(found)[1]


def test_messages_of_open_transactions_are_no_lag(runs: Runs) -> None:
    runs.send(1)
    running = Running(runs, "following")
    running.reads(1)
    running.cancel()
    producer = runs.topics.transaction(runs.topic, numbered([2, 3], 1), end="leave open")
    assert progress(running).lag == 0
    producer.abort_transaction(30)


def test_the_watermark_is_the_least_of_the_partitions_and_an_idle_one_is_named(runs: Runs) -> None:
    runs.topics.send(runs.topic, [at(1, 10)])
    running = Running(runs, "timed")
    running.reads(1)
    until(lambda: progress(running).partitions[0].watermark is not None, 60)
    found = progress(running)
    assert [one.watermark for one in found.partitions] == [NOON + 9 * MINUTE, None]
    assert found.watermark is None
    assert found.to_dict()["idle"] == [{"stream_id": "views", "partition": 1}]
    assert "1 idle, without a watermark" in describe_progress(found)[1]
    assert {gauge.name: gauge.value for gauge in gauges_of(found)}["idle_partitions"] == 1.0
    runs.topics.send(runs.topic, [at(2, 5, partition=1)])
    running.reads(1, 2)
    until(lambda: progress(running).watermark == NOON + 4 * MINUTE, 60)
    assert progress(running).to_dict()["idle"] == []
    runs.here.runtime.stop(running.plan)
    running.join()
    assert not running.errors


def test_a_deferred_task_shows_the_lag_by_the_connection_and_none_where_brokers_are_away(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_samza.runs.progress.stage_progress.ANSWER_SECONDS", 2.0)
    runs.send(1, 2)
    running = Running(runs, "following")
    running.reads(1, 2)
    running.cancel()
    runs.send(3, 4, 5)
    brokers = of_brokers(runs.topics.address)

    monkeypatch.setattr(BaseHook, "get_connection", lambda conn_id: brokers)
    said: list[str] = []
    systems = WatchedSystems(running.plan.systems, {"events": "brokers"}, "", said.append)

    def lag() -> int | None:
        asyncio.run(systems.connect())
        files, plan = runs.here.runtime._files, running.plan
        return stage_progress(files, systems, plan, running.handle.stage_id, running.handle.generation).lag

    assert open_systems(running.plan, running.handle.stage_id) == {"events"}
    assert (lag(), said) == (3, [])
    brokers = of_brokers(f"127.0.0.1:{free_port()}")
    assert lag() is None
    assert "The lag behind streams of the system 'events' is not known at present: " in said[0]
    brokers = of_brokers(runs.topics.address)
    assert lag() == 3


def of_brokers(address: str) -> Connection:
    return Connection(conn_id="brokers", conn_type="kafka", extra=json.dumps({"bootstrap.servers": address}))
