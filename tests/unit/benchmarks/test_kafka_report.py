"""The report of the Kafka benchmark: its ratios, and the model that all results are compared with."""

from __future__ import annotations

from benchmarks.kafka_report import OURS, PAGE, Line, Report
from benchmarks.kafka_topics import POOL, SLOW_MS, expected, pool
from benchmarks.report import between_markers


def report(**lines: dict[str, Line]) -> Report:
    return Report("a machine", "2026-01-01", dict.fromkeys(lines, "somebody"), lines, {}, ["X cannot be had."])


def test_ratios_are_the_medians_of_rounds() -> None:
    found = report(
        **{OURS: {"json": Line(1000, [1.0, 2.0, 1.0])}, "peer": {"json": Line(1000, [3.0, 4.0, 5.0])}}
    ).table()
    (row,) = [line for line in found if "**" in line]
    assert row.endswith("| 1,000 | 3 | 0.000 | 0.000 | **3.0×** (2.0–5.0) |")


def test_ratios_of_fewer_messages_are_those_of_rates() -> None:
    found = report(**{OURS: {"json": Line(1000, [1.0, 1.0])}, "peer": {"json": Line(100, [1.0])}}).table()
    assert any("**10.0×**" in line for line in found)


def test_who_was_not_measured_is_told() -> None:
    found = report(**{OURS: {"json": Line(1000, [1.0])}}).table()
    assert "Not measured: X cannot be had." in found


def test_the_page_has_a_place_for_the_table() -> None:
    assert between_markers(PAGE.read_text(), "figures", ["here"]).count("\nhere\n") == 1


def test_the_model_counts_slow_views_per_page() -> None:
    counted: dict[int, tuple[int, int]] = {}
    for view in pool().slice(0, POOL).to_pylist():
        if view["dwell_ms"] > SLOW_MS:
            views, millis = counted.get(view["page_id"], (0, 0))
            counted[view["page_id"]] = views + 2, millis + 2 * view["dwell_ms"]
    assert expected(2 * POOL) == counted
