"""Several streams alive where Catalyst runs an operator, on Spark: outputs as plain Spark computes them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from samza_spark_apps import branches

from airflow_samza.errors import StageFailed
from airflow_samza.schema import Schema
from tests.support.budgets import extended_but
from tests.support.one_session import Runs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SHIPPED = branches

ROWS: list[dict[str, Any]] = [
    {"k": number, "name": ("aa-b", "c-a", "a", "dd")[number % 4], "price": math.nan if number % 3 == 0 else number / 2}
    for number in range(40)
]
OTHERS: list[dict[str, Any]] = [{"k": number, "label": "ax" if number % 2 else "ay"} for number in range(40)]


@pytest.fixture
def runs(session: Any, tmp_path: Path) -> Runs:
    found = Runs(session, tmp_path)
    for topic, ddl, rows in (("rows", branches.ROWS, ROWS), ("others", branches.OTHERS, OTHERS)):
        found.make(topic, Schema.of(ddl), 2)
        found.send(topic, Schema.of(ddl), rows[:25])
        found.send(topic, Schema.of(ddl), rows[25:])
    return found


def outputs(runs: Runs, application: str, mode: str) -> dict[str, list[tuple[Any, ...]]]:
    run = runs.prepare(f"{branches.__name__}:{application}", "run-1", mode=mode)
    runs.one_by_one(run) if mode == "staged" else runs.together(run)
    return {
        name: sorted(tuple(eval(row, {"nan": "NaN"}).values()) for row in rows)
        for name, rows in runs.outputs(run).items()
    }


def by_spark(**queries: str) -> dict[str, list[tuple[Any, ...]]]:
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    frames: dict[str, tuple[list[dict[str, Any]], str]] = {
        "rows": (ROWS, branches.ROWS),
        "others": (OTHERS, branches.OTHERS),
    }
    for name, (rows, ddl) in frames.items():
        spark.createDataFrame([tuple(row.values()) for row in rows], ddl).createOrReplaceTempView(name)
    return {
        name: sorted(tuple("NaN" if value != value else value for value in row) for row in spark.sql(query).collect())
        for name, query in queries.items()
    }


MODES = pytest.mark.parametrize("mode", extended_but(["staged"], ["staged", "pipelined"]))


@MODES
def test_each_of_two_branches_has_a_function_of_sparks(runs: Runs, mode: str) -> None:
    assert outputs(runs, "two", mode) == by_spark(
        named="SELECT * FROM rows WHERE name RLIKE '^a'",
        short="SELECT k, regexp_replace(name, 'a+', '-') FROM rows",
    )


@MODES
def test_a_branch_beside_has_none(runs: Runs, mode: str) -> None:
    assert outputs(runs, "one", mode) == by_spark(
        priced="SELECT *, k + 1 FROM rows WHERE NOT isnan(price)",
        plain="SELECT k, name, price FROM rows WHERE k > 2",
        counted="SELECT k, count(*) FROM rows GROUP BY k",
    )


@MODES
def test_branches_meet_and_pass_catalyst_again(runs: Runs, mode: str) -> None:
    found = outputs(runs, "merged", mode)
    assert (
        found["words"]
        == by_spark(words="SELECT k, explode(split(name, '-')) FROM rows WHERE name RLIKE '^a' OR k % 2 = 0")["words"]
    )
    assert [row[:2] for row in found["copies"]] == by_spark(copies="SELECT k, name FROM rows")["copies"]


@MODES
def test_both_sides_of_a_join_come_from_catalyst(runs: Runs, mode: str) -> None:
    found = outputs(runs, "joined", mode)
    assert found == by_spark(
        joined="SELECT k, regexp_replace(name, 'a+', '-'), label FROM rows JOIN others USING (k) WHERE label RLIKE 'x$'"
    )


def test_a_failing_branch_is_named_with_its_place(runs: Runs) -> None:
    with pytest.raises(StageFailed, match=r"select 'number' \(.*branches\.py:\d+\)"):
        outputs(runs, "failing", "staged")
