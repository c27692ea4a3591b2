"""Sections of a shared stream, written epoch by epoch as stages of runs write them, without runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding

SHARED = StreamSpec("shared", partitions=3, schema="word string, n bigint")


def shared_log(root: Path) -> LogSystem:
    """Return a log with an empty topic ``shared`` of three partitions."""
    system = LogSystem("log", SystemBinding("log", {"root": str(root)}))
    system.create([SHARED])
    return system


def write_epoch(
    system: LogSystem,
    run: str,
    epoch: int,
    numbers: Iterable[int],
    *,
    generation: str = "1.1",
    ends: bool = False,
    slot: OutputSlot | None = None,
    tasks: Sequence[str] = ("task-0",),
) -> None:
    """Publish an epoch of a run's stage: a row for each number, by its word; with ``ends`` the end-of-stream."""
    rows = list(numbers)
    producer = system.producer(SHARED, f"{run}-{generation}-{epoch}")
    words = pa.array([f"w{number % 7}" for number in rows], pa.string())
    producer.write_keyed(pa.RecordBatch.from_arrays([words, pa.array(rows, pa.int64())], ["word", "n"]), ["word"])
    control = tuple(EndOfStreamMessage(task, len(tasks), run, "shared") for task in tasks) if ends else ()
    system.publish(
        SHARED,
        Publication(f"views/{run}/stage", generation, epoch, {0: dict(producer.finish())}, control, slot=slot),
    )
