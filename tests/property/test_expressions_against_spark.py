"""Catalyst as the referee: every expression that Arrow evaluates gives Spark's result, type and error.

``EXPRESSIONS_SCALE=100`` tries a hundred times as many random ones.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from airflow_samza.schema import Schema
from airflow_samza.task.expressions.compiler import compile_projection
from tests.support.catalogue import ALL, CONDITIONS, WIDENED
from tests.support.random_expressions import Generator
from tests.support.referee import FULL, SCALE, SCHEMA, TAME, WILD, Referee, rows

pytestmark = pytest.mark.spark

MIXED = {**WILD, **{kind: [*TAME[kind], 0] for kind in ("tinyint", "smallint", "int", "bigint")}}
"""Strange values, but integers that seldom overflow, so that most expressions have a value on every row."""


@pytest.mark.parametrize(
    ("values", "schema", "part"),
    [
        pytest.param(TAME, FULL, slice(0, None, 12), id="never-null, a twelfth"),
        pytest.param(TAME, FULL, slice(6, None, 12), id="never-null, another twelfth", marks=pytest.mark.extended),
        pytest.param(TAME, FULL, slice(3, None, 6), id="never-null, a sixth", marks=pytest.mark.extended),
        pytest.param(TAME, FULL, slice(1, None, 3), id="never-null, another third", marks=pytest.mark.extended),
        pytest.param(TAME, FULL, slice(2, None, 3), id="never-null, the last third", marks=pytest.mark.extended),
        pytest.param(WILD, SCHEMA, slice(0, None, 3), id="wild, a third", marks=pytest.mark.nightly),
        pytest.param(WILD, SCHEMA, slice(1, None, 3), id="wild, another third", marks=pytest.mark.nightly),
        pytest.param(WILD, SCHEMA, slice(2, None, 3), id="wild, the last third", marks=pytest.mark.nightly),
    ],
)
def test_the_catalogue_equals_spark(spark: Any, values: dict[str, list[Any]], schema: Schema, part: slice) -> None:
    texts = [text for group in ALL.values() for text in group][part]
    done = Referee(spark, rows(values, random.Random(1), 40, schema), schema).check(texts)
    assert done > 0.8 * len(texts)


@pytest.mark.parametrize(
    ("values", "schema", "count"),
    [
        pytest.param(MIXED, SCHEMA, 30, id="mixed"),
        pytest.param(WILD, SCHEMA, 10, id="wild"),
        pytest.param(MIXED, FULL, 30, id="never-null", marks=pytest.mark.extended),
        pytest.param(TAME, SCHEMA, 30, id="tame", marks=pytest.mark.extended),
    ],
)
@pytest.mark.parametrize("seed", range(SCALE))
def test_random_expressions_equal_spark(
    spark: Any, seed: int, values: dict[str, list[Any]], schema: Schema, count: int
) -> None:
    generator = Generator(seed)
    texts = [generator.any(3) for _ in range(50)]
    referee = Referee(spark, rows(values, generator.random, count, schema), schema)
    # Where several parts of an expression fail on one row, Spark's optimizer decides which it meets first.
    assert referee.check(texts, conditions=False) > 25


@pytest.mark.parametrize("seed", range(SCALE))
@pytest.mark.nightly
def test_decimals_beside_constants_of_every_form_equal_spark(spark: Any, seed: int) -> None:
    generator = Generator(3000 + seed)
    referee = Referee(spark, rows(TAME, generator.random, 20))
    texts = list({generator.with_constant(): None for _ in range(150)})
    assert referee.check(texts, conditions=False) > 50


@pytest.mark.parametrize("seed", range(SCALE))
@pytest.mark.nightly
def test_an_expression_gives_the_same_beside_any_other(spark: Any, seed: int) -> None:
    generator = Generator(4000 + seed)
    referee = Referee(spark, rows(TAME, generator.random, 20))
    for _ in range(3):
        texts = [generator.with_constant() for _ in range(30)] + [generator.any(2) for _ in range(20)]
        assert referee.check_beside(list(dict.fromkeys(texts)), generator.beside()) > 15


@pytest.mark.parametrize("seed", range(SCALE))
@pytest.mark.nightly
def test_operators_without_parentheses_keep_sparks_ranks(spark: Any, seed: int) -> None:
    generator = Generator(2000 + seed)
    referee = Referee(spark, rows(TAME, generator.random, 25))
    assert referee.check(list({generator.flat(): None for _ in range(60)})) > 10


@pytest.mark.parametrize("seed", range(SCALE))
def test_random_conditions_keep_the_rows_that_spark_keeps(spark: Any, seed: int) -> None:
    generator = Generator(1000 + seed)
    referee = Referee(spark, rows(MIXED, generator.random, 40))
    texts = [" AND ".join(generator.of("boolean", 2) for _ in range(2)) for _ in range(20)]
    assert sum(referee.check_condition(text) for text in texts) > 5


def test_conditions_that_can_fail_keep_the_rows_that_spark_keeps(spark: Any) -> None:
    referee = Referee(spark, rows(WILD, random.Random(3), 60))
    assert sum(referee.check_condition(text) for text in CONDITIONS) > 0.7 * len(CONDITIONS)


def test_a_value_that_can_fail_and_is_widened_to_be_compared_is_left_to_catalyst(spark: Any) -> None:
    referee = Referee(spark, rows(WILD, random.Random(3), 60))
    assert not any(referee.check_condition(text) for text in WIDENED)


def test_unaliased_columns_are_named_as_spark_names_them(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2)], "Alpha int, `be ta` int")
    schema = Schema.of("Alpha int, `be ta` int")
    for texts in (["alpha"], ["ALPHA", "`be ta`"], ["*"], ["`Alpha`"], ["alpha AS Gamma"]):
        assert list(compile_projection(texts, schema).schema.names) == frame.selectExpr(*texts).columns
