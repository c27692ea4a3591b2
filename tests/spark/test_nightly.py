"""What takes long: a run whose runner is killed at random moments, and more data than memory is given. ``make nightly`` runs it."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import duckdb
import pytest

from airflow_samza.errors import StageLost
from airflow_samza.runs.folders import read
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.spark.runtime import LocalRuntime
from airflow_samza.systems.filesystem import open_filesystem
from airflow_samza.systems.system import SystemBinding
from benchmarks.gen_data import ensure_data

pytestmark = [pytest.mark.nightly, pytest.mark.spark]

APPLICATION = "benchmarks.applications:w2"
ROUNDS = int(os.environ.get("NIGHTLY_ROUNDS", "20"))
ROWS = int(os.environ.get("NIGHTLY_ROWS", "40000000"))


def runtime_over(tmp_path: Path, views: Path) -> LocalRuntime:
    bindings = {
        "lake": SystemBinding("files", {"root": str(views.parent)}),
        "results": SystemBinding("files", {"root": str(tmp_path / "out")}),
    }
    return LocalRuntime(str(tmp_path / "root"), bindings)


def kill_runners(runtime: LocalRuntime, run: RunPlan, root: Path) -> None:
    files = open_filesystem(str(root))
    for runner in runtime.live_runners(run):
        claim = read(files, runner.claim)
        if claim is not None:
            os.kill(int(claim["pid"]), signal.SIGKILL)


def counts(source: str) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = duckdb.connect().execute(f"SELECT page_id, views FROM ({source}) ORDER BY page_id").fetchall()
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
        run = runtime.prepare(APPLICATION, f"round-{number}", config={"views": views.name})
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
    runtime.run_application(APPLICATION, "many", config={"views": views.name})
    expected = counts(f"SELECT page_id, count(*) AS views FROM '{views}' GROUP BY page_id")
    assert counts(f"SELECT page_id, views FROM '{tmp_path}/out/views-per-page/part-*.parquet'") == expected
