"""Sections of a shared topic: each reader sees those of its slice only."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.sections import described
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding, SystemStreamPartition

SPEC = StreamSpec("shared", partitions=2, schema="n bigint")


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    log.create([SPEC])
    for epoch in range(3):
        for place, run in enumerate(("monday", "tuesday")):
            producer = log.producer(SPEC, f"{run}-{epoch}")
            for partition in range(2):
                number = 100 * place + 10 * epoch + partition
                producer.write(partition, pa.record_batch({"n": pa.array([number, number], pa.int64())}))
            control = [WatermarkMessage("task-0", 1, run, epoch)]
            if epoch == 2 and run == "monday":
                control.append(EndOfStreamMessage("task-0", 1, run, "shared"))  # type: ignore[arg-type]
            log.publish(SPEC, Publication(f"views/{run}/stage", "1.1", epoch, {0: producer.finish()}, tuple(control)))
    return log


def seen(log: LogSystem, run: str, partition: int = 0) -> list[object]:
    chosen = [described(section) for section in log.sections(SPEC) if section.run_id == run]
    consumer = log.consumer(SPEC, {**log.slice(SPEC), "sections": chosen})
    found: list[object] = []
    for envelope in consumer.read(SystemStreamPartition("log", "shared", partition)):
        found += envelope.batch.column("n").to_pylist() if isinstance(envelope, MessageRun) else [envelope.message]
    consumer.close()
    return found


def test_sections_are_read_apart(log: LogSystem) -> None:
    read = seen(log, "monday")
    assert [message.timestamp for message in read if isinstance(message, WatermarkMessage)] == [0, 1, 2]
    assert [n for n in seen(log, "tuesday", 1) if isinstance(n, int)] == [101, 101, 111, 111, 121, 121]


def test_an_open_section_says_how_far_it_has_come(log: LogSystem) -> None:
    assert {section.run_id: (section.is_complete, section.progress) for section in log.sections(SPEC)} == {
        "monday": (True, "1 of 1 tasks have ended it"),
        "tuesday": (False, "no task has ended it"),
    }


def test_a_slice_has_the_sections_of_its_time(log: LogSystem) -> None:
    before = log.slice(SPEC)
    log.publish(
        SPEC, Publication("views/wednesday/stage", "1.1", 0, {}, (WatermarkMessage("task-0", 1, "wednesday", 0),))
    )
    runs = {section.run_id for section in log.sections(SPEC)}
    assert {section.run_id for section in log.sections(SPEC, before)} == runs - {"wednesday"} == {"monday", "tuesday"}
