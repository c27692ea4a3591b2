"""A run with state on a standalone cluster of two hosts, of which one can be lost with its disk.

For tests and for the benchmark.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.engine.stage_task import task_host_files
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.epoch_records import Commit, newest_intent, read_commit, read_manifest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from demo.spark_cluster import Daemon, StandaloneCluster, standalone_cluster
from tests.spark.clusters.sessions import SMALL
from tests.support.topic_rows import topic_rows
from tests.support.waiting import until

APPLICATION = "samza_spark_apps.tables:written_and_joined_on"
FACT = Schema.of("id bigint, payload string")
VISIT = Schema.of("id bigint, n bigint")
PARTITIONS = 4


@dataclass
class Flow:
    """Facts and visits in topics, and one continuous run over them on the cluster."""

    cluster: StandaloneCluster
    folder: Path
    config: dict[str, str]
    sent: int = 0
    run: RunPlan = field(init=False)
    handle: StageHandle = field(init=False)

    def __post_init__(self) -> None:
        root = str(self.folder / "root")
        self.files = open_filesystem(root)
        self.log = LogSystem("log", SystemBinding("log", {"root": root}))
        for topic, schema in (("facts", FACT), ("visits", VISIT)):
            self.log.create([StreamSpec(topic, PARTITIONS, schema.ddl())])
        (self.folder / "events").mkdir(parents=True)
        told = {"enabled": "true", "compress": "false", "dir": f"file:{self.folder / 'events'}"}
        events = {f"spark.eventLog.{name}": value for name, value in told.items()}
        self.runtime = SparkRuntime(
            root, {}, master=self.cluster.master, spark_conf={**SMALL, **events}, idle_seconds=600
        )

    def start(self) -> None:
        """Begins a run that goes on, with its state on hosts' own disks."""
        self.run = self.runtime.prepare(
            RunRequest(
                APPLICATION,
                "run",
                mode="continuous",
                config={"job.store.local.dir": "$HOST_FOLDER/samza", **self.config},
            )
        )
        (stage,) = self.run.plan.stages
        self.handle = self.runtime.submit(self.run, stage.stage_id)

    def send_facts(self, rows: pa.Table) -> None:
        self.log.append("facts", rows, key=["id"])
        self.sent += rows.num_rows

    def visit(self, count: int, keys: int) -> None:
        """Sends so many visits, and waits until they are read."""
        numbers = list(range(self.sent, self.sent + count))
        rows = {"id": [number * 7919 % keys for number in numbers], "n": numbers}
        self.log.append("visits", pa.table(rows, VISIT.to_arrow()), key=["id"])
        self.sent += count
        self.wait()

    def wait(self) -> None:
        """Until all that was sent is read, and committed."""
        until(lambda: (found := self.commit()) is not None and found.totals.messages >= self.sent)

    def commit(self) -> Commit | None:
        """The newest commit."""
        intent = newest_intent(self.files, self.handle.folder)
        if intent is None:
            return None
        newest = read_commit(self.files, self.handle.folder, intent.epoch)
        return (
            newest
            if newest is not None or not intent.epoch
            else read_commit(self.files, self.handle.folder, intent.epoch - 1)
        )

    def restored(self) -> dict[str, float]:
        """The number of bytes of state taken from each place, so far."""
        found = self.commit()
        facts = found.totals.facts if found is not None else {}
        return {place: facts.get(f"restored_from_{place}_bytes", 0) for place in ("memory", "host", "root")}

    def rows(self) -> list[dict[str, Any]]:
        """The application's output."""
        return sorted(topic_rows(self.log, "known"), key=lambda row: int(row["n"]))

    def homes(self) -> dict[int, dict[int, str]]:
        """By epoch, on which host each task ran, as Spark's own events say: the last try at each."""
        jobs: dict[int, int] = {}
        found: dict[int, dict[int, str]] = {}
        for line in self._events():
            if line["Event"] == "SparkListenerJobStart":
                epoch = line.get("Properties", {}).get("airflow_samza.epoch")
                standby = "standby" in str(line.get("Properties", {}).get("spark.jobGroup.id"))
                for stage in line["Stage IDs"] if epoch is not None and not standby else ():
                    jobs[stage] = int(epoch)
            elif (
                line["Event"] == "SparkListenerTaskEnd"
                and line["Stage ID"] in jobs
                and line["Task End Reason"]["Reason"] == "Success"
            ):
                info = line["Task Info"]
                found.setdefault(jobs[line["Stage ID"]], {})[info["Partition ID"]] = info["Host"]
        return found

    def _events(self) -> Iterator[dict[str, Any]]:
        for path in sorted((self.folder / "events").rglob("*")):
            for line in (
                path.read_text().splitlines() if path.is_file() and not path.name.startswith(("appstatus", ".")) else ()
            ):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # the line that is being written

    def held(self, number: int) -> int:
        """Return of how many tasks the newest state lies on the disk of the worker of this number."""
        commit = self.commit()
        assert commit is not None
        disk = str(self.cluster.folder / f"worker-{number}" / "samza")
        return sum(
            all(
                task_host_files(disk, self.files.root, self.handle.folder.path, task).has(file["path"], file["bytes"])
                for tables in (read_manifest(self.files, self.handle.folder, task, epoch).state or {}).values()
                for file in tables.values()
            )
            for task, epoch in commit.standing.items()
        )

    def lose(self, number: int) -> None:
        """Kills a worker with its executors, and removes its disk."""
        worker: Daemon = self.cluster.workers[number - 1]
        worker.kill()  # one that shuts down may still be told to start another executor
        shutil.rmtree(self.cluster.folder / f"worker-{number}", ignore_errors=True)

    def drain(self) -> StageResult:
        """Ends the run for good."""
        self.runtime.drain(self.run)
        self.runtime.wait(self.handle)
        return self.runtime.finish(self.handle)


@contextmanager
def flow_on(folder: Path, config: dict[str, str]) -> Iterator[Flow]:
    """A cluster of two hosts with a run on it."""
    (folder / "cluster").mkdir(parents=True)
    with standalone_cluster(folder / "cluster", workers=2) as cluster:
        flow = Flow(cluster, folder, config)
        try:
            yield flow
        finally:
            flow.runtime.close(flow.run, wait_seconds=30)
            for runner in flow.runtime.live_runners(flow.run):
                claim = read(flow.files, runner.claim, Claim)
                if claim is not None:
                    os.kill(claim.pid, signal.SIGKILL)
