"""Pushes of a table through the runtime of a session, and what is there of them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.runs.records.folders import read
from airflow_samza.runs.stages.stage_runners import Claim, all_runners
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_request import push_handle
from airflow_samza.runs.tables.table_version import TableVersion
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.spark.clusters.sessions import SECRET, Session
from tests.support.topic_rows import version_rows

KEPT = "samza_spark_apps.contract_tables:kept"
TABLE, TOPIC = "tiers", "tiers-push"


class Pushes:
    """The pushes of one table in the root of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.runtime = session.runtime
        self.files = open_filesystem(session.runtime.root)
        self.log = LogSystem("log", SystemBinding("log", {"root": session.runtime.root}))

    def begin(self, push_id: str, source: object, **options: Any) -> StageHandle:
        """Submits a push."""
        return self.runtime.push(KEPT, TABLE, source, push_id, **options)

    def push(self, push_id: str, source: object, **options: Any) -> TableVersion:
        """Pushes, and waits for the version; no command line may show the secret meanwhile."""
        handle = self.begin(push_id, source, **options)
        while not self.runtime.status(handle).is_final:
            shown = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
            assert not [line for line in shown if SECRET in line]
            time.sleep(0.1)
        return self.runtime.finish_push(handle)

    def put(self, topic: str, schema: str, rows: list[dict[str, Any]], **keyed: Any) -> None:
        """Appends to a topic."""
        self.log.append(topic, pa.Table.from_pylist(rows, Schema.of(schema).to_arrow()), **keyed)

    def parquet(self, name: str, rows: Sequence[Mapping[str, Any]]) -> str:
        """A file of rows."""
        path = self.session.folder / name
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return str(path)

    def rows(self, number: int) -> dict[int, str]:
        """The rows that a reader of a version sees."""
        found = version_rows(self.log, TOPIC, versions.by_number(self.files, "log", TOPIC, number), "member_id")
        return {member: row["tier"] for member, row in found.items()}

    def numbers(self) -> list[int]:
        """Of the versions that there are."""
        return [version.number for version in versions.versions(self.files, "log", TOPIC)]

    def runners(self, push_id: str) -> list[psutil.Process]:
        """The processes of a push's live runners."""
        run = push_handle("kept", TABLE, push_id).run
        live = [runner for runner in all_runners(self.files, run) if runner.is_alive(self.files)]
        return [
            psutil.Process(claim.pid)
            for claim in (read(self.files, runner.claim, Claim) for runner in live)
            if claim is not None
        ]
