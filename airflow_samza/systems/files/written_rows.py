"""Rows that a task has written to an output of files: staged, or published since."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from airflow_samza.systems.capabilities import Written, rows_missing
from airflow_samza.systems.files.failures import storage_errors
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.manifests import part_name, producer_hash
from airflow_samza.systems.files.reading import FilesConsumer
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemStreamPartition


def written_rows(output: Location, stream: StreamSpec, written: Written) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the files of one task, where they lie now."""
    described = written.described
    kind = str(described["format"])
    part = part_name(
        written.task,
        producer_hash(written.producer, stream.name),
        written.generation,
        written.epoch,
        kind,
    )
    for file in described["files"]:
        with storage_errors(path=str(output), stream=stream.name, doing="read"):
            listed = _listed(output, [str(file["path"]), part], stream.name)
        slice_ = {
            "format": kind,
            "partitions": 1,
            "files": [listed],
            "splits": [[[0, 0, None]]],
            "schema": described["schema"],
        }
        consumer = FilesConsumer(output, dataclasses.replace(stream, timestamp=None, tolerant=False), slice_)
        for envelope in consumer.read(SystemStreamPartition("", stream.name, 0), None):
            if isinstance(envelope, MessageRun):
                yield envelope.batch


def _listed(output: Location, names: list[str], stream: str) -> dict[str, Any]:
    """Return the first file of these names that is there, as a slice lists it."""
    for name in names:
        info = output.filesystem.get_file_info((output / name).path)
        if info.is_file:
            return {"path": info.path, "size": int(info.size), "mtime": None, "columns": {}}
    raise rows_missing(stream, str(output / names[-1]))
