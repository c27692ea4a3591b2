"""Bounded stages that read what they write, with tables.

What is written in a later phase is not waited for in an earlier one.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.testing import TestDriver

ROW = "k bigint, v bigint"
ROWS = [{"k": k, "v": 1} for k in (1, 2, 3, 1)]


def left(one: Any, _: Any) -> Any:
    return one


def run(describe: Any, mode: str) -> TestDriver:
    driver = TestDriver(stream_application("loop")(describe)).pipe("rows", ROWS).run(mode=mode, epoch_messages=2)
    assert any(stage.several_epochs for stage in driver.plan.stages)
    return driver


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_a_stream_that_is_written_behind_a_lookup_is_read_after_the_table_is_filled(mode: str) -> None:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", schema=ROW, key="k", partitions=3)
        table = app.local_table("table", key="k", schema=ROW)
        rows.send_to(table)
        found = rows.join(table, left, schema=ROW, id="found")
        again = found.partition_by("k", id="again").filter(lambda row: True)
        again.send_to(app.output_stream("copy"))
        again.merge(found).send_to(app.output_stream("out"))

    assert Counter(row.k for row in run(describe, mode).output("out")) == {1: 4, 2: 2, 3: 2}


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_a_table_that_a_lookup_fills_through_a_stream_is_not_waited_for(mode: str) -> None:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", schema=ROW, key="k", partitions=2)
        table = app.local_table("table", key="k", schema=ROW)
        found = rows.join(
            table, lambda row, seen: {**row, "v": 0 if seen is None else 1}, how="left", schema=ROW, id="found"
        )
        found.partition_by("k", id="back").send_to(table)
        found.send_to(app.output_stream("out"))

    driver = run(describe, mode)
    assert Counter(row.k for row in driver.output("out")) == {1: 2, 2: 1, 3: 1}
    assert {row.k for row in driver.table_rows("table")} == {1, 2, 3}
