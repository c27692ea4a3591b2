"""Long tests: a run whose runner is killed at random moments, and more data than memory is given.

``make nightly`` runs it.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from airflow_samza.errors import StageLost
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import SystemBinding
from benchmarks.contenders import Runners
from benchmarks.gen_data import ensure_data
from benchmarks.memory_limit import MemoryLimit
from benchmarks.wide_data import PAYLOAD_BYTES, ROW_BYTES, write_wide_views

pytestmark = [pytest.mark.nightly, pytest.mark.spark]

APPLICATION = "benchmarks.applications:w2"
ROUNDS = int(os.environ.get("NIGHTLY_ROUNDS", "20"))
ROWS = int(os.environ.get("NIGHTLY_ROWS", "40000000"))
BYTES = int(os.environ.get("NIGHTLY_BYTES", str(10 * 2**30)))
"""Of the large input: on the disk and in memory alike, as it does not compress."""
MEMORY = int(os.environ.get("NIGHTLY_MEMORY", str(4 * 2**30)))
"""Memory that all processes together may take meanwhile, this one included."""


def runtime_over(tmp_path: Path, views: Path) -> SparkRuntime:
    bindings = {
        "lake": SystemBinding("files", {"root": str(views.parent)}),
        "results": SystemBinding("files", {"root": str(tmp_path / "out")}),
    }
    return SparkRuntime(str(tmp_path / "root"), bindings)


def kill_runners(runtime: SparkRuntime, run: RunPlan, root: Path) -> None:
    files = open_filesystem(str(root))
    for runner in runtime.live_runners(run):
        claim = read(files, runner.claim, Claim)
        if claim is not None:
            os.kill(claim.pid, signal.SIGKILL)


def counts(source: str) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = (
        duckdb.connect().execute(f"SELECT page_id, views FROM ({source}) ORDER BY page_id").fetchall()
    )
    return rows


def test_runs_killed_at_random_end_as_undisturbed_ones(tmp_path: Path) -> None:
    seed = int(os.environ.get("NIGHTLY_SEED", str(random.randrange(2**32))))
    print(f"NIGHTLY_SEED={seed}")
    chance = random.Random(seed)
    views = ensure_data(tmp_path / "data", 1_000_000)
    expected = counts(f"SELECT page_id, count(*) AS views FROM '{views}' GROUP BY page_id")
    for number in range(ROUNDS):
        folder = tmp_path / f"round-{number}"
        runtime = runtime_over(folder, views)
        run = runtime.prepare(RunRequest(APPLICATION, f"round-{number}", config={"views": views.name}))
        kills_left = chance.randint(1, 3)
        for stage in run.plan.stages:
            while True:
                handle = runtime.submit(run, stage.stage_id)
                if kills_left and chance.random() < 0.7:
                    kills_left -= 1
                    time.sleep(chance.uniform(0, 8))  # the moment of the kill is what is tried here
                    kill_runners(runtime, run, folder / "root")
                if runtime.wait(handle, timeout=300).state == "lost":
                    continue
                try:
                    runtime.finish(handle)
                except StageLost:
                    continue
                break
        runtime.close(run, wait_seconds=30)
        assert counts(f"SELECT page_id, views FROM '{folder}/out/views-per-page/part-*.parquet'") == expected, (
            f"round {number}, seed {seed}"
        )


def test_many_rows_are_counted_as_duckdb_counts_them(tmp_path: Path) -> None:
    views = ensure_data(tmp_path / "data", ROWS)
    runtime = runtime_over(tmp_path, views)
    runtime.run_application(RunRequest(APPLICATION, "many", config={"views": views.name}))
    expected = counts(f"SELECT page_id, count(*) AS views FROM '{views}' GROUP BY page_id")
    assert counts(f"SELECT page_id, views FROM '{tmp_path}/out/views-per-page/part-*.parquet'") == expected


@pytest.fixture
def roomy() -> Iterator[Path]:
    """A folder that is gone afterwards: pytest would keep those of the last three runs."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("NIGHTLY_DATA"), prefix="nightly-") as place:
        yield Path(place)


def test_ten_gigabytes_go_through_a_topic_in_four(roomy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    views = write_wide_views(roomy / "data", BYTES // ROW_BYTES)
    size = sum(file.stat().st_size for file in views.iterdir())
    assert size > 0.97 * BYTES
    runtime = runtime_over(roomy, views)
    started = time.monotonic()
    with MemoryLimit(MEMORY, Runners(roomy / "root")) as limit:
        results = runtime.run_application(
            RunRequest("benchmarks.applications:wide", "wide", config={"views": views.name, "partitions": "16"})
        )
    seconds = time.monotonic() - started
    through = sum(output.bytes for result in results for output in result.outputs if output.own)
    with capsys.disabled():
        parts = ", ".join(
            f"{name} {bytes_ / 2**20:,.0f}"
            for name, bytes_ in sorted(limit.by_process.items(), key=lambda part: -part[1])
        )
        print(
            f"\n{size / 2**30:.2f} GiB of Parquet in {views.name}, {through / 2**30:.2f} GiB through the topic, in "
            f"{seconds:.0f} s; "
            f"at most {limit.peak / 2**20:,.0f} of {MEMORY / 2**20:,.0f} MiB: {parts}"
        )
    assert through > 0.97 * BYTES
    expected = counts(f"SELECT page_id, count(*) AS views FROM '{views}/*.parquet' GROUP BY page_id")
    found = f"{roomy}/out/bytes-per-page/part-*.parquet"
    assert counts(f"SELECT page_id, views FROM '{found}'") == expected
    assert counts(f"SELECT page_id, bytes // {PAYLOAD_BYTES} AS views FROM '{found}'") == expected
