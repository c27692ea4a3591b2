"""Tables of Delta with column mapping, written here and by Spark's own Delta in turns: both find what both have written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.delta_outputs import Output, made_output
from tests.support.slotted import day
from tests.support.spark_sources import spark_with_delta
from tests.support.table_outputs import output_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.timeout(900)]

COLUMNS = "id bigint, `a b` string, day date, st struct<a:int,b:struct<c:string>>, ar array<struct<x:int>>"
ALTERED = ("RENAME COLUMN `a b` TO text", "RENAME COLUMN st.a TO n", "DROP COLUMN ar", "ADD COLUMN ar string")


def row(number: int, text: str = "a b", inner: str = "a", **more: Any) -> dict[str, Any]:
    """Return a row by the names that two columns have; each third one is of nulls."""
    full = number % 3 != 0
    return {
        "id": number,
        text: f"text {number}" if full else None,
        "day": date(2026, 11, number) if full else None,
        "st": {inner: number, "b": {"c": "deep"} if number % 2 else None} if full else None,
        **more,
    }


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with spark_with_delta(tmp_path_factory.mktemp("session")) as made:
        yield made._session


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("maker", ["here", "Spark"])
def test_both_writers_find_what_both_have_written(spark: SparkSession, tmp_path: Path, mode: str, maker: str) -> None:
    property_ = {"delta.columnMapping.mode": mode}
    place = f"delta.`{tmp_path}/web/out`"
    if maker == "here":
        output = made_output(tmp_path, COLUMNS, partition_by="day", **property_)
    else:
        of_table = f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')"
        spark.sql(f"CREATE TABLE {place} ({COLUMNS}) USING delta PARTITIONED BY (day) {of_table}")
        output = Output(tmp_path, output_stream())
    ours = [row(number, ar=[{"x": number}, None] if number % 3 else None) for number in range(1, 7)]
    output.publish(ours, slot=day(1))
    spark.sql(f"INSERT INTO {place} VALUES (7, 'text 7', date'2026-11-07', named_struct('a', 7, 'b', NULL), NULL)")
    theirs = {**row(7, ar=None), "st": {"a": 7, "b": None}}
    _agree(spark, output, [*ours, theirs])

    for change in ALTERED:
        spark.sql(f"ALTER TABLE {place} {change}")
    altered = [row(number, "text", "n", ar="new") for number in (4, 5, 9)]
    output.publish(altered, run="tuesday", slot=day(2))
    spark.sql(f"UPDATE {place} SET ar = 'updated' WHERE id = 7")
    again = [row(number, "text", "n", ar=None) for number in (1, 2)]
    output.publish(again, run="backfill", slot=day(1))
    expected = [*again, {**row(7, "text", "n", ar="updated"), "st": {"n": 7, "b": None}}, *altered]
    _agree(spark, output, expected)
    frame = spark.read.format("delta").load(str(output.place))
    assert [found["id"] for found in frame.where("text = 'text 5' AND day = date'2026-11-05'").collect()] == [5]
    assert _files_read(frame.where("id = 9")) == 1, "of the files without a day that of 9 alone"
    assert _files_read(frame.where("day IS NOT NULL")) == 5


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_run_is_replaced_after_spark_has_compacted_its_files(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    columns = "id bigint, st struct<a:int>"
    output = made_output(tmp_path, columns, run_column="run", **{"delta.columnMapping.mode": mode})
    place = f"delta.`{output.place}`"
    for run, number in (("monday", 1), ("tuesday", 2)):
        output.publish([{"id": number, "st": {"a": number}}], run=run)
    spark.sql(f"OPTIMIZE {place}")
    assert len(output.table().file_uris()) == 1
    spark.sql(f"ALTER TABLE {place} RENAME COLUMN id TO number")
    output.publish([{"number": 3, "st": {"a": None}}], run="monday", generation="1.2")
    found = spark.read.format("delta").load(str(output.place)).drop("run").orderBy("number").collect()
    assert [one.asDict(recursive=True) for one in found] == [
        {"number": 2, "st": {"a": 2}},
        {"number": 3, "st": {"a": None}},
    ]
    assert sorted(row["number"] for row in output.scanned()) == sorted(row["number"] for row in output.rows()) == [2, 3]


def _agree(spark: SparkSession, output: Output, expected: list[dict[str, Any]]) -> None:
    """Look at the rows by Spark, by the library and by the consumer here."""
    frame = spark.read.format("delta").load(str(output.place))
    by_spark = [found.asDict(recursive=True) for found in frame.collect()]
    for rows in (by_spark, output.scanned(), output.rows()):
        assert sorted(rows, key=lambda one: int(one["id"])) == sorted(expected, key=lambda one: int(one["id"]))


def _files_read(frame: DataFrame) -> int:
    """Return how many files Spark reads, of which the log alone rules others out."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    frame.collect()
    return int(leaves.head().metrics().apply("numFiles").value())
