"""The example Dag over files that keep coming: its windows, run by run, without a feeder and without Spark."""

from __future__ import annotations

import random
import threading
from collections import Counter
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import SystemBinding
from tests.support.without_spark import run_stage

DAGS = Path(__file__).parents[2] / "dags"
APPLICATION = "pipelines.departures:files"


@pytest.mark.timeout(120)
def test_windows_over_the_days_files_are_those_of_all_flights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DAGS))
    bindings = {
        "data": SystemBinding("files", {"root": str(tmp_path / "data")}),
        "warehouse": SystemBinding("files", {"root": str(tmp_path / "warehouse")}),
    }
    runtime = SparkRuntime(str(tmp_path / "root"), bindings)
    chance, expected = random.Random(7), Counter[tuple[str, datetime]]()
    for day in range(1, 5):
        expected += departures(tmp_path / "data" / "flights", day, chance)
        plan = runtime.prepare(RunRequest(APPLICATION, f"day-{day}"))
        assert len(plan.stream("flights").slice["files"]) == 1  # type: ignore[index]
        for stage in plan.plan.stages:
            run_stage(runtime, plan, stage.stage_id, 1, bindings)
        runtime.close(plan)
    last = runtime.prepare(RunRequest(APPLICATION, "last", mode="continuous"))
    runtime.drain(last)
    threads = [
        threading.Thread(target=run_stage, args=(runtime, last, stage.stage_id, 1, bindings))
        for stage in last.plan.stages
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runtime.close(last)
    runs = tmp_path / "warehouse" / "departures-files"
    rows = ds.dataset(sorted(str(path) for path in runs.glob("*/part-*"))).to_table().to_pylist()
    assert {(row["carrier"], row["window_start"]): row["flights"] for row in rows} == dict(expected)
    assert len(rows) == len(expected)  # each window once, however many runs have flights of it
    assert len([path for path in runs.iterdir() if path.name.startswith("day-")]) == 4


def departures(folder: Path, day: int, chance: random.Random) -> Counter[tuple[str, datetime]]:
    """Write the file of a day, some of whose flights are of the next one; return the flights that left by hour."""
    folder.mkdir(parents=True, exist_ok=True)
    midnight = datetime(2013, 1, day, tzinfo=timezone.utc)
    rows: list[dict[str, Any]] = [
        {
            "carrier": chance.choice(["AA", "UA"]),
            "origin": "JFK",
            "dep_delay": chance.choice([None, 5]),
            "time_hour": midnight + timedelta(hours=chance.randrange(30)),
        }
        for _ in range(200)
    ]
    schema = pa.schema(
        [
            ("carrier", pa.string()),
            ("origin", pa.string()),
            ("dep_delay", pa.int64()),
            ("time_hour", pa.timestamp("us", "UTC")),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / f"2013-01-{day:02}.parquet")
    return Counter((row["carrier"], row["time_hour"]) for row in rows if row["dep_delay"] is not None)
