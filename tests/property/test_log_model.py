"""Any sequence of publishing, reading, expiring and sweeping leaves a topic as a simple model says."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from airflow_samza.control.messages import WatermarkMessage
from airflow_samza.errors import TopicError
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.fsck import fsck, is_sound
from airflow_samza.systems.log.index import LogIndex
from airflow_samza.systems.log.maintenance import expire, sweep
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.budgets import share

STREAM = StreamSpec("topic", partitions=2)
FAR = 1 << 45


@pytest.fixture(autouse=True, scope="module")
def many_snapshots() -> Iterator[None]:
    before = log_commits.SNAPSHOT_EVERY
    log_commits.SNAPSHOT_EVERY = 3
    yield
    log_commits.SNAPSHOT_EVERY = before


@dataclass
class Modelled:
    """One commit in the model: per partition, what stands at which offset."""

    producer: str
    generation: int
    epoch: int
    number: int
    at: int
    entries: list[list[tuple[int, object]]] = field(default_factory=list)


class LogMachine(RuleBasedStateMachine):
    """The log against a list of commits."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.system = LogSystem("log", SystemBinding("log", {"root": self.folder.name}))
        self.system.create([STREAM])
        self.commits: list[Modelled] = []
        self.head = [0, 0]
        self.floor = 0
        self.value = 0
        self.oldest = [0, 0]

    def newest(self, producer: str) -> int:
        return max((commit.generation for commit in self.commits if commit.producer == producer), default=-1)

    @rule(
        producer=st.sampled_from("ab"),
        generation=st.integers(1, 3),
        epoch=st.integers(0, 3),
        sizes=st.tuples(st.integers(0, 4), st.integers(0, 4)),
        controls=st.integers(0, 2),
    )
    def publish(self, producer: str, generation: int, epoch: int, sizes: tuple[int, int], controls: int) -> None:
        writer = self.system.producer(STREAM, f"{producer}{generation}{epoch}")
        values: list[list[object]] = []
        for partition, size in enumerate(sizes):
            values.append(list(range(self.value, self.value + size)))
            self.value += size
            writer.write(partition, pa.record_batch({"v": pa.array(values[-1], pa.int64())}))
        control = tuple(WatermarkMessage(producer, 1, timestamp=number) for number in range(controls))
        publication = Publication(producer, str(generation), epoch, {0: writer.finish()}, control)
        if generation < self.newest(producer):
            with pytest.raises(TopicError, match="may no longer write"):
                self.system.publish(STREAM, publication)
            return
        facts = self.system.publish(STREAM, publication)
        known = any((c.producer, c.generation, c.epoch) == (producer, generation, epoch) for c in self.commits)
        assert facts["duplicate"] == known
        if known:
            return
        commit = Modelled(producer, generation, epoch, len(self.commits), 0)
        for partition in range(2):
            messages = [*values[partition], *control]
            commit.entries.append([(self.head[partition] + place, message) for place, message in enumerate(messages)])
            self.head[partition] += len(messages)
        self.commits.append(commit)

    @rule()
    def expire(self) -> None:
        self.floor = expire(self.system.topic("topic"), FAR)
        index = LogIndex(self.system.topic("topic"))
        assert self.floor == index.floor.commit

    @rule()
    def sweep(self) -> None:
        sweep(self.system.filesystem, "log", FAR, grace_ms=0, staged_grace_ms=0)

    def expected(self, partition: int) -> list[tuple[int, object]]:
        live = [c for c in self.commits if c.number >= self.floor and c.generation == self.newest(c.producer)]
        return [entry for commit in live for entry in commit.entries[partition]]

    def read(self, partition: int, offsets: OffsetRange) -> list[tuple[int, object]]:
        found: list[tuple[int, object]] = []
        for envelope in self.system.consumer(STREAM).read(SystemStreamPartition("log", "topic", partition), offsets):
            if isinstance(envelope, MessageRun):
                found += [
                    (envelope.offset + row, value) for row, value in enumerate(envelope.batch.column("v").to_pylist())
                ]
            else:
                found.append((envelope.offset, envelope.message))
        return found

    @invariant()
    def reads_what_the_model_says(self) -> None:
        if not hasattr(self, "commits"):
            return
        metadata = self.system.metadata([STREAM])["topic"]
        assert list(metadata.head) == self.head
        for partition in range(2):
            assert metadata.oldest[partition] >= self.oldest[partition], "oldest went back"
            self.oldest[partition] = metadata.oldest[partition]
            expected = self.expected(partition)
            start = max(metadata.oldest[partition], LogIndex(self.system.topic("topic")).floor.offset(partition))
            assert self.read(partition, OffsetRange(min(start, self.head[partition]), self.head[partition])) == expected
            middle = (start + self.head[partition]) // 2
            cut = self.read(partition, OffsetRange(middle, self.head[partition]))
            assert cut == [entry for entry in expected if entry[0] >= middle]

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            assert is_sound(fsck(self.system.topic("topic")))
            self.folder.cleanup()


TestLogAgainstItsModel = LogMachine.TestCase
TestLogAgainstItsModel.settings = settings(
    max_examples=share(30), stateful_step_count=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
