"""Options of a writer of tables, without a Spark: modes, places, and the transactions that Delta knows again."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_samza.spark.table_writer import _write
from airflow_samza.systems.spark.system import Staged
from airflow_samza.systems.spark.tables import SparkTable


def told(table: SparkTable, *, exists: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The options of the writer, and what was called with which words."""
    frame = MagicMock()
    for name in ("options", "option", "format", "mode", "partitionBy"):
        getattr(frame.write, name).return_value = frame.write
    frame.sparkSession.catalog.tableExists.return_value = exists
    frame.sparkSession.table.return_value.columns = ["a", "b"]
    frame.select.return_value = frame
    _write(frame, table, Staged("topic", {}, "a int", 1, ("app/run/stage/out", 1000001000000007)))
    options: dict[str, Any] = {}
    for call in frame.write.options.call_args_list:
        options |= call.kwargs
    return options, [
        f"{call[0]}{call[1] or ''}" for call in frame.write.method_calls if call[0] not in ("options", "option")
    ]


def test_delta_gets_the_transaction_by_which_it_knows_a_repeat() -> None:
    options, _ = told(SparkTable("out", "lake", format="delta", path="/lake/out"))
    assert options == {"txnAppId": "app/run/stage/out", "txnVersion": "1000001000000007"}


@pytest.mark.parametrize(
    ("table", "calls"),
    [
        (
            SparkTable("out", "lake", format="orc", path="/lake/out"),
            ["format('orc',)", "mode('append',)", "save('/lake/out',)"],
        ),
        (
            SparkTable("out", "lake", path="/lake/out", mode="overwrite_partitions", partition_by=("day",)),
            ["format('parquet',)", "partitionBy('day',)", "mode('overwrite',)", "save('/lake/out',)"],
        ),
        (
            SparkTable("out", "db", format="jdbc", table="t", mode="overwrite"),
            ["format('jdbc',)", "mode('overwrite',)", "save"],
        ),
        (
            SparkTable("out", "hive", table="t", format="orc"),
            ["format('orc',)", "mode('append',)", "saveAsTable('t',)"],
        ),
    ],
)
def test_each_place_is_written_in_its_way(table: SparkTable, calls: list[str]) -> None:
    assert told(table)[1] == calls


def test_a_table_that_is_there_keeps_its_format_and_gets_its_columns() -> None:
    assert told(SparkTable("out", "hive", table="t", format="orc"), exists=True)[1] == ["insertInto('t',)"]
