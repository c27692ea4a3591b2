"""Rounds of chaos with streams on Kafka: brokers, network and publications, too, are in for it.

Which streams are on Kafka and which in the log is drawn for each round, and so is how outputs are delivered, and where
topics between stages lie. A round
with a seed that is always the same runs in ``make test``, the others in ``make nightly``.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.launch import own_process
from airflow_samza.runs.records.folders import RunFolder
from demo.kafka import Kafka
from tests.chaos import spark_runner
from tests.chaos.kafka_mischief import KafkaMischief
from tests.chaos.mischief import Disk, Mischief
from tests.chaos.rounds import SECONDS, Round, rounds
from tests.support import runner_without_spark
from tests.support.kafka_proxy import KafkaProxy
from tests.support.kafka_topics import Topics
from tests.support.looping import Place
from tests.support.looping_over_kafka import OUTPUTS, STREAMS, KafkaPlace
from tests.support.runner_without_spark import WATCHED

pytestmark = [pytest.mark.nightly, pytest.mark.kafka, pytest.mark.timeout(int(2 * SECONDS + 1800))]

SETTINGS = {"socket.timeout.ms": 3000, "socket.connection.setup.timeout.ms": 2000}
"""Of the client, so that a connection over which nothing comes is given up soon; a minute by default."""


SEED = 2806
"""Of a continuous run with all streams on Kafka, whose broker and publisher are killed, and which loses answers."""


class KafkaRound(Round):
    """A round whose streams are on Kafka, all or some of them."""

    def __init__(
        self, broker: Kafka, proxy: KafkaProxy, ground: Path, number: int, seed: int, *, on_spark: bool
    ) -> None:
        self._broker = broker
        self._proxy = proxy
        super().__init__(ground, number, seed, on_spark=on_spark)

    def open_place(self, folder: Path) -> Place:
        on_kafka = [name for name in STREAMS if self.chance.random() < 0.7] or [self.chance.choice(OUTPUTS)]
        deliveries = {name: self.chance.choice(["exactly_once"] * 4 + ["at_least_once"]) for name in on_kafka}
        between = (
            random.Random(f"between {self.seed}").random() < 0.4
        )  # drawn apart: seeds of old keep what they stand for
        self.title = f"{self.mode}, on Kafka: " + ", ".join(
            [
                *(
                    name if name == "lines" else f"{name} {delivery.replace('_', ' ')}"
                    for name, delivery in deliveries.items()
                ),
                *(["topics between stages"] if between else []),
            ]
        )
        self.dials.turn(WATCHED)
        settings = {"bootstrap.servers": self._proxy.address, **SETTINGS}
        return KafkaPlace(folder, folder.parents[1], self._broker.address, settings, deliveries, between=between)

    def begin_mischief(self, ground: Path, run: RunFolder) -> Mischief:
        disk = Disk(ground, self.dials, ground.is_mount())
        return KafkaMischief(
            self._broker,
            self._proxy,
            self.chance,
            self.files,
            run,
            disk,
            self.dials,
            on_spark=self.on_spark,
        )

    def compare(self) -> None:
        assert isinstance(self.place, KafkaPlace)
        for name in OUTPUTS:
            if name in self.place.topics:
                Topics(self.place.address).await_markers(self.place.topics[name])
        super().compare()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Kafka]:
    found = Kafka(tmp_path / "broker", proxied=True)
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture
def proxy(broker: Kafka) -> Iterator[KafkaProxy]:
    with KafkaProxy(broker.proxy_port, broker.proxied_port) as found:
        yield found


@pytest.mark.timeout(600)
def test_a_round_over_kafka_ends_as_an_undisturbed_one(
    ground: Path, broker: Kafka, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_without_spark.use_instead(monkeypatch, ground.parent / "dials")
    make = lambda number, seed: KafkaRound(broker, proxy, ground, number, seed, on_spark=False)  # noqa: E731
    rounds(ground, make, seconds=0.0, seed=SEED)


@pytest.mark.nightly
def test_runs_over_kafka_without_spark_end_as_undisturbed_ones(
    ground: Path, broker: Kafka, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner_without_spark.use_instead(monkeypatch, ground.parent / "dials")
    rounds(ground, lambda number, seed: KafkaRound(broker, proxy, ground, number, seed, on_spark=False))


@pytest.mark.nightly
@pytest.mark.spark
def test_runs_over_kafka_on_spark_end_as_undisturbed_ones(
    ground: Path, broker: Kafka, proxy: KafkaProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "RUNNER_MODULE", spark_runner.__name__)
    monkeypatch.setenv(runner_without_spark.VARIABLE, str(ground.parent / "dials"))
    rounds(ground, lambda number, seed: KafkaRound(broker, proxy, ground, number, seed, on_spark=True))
