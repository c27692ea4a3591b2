"""The rows that the files system reads of one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition, UnreadableRun

DDL = "a bigint, b string"


def file_rows(
    root: Path,
    data: bytes,
    ddl: str | None = DDL,
    *,
    name: str,
    tolerant: bool = False,
    partitions: int = 1,
    **options: str,
) -> list[Any]:
    """Write a file, and return its rows as tuples; of a tolerant stream bad records as text between them."""
    (root / name).write_bytes(data)
    stream = StreamSpec("in", partitions, ddl, path=name, tolerant=tolerant, options=tuple(options.items()))
    system = FilesSystem("lake", SystemBinding("files", {"root": str(root)}))
    consumer = system.consumer(stream, system.slice(stream))
    found: list[Any] = []
    for partition in range(partitions):
        for envelope in consumer.read(SystemStreamPartition("lake", "in", partition), None):
            if isinstance(envelope, UnreadableRun):
                assert all(envelope.errors)
                found += envelope.texts
            elif isinstance(envelope, MessageRun):
                found += [tuple(row.values()) for row in envelope.batch.to_pylist()]
    return found
