"""Cost of a stage by its number of partitions, on hardly any data.

The driver's work, the tasks', and what is left on record.

``python -m benchmarks.scale --data DIR [--partitions 2 16 256 2048] [--spark 2 16 256] [--write-docs]``. The stage in
the middle of the application ``scale`` is measured: it reads a topic of so many partitions and writes one of as many.
Everything runs here, task by task, without Spark; ``--spark`` adds how long whole stages take there.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from benchmarks import pictures
from benchmarks.arguments import made_folder
from benchmarks.gen_data import ensure_data
from benchmarks.in_process import InProcess
from benchmarks.machine import describe_load, describe_machine
from benchmarks.report import DOCS, between_markers

APPLICATION = "benchmarks.applications:scale"
MIDDLE = "by-member"
PAGE = DOCS / "project/scale.md"
PICTURE = DOCS / "images" / "scale.svg"
FIGURES = DOCS / "project/scale.json"


@dataclass(frozen=True)
class Point:
    """The middle stage over ``partitions``: seconds and bytes.

    ``task`` is one task's seconds, ``spark`` a whole stage's on Spark, ``peer`` those of a plain job of as many tasks.
    """

    partitions: int
    plan: float
    driver: float
    task: float
    segments: int
    batches: int
    commit_bytes: int
    manifest_bytes: int
    intent_bytes: int
    files: int
    spark: float | None = None
    peer: float | None = None


def systems(views: Path, work: Path) -> dict[str, SystemBinding]:
    """The systems of the application."""
    return {
        "lake": SystemBinding("files", {"root": str(views.parent)}),
        "results": SystemBinding("files", {"root": str(work / "out")}),
    }


def config(views: Path, partitions: int) -> dict[str, str]:
    """The application's configuration."""
    return {"views": views.name, "partitions": str(partitions), "job.intermediate.stream.partitions": str(partitions)}


def measure(partitions: int, views: Path, work: Path) -> Point:
    """One run without Spark."""
    here = InProcess(work / "root", systems(views, work))
    begin = time.perf_counter()
    run = here.prepare(APPLICATION, config(views, partitions))
    plan = time.perf_counter() - begin
    seconds: dict[str, float] = {}
    for stage in run.plan.stages:
        done = here.run_stage(run, stage.stage_id)
        if stage.stage_id == MIDDLE:
            seconds = done.seconds
    return point_of(work / "root", partitions, plan, seconds)


def point_of(root: Path, partitions: int, plan: float, seconds: dict[str, float]) -> Point:
    """Time and files of the middle stage."""
    written = next(path for path in (root / "topics").rglob("topic.json") if "by-page" in str(path)).parent
    (commit,) = sorted((written / "commits").iterdir())
    record = json.loads(commit.read_text())
    stage = next((root / "runs").rglob(f"stages/{MIDDLE}/*"))
    manifests = list((stage / "manifests").rglob("*.json"))
    return Point(
        partitions=partitions,
        plan=plan,
        driver=seconds["program"] + seconds["intent"] + seconds["finish"],
        task=seconds["tasks"] / partitions,
        segments=len(record["segments"]),
        batches=sum(len(segment["rows"]) for segment in record["segments"]),
        commit_bytes=commit.stat().st_size,
        manifest_bytes=sum(path.stat().st_size for path in manifests),
        intent_bytes=(stage / "epochs" / "0" / "intent.json").stat().st_size,
        files=sum(1 for path in (*stage.rglob("*"), *written.rglob("*")) if path.is_file()),
    )


def on_spark(partitions: int, views: Path, work: Path) -> float:
    """Seconds of the middle stage on Spark, from submit to result, in a warm session."""
    runtime = SparkRuntime(str(work / "spark-root"), systems(views, work), master="local[2]")
    best = float("inf")
    run: RunPlan | None = None
    try:
        for generation in (1, 2):  # the first one starts Spark
            run = runtime.prepare(
                RunRequest(APPLICATION, "scale", generation=generation, config=config(views, partitions), reuse=False)
            )
            for stage in run.plan.stages:
                begin = time.perf_counter()
                runtime.run_stage(run, stage.stage_id)
                if stage.stage_id == MIDDLE:
                    best = min(best, time.perf_counter() - begin)
    finally:
        if run is not None:
            runtime.close(run, wait_seconds=30)
    return best


def of_plain_spark(partitions: int, work: Path) -> float:
    """Seconds of a plain Spark job of as many tasks, each of which writes a row to a file, in a warm session."""
    import pyarrow as pa
    from pyspark.sql import SparkSession

    folder = str(work / "plain")
    os.mkdir(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        for batch in batches:
            pq.write_table(pa.Table.from_batches([batch]), f"{folder}/{batch.column(0)[0].as_py()}.parquet")
            yield batch

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    best = float("inf")
    try:
        for _ in range(2):
            begin = time.perf_counter()
            spark.range(0, partitions, 1, partitions).mapInArrow(written, "id bigint").collect()
            best = min(best, time.perf_counter() - begin)
    finally:
        spark.stop()
    return best


def line(partitions: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """The (fixed, per partition) costs that fit best, in terms of each value; neither is less than nothing."""
    counts, wanted = np.array(partitions, float), np.array(values, float)
    both = np.linalg.lstsq(np.stack([1 / wanted, counts / wanted], axis=1), np.ones(len(wanted)), rcond=None)[0]
    if both[0] < 0:
        return 0.0, float(np.mean(wanted / counts))
    if both[1] < 0:
        return float(np.mean(wanted)), 0.0
    return float(both[0]), float(both[1])


def table(points: Sequence[Point], machine: str) -> list[str]:
    """The figures and the constants of the formula, as Markdown."""
    counts = [point.partitions for point in points]
    driver, task = line(counts, [p.driver for p in points]), line(counts, [p.task for p in points])
    lines = [f"Measured on {machine}; one process, the tasks one after the other.", ""]
    lines += [
        "| partitions and tasks *n* | plan s | driver s | formula | a task ms | formula | all tasks s | commit KiB | "
        "manifests KiB | files "
        "| a stage on Spark s | a plain job of as many tasks s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for p in points:
        n = p.partitions
        spark, peer = (f"{seconds:.2f}" if seconds is not None else "" for seconds in (p.spark, p.peer))
        lines.append(
            f"| {n:,} | {p.plan:.2f} | {p.driver:.3f} | {driver[0] + driver[1] * n:.3f} | {p.task * 1000:.1f} "
            f"| {(task[0] + task[1] * n) * 1000:.1f} | {p.task * n:.1f} | {p.commit_bytes / 1024:,.1f} | "
            f"{p.manifest_bytes / 1024:,.0f} "
            f"| {p.files:,} | {spark} | {peer} |"
        )
    largest = points[-1]
    per_task = largest.commit_bytes / largest.partitions
    lines += [
        "",
        f"Fitted: driver = {driver[0] * 1000:.0f} ms + {driver[1] * 1e6:.0f} µs · *n*; a task = {task[0] * 1000:.1f} "
        "ms + "
        f"{task[1] * 1e6:.1f} µs · *n*. The commit record of the largest has {per_task:.0f} bytes per task, "
        f"for {largest.segments:,} segments with {largest.batches:,} batches.",
    ]
    return lines


def write_docs(points: Sequence[Point], machine: str) -> None:
    """The table, the picture and the figures."""
    counts = [point.partitions for point in points]
    series = {
        "driver (intent, manifests, commit, publication)": {p.partitions: p.driver for p in points},
        "one task": {p.partitions: p.task for p in points},
        "all tasks, one core": {p.partitions: p.task * p.partitions for p in points},
    }
    (d0, d1), (t0, t1) = line(counts, [p.driver for p in points]), line(counts, [p.task for p in points])
    model = dict(
        zip(
            series,
            [
                {n: d0 + d1 * n for n in counts},
                {n: t0 + t1 * n for n in counts},
                {n: n * (t0 + t1 * n) for n in counts},
            ],
            strict=True,
        )
    )
    if any(p.spark is not None for p in points):
        series["a whole stage on Spark, two cores"] = {p.partitions: p.spark for p in points if p.spark is not None}
    PAGE.write_text(between_markers(PAGE.read_text(), "figures", table(points, machine)))
    pictures.draw_scale(series, model, PICTURE, "seconds of one stage that has nothing to do")
    FIGURES.write_text(
        json.dumps({"machine": machine, "points": [dataclasses.asdict(p) for p in points]}, indent=1) + "\n"
    )


def _once(data: Path, partitions: int) -> Point:
    with tempfile.TemporaryDirectory(prefix="scale-", dir=data) as work:
        return measure(partitions, ensure_data(data.resolve(), max(partitions, 16)), Path(work))


def main() -> None:
    parser = argparse.ArgumentParser(description="What a stage costs by its partitions.")
    parser.add_argument("--data", required=True, type=made_folder)
    parser.add_argument("--partitions", type=int, nargs="+", default=[2, 16, 256, 2048])
    parser.add_argument("--spark", type=int, nargs="*", default=[])
    parser.add_argument(
        "--repeat", type=int, default=3, help="the best of so many counts (of more than 1,000 partitions: of one)"
    )
    parser.add_argument("--write-docs", action="store_true")
    arguments = parser.parse_args()
    points = []
    before = psutil.getloadavg()[0]
    _once(arguments.data, 2)  # warms up: what is imported and compiled is not the stage's
    for partitions in arguments.partitions:
        views = ensure_data(arguments.data, max(partitions, 16))
        found = [_once(arguments.data, partitions) for _ in range(arguments.repeat if partitions <= 1000 else 1)]
        point = min(found, key=lambda one: one.task)
        point = dataclasses.replace(point, driver=min(one.driver for one in found), plan=min(one.plan for one in found))
        if partitions in arguments.spark:
            with tempfile.TemporaryDirectory(prefix="scale-", dir=arguments.data) as work:
                point = dataclasses.replace(point, spark=on_spark(partitions, views, Path(work)))
                point = dataclasses.replace(point, peer=of_plain_spark(partitions, Path(work)))
        print(json.dumps(dataclasses.asdict(point)), flush=True)
        points.append(point)
    machine = describe_machine(2) + describe_load(before, psutil.getloadavg()[0])
    print("\n".join(table(points, machine)))
    if arguments.write_docs:
        write_docs(points, machine)


if __name__ == "__main__":
    main()
