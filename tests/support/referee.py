"""Catalyst as the referee over SQL expressions: the schema and the data they are tried on, and the comparison."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import decimal
import itertools
import math
import os
import random
import struct
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.schema import DataType, Schema
from airflow_samza.task.expressions.compiler import compile_condition, compile_projection
from airflow_samza.task.expressions.expression import EvaluationFailure, Frame, UnsupportedExpression, is_true

SCALE = int(os.environ.get("EXPRESSIONS_SCALE", "1"))
"""Factor by which more random expressions are tried; a long run sets it to some hundred."""

SCHEMA = Schema.of(
    "t tinyint, s smallint, i int, j int, k int not null, b bigint, c bigint, f float, g float, d double, e double, p "
    "boolean, q boolean, "
    "x string, y string, h string not null, n decimal(10,2), m decimal(5,0), o decimal(20,6), u date, v date, w "
    "timestamp, z timestamp, "
    "st struct<a:int,B:string,c:struct<d:double>>, mp map<string,int>, mq map<bigint,string>, ai array<int>, ax "
    "array<string>, "
    "ad array<double>, rs array<struct<a:int>>, da decimal(38,10), db decimal(34,2), dc decimal(35,0)"
)

FULL = Schema(tuple(dataclasses.replace(field, nullable=False) for field in SCHEMA.fields))
"""The same columns, none of which may be null."""

DAY = datetime.date
UTC = datetime.timezone.utc


def moment(*parts: int) -> datetime.datetime:
    """A time in UTC."""
    return datetime.datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


Number = decimal.Decimal

WILD: dict[str, list[Any]] = {
    "tinyint": [0, 1, -1, 127, -128, 5, None],
    "smallint": [0, 1, -1, 32767, -32768, 300, None],
    "int": [0, 1, -1, 2**31 - 1, -(2**31), 1000, 7, None],
    "bigint": [0, 1, -1, 2**63 - 1, -(2**63), 10**12, 2**53 + 1, None],
    "float": [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 3.4e38, 1e-40, 0.1, None],
    "double": [
        0.0,
        -0.0,
        1.5,
        -2.5,
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        2.0**63,
        -(2.0**63),
        2.0**31,
        0.1,
        1e-310,
        2.675,
        0.5,
        None,
    ],
    "boolean": [True, False, None],
    "string": [
        *(
            "",
            "a",
            "A",
            "é",
            "e\u0301",
            "12",
            " 7 ",
            "+5",
            "-0",
            "1.5",
            "x",
            "\t3\n",
            "99999999999999999999",
            "  a b  ",
            "a,b,,c",
            "%",
            "a_b",
        ),
        *(
            "Straße",
            "İstanbul",
            "ΑΣ",
            "ΟΔΥΣΣΕΥΣ ",
            "😀a😀",
            "𐐷𐐏",
            "ﬁn",
            "a\nb",
            "2020-02-29",
            "1970-1-1",
            " 2024-02-30",
            "true",
            "xx",
            "ab",
        ),
        None,
    ],
    "decimal": [
        Number("0.00"),
        Number("1.50"),
        Number("-99999999.99"),
        Number("2.00"),
        Number("2.50"),
        Number("-0.05"),
        None,
    ],
    "date": [
        DAY(1970, 1, 1),
        DAY(2020, 2, 29),
        DAY(1900, 12, 31),
        DAY(1, 1, 1),
        DAY(9999, 12, 31),
        DAY(1582, 10, 10),
        DAY(2024, 12, 30),
        None,
    ],
    "timestamp": [
        *(
            moment(2026, 1, 1),
            moment(2026, 1, 1, 0, 0, 0, 1),
            moment(1969, 1, 1),
            moment(1969, 12, 31, 23, 59, 59, 999999),
        ),
        *(
            moment(9999, 12, 31, 23, 59, 59, 999999),
            moment(1, 1, 1),
            moment(1899, 3, 31, 12, 30, 45),
            moment(2020, 2, 29, 23, 0, 0, 120000),
        ),
        *(moment(2021, 1, 3, 5, 6, 7), moment(1582, 10, 10, 1), None),
    ],
}
TAME = {**WILD, **{kind: [1, 2, 3, 7, -2, None] for kind in ("tinyint", "smallint", "int", "bigint")}}
TAME |= {"float": [1.5, -2.25, 3.0, None], "double": [1.5, -2.25, 10.0, 3.0, None], "string": ["12", "7", "-3", None]}


_WIDE = [0, 1, -1, 10**37 + 7, 4 - 10**37, 10**38 - 1, 1 - 10**38, None]
"""Unscaled decimals of as many digits as their type has."""


def drawn(kind: DataType, values: dict[str, list[Any]], generator: random.Random) -> Any:
    """One value of a type."""
    if kind.name == "decimal" and kind.precision > 30:
        wide = generator.choice(_WIDE)
        exact = decimal.Context(prec=76)
        return (
            None
            if wide is None
            else Number((abs(wide) % 10**kind.precision) * (-1 if wide < 0 else 1)).scaleb(-kind.scale, exact)
        )
    if kind.name == "decimal":
        value = generator.choice(values["decimal"])
        return (
            None
            if value is None
            else (value % 10 ** (kind.precision - kind.scale)).quantize(
                Number(1).scaleb(-kind.scale), decimal.ROUND_DOWN
            )
        )
    if not kind.children:
        return generator.choice(values[kind.name])
    if generator.random() < 0.15:
        return None
    if kind.name == "struct":
        return {name: drawn(child, values, generator) for name, child in zip(kind.names, kind.children, strict=True)}
    if kind.name == "array":
        return [drawn(kind.children[0], values, generator) for _ in range(generator.randrange(4))]
    keys = ["a", "b", ""] if kind.children[0].name == "string" else [1, 2, -7]
    return [(key, drawn(kind.children[1], values, generator)) for key in generator.sample(keys, generator.randrange(4))]


def rows(values: dict[str, list[Any]], generator: random.Random, count: int, schema: Schema = SCHEMA) -> pa.RecordBatch:
    """Some rows of the schema."""
    columns = []
    for field in schema.fields:
        column = [drawn(field.type, values, generator) for _ in range(count)]
        while not field.nullable and None in column:
            column = [drawn(field.type, values, generator) if value is None else value for value in column]
        columns.append(pa.array(column, field.type.to_arrow()))
    return pa.RecordBatch.from_arrays(columns, schema=schema.to_arrow())


def bits(value: Any) -> Any:
    """A value that equals another only when it is the same, NaN included; the sign of zero counts."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    if isinstance(value, list | tuple):
        return [bits(part) for part in value]
    if isinstance(value, dict):
        return {name: bits(part) for name, part in value.items()}
    return value


def told(array: Any) -> list[Any]:
    """The values of an array, so that they can be compared.

    Days and moments as numbers, since Python's calendar ends with 9999.
    """
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    elif pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return [bits(value) for value in array.to_pylist()]


def failure_of(error: Exception) -> str:
    """Spark's error condition.

    A bare ArithmeticException of Java stands for an overflow that Spark did not give one.
    """
    if hasattr(error, "getCondition"):
        return str(error.getCondition()).partition(".")[0]
    overflown = "java.lang.ArithmeticException" in str(error)
    return "ARITHMETIC_OVERFLOW" if overflown else repr(error)[:500]


class Referee:
    """Compares expressions over one batch."""

    def __init__(self, spark: Any, batch: pa.RecordBatch, schema: Schema = SCHEMA) -> None:
        self.batch = batch
        self.schema = schema
        self.frame = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
        self.frame.persist().count()
        self.rejected: dict[str, str] = {}
        # Spark 4.0 has one name for a division by zero and for its remainder.
        self.same = {"REMAINDER_BY_ZERO": "DIVIDE_BY_ZERO"} if str(spark.version).startswith("4.0.") else {}

    def arrow(self, text: str) -> Any:
        """Type and values of an expression on Arrow, or the condition of its failure."""
        projection = compile_projection([f"{text} AS r"], self.schema)
        field, expression = projection.schema.fields[0], projection.expressions[0]
        try:
            array = expression.array(Frame(self.batch.columns, self.batch.num_rows))
        except EvaluationFailure:
            # Arrow works column by column: which failure it meets first says nothing. The first row that fails does.
            for row in range(self.batch.num_rows):
                try:
                    expression.array(Frame(self.batch.slice(row, 1).columns, 1))
                except EvaluationFailure as failure:
                    return self.same.get(failure.condition, failure.condition)
            raise
        array.validate(full=True)
        assert array.type == field.type.to_arrow(), f"{text} gives {array.type}"
        # Catalyst calls more columns nullable than have a null; what we call never null must be so.
        assert field.nullable or array.null_count == 0, f"{text} is never null, but it is"
        return field.type.to_arrow(), told(array)

    def catalyst(self, texts: list[str]) -> list[Any]:
        """The same by Spark."""
        try:
            frame = self.frame.selectExpr(*(f"{text} AS r{place}" for place, text in enumerate(texts)))
            table = frame.toArrow()
        except Exception as error:
            if len(texts) > 1:
                middle = len(texts) // 2
                return [*self.catalyst(texts[:middle]), *self.catalyst(texts[middle:])]
            return [failure_of(error)]
        return [(plain(column.type), told(column)) for column in table.columns]

    def differences(self, texts: list[str], *, conditions: bool = True) -> tuple[list[str], int]:
        """Return the differences of both, and the number of expressions that Arrow evaluated.

        ``conditions`` of failures, too, where both fail.
        """
        mine: dict[str, Any] = {}
        for text in texts:
            try:
                mine[text] = self.arrow(text)
            except UnsupportedExpression as reason:
                self.rejected[text] = str(reason)
        fine = [text for text in mine if not isinstance(mine[text], str)]
        theirs: dict[str, Any] = {}
        for start in range(0, len(fine), 60):
            theirs.update(zip(fine[start : start + 60], self.catalyst(fine[start : start + 60]), strict=True))
        for text in mine:
            if text not in theirs:
                (theirs[text],) = self.catalyst([text])
        if not conditions:
            mine, theirs = (
                {text: "fails" if isinstance(done, str) else done for text, done in side.items()}
                for side in (mine, theirs)
            )
        wrong = [f"{text}\n    {self.unequal(mine[text], theirs[text])}" for text in mine if mine[text] != theirs[text]]
        return wrong, len(mine)

    def unequal(self, mine: Any, theirs: Any) -> str:
        """Return the differences, in short."""
        if isinstance(mine, str) or isinstance(theirs, str) or mine[0] != theirs[0] or len(mine[1]) != len(theirs[1]):
            return f"arrow {str(mine)[:300]}\n    catalyst {str(theirs)[:300]}"
        rows = [
            (row, one, other) for row, (one, other) in enumerate(zip(mine[1], theirs[1], strict=True)) if one != other
        ]
        return "".join(f"row {row}: arrow {one!r}, catalyst {other!r}; " for row, one, other in rows[:4])

    def check(self, texts: list[str], *, conditions: bool = True) -> int:
        """Compares all; returns how many Arrow evaluated."""
        wrong, count = self.differences(texts, conditions=conditions)
        assert not wrong, f"{len(wrong)} of {count} differ:\n" + "\n".join(wrong[:8])
        return count

    def check_beside(self, texts: list[str], neighbour: str) -> int:
        """Compares each expression alone with what it gives in a select with others; returns how many Arrow evaluated.

        Beside one that Arrow evaluates, and beside ``neighbour``, which only Catalyst does, so that it gets them all.
        """
        alone: dict[str, Any] = {}
        for text in texts:
            with contextlib.suppress(UnsupportedExpression):
                found = self.arrow(text)
                if not isinstance(found, str):
                    alone[text] = found
        for one, other in itertools.pairwise(alone):
            try:
                together = compile_projection([f"{one} AS one", f"{other} AS other"], self.schema)
            except UnsupportedExpression:
                continue
            frame = Frame(self.batch.columns, self.batch.num_rows)
            for text, field, expression in zip((one, other), together.schema.fields, together.expressions, strict=True):
                assert (field.type.to_arrow(), told(expression.array(frame))) == alone[text], f"{text} beside another"
        frame = self.frame.selectExpr(
            *(f"{text} AS r{place}" for place, text in enumerate(alone)), f"{neighbour} AS neighbour"
        )
        with pytest.raises(UnsupportedExpression):
            compile_projection([f"{text} AS r{place}" for place, text in enumerate([*alone, neighbour])], self.schema)
        columns = frame.toArrow().columns[:-1]
        theirs = [(plain(column.type), told(column)) for column in columns]
        wrong = [
            f"{text} beside {neighbour}\n    {self.unequal(mine, found)}"
            for (text, mine), found in zip(alone.items(), theirs, strict=True)
            if mine != found
        ]
        assert not wrong, f"{len(wrong)} of {len(alone)} differ:\n" + "\n".join(wrong[:8])
        return len(alone)

    def check_condition(self, text: str) -> bool:
        """Return True if Arrow filters with a condition.

        If so, it keeps the rows that Spark keeps, or fails as Spark fails.
        """
        try:
            conjuncts = compile_condition(text, self.schema)
        except UnsupportedExpression as reason:
            self.rejected[text] = str(reason)
            return False
        kept: Any = None
        try:
            kept = self._filtered(self.batch, conjuncts)
        except EvaluationFailure:
            for row in range(self.batch.num_rows):
                try:
                    self._filtered(self.batch.slice(row, 1), conjuncts)
                except EvaluationFailure as failure:
                    kept = failure.condition
                    break
        try:
            theirs: Any = self.frame.where(text).toArrow()
        except Exception as error:
            theirs = failure_of(error)
        if isinstance(kept, str) or isinstance(theirs, str):
            assert kept == theirs, text
        else:
            assert [told(column) for column in kept.columns] == [told(column) for column in theirs.columns], text
        return True

    def _filtered(self, batch: pa.RecordBatch, conjuncts: Any) -> pa.RecordBatch:
        for conjunct in conjuncts:
            batch = (
                batch.filter(is_true(conjunct.array(Frame(batch.columns, batch.num_rows)))) if batch.num_rows else batch
            )
        return batch


def plain(kind: pa.DataType) -> pa.DataType:
    """A nested type without what Spark says of its children's nulls and names."""
    return DataType.to_arrow(Schema.of(pa.schema([("r", kind)])).fields[0].type)
