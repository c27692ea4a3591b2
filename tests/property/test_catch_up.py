"""Whatever becomes of scheduled runs, what they have written in the end is what one run over everything writes.

Runs come in random order: they succeed, die at a random step, are tried again, cleared, or passed by; backfills run
beside them.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.systems.log.index import LogIndex
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but
from tests.support.carrying_apps import windowed
from tests.support.failpoints import PLACES, STATE_PLACES
from tests.support.forked_runs import BUSY, FENCED, REJECTED, ForkedRuns
from tests.support.runs_here import Here

APPLICATION = "tests.support.carrying_apps:windowing"
SCHEMA = pa.schema([("member", pa.int64()), ("n", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
END = START + timedelta(days=30)
"""The time of the last messages, which close all windows before them."""

SEEDS = range(4)
MORE_SEEDS = range(4, int(os.environ.get("CATCH_UP_SEEDS", "200")))


@pytest.fixture(scope="module")
def forked() -> Iterator[ForkedRuns]:
    made = ForkedRuns()
    yield made
    made.close()


class Scenario:
    """Random messages, and runs whose fate is drawn."""

    def __init__(self, forked: ForkedRuns, root: Path, seed: int) -> None:
        self.forked = forked
        self.here = Here(root)
        self.rng = random.Random(seed)
        self.sent: dict[str, list[dict[str, Any]]] = {"clicks": [], "views": []}
        self.finished: list[str] = []
        self.number = 0
        self.seconds = 0

    def append(self, stream: str, rows: list[dict[str, Any]]) -> None:
        self.sent[stream] += rows
        self.here.log.append(stream, pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)

    def messages(self) -> None:
        """Some of either input, at most a minute out of order."""
        for stream in self.sent:
            rows = []
            for _ in range(self.rng.randint(0, 8)):
                self.seconds += self.rng.randint(0, 40)
                at = START + timedelta(seconds=self.seconds - self.rng.randint(0, 60))
                rows.append({"member": self.rng.randint(0, 4), "n": self.rng.randint(0, 9), "at": at})
            self.append(stream, rows)

    def last_messages(self) -> None:
        for stream in self.sent:
            self.append(stream, [{"member": member, "n": 100, "at": END} for member in range(8)])

    def run(self, run_id: str, generation: int = 1, **more: Any) -> int:
        config = {"job.state.lease.grace.ms": "0"}
        return self.forked.run(self.here.root, APPLICATION, run_id, generation, config=config, **more)

    def next_run(self) -> None:
        """A scheduled run, to its end; if it dies, what an operator or a scheduler would do."""
        self.number += 1
        run_id, generation = f"run-{self.number}", 1
        step = self.rng.choice([*PLACES, *STATE_PLACES]) if self.rng.random() < 0.7 else ""
        ended = self.run(run_id, die_at=step)
        while ended not in (0, REJECTED):  # rejected: it had finished, and a later run went on from it
            assert ended in (-signal.SIGKILL, FENCED)
            self.messages()
            then = self.rng.choice(["retry", "clear", "next"]) if ended != FENCED else "clear"
            if then == "clear":
                generation += 1
            if then != "next":
                ended = self.run(run_id, generation)
                continue
            self.number += 1
            came = self.run(f"run-{self.number}")
            assert came in (0, BUSY)
            if came == 0:
                self.finished.append(f"run-{self.number}")
        if run_id not in self.finished:
            self.finished.append(run_id)

    def backfill(self) -> None:
        """A run beside the others, which must leave no trace in them."""
        self.number += 1
        state = self.rng.choice(["fresh", self.finished[-1]]) if self.finished else "fresh"
        assert self.run(f"backfill-{self.number}", state_from=state) == 0

    def written(self, topic: str) -> list[str]:
        """The output of scheduled runs, without the windows of the last messages."""
        index = LogIndex(self.here.log.topic(topic))
        found: list[dict[str, Any]] = []
        consumer = self.here.log.consumer(StreamSpec(topic))
        for partition in range(index.topic.partitions):
            for owner, entries in index.owned_slice(partition, 0, index.head[partition]):
                if entries and owner is not None and "/run-" in owner[0]:
                    place = SystemStreamPartition("log", topic, partition)
                    for envelope in consumer.read(place, OffsetRange(entries[0].offset, entries[-1].end)):
                        if isinstance(envelope, MessageRun):
                            found += envelope.batch.to_pylist()
        consumer.close()
        return comparable(found)


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    """Rows without an order, and without those that the last messages alone make."""
    return sorted(
        repr(sorted(row.items()))
        for row in rows
        if row.get("window_start", START) < END and 100 not in (row.get("click"), row.get("n"))
    )


@pytest.mark.parametrize(
    "seed",
    [*extended_but([], SEEDS, SEEDS[1:]), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in MORE_SEEDS)],
)
def test_any_sequence_of_runs_writes_what_one_run_writes(forked: ForkedRuns, tmp_path: Path, seed: int) -> None:
    scenario = Scenario(forked, tmp_path, seed)
    scenario.messages()
    for _ in range(6):
        scenario.messages()
        scenario.backfill() if scenario.rng.random() < 0.2 else scenario.next_run()
    scenario.last_messages()
    assert scenario.run("run-last") == 0
    driver = TestDriver(windowed(bounded=True), partitions=2)
    for stream, rows in scenario.sent.items():
        driver.pipe(stream, rows)
    driver.run()
    for topic in ("per-minute", "once", "joined"):
        assert scenario.written(topic) == comparable(driver.output_table(topic).to_pylist())
