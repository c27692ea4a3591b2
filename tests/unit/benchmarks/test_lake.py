"""The benchmark of lakehouse tables: its applications can be planned, and its page has a place for the figures."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.planner.planner import plan_shape
from benchmarks import lake, lake_commits, lake_latency, lake_plan, report
from benchmarks.lake_workloads import PEERS, WORKLOADS
from benchmarks.measuring import Measured
from benchmarks.results import OURS, Report, WorkloadResult


@pytest.mark.parametrize("name", [name for name in WORKLOADS if name.endswith("delta")])
def test_every_workload_can_be_planned(name: str) -> None:
    spec = load_application(WORKLOADS[name].application).spec({"views": "views.parquet", "out": "out"})
    assert len(plan_shape(spec).stages) == (2 if name.startswith("aggregate") else 1)


def result(name: str, seconds: float, rows: int = 1000) -> WorkloadResult:
    peers = [peer.name for peer in PEERS[name.partition(" ")[2]]]
    return WorkloadResult(name, rows, {who: [Measured(seconds, 1.0, 2**20)] for who in (OURS, *peers)})


def test_figures_of_one_kind_of_table_stay_when_the_other_is_measured(tmp_path: Path) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "page.json"
    page.write_text(lake.PAGE.read_text())
    for name, seconds in (("scan delta", 7.0), ("scan iceberg", 5.0)):
        report.write_figures(Report(name, "2026-01-01", [result(name, seconds)]), page, figures, WORKLOADS)
    lines = page.read_text().splitlines()
    assert [line.count("5.00") > 0 for line in lines if "**airflow_samza**" in line] == [True, False]
    assert "scan delta: measured on scan delta; 2026-01-01." in lines


def test_figures_over_many_rows_stay_when_few_are_measured(tmp_path: Path) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "page.json"
    page.write_text(lake.PAGE.read_text())
    for rows, seconds in ((50_000, 7.0), (1000, 5.0), (1000, 6.0)):
        measured = Report("a machine", "2026-01-01", [result("scan delta", seconds, rows)])
        report.write_figures(measured, page, figures, WORKLOADS, sizes=True)
    lines = page.read_text().splitlines()
    assert ["6.00" in line for line in lines if "**airflow_samza**" in line] == [True, False]
    assert "scan delta of 50,000 rows: measured on a machine; 2026-01-01." in lines


class Files:
    """A table that gets a data file between two looks."""

    def __init__(self, folder: Path, numbers: list[list[int]]) -> None:
        self._left = [folder / f"{place}.parquet" for place in range(len(numbers))]
        for path, some in zip(self._left, numbers, strict=True):
            at = time.time_ns() // 1_000_000
            pq.write_table(pa.table({"number": some, "sent_at": [at - 5000] * len(some)}), path)

    def look(self) -> list[str]:
        return [str(self._left.pop(0))] if self._left else []

    def commits(self) -> int:
        return 0


@pytest.mark.parametrize("numbers", [[[0, 1], [2, 3, 4]], [[0, 1], [2, 3, 3]]])
def test_latency_is_that_of_rows_of_which_none_is_there_twice(tmp_path: Path, numbers: list[list[int]]) -> None:
    rows = lake_latency.Rows()
    rows.until(Files(tmp_path, numbers), 5, 10)
    if numbers[1][-1] == 3:
        with pytest.raises(SystemExit, match="5 messages were sent, 5 rows are there, of which 4 differ"):
            rows.took(5, 2)
        return
    took = rows.took(5, 2)
    assert took.size == 3
    assert took.min() >= 5000


def test_the_page_has_a_place_for_latencies() -> None:
    spec = load_application("benchmarks.lake_workloads:follow").spec({"out": "out"})
    assert len(plan_shape(spec).stages) == 1
    one = lake_latency.Latency("delta", "delta", 0, 20_000, 812.4, 700.0, 2100.0, 1.25, 0.5, 123_456)
    lines = list(lake_latency.table([one], "a machine", 1000))
    assert (
        "| delta | PySpark with delta-spark 4.4.0 | – | 20,000 | **812** | 700 | 2,100 | 1.25 | 0.50 | 123 |" in lines
    )
    assert lines[-1] in report.between_markers(lake.PAGE.read_text(), "latency", lines).splitlines()


@pytest.mark.parametrize("kind", lake_commits.KINDS)
def test_the_cost_of_commits_has_its_place_on_the_pages(kind: str, tmp_path: Path) -> None:
    costs = list(lake_commits.measure(kind, tmp_path, [1, 3]))
    assert [(one.kind, one.epochs) for one in costs] == [(kind, 1), (kind, 3)]
    assert 0 < costs[0].files < costs[1].files
    page = (report.DOCS / f"how-to/{kind}.md").read_text()
    lines = lake_commits.table([lake_commits.Cost(kind, 10_000, 74.3, 68.9, 81, 2_600_000, 60, 36_000)], 4)
    assert "| 10,000 | 74 | 69 | 81 | 2.6 MB | 60 |" in report.between_markers(page, "commits", lines).splitlines()


@pytest.mark.parametrize("kind", lake_commits.KINDS)
def test_a_plan_over_many_files_has_its_place_on_the_page(kind: str, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    plans = lake_plan.measure(kind, tmp_path, 300, 1)
    assert [one.files for one in plans] == [300, 300, 300, 33, 33, 33]  # of nine days, the eighth
    lines = lake_plan.table([lake_plan.Plan(kind, "the whole plan", 10_000, 1.04, 0.93, 0.87)], 10_000, "a machine")
    assert lines[-1] == f"| {kind} | the whole plan | 10,000 | 0.93 | 1.04 | 0.87 |"
    assert lines[-1] in report.between_markers(lake.PAGE.read_text(), "plans", lines).splitlines()
