"""The benchmarks' report says what the figures say, and puts it where it belongs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.application.loader import load_application
from airflow_samza.planner.planner import plan_shape
from benchmarks import report
from benchmarks.applications import STAGES
from benchmarks.measuring import Measured, Meter
from benchmarks.results import OURS, Report, WorkloadResult
from benchmarks.run import reject_different, rows_of
from benchmarks.workloads import WORKLOADS


def runs(*seconds: float, memory: int = 2**20) -> list[Measured]:
    return [Measured(each, 2 * each, memory) for each in seconds]


W2 = WorkloadResult(
    "W2",
    5_000_000,
    {OURS: runs(1.0, 2.0, 4.0), "W2mat": runs(3.0, 5.0, 20.0), "W2agg": runs(0.5, 2.0, 2.0)},
    {"plan": 0.1},
)


def test_the_ratio_is_the_median_of_the_rounds() -> None:
    assert W2.ratios("W2mat") == [3.0, 2.5, 5.0]
    assert W2.ratio("W2mat") == 3.0
    assert W2.best_ratio("W2mat") == 3.0
    assert W2.ratio("W2agg") == 0.5


def test_a_report_survives_its_json() -> None:
    found = Report("a machine", "2026-01-01", [W2], {OURS: runs(9.0), "W1": runs(8.0)})
    assert Report.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_the_table_has_every_contender_with_its_ratio_and_goal() -> None:
    lines = report.table(Report("a machine", "2026-01-01", [W2], {OURS: runs(9.0), "W1": runs(8.0)}))
    assert any("5,000,000 rows" in line and "| 1.00 | 2.00 | 2.0 | 1 |" in line for line in lines)
    assert any("**3.00×** (2.50–5.00; best runs 3.00×) | 2.5× |" in line for line in lines)
    assert any("**0.50×**" in line and "| 0.7× |" in line for line in lines)
    assert "| `airflow-samza run` | 9.0 | 9.0 | 1 |" in lines


def test_what_was_not_measured_now_stays_and_says_when_it_was() -> None:
    before = Report(
        "an old machine",
        "2026-01-01",
        [W2, dataclasses.replace(W2, workload="W1", runs={OURS: runs(7.0), "W1": runs(7.0)})],
    )
    now = dataclasses.replace(W2, workload="W1", runs={OURS: runs(1.0), "W1": runs(2.0)})
    lines = report.table(Report("a machine", "2026-02-01", [now]).beside(before))
    assert lines[0] == "Measured on a machine; 2026-02-01."
    assert not any("7.00" in line for line in lines)
    assert lines[-1] == "W2: measured on an old machine; 2026-01-01."


def test_a_page_is_changed_between_its_markers_only() -> None:
    page = "before\n<!-- figures: begin -->\nold\n<!-- figures: end -->\nafter\n"
    once = report.between_markers(page, "figures", ["a \\1 b"])
    assert once == "before\n<!-- figures: begin -->\n\na \\1 b\n\n<!-- figures: end -->\nafter\n"
    assert report.between_markers(once, "figures", ["a \\1 b"]) == once
    with pytest.raises(SystemExit, match="needs one"):
        report.between_markers("no markers", "figures", [])


def test_the_page_in_the_docs_can_take_the_table() -> None:
    report.between_markers(report.PAGE.read_text(), "figures", [])


def test_a_peer_with_another_result_ends_the_benchmark(tmp_path: Path) -> None:
    for name, values in (("ours", [1, 2, 2]), ("same", [2, 1, 2]), ("other", [1, 1, 2])):
        (tmp_path / name).mkdir()
        kind = pa.int32() if name == "same" else pa.int64()
        pq.write_table(pa.table({name: pa.array(values, kind)}), tmp_path / name / "part-0.parquet")
    expected = rows_of(tmp_path / "ours")
    reject_different("W1", "same", expected, rows_of(tmp_path / "same"))
    with pytest.raises(SystemExit, match="differs from other's"):
        reject_different("W1", "other", expected, rows_of(tmp_path / "other"))


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_workload_can_be_planned(name: str) -> None:
    spec = load_application(WORKLOADS[name].application).spec({"views": "views.parquet", "clicks": "clicks.parquet"})
    plan = plan_shape(spec)
    assert WORKLOADS[name].output in spec.outputs
    assert len(plan.stages) == {"W7": STAGES, "W2": 2, "W3-topics": 3, "W4": 2, "W5": 3}.get(name, 1)


def test_a_meter_counts_this_process() -> None:
    with Meter(children=False) as meter:
        sum(range(2_000_000))
    assert dataclasses.astuple(meter.result)[0] > 0
    assert 0 <= meter.result.cpu_seconds < 60
