"""Publishing to a system of kind spark, with a writer that only remembers.

What is written when, and what a repeat does.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, StageLost
from airflow_samza.systems.filesystems.filesystem import root_identity
from airflow_samza.systems.spark.system import SparkSystem, Staged
from airflow_samza.systems.spark.tables import SparkTable
from airflow_samza.systems.system import (
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)


class Writer:
    """Remembers the numbers that it was given; dies when it is told to."""

    def __init__(self, system: SparkSystem) -> None:
        self.system = system
        self.written: list[list[int]] = []
        self.transactions: list[tuple[str, int]] = []
        self.dies = False

    def write(self, table: SparkTable, staged: Staged) -> None:
        consumer = self.system.log.consumer(StreamSpec(staged.topic), staged.slice)
        numbers: list[int] = []
        for partition, (start, end) in enumerate(staged.slice["offsets"]):
            for envelope in consumer.read(
                SystemStreamPartition("log", staged.topic, partition), OffsetRange(start, end)
            ):
                assert isinstance(envelope, MessageRun)
                numbers += envelope.batch.column("n").to_pylist()
        assert len(numbers) == staged.rows
        self.written.append(sorted(numbers))
        self.transactions.append(staged.transaction)
        if self.dies:
            raise KeyboardInterrupt


def stream(mode: str = "append", partitions: int | None = 2) -> StreamSpec:
    options = (("mode", mode), ("table", "numbers"), ("partition_by", "n"))
    return StreamSpec("out", partitions, "n int", options=options, written=True, through="app-1-out/run/1.1")


def epoch(
    system: SparkSystem, spec: StreamSpec, number: int, numbers: list[int], *, final: bool = False
) -> Publication:
    producer = system.producer(spec, f"attempt-{number}")
    for partition in range(spec.partitions or 1):
        part = numbers[partition :: spec.partitions or 1]
        producer.write(partition, pa.record_batch({"n": pa.array(part, pa.int32())}))
    return Publication("app/run/stage", "1.1", number, {0: producer.finish()}, final=final)


@pytest.fixture
def system(tmp_path: Path) -> SparkSystem:
    made = SparkSystem("warehouse", SystemBinding("spark", {}), str(tmp_path))
    made.writer = Writer(made)
    return made


def writer_of(system: SparkSystem) -> Any:
    return system.writer


def test_each_epoch_is_appended_once_however_often_it_is_published(system: SparkSystem) -> None:
    spec = stream()
    system.create([spec])
    first, second = epoch(system, spec, 0, [1, 2, 3]), epoch(system, spec, 1, [4], final=True)
    for publication in (first, first, second, second, first):
        system.publish(spec, publication)
    assert writer_of(system).written == [[1, 2, 3], [4]]
    (app, version), (same, next_version) = writer_of(system).transactions
    assert app == same == f"{root_identity(system.log.filesystem)}/app/run/stage/out"
    assert next_version > version


def test_nothing_is_not_appended_but_it_replaces(system: SparkSystem) -> None:
    after: dict[str, list[list[int]]] = {"append": [], "overwrite": [[]]}
    for mode, written in after.items():
        spec = dataclasses.replace(stream(mode), through=f"app-1-{mode}/run/1.1")
        system.create([spec])
        system.publish(spec, epoch(system, spec, 0, [], final=True))
        assert writer_of(system).written == written


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_what_replaces_is_written_once_with_all_epochs_when_the_stage_ends(system: SparkSystem, mode: str) -> None:
    spec = stream(mode)
    system.create([spec])
    system.publish(spec, epoch(system, spec, 0, [1, 2, 3]))
    assert writer_of(system).written == []
    system.publish(spec, epoch(system, spec, 1, [4], final=True))
    assert writer_of(system).written == [[1, 2, 3, 4]]


def test_who_dies_before_the_record_is_followed_by_one_who_writes_the_same_again(system: SparkSystem) -> None:
    spec = stream()
    system.create([spec])
    publication = epoch(system, spec, 0, [1, 2], final=True)
    writer_of(system).dies = True
    with pytest.raises(KeyboardInterrupt):
        system.publish(spec, publication)
    writer_of(system).dies = False
    for _ in range(2):
        system.publish(spec, publication)
    assert writer_of(system).written == [[1, 2], [1, 2]]
    assert len(set(writer_of(system).transactions)) == 1, "so that Delta knows the second for the first"


def test_without_a_session_nothing_is_written_and_a_runner_is_asked_for(system: SparkSystem) -> None:
    spec = stream()
    system.create([spec])
    publication = epoch(system, spec, 0, [1], final=True)
    system.writer = None
    with pytest.raises(StageLost, match="only a stage runner can do"):
        system.publish(spec, publication)


def test_the_partition_count_is_the_streams_else_the_systems_else_one(tmp_path: Path) -> None:
    def count(declared: int | None, **options: Any) -> int:
        system = SparkSystem("warehouse", SystemBinding("spark", options), str(tmp_path))
        return system.metadata([StreamSpec("in", declared)])["in"].partitions

    assert (count(3, partitions=5), count(None, partitions="5"), count(None)) == (3, 5, 1)
    for said in ("many", "0", "65537"):
        with pytest.raises(ConfigError, match=f"has partitions='{said}'"):
            count(None, partitions=said)
