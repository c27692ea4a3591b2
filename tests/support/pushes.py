"""Pushes without Spark: what its tasks would stage is staged here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_finish import begin_staging, finish_push
from airflow_samza.runs.tables.push_request import PushManifest, PushRequest
from airflow_samza.runs.tables.table_version import DELETED, TableVersion
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition

SCHEMA = Schema.of("id bigint, tier string")
PARTITIONS = 2
TOPIC = StreamSpec("profiles-push", PARTITIONS, f"{SCHEMA.ddl()}, {DELETED} boolean", ("id",))

Rows = dict[int, str | None]
"""Tiers by id; None deletes."""


@dataclass
class Pushes:
    """A root with a log, and a table profiles that is pushed to."""

    path: Path | str

    def __post_init__(self) -> None:
        self.files = open_filesystem(str(self.path))
        self.system = LogSystem("log", SystemBinding("log"), filesystem=self.files)
        self.system.create([TOPIC])

    def __reduce__(self) -> tuple[object, ...]:
        return (Pushes, (self.path,))

    def request(self, push_id: str, **more: Any) -> PushRequest:
        found = {
            "max_change_ratio": float("inf"),
            "min_rows": 0,
            "after": versions.highest_number(self.files, "log", TOPIC.name),
            **more,
        }
        source = found.pop("source", {"path": "/in"})
        return PushRequest("app", "m:app", "profiles", push_id, "log", TOPIC.name, PARTITIONS, ("id",), source, **found)

    def stage(self, request: PushRequest, rows: Rows, **found: Any) -> PushRequest:
        """Leave the Spark job's results: a manifest per task, with findings of its own on top."""
        epoch = begin_staging(self.files, request, SCHEMA)
        for task in range(PARTITIONS):
            producer = self.system.producer(TOPIC, f"{request.push_id}-{task}")
            columns = {"id": list(rows), "tier": list(rows.values()), DELETED: [tier is None for tier in rows.values()]}
            if task == 0 and rows:
                producer.write_keyed(
                    pa.RecordBatch.from_pydict(columns, schema=Schema.of(str(TOPIC.schema)).to_arrow()), ("id",)
                )
            staged = producer.finish()
            deletes = sum(tier is None for tier in rows.values()) if task == 0 else 0
            counts = {"rows": (len(rows) if task == 0 else 0) - deletes, "deletes": deletes, "bytes": staged["bytes"]}
            manifest = {**counts, "null_keys": 0, "duplicates": 0, "staged": staged, **(found if task == 0 else {})}
            write_once(self.files, request.handle.folder.manifest(epoch, task), PushManifest(**manifest))
        return request

    def finish(self, request: PushRequest) -> TableVersion:
        return finish_push(self.files, self.system, request)

    def push(self, push_id: str, rows: Rows, **more: Any) -> TableVersion:
        return self.finish(self.stage(self.request(push_id, **more), rows))

    def retried(self, request: PushRequest) -> PushRequest:
        """The request as a next attempt makes it."""
        return replace(request, after=versions.highest_number(self.files, "log", TOPIC.name))

    def rows_of(self, version: TableVersion) -> Rows:
        """Return the rows that a reader of a version sees."""
        found: Rows = {}
        consumer = self.system.consumer(TOPIC, version.slice)
        for partition in range(PARTITIONS):
            for envelope in consumer.read(SystemStreamPartition("log", TOPIC.name, partition)):
                for row in envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else ():
                    found.pop(row["id"], None)
                    if not row[DELETED]:
                        found[row["id"]] = row["tier"]
        consumer.close()
        return found

    def current(self) -> TableVersion:
        found = versions.newest(self.files, "log", TOPIC.name)
        assert found is not None
        return found
