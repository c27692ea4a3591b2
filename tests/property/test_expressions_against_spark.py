"""Catalyst as the referee: every expression that Arrow evaluates gives Spark's result, type and error."""

from __future__ import annotations

import datetime
import decimal
import logging
import math
import random
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import Schema
from airflow_samza.task.expressions.compiler import compile_condition, compile_projection
from airflow_samza.task.expressions.expression import EvaluationFailure, Frame, UnsupportedExpression, is_true

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(
    "t tinyint, s smallint, i int, j int, b bigint, c bigint, f float, d double, e double, p boolean, q boolean, "
    "x string, y string, n decimal(10,2), m decimal(5,0), u date, v date, w timestamp, z timestamp"
)

DAY = datetime.date
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)

WILD: dict[str, list[Any]] = {
    "tinyint": [0, 1, -1, 127, -128, 5, None],
    "smallint": [0, 1, -1, 32767, -32768, 300, None],
    "int": [0, 1, -1, 2**31 - 1, -(2**31), 1000, 7, None],
    "bigint": [0, 1, -1, 2**63 - 1, -(2**63), 10**12, 2**53 + 1, None],
    "float": [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 3.4e38, 1e-40, 0.1, None],
    "double": [0.0, -0.0, 1.5, -2.5, math.nan, math.inf, -math.inf, 1e300, 2.0**63, -(2.0**63), 2.0**31, 0.1, 1e-310, None],
    "boolean": [True, False, None],
    "string": ["", "a", "A", "é", "12", " 7 ", "+5", "-0", "1.5", "x", "\t3\n", "99999999999999999999", None],
    "decimal": [decimal.Decimal("0.00"), decimal.Decimal("1.50"), decimal.Decimal("-99999999.99"), decimal.Decimal("2.00"), None],
    "date": [DAY(1970, 1, 1), DAY(2020, 2, 29), DAY(1900, 12, 31), None],
    "timestamp": [MOMENT, MOMENT + datetime.timedelta(microseconds=1), datetime.datetime(1969, 1, 1, tzinfo=datetime.timezone.utc), None],
}
TAME = {**WILD, **{kind: [1, 2, 3, 7, -2, None] for kind in ("tinyint", "smallint", "int", "bigint")}, "string": ["12", "7", "-3", None]}
TAME |= {"float": [1.5, -2.25, 3.0, None], "double": [1.5, -2.25, 10.0, 3.0, None]}


def rows(values: dict[str, list[Any]], generator: random.Random, count: int) -> pa.RecordBatch:
    columns = []
    for field in SCHEMA.fields:
        drawn = [generator.choice(values[field.type.name]) for _ in range(count)]
        if field.name == "m":
            drawn = [None if value is None else value.to_integral_value() % 99999 for value in drawn]
        columns.append(pa.array(drawn, field.type.to_arrow()))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.to_arrow())


COLUMNS: dict[str, list[str]] = {}
for _field in SCHEMA.fields:
    COLUMNS.setdefault(_field.type.name, []).append(_field.name)
INTEGERS = ["tinyint", "smallint", "int", "bigint"]
NUMBERS = [*INTEGERS, "float", "double", "decimal"]
LITERALS = {
    "tinyint": ["1Y", "-128Y"],
    "smallint": ["300S"],
    "int": ["0", "1", "-1", "7", "2147483647", "-2147483648"],
    "bigint": ["5L", "2147483648", "-9223372036854775808", "9223372036854775807"],
    "float": ["1.5F"],
    "double": ["1.5D", "1e3", "-2.5e-1", "0D"],
    "boolean": ["TRUE", "FALSE"],
    "string": ["'a'", "'12'", "''", "'é'"],
    "decimal": ["1.5", "0.10", "-2.", ".5", "100.00"],
    "date": ["DATE '2020-02-29'", "DATE'1970-01-01'"],
}


class Generator:
    """Random expressions, mostly well typed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def of(self, kind: str, depth: int) -> str:
        draw = self.random.random()
        if depth <= 0 or draw < 0.25:
            if kind in LITERALS and draw < 0.08:
                return self.random.choice(LITERALS[kind])
            return self.random.choice(COLUMNS[kind])
        if kind == "boolean":
            return self.condition(depth)
        if draw < 0.35:
            other = self.random.choice([kind, *(INTEGERS if kind in NUMBERS else [kind])])
            return f"CASE WHEN {self.of('boolean', depth - 1)} THEN {self.of(kind, depth - 1)} ELSE {self.of(other, depth - 1)} END"
        if kind in NUMBERS:
            if draw < 0.5:
                source = self.random.choice([*NUMBERS, "boolean", "string"])
                target = "decimal(12,2)" if kind == "decimal" else kind
                return f"CAST({self.of(source, depth - 1)} AS {target})"
            if draw < 0.55:
                return f"(- {self.of(kind, depth - 1)})"
            symbol = self.random.choice("+-*/%")
            return f"({self.of(kind, depth - 1)} {symbol} {self.of(self.random.choice(NUMBERS), depth - 1)})"
        return self.of(kind, 0)

    def condition(self, depth: int) -> str:
        draw = self.random.random()
        kind = self.random.choice([*NUMBERS, "string", "date", "timestamp", "boolean"])
        one = self.of(kind, depth - 1)
        other = self.of(self.random.choice(NUMBERS) if kind in NUMBERS else kind, depth - 1)
        if draw < 0.35:
            return f"({one} {self.random.choice(['=', '<>', '!=', '<', '<=', '>', '>=', '<=>', '=='])} {other})"
        if draw < 0.45:
            return f"({one} IS {self.random.choice(['', 'NOT '])}NULL)"
        if draw < 0.55:
            choices = [self.of(kind, 0) for _ in range(3)] + self.random.choice([[], ["NULL"]])
            return f"({one} {self.random.choice(['', 'NOT '])}IN ({', '.join(choices)}))"
        if draw < 0.65:
            return f"({one} {self.random.choice(['', 'NOT '])}BETWEEN {other} AND {self.of(kind, 0)})"
        if draw < 0.72:
            return f"(NOT {self.of('boolean', depth - 1)})"
        return f"({self.of('boolean', depth - 1)} {self.random.choice(['AND', 'OR'])} {self.of('boolean', depth - 1)})"


def bits(value: Any) -> Any:
    """A value that equals another only when it is the same, NaN included; the sign of zero counts."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    logging.getLogger("SQLQueryContextLogger").disabled = True  # PySpark writes every failed query's JVM stack there
    yield session
    session.stop()


class Referee:
    """Compares expressions over one batch."""

    def __init__(self, spark: Any, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
        self.frame.persist().count()

    def arrow(self, text: str) -> Any:
        projection = compile_projection([f"{text} AS r"], SCHEMA)
        try:
            array = projection.expressions[0].array(Frame(self.batch.columns, self.batch.num_rows))
        except EvaluationFailure:
            # Arrow works column by column: which failure it meets first says nothing. The first row that fails does.
            for row in range(self.batch.num_rows):
                try:
                    projection.expressions[0].array(Frame(self.batch.slice(row, 1).columns, 1))
                except EvaluationFailure as failure:
                    return failure.condition
            raise
        return projection.schema.fields[0].type.to_arrow(), [bits(value) for value in array.to_pylist()]

    def catalyst(self, texts: list[str]) -> Any:
        try:
            table = self.frame.selectExpr(*(f"{text} AS r{place}" for place, text in enumerate(texts))).toArrow()
        except Exception as error:
            if len(texts) > 1:
                return [self.catalyst([text])[0] for text in texts]
            return str(error.getCondition()).partition(".")[0] if hasattr(error, "getCondition") else repr(error)[:500]
        return [(column.type, [bits(value) for value in column.to_pylist()]) for column in table.columns]

    def check(self, texts: list[str]) -> int:
        """Compares all; returns how many Arrow evaluated."""
        good: list[str] = []
        mine: dict[str, Any] = {}
        for text in texts:
            try:
                mine[text] = self.arrow(text)
            except UnsupportedExpression:
                continue
            good.append(text)
        fine = [text for text in good if not isinstance(mine[text], str)]
        theirs = dict(zip(fine, self.catalyst(fine), strict=True)) if fine else {}
        for text in good:
            if text not in theirs:
                theirs[text] = self._one(text)
        wrong = [
            f"{text}\n    arrow    {_short(mine[text])}\n    catalyst {_short(theirs[text])}" for text in good if mine[text] != theirs[text]
        ]
        assert not wrong, f"{len(wrong)} of {len(good)} differ:\n" + "\n".join(wrong[:8])
        return len(good)

    def _one(self, text: str) -> Any:
        found: Any = self.catalyst([text])
        return found if isinstance(found, str) else found[0]


def _short(value: Any) -> str:
    return repr(value)[:900]


CATALOGUE = [
    "i + 1", "t + t", "t + 1", "s * s", "b + c", "b * c", "- b", "- t", "i - b", "i / j", "i / 0", "b % c", "t % 0", "i % -1", "d % e",
    "d / e", "d / 0", "NULL IS NULL", "f + d", "f + i", "f * f", "f / f", "i + 1.5", "n + m", "n - m", "n * m", "n * 1.5", "i * 0.10",
    "b + 1.5", "n = 1.5", "n > i", "m < 2", "b > 1.5", "d > 1.5", "f > 1.5", "f = 0.1", "d = e", "d <> e", "d < e", "d <= e", "d > e",
    "d >= e", "d <=> e", "f = d", "d = 0", "d = -0.0", "i <=> NULL", "NULL <=> x", "i <=> j", "x <=> y", "p AND q", "p OR q", "NOT p",
    "p = q", "p < q", "x = y", "x < y", "u < v", "u = DATE '2020-02-29'", "u > '2000-01-01'", "w < z", "w = z", "i IN (1, 7)",
    "i IN (1, NULL)", "i NOT IN (1, NULL)", "i IN (1, 2L)", "x IN ('a', '12')", "d IN (1.5D, 0D)", "b IN (1.5, 1)", "u IN ('2020-02-29')",
    "n IN (1.5, 2)", "i BETWEEN 0 AND 10", "d BETWEEN e AND 10", "CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END",
    "CASE WHEN j <> 0 THEN i / j END", "CASE WHEN j <> 0 THEN i % j ELSE b END", "CASE WHEN p THEN 1 ELSE 1.5 END",
    "CASE WHEN p THEN i ELSE d END", "CASE WHEN p THEN b ELSE f END", "CASE WHEN p THEN NULL ELSE i END", "if(p, i, b)",
    "if(i / j > 1, 1, 0)",
    "j <> 0 AND i / j > 1", "j = 0 OR i / j > 1", "CAST(d AS int)", "CAST(d AS bigint)", "CAST(d AS tinyint)", "CAST(f AS bigint)",
    "CAST(b AS int)", "CAST(b AS double)", "CAST(b AS float)", "CAST(d AS float)", "CAST(f AS double)", "CAST(i AS string)",
    "CAST(p AS string)", "CAST(p AS int)", "CAST(p AS double)", "CAST(d AS boolean)", "CAST(i AS boolean)", "CAST(x AS int)",
    "CAST(x AS bigint)", "CAST(x AS tinyint)", "CAST(n AS double)", "CAST(i AS decimal(12,2))", "CAST(i AS decimal(5,2))",
    "CAST(n AS decimal(12,4))", "CAST(n AS decimal(6,2))", "CAST(b AS decimal(38,18))", "CAST(NULL AS int)", "CAST(1.5 AS double)",
    "CAST(' 12 ' AS int)", "int(d)", "d::int", "i + CAST(x AS int)", "j + i / j", "c + b % c", "i IS NOT NULL", "(i + j) IS NULL",
    "i IS NOT DISTINCT FROM j", "i IS DISTINCT FROM j", "-2147483648", "2147483648", "-9223372036854775808", "1.", ".5", "0.10", "1e3",
    "1.5F", "'a'", "TRUE", "i == j", "i != j", "! p", "NOT i = j", "i = j IS NULL", "- - i", "(((i)))", "mod(i, 7)",
]  # fmt: skip


@pytest.mark.parametrize("values", [TAME, WILD], ids=["tame", "wild"])
def test_the_catalogue_equals_spark(spark: Any, values: dict[str, list[Any]]) -> None:
    done = Referee(spark, rows(values, random.Random(1), 40)).check(CATALOGUE)
    assert done > 0.9 * len(CATALOGUE)


@pytest.mark.parametrize("seed", range(4))
def test_random_expressions_equal_spark(spark: Any, seed: int) -> None:
    generator = Generator(seed)
    texts = [generator.of(generator.random.choice([*COLUMNS]), 3) for _ in range(40)]
    values = WILD if seed % 2 else TAME
    assert Referee(spark, rows(values, generator.random, 12 if seed % 2 else 40)).check(texts) > 10


@pytest.mark.parametrize("seed", range(2))
def test_random_conditions_keep_the_rows_that_spark_keeps(spark: Any, seed: int) -> None:
    generator = Generator(100 + seed)
    referee = Referee(spark, rows(TAME, generator.random, 40))
    done = 0
    for _ in range(15):
        text = " AND ".join(generator.of("boolean", 2) for _ in range(2))
        try:
            conjuncts = compile_condition(text, SCHEMA)
        except UnsupportedExpression:
            continue
        kept: Any = referee.batch
        try:
            for conjunct in conjuncts:
                kept = kept.filter(is_true(conjunct.array(Frame(kept.columns, kept.num_rows)))) if kept.num_rows else kept
        except EvaluationFailure as failure:
            kept = failure.condition
        try:
            theirs: Any = referee.frame.where(text).toArrow()
        except Exception as error:
            theirs = error.getCondition().partition(".")[0]  # type: ignore[attr-defined]
        if isinstance(kept, str) or isinstance(theirs, str):
            assert kept == theirs, text
        else:
            same = [bits(v) for c in kept.columns for v in c.to_pylist()] == [bits(v) for c in theirs.columns for v in c.to_pylist()]
            assert same, text
        done += 1
    assert done > 3


def test_unaliased_columns_are_named_as_spark_names_them(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2)], "Alpha int, `be ta` int")
    schema = Schema.of("Alpha int, `be ta` int")
    for texts in (["alpha"], ["ALPHA", "`be ta`"], ["*"], ["`Alpha`"], ["alpha AS Gamma"]):
        assert list(compile_projection(texts, schema).schema.names) == frame.selectExpr(*texts).columns
