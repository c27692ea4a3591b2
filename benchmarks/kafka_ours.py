"""Runs of the Kafka benchmark's applications: on a warm Spark, and task by task in this process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow.dataset as ds

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from benchmarks.in_process import InProcess
from benchmarks.kafka_topics import PARTITIONS, PerPage


def _bindings(address: str, out: Path, lake: Path) -> dict[str, SystemBinding]:
    return {
        "events": SystemBinding("kafka", {"bootstrap.servers": address}),
        "results": SystemBinding("files", {"root": str(out)}),
        "lake": SystemBinding("files", {"root": str(lake)}),
    }


def _pages(out: Path) -> PerPage:
    files = [str(path) for path in out.rglob("*.parquet") if path.stat().st_size]
    table = ds.dataset(files, format="parquet").to_table()
    pages, views, millis = (table.column(name).to_pylist() for name in ("page_id", "views", "millis"))
    return {page: (n, total) for page, n, total in zip(pages, views, millis, strict=True)}


class OnSpark:
    """Runs on a stage runner that stays up; each is planned anew, and its output committed and published."""

    def __init__(self, work: Path, address: str, cores: int) -> None:
        self._work, self._address, self._cores = work, address, cores
        self._runs: dict[str, tuple[SparkRuntime, RunPlan, int]] = {}

    def run(self, format_: str, topic: str, messages: int) -> tuple[float, PerPage]:
        """Return the seconds of a run that reads a topic, from its plan to its end, and what it counted."""
        out = self._work / f"out-{format_}"
        shutil.rmtree(out, ignore_errors=True)
        seconds = self._run(f"benchmarks.kafka_apps:{format_}", out, {"streams.views.samza.physical.name": topic})
        return seconds, _pages(out)

    def publish(self, delivery: str, topic: str, views: Path) -> float:
        """Return the seconds of a run that sends a file's rows to a topic."""
        config = {
            "views": views.name,
            "streams.published.samza.physical.name": topic,
            "streams.published.samza.partition.count": str(PARTITIONS),
        }
        return self._run(f"benchmarks.kafka_apps:{delivery}", self._work / "none", config, views.parent)

    def _run(self, application: str, out: Path, config: Mapping[str, str], lake: Path | None = None) -> float:
        begin = time.perf_counter()
        bindings = _bindings(self._address, out, lake or self._work)
        root = self._work / application.partition(":")[2]
        _, _, number = self._runs.get(application, (None, None, 0))
        runtime = SparkRuntime(str(root), bindings, master=f"local[{self._cores}]")
        run = runtime.prepare(RunRequest(application, "bench", generation=number + 1, config=config, reuse=False))
        self._runs[application] = runtime, run, number + 1
        for stage in run.plan.stages:
            runtime.run_stage(run, stage.stage_id)
        return time.perf_counter() - begin

    def close(self) -> None:
        """End the stage runners."""
        for runtime, run, _ in self._runs.values():
            runtime.close(run, wait_seconds=30)


class WithoutSpark:
    """Runs in this process, a task after the other."""

    def __init__(self, work: Path, address: str) -> None:
        self._work, self._address = work, address

    def run(self, format_: str, topic: str, messages: int) -> tuple[float, PerPage]:
        """Return the seconds of a run that reads a topic, from its plan to its end, and what it counted."""
        out, root = self._work / f"alone-out-{format_}", self._work / f"alone-{format_}"
        for folder in (out, root):
            shutil.rmtree(folder, ignore_errors=True)
        here = InProcess(root, _bindings(self._address, out, self._work))
        begin = time.perf_counter()
        config = {"streams.views.samza.physical.name": topic}
        run = here.prepare(f"benchmarks.kafka_apps:{format_}", config)
        for stage in run.plan.stages:
            here.run_stage(run, stage.stage_id)
        return time.perf_counter() - begin, _pages(out)
