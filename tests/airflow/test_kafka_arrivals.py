"""Dags that new messages of a topic start: a real watcher in a real triggerer, with a broker that is lost meanwhile."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from demo import flights_topic
from demo.kafka import Kafka
from tests.support.signals import let_go, wait_for_start

pytestmark = [
    pytest.mark.extended,
    pytest.mark.nightly,  # of the examples on Kafka, make test runs those of test_kafka_dags
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.timeout(1800),
]

NEWS, HELD = "kafka_arrivals", "arrivals_held"
"""The example, and another Dag on its watcher."""
PLACES = {NEWS: "kafka-arrivals", HELD: "arrivals-held"}
NOON = 1_388_404_800_000


class Played:
    """The acts, one after the other; messages are numbered."""

    def __init__(self, flights: Any, kafka: Kafka) -> None:
        self.flights, self.airflow, self.kafka = flights, flights.airflow, kafka

    def send(self, *numbers: int) -> None:
        rows = [
            {**dict.fromkeys(flights_topic.COLUMNS), "carrier": "AA", "dep_delay": number, "at": NOON + number}
            for number in numbers
        ]
        flights_topic.send(self.kafka.address, rows)

    def pause(self, dag_id: str, paused: bool) -> None:
        """Pauses a Dag or lets it go on, and has its file read again, as Airflow does twice a minute otherwise."""
        self.airflow.pause(dag_id, paused)
        self.airflow.parse_again(dag_id)

    def events(self) -> list[dict[str, Any]]:
        """The payloads of the watcher's events, oldest first."""
        found = self.airflow.api("GET", "/assets/events", params={"limit": 100, "order_by": "timestamp"})[
            "asset_events"
        ]
        payloads = [event["extra"].get("payload") for event in found]
        return [payload for payload in payloads if payload and payload.get("topic") == flights_topic.TOPIC]

    def announced(self) -> int:
        """The number of messages that events have announced."""
        return sum(int(event["messages"]) for event in self.events())

    def read(self, dag_id: str) -> list[list[int]]:
        """The numbers that each run of a Dag has read, in the order of the runs."""
        return [numbers_of(self.flights.warehouse / PLACES[dag_id], run) for run in self.airflow.runs(dag_id)]

    def await_read(self, dag_id: str, *expected: list[int]) -> None:
        """Waits until the runs of a Dag have read this and have ended."""

        def look() -> bool:
            runs = self.airflow.runs(dag_id)
            assert all(run["state"] != "failed" for run in runs), self.airflow.task_states(
                dag_id, runs[-1]["dag_run_id"]
            )
            return bool(runs) and runs[-1]["state"] == "success" and self.read(dag_id) == list(expected)

        self.airflow.wait_until(look, 900, f"{dag_id} to read {expected}", lambda: str(self.read(dag_id)))

    def await_log(self, words: str) -> None:
        self.airflow.wait_until(lambda: words in self.airflow.log_file.read_text(errors="replace"), 300, repr(words))

    def await_position(self, messages: int) -> None:
        """Waits until the asset's state has the position behind so many messages."""

        def look() -> bool:
            with closing(sqlite3.connect(f"file:{self.airflow.home}/airflow.db?mode=ro", uri=True)) as database:
                found = database.execute("SELECT value FROM asset_state_store").fetchall()
            return any(sum(json.loads(value)["ends"]) == messages for (value,) in found)

        self.airflow.wait_until(look, 120, f"the position behind {messages} messages")


def numbers_of(place: Path, run: dict[str, Any]) -> list[int]:
    _, _, own = run["dag_run_id"].rpartition("_")  # the id's last part is random
    folders = [folder for folder in place.glob("*") if own in folder.name]
    files = [str(file) for folder in folders for file in folder.glob("*.parquet")]
    if not files:
        return []
    return [row[0] for row in duckdb.execute(f"SELECT dep_delay FROM read_parquet({files}) ORDER BY 1").fetchall()]


@dataclass(frozen=True)
class Seen:
    """The messages that runs have read in the end, the watcher's events, and the states of runs while one was held."""

    read: dict[str, list[list[int]]]
    events: list[dict[str, Any]]
    states_meanwhile: list[str]


@pytest.fixture(scope="module")
def seen(flights: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    kafka = Kafka(tmp_path_factory.mktemp("arrivals"))
    airflow = flights.airflow
    try:
        kafka.start()
        played = Played(flights, kafka)
        extra = json.dumps({"bootstrap.servers": kafka.address})
        connection = {"connection_id": "flights_kafka", "conn_type": "kafka", "extra": extra}
        airflow.api("POST", "/connections", json=connection)
        flights_topic.fill(kafka.address, [])
        states = play(played)
        yield Seen({dag_id: played.read(dag_id) for dag_id in PLACES}, played.events(), states)
    finally:
        for dag_id in PLACES:  # the watcher ends with the last of them
            Played(flights, kafka).pause(dag_id, True)
        airflow.api("DELETE", "/connections/flights_kafka", ok=(204, 404))
        kafka.stop()


def play(played: Played) -> list[str]:
    """Play the acts; return the states of the held Dag's runs while one was held."""
    airflow, hold = played.airflow, played.flights.signals / "arrivals.hold"
    for dag_id in PLACES:
        airflow.wait_for_dag(dag_id)
        played.pause(dag_id, False)
    played.send(1, 2, 3)
    for dag_id in PLACES:
        played.await_read(dag_id, [1, 2, 3])

    # Messages come while a run is going, and the other Dag is paused.
    airflow.pause(NEWS, True)
    hold.touch()
    played.send(4, 5)
    wait_for_start(played.flights, "arrivals")
    for number in (6, 7):
        played.send(number)
        airflow.wait_until(lambda all_=number: played.announced() == all_, 300, "an event for what came meanwhile")
    states = [run["state"] for run in airflow.runs(HELD)]
    hold.unlink()
    let_go(played.flights, "arrivals")
    played.await_read(HELD, [1, 2, 3], [4, 5], [6, 7])

    # The triggerer dies, messages come, the broker is lost, and another triggerer takes over before it is back.
    played.await_position(7)
    airflow.kill("triggerer")
    played.send(8)
    played.pause(NEWS, False)
    played.kafka.kill()
    airflow.start_part("triggerer")
    played.await_log("The topic 'flights' cannot be watched at present")
    played.kafka.restart()
    played.await_log("The topic 'flights' is watched again")
    played.await_read(HELD, [1, 2, 3], [4, 5], [6, 7], [8])
    played.await_read(NEWS, [1, 2, 3], [4, 5, 6, 7, 8])
    return states


def test_messages_that_come_while_a_run_is_going_are_read_by_the_next(seen: Seen) -> None:
    assert seen.states_meanwhile == ["success", "running"]
    assert seen.read[HELD][1:3] == [[4, 5], [6, 7]]


def test_a_dag_that_was_paused_reads_what_came_meanwhile(seen: Seen) -> None:
    assert seen.read[NEWS][1] == [4, 5, 6, 7, 8]


def test_a_triggerer_that_takes_over_announces_nothing_twice(seen: Seen) -> None:
    ends = [0] * flights_topic.PARTITIONS
    for event in seen.events:
        assert [start for start, _ in event["offsets"]] == ends
        ends = [end for _, end in event["offsets"]]
    assert sum(ends) == 8


def test_two_dags_share_a_watcher_and_events_of_a_run_that_is_going_make_one_further_run(seen: Seen) -> None:
    assert len(seen.events) == 5
    assert (len(seen.read[HELD]), len(seen.read[NEWS])) == (4, 2)
