"""Commands over topics between stages on Kafka: they say where the messages lie, and look there where they can."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from airflow_samza.cli.app import app
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.upkeep.keep import Keep
from airflow_samza.runs.upkeep.retention import sweep_application
from airflow_samza.runs.upkeep.run_removal import SweptRuns
from airflow_samza.systems.kafka import brokers
from airflow_samza.systems.kafka.access_check import check_brokers
from airflow_samza.systems.kafka.own_topics import store
from airflow_samza.systems.kafka.system import KafkaSystem
from airflow_samza.systems.log import maintenance
from airflow_samza.systems.system import System, SystemBinding
from demo.java_servers import free_ports
from tests.support.dying_runners import Runners
from tests.support.kafka_stages import KafkaPlace, application, looping_app
from tests.support.kafka_topics import Topics
from tests.support.waiting import until
from tests.support.without_spark import run_stage

if TYPE_CHECKING:
    from demo.kafka import Kafka

pytestmark = [pytest.mark.extended, pytest.mark.kafka, pytest.mark.timeout(300)]

MONTH = 30 * 86400.0


@pytest.fixture(scope="module")
def runners(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    with looping_app(tmp_path_factory.mktemp("code"), application(kafka.address)) as made:
        yield made


class Ran:
    """A run whose first stage has ended, and the topic by which its second one will read."""

    def __init__(self, folder: Path, kafka: Kafka) -> None:
        self.place = KafkaPlace(folder, kafka.address)
        self.place.send(0, 20)
        self.run: RunPlan = self.place.prepare("bounded", "staged")
        run_stage(self.place.runtime, self.run, "lines", 1, {})
        self.topic = next(name for name in self.place.own_topics.topics() if "by-word" in name)

    @property
    def root(self) -> str:
        return self.place.runtime.root

    @property
    def at_brokers(self) -> dict[str, str]:
        """The names of the run's topics at the brokers."""
        between = self.place.own_topics
        return {name: str((between.topic(name).messages or {})["topic"]) for name in between.topics()}

    def say(self, *words: str, address: str | None = None, code: int = 0) -> str:
        bound = f"events=kafka:{address or self.place.address}"
        done = CliRunner().invoke(app, [*words, "--root", self.root, "--system", bound])
        assert done.exit_code == code, (done.output, done.exception)
        return done.output


@pytest.fixture
def ran(kafka: Kafka, tmp_path: Path, runners: Runners) -> Ran:
    return Ran(tmp_path, kafka)


def test_tail_reads_them_where_they_lie_and_says_where_that_is(ran: Ran) -> None:
    assert "Hint: Ask that system: --of events" in ran.say("topics", "tail", ran.topic, code=2)
    lines = [
        json.loads(line) for line in ran.say("topics", "tail", ran.topic, "-n", "100", "--of", "events").splitlines()
    ]
    assert sorted(line["message"]["n"] for line in lines) == sorted(n for _, n in ran.place.sent)
    assert ran.topic in ran.say("topics", "list", "--of", "events")


def test_expire_deletes_them_at_the_brokers_or_leaves_them_alone(ran: Ran) -> None:
    assert "Hint: Ask that system: --of events" in ran.say("topics", "expire", ran.topic, "--yes", code=2)
    at_brokers = ran.at_brokers[ran.topic]
    assert "which is open." in ran.say("topics", "expire", ran.topic, "--yes", "--of", "events", code=2)
    assert ran.place.own_topics.store.brokers.find(at_brokers) is not None
    ran.place.runtime.close(ran.run)
    assert f"Deleted the topic {ran.topic}." in ran.say("topics", "expire", ran.topic, "--yes", "--of", "events")
    assert ran.place.own_topics.store.brokers.find(at_brokers) is None


def test_fsck_reads_the_messages_at_the_brokers(ran: Ran, topics: Topics) -> None:
    assert "checked without" not in ran.say("fsck")
    topics.expire(ran.at_brokers[ran.topic], 1)
    assert f"has lost messages of {ran.topic!r}" in ran.say("fsck", code=1)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address at which no broker is, and nobody waits for one for long."""
    monkeypatch.setattr(store, "check_brokers", lambda access: check_brokers(access, 1.0))
    monkeypatch.setattr(brokers, "ANSWER_SECONDS", 1.0)
    return f"127.0.0.1:{free_ports(1)[0]}"


def test_fsck_says_what_it_could_not_read(ran: Ran, away: str) -> None:
    assert f"was checked without its messages: The brokers {away} of" in ran.say("fsck", address=away)


def test_what_brokers_did_not_delete_while_they_were_away_a_later_sweep_does(ran: Ran, away: str) -> None:
    files, at_brokers, upkeep = ran.place.own_topics.filesystem, list(ran.at_brokers.values()), ran.place.runtime.upkeep
    dead = KafkaSystem("events", SystemBinding("kafka", {"bootstrap.servers": away}), ran.root)
    ran.place.runtime.close(ran.run, succeeded=False)
    later = time.time() + MONTH

    def sweep(systems_of: Callable[[RunPlan], dict[str, System]]) -> SweptRuns:
        return sweep_application(files, systems_of, ran.run.application, Keep(), now=later)

    kept = sweep(lambda plan: {**upkeep.systems_of(plan), "events": dead}).kept
    assert f"The brokers {away} of the system 'events'" in "".join(kept.values())
    (said,) = maintenance.sweep(files, "events", int(later * 1000), store=dead.own_topics.store).later
    assert said.startswith(f"The brokers {away} of the system 'events'")
    live = ran.place.own_topics.store.brokers
    assert len(live.find_all(at_brokers)) == len(at_brokers) == 3
    assert len(sweep(upkeep.systems_of).topics) >= 3
    assert files.list("kafka/events") == []
    until(lambda: live.find_all(at_brokers) == {}, 60)  # a broker hears of it a moment later
