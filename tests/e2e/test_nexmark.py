"""The queries of Nexmark, over the same events as bounded and as unbounded input: their results equal DuckDB's."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import TestDriver
from benchmarks.nexmark_events import house
from benchmarks.nexmark_reference import SQL, expected
from benchmarks.run import in_one_order

DAGS = Path(__file__).parents[2] / "dags"

WINDOWS = ["q5", "q7", "q8", "q11"]
"""Queries whose results come with the watermark."""


@pytest.fixture(scope="module")
def events() -> Mapping[str, pa.Table]:
    """Return the events of 50 seconds."""
    return house(5000, per_second=100)


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """Return the applications."""
    monkeypatch.syspath_prepend(str(DAGS))
    found: Mapping[str, Any] = importlib.import_module("pipelines.nexmark").QUERIES
    return found


def piped(driver: TestDriver, events: Mapping[str, pa.Table], begin: float = 0.0, end: float = 1.0) -> TestDriver:
    """Pipe the part of the events in that its inputs are."""
    for name in driver.spec.inputs:
        rows = events[name]
        first, last = round(begin * rows.num_rows), round(end * rows.num_rows)
        driver.pipe(name, rows.slice(first, last - first))
    return driver


def bounded(query: Any, events: Mapping[str, pa.Table]) -> TestDriver:
    return piped(TestDriver(query), events).run()


def pipelined(query: Any, events: Mapping[str, pa.Table]) -> TestDriver:
    return piped(TestDriver(query), events).run(mode="pipelined", epoch_messages=700, shuffle=random.Random(7))


def unbounded(query: Any, events: Mapping[str, pa.Table]) -> TestDriver:
    driver = TestDriver(query, config={"unbounded": "true"})
    for part in range(5):
        piped(driver, events, part / 5, (part + 1) / 5).step(epoch_messages=300)
    return driver.drain()


def test_every_query_has_a_reference(queries: Mapping[str, Any]) -> None:
    assert list(queries) == list(SQL)


@pytest.mark.parametrize("run", [bounded, pipelined, unbounded])
@pytest.mark.parametrize("name", SQL)
def test_a_query_gives_the_rows_of_the_reference(
    name: str,
    run: Callable[[Any, Mapping[str, pa.Table]], TestDriver],
    queries: Mapping[str, Any],
    events: Mapping[str, pa.Table],
) -> None:
    rows = in_one_order(expected(name, events))
    assert rows.num_rows > 0
    assert in_one_order(run(queries[name], events).output_table("result")).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_unbounded_input_come_before_its_end(
    name: str, queries: Mapping[str, Any], events: Mapping[str, pa.Table]
) -> None:
    driver = piped(TestDriver(queries[name], config={"unbounded": "true"}), events).step()
    assert 0 < len(driver.output("result")) < expected(name, events).num_rows


def test_events_are_the_same_for_the_same_number_and_come_in_the_order_of_time(events: Mapping[str, pa.Table]) -> None:
    again = house(5000, per_second=100)
    for name, rows in events.items():
        assert rows.equals(again[name])
        assert rows.equals(rows.sort_by("at"))
    assert [events[name].num_rows for name in ("people", "auctions", "bids")] == [100, 300, 4600]
