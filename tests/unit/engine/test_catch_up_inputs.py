"""Reading of inputs of other kinds beside those with offsets.

Data intervals of files, bounded inputs, continuous runs.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import StateError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here, run_stage, slice_of

BY_INTERVAL = "tests.support.carrying_apps:by_interval"
FOLLOWING = "tests.support.carrying_apps:counting"


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path / "root")


class Lake:
    """Clicks in files, and members in a topic; a run per day."""

    def __init__(self, here: Here, folder: Path) -> None:
        self.here = here
        self.folder = folder / "clicks"
        self.folder.mkdir(parents=True)
        self.bindings = {"lake": SystemBinding("files", {"root": str(folder)})}
        self.runtime = SparkRuntime(str(here.root), self.bindings)

    def clicks(self, day: int, *pages: str) -> None:
        rows = [
            {"member": 1, "page": page, "at": f"2026-01-{day:02}T0{hour}:00:00+00:00"}
            for hour, page in enumerate(pages)
        ]
        table = pa.table(
            {
                "member": pa.array([row["member"] for row in rows], pa.int64()),
                "page": [row["page"] for row in rows],
                "at": pa.array([row["at"] for row in rows]).cast(pa.timestamp("us", "UTC")),
            }
        )
        pq.write_table(table, self.folder / f"{day}.parquet")

    def run(self, day: int, **more: Any) -> Any:
        interval = DataInterval.from_iso(f"2026-01-{day:02}", f"2026-01-{day + 1:02}")
        plan = self.runtime.prepare(RunRequest(BY_INTERVAL, f"day-{day}", interval=interval, **more))
        for stage in plan.plan.stages:
            run_stage(str(self.here.root), plan, stage.stage_id, bindings=self.bindings)
        self.runtime.close(plan)
        return plan

    def numbered(self) -> list[tuple[str, int]]:
        return [(row["page"], row["number"]) for row in self.here.rows("numbered")]


@pytest.fixture
def lake(here: Here, tmp_path: Path) -> Lake:
    here.log.append("known", pa.table({"member": pa.array([1], pa.int64())}), partitions=1)
    return Lake(here, tmp_path / "lake")


def test_each_run_reads_its_data_interval_and_goes_on_from_the_state(lake: Lake) -> None:
    for day in (1, 2, 3):
        lake.clicks(day, f"a{day}", f"b{day}")
        lake.run(day)
    assert lake.numbered() == [
        (f"{page}{day}", number) for number, (day, page) in enumerate([(d, p) for d in (1, 2, 3) for p in "ab"], 1)
    ]


def test_a_bounded_input_is_read_whole_in_every_run(lake: Lake) -> None:
    lake.clicks(1, "a1")
    first = lake.run(1)
    lake.clicks(2, "a2")
    second = lake.run(2)
    assert slice_of(first, "known")["offsets"] == slice_of(second, "known")["offsets"] == [[0, 1]]
    assert lake.numbered() == [("a1", 1), ("a2", 2)]


def test_an_interval_before_what_the_state_has_seen_is_rejected_unless_it_stands_apart(lake: Lake) -> None:
    lake.clicks(1, "a1")
    lake.clicks(2, "a2")
    lake.run(2)
    with pytest.raises(StateError, match="is before 2026-01-03T00:00:00"):
        lake.run(1)
    lake.run(1, state_from="fresh")
    assert sorted(lake.numbered()) == [("a1", 1), ("a2", 1)]


def clicks(here: Here, first: int, count: int) -> None:
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + count)]
    schema = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
    here.log.append("clicks", pa.Table.from_pylist(rows, schema), key=["member"], partitions=2)


@pytest.mark.parametrize("ending", ["stop", "drain"])
def test_a_continuous_run_and_scheduled_ones_carry_one_state_on(here: Here, ending: str) -> None:
    clicks(here, 0, 5)
    here.whole(FOLLOWING, "scheduled-1")
    plan = here.plan(FOLLOWING, "continuous", mode="continuous")
    runner = threading.Thread(target=lambda: here.stages(plan))
    runner.start()
    clicks(here, 5, 5)
    deadline = time.monotonic() + 60
    while len(here.rows("numbered")) < 10 and time.monotonic() < deadline:
        time.sleep(0.05)
    getattr(here.runtime, ending)(plan)
    runner.join(300)
    here.runtime.close(plan)
    clicks(here, 10, 5)
    here.whole(FOLLOWING, "scheduled-2")
    assert sorted((row["page"], row["number"]) for row in here.rows("numbered")) == sorted(
        (f"p{n}", n // 3 + 1) for n in range(15)
    )
