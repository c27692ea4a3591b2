"""Stages on a real Spark that read and write a real broker's topics."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from samza_spark_apps import topics as apps

from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.kafka_outputs import new_topic, read_all
from tests.support.kafka_topics import Sent, Topics
from tests.support.kafka_users import logged_in
from tests.support.one_session import Runs, join, open_session
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(300)]

PARTITIONS = 3
VIEWS = Schema.of(apps.VIEWS)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of what Spark records of itself: settings, plans, the properties of jobs."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, events: Path) -> Iterator[Any]:
    log = {"enabled": "true", "compress": "false", "dir": f"file://{events}"}
    conf = {f"spark.eventLog.{name}": value for name, value in log.items()}
    made = open_session(tmp_path_factory.mktemp("session"), apps.__name__, conf)
    yield made
    made.stop()


def views(first: int, count: int) -> list[Sent]:
    return [
        Sent(json.dumps(view_of(number)), str(number), partition=number % PARTITIONS)
        for number in range(first, first + count)
    ]


def view_of(number: int) -> dict[str, int]:
    return {"id": number, "member_id": number * 31 % 997, "dwell_ms": number % 100}


def planned(runs: Runs, name: str, views: str, output: str | None = None, **more: Any) -> Any:
    names = {"views": views} if output is None else {"views": views, "members": output, "seen": output}
    config = {f"streams.{stream}.samza.physical.name": topic for stream, topic in names.items()}
    return runs.prepare(f"{apps.__name__}:{name}", "run", config=config, **more)


def plain(topics: Topics) -> dict[str, SystemBinding]:
    return {"events": SystemBinding("kafka", {"bootstrap.servers": topics.address})}


def values(topics: Topics, topic: str) -> list[dict[str, Any]]:
    return [json.loads(message.value or b"") for message in read_all(topics.address, topic)]


@pytest.mark.nightly
def test_workers_keep_one_consumer_each_from_epoch_to_epoch(session: Any, tmp_path: Path, topics: Topics) -> None:
    # The first test of its session: stages that write topics on Kafka leave a producer in the workers.
    source, output = topics.make(partitions=PARTITIONS), new_topic()
    runs = Runs(session, tmp_path, plain(topics))
    run = planned(runs, "passing_on", source, output, mode="continuous")
    going = runs.start(run, run.plan.stages[0].stage_id)
    for epoch in range(4):
        topics.send(source, views(300 * epoch, 300))
        until(partial(_arrived, going, topics, output, 300 * (epoch + 1)), 120)
    runs.runtime.drain(run)
    join([going])
    seen = values(topics, output)
    assert sorted(row["id"] for row in seen) == list(range(1200))
    workers: dict[str, set[str]] = {}
    for process, _, threads in (row["worker"].partition(" ") for row in seen):
        workers.setdefault(process, set()).update(threads.split())
    assert len(workers) <= 3  # four epochs of three tasks have shared them
    assert {process: len(threads) for process, threads in workers.items() if len(threads) > 2} == {}  # with an admin


def test_from_topic_to_topic_over_a_repartition_gives_what_plain_python_gives(
    session: Any, tmp_path: Path, topics: Topics
) -> None:
    source, output = topics.make(partitions=PARTITIONS), new_topic()
    topics.send(source, views(0, 20_000))
    runs = Runs(session, tmp_path, plain(topics))
    runs.one_by_one(planned(runs, "dwelling", source, output))
    expected: dict[int, list[int]] = {}
    for view in filter(lambda view: view["dwell_ms"] >= 10, map(view_of, range(20_000))):
        found = expected.setdefault(view["member_id"], [0, 0])
        found[0] += 1
        found[1] += view["dwell_ms"]
    written = values(topics, output)
    assert len(written) == len(expected) == 997
    assert {row["member_id"]: [row["views"], row["dwell"]] for row in written} == expected


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_stages_that_hand_over_by_topics_on_kafka_give_what_plain_python_gives(
    session: Any, tmp_path: Path, topics: Topics, mode: str
) -> None:
    runs = Runs(session, tmp_path, plain(topics))
    runs.make("views", VIEWS, PARTITIONS)
    found = [view_of(number) for number in range(20_000)]
    for first in range(0, len(found), 5000):
        runs.send("views", VIEWS, found[first : first + 5000])
    run = runs.prepare(f"{apps.__name__}:dwelling_between", "run", mode=mode)
    own = [run.stream(name).system for name in run.streams if run.is_own(name)]
    assert own
    assert set(own) == {"events"}
    (runs.together if mode == "pipelined" else runs.one_by_one)(run)
    expected: dict[int, list[int]] = {}
    for view in (view for view in found if view["dwell_ms"] >= 10):
        sums = expected.setdefault(view["member_id"], [0, 0])
        sums[0] += 1
        sums[1] += view["dwell_ms"]
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    members = {row["member_id"]: [row["views"], row["dwell"]] for row in topic_rows(log, "members")}
    assert members == expected
    histogram: dict[int, list[int]] = {}
    for views_of_one, dwell in expected.values():
        sums = histogram.setdefault(views_of_one, [0, 0])
        sums[0] += 1
        sums[1] += dwell
    assert {row["n"]: [row["members"], row["dwell"]] for row in topic_rows(log, "histogram")} == histogram


def _arrived(going: threading.Thread, topics: Topics, topic: str, messages: int) -> bool:
    """Tell whether a topic has so many messages, or nobody will send them any more."""
    if not going.is_alive():
        return True
    return topics.system.brokers.find(topic) is not None and len(read_all(topics.address, topic)) >= messages


def test_workers_get_a_password_that_no_record_of_spark_and_no_file_shows(
    session: Any, events: Path, tmp_path: Path, kafka: Kafka, topics: Topics, caplog: pytest.LogCaptureFixture
) -> None:
    source = topics.make(partitions=PARTITIONS)
    topics.send(source, views(0, 300))
    topics.permit_reading(source, "bob")
    password = kafka.users["bob"]
    caplog.set_level("DEBUG")
    runs = Runs(
        session, tmp_path, {"events": SystemBinding("kafka", logged_in(kafka, "bob"), frozenset({"sasl.password"}))}
    )
    run = planned(runs, "taking_in", source)
    runs.one_by_one(run)
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    assert sorted(row["id"] for row in topic_rows(log, "taken")) == list(range(300))
    recorded = [path for path in events.rglob("*") if path.is_file()]
    assert any(b"SparkListenerJobStart" in path.read_bytes() for path in recorded)
    files = [*recorded, *(path for path in tmp_path.rglob("*") if path.is_file())]
    assert [path for path in files if password.encode() in path.read_bytes()] == []
    assert password not in f"{caplog.text}{run!r}"
