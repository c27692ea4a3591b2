"""Tasks stay with their state, and of a host that is lost with its disk the one with the copies takes over.

A real cluster.

The tests share a run, and go from the harmless to the deadly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.clusters.failover import FACT, PARTITIONS, Flow, flow_on
from tests.support.waiting import until

# A cluster starts in seconds, and in a minute where eight people share two cores.
pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

KEYS = 4000


class Model:
    """The application's right output: each visit with the fact that is known by then."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.facts: dict[int, str] = {}
        self.rows: list[dict[str, Any]] = []

    def learn(self, ids: range, text: str) -> None:
        facts = {number: f"{'x' * 80} {text} {number:08}" for number in ids}
        self.facts.update(facts)
        self.flow.send_facts(pa.table({"id": list(facts), "payload": list(facts.values())}, FACT.to_arrow()))
        self.flow.wait()

    def visit(self, count: int) -> None:
        first = self.flow.sent
        self.flow.visit(count, KEYS + 100)
        for number in range(first, first + count):
            key = number * 7919 % (KEYS + 100)
            self.rows.append({"id": key, "n": number, "payload": self.facts[key][-8:] if key in self.facts else None})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with flow_on(tmp_path_factory.mktemp("failover"), {"job.standbytasks.replication.factor": "2"}) as flow:
        flow.start()
        model = Model(flow)
        model.learn(range(KEYS), "first")
        until(lambda: len(flow.cluster.executors()) == 2)
        for _ in range(3):  # both executors have come, and everybody has found a place
            model.visit(20)
        yield model


@pytest.mark.nightly
def test_tasks_stay_on_their_executors_from_epoch_to_epoch(model: Model) -> None:
    first = model.flow.commit()
    assert first is not None
    before = model.flow.restored()
    for number in range(10):
        model.learn(range(number * 10, number * 10 + 10), f"round {number}")
        model.visit(20)
    homes = {epoch: hosts for epoch, hosts in model.flow.homes().items() if epoch > first.epoch + 1}
    assert len(homes) >= 8
    for task in range(PARTITIONS):
        assert len({hosts[task] for hosts in homes.values() if len(hosts) == PARTITIONS}) == 1
    assert len({host for hosts in homes.values() for host in hosts.values()}) == 2
    after = model.flow.restored()
    assert after["memory"] + after["host"] > before["memory"] + before["host"]
    assert after["root"] - before["root"] < 4096  # nobody reads from afar what he has here


@pytest.mark.nightly
def test_a_lost_hosts_tasks_go_on_from_the_copies_of_the_other(model: Model) -> None:
    flow = model.flow
    until(lambda: min(flow.held(1), flow.held(2)) == PARTITIONS)
    before = flow.restored()
    flow.lose(1)
    for number in range(4):
        model.learn(range(number * 10, number * 10 + 10), f"after {number}")
        model.visit(20)
    after = flow.restored()
    assert after["root"] - before["root"] < 4096  # the other host had all of it

    def all_tasks_are_where_the_copies_are() -> bool:
        model.visit(20)  # an epoch that was on its way when the host went may name it
        newest = flow.homes()
        return set(newest[max(newest)].values()) == {"127.0.0.3"}

    until(all_tasks_are_where_the_copies_are)
    flow.drain()
    assert flow.rows() == model.rows  # as if nothing had been lost
