"""Long ones run, deep ones get a sentence, unreadable ones say the place, and no sentence quotes a long text whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza import StreamApplicationDescriptor, stream_application
from airflow_samza.errors import SamzaError
from airflow_samza.planner.difference import difference
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ColumnBound
from airflow_samza.task.expressions.compiler import compile_condition, compile_projection
from airflow_samza.task.expressions.expression import EvaluationFailure, Frame, UnsupportedExpression
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but

SCHEMA = Schema.of("i int, j int, d double, e double, s string")
ROWS = pa.RecordBatch.from_pydict(
    {
        "i": [1, 2, None, 4999, -7],
        "j": [3, None, 5, 2, 1],
        "d": [1.0, 0.1, None, -2.5, 1e300],
        "e": [0.3, 1.7, 2.5, None, -1e300],
        "s": ["a", "b", None, "q", ""],
    },
    schema=SCHEMA.to_arrow(),
)


def frame(rows: pa.RecordBatch = ROWS) -> Frame:
    return Frame(rows.columns, rows.num_rows)


def value(text: str, rows: pa.RecordBatch = ROWS) -> list[Any]:
    (expression,) = compile_projection([f"{text} AS r"], SCHEMA).expressions
    return list(expression.array(frame(rows)).to_pylist())


@pytest.mark.parametrize("terms", extended_but([31, 32, 600], [31, 32, 600, 5000]))
def test_a_long_chain_of_or_keeps_the_rows_that_in_keeps(terms: int) -> None:
    (chain,) = compile_condition(" OR ".join(f"i = {number}" for number in range(terms)), SCHEMA)
    (lookup,) = compile_condition(f"i IN ({', '.join(map(str, range(terms)))})", SCHEMA)
    assert chain.array(frame()).equals(lookup.array(frame()))


@pytest.mark.parametrize("terms", extended_but([31, 600], [31, 600, 5000]))
def test_a_long_chain_of_and_inside_not_is_true_where_a_term_is_false(terms: int) -> None:
    assert value(f"NOT ({' AND '.join(f'i <> {number}' for number in range(terms))})") == [
        True,
        True,
        None,
        terms == 5000,
        False,
    ]


@pytest.mark.parametrize("symbol", ["+", "-", "*"])
@pytest.mark.parametrize("terms", extended_but([31, 600], [31, 600, 5000]))
def test_a_long_chain_of_doubles_is_calculated_from_left_to_right(symbol: str, terms: int) -> None:
    columns = ["d", "e"] * terms
    expected = ROWS.column("d").to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        for name in columns[1:terms]:
            other = ROWS.column(name).to_numpy(zero_copy_only=False)
            expected = {"+": np.add, "-": np.subtract, "*": np.multiply}[symbol](expected, other)
    got = np.array([np.nan if found is None else found for found in value(f" {symbol} ".join(columns[:terms]))])
    assert got.tobytes() == np.where(np.isnan(got), got, expected).tobytes()
    assert (np.isnan(got) == np.isnan(expected)).all()


def test_a_long_chain_of_integers_overflows_as_a_short_one() -> None:
    with pytest.raises(EvaluationFailure, match="ARITHMETIC_OVERFLOW"):
        value(" * ".join(["i"] * 600))
    assert value(" * ".join(["i"] * 600), ROWS.slice(0, 1)) == [1]


def test_a_long_chain_evaluates_what_can_fail_only_where_it_is_still_open() -> None:
    terms = ["i = 1", "i = 2", *(f"i = {number}" for number in range(100, 600)), "j / (i - 1) > 100", "d / (j - 5) > 1"]
    rows = pa.RecordBatch.from_pydict(
        {"i": [1, 2], "j": [5, 5], "d": [1.0, 2.0], "e": [0.0, 0.0], "s": ["", ""]}, schema=SCHEMA.to_arrow()
    )
    (chain,) = compile_condition(" OR ".join(terms), SCHEMA)
    assert chain.array(frame(rows)).to_pylist() == [True, True]
    with pytest.raises(EvaluationFailure, match="DIVIDE_BY_ZERO"):
        chain.array(frame(rows.set_column(0, rows.schema.field(0), pa.array([1, 3], pa.int32()))))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(" * 600 + "i" + ")" * 600, "nested"),
        (" / ".join(["d"] * 600), "nested"),
        (" || ".join(["s"] * 600), "nested"),
        ("abs(" * 600 + "i" + ")" * 600, "nested"),
        ("NOT " * 600 + "i = 1", "nested"),
    ],
)
def test_what_is_nested_too_deeply_is_left_to_spark(text: str, why: str) -> None:
    with pytest.raises(UnsupportedExpression, match=why):
        compile_projection([f"{text} AS r"], SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1e400",
            "-1e400",
            "d > 1.8e308",
            "1.7976931348623159e308",
            "1e400D",
            "1e39F",
            "1e9999999",
            "d + 1e-9999999",
            "1" * 5000,
        ),
        *("try_cast('epoch' AS date)", "try_cast(trim(' today ') AS date)", "CAST('now' AS date)"),
        *("DATE '2020-01-01' + INTERVAL 999999999 DAYS", "DATE '2020-01-01' - INTERVAL 999999999 YEARS"),
    ],
)
def test_constants_that_spark_reads_by_rules_of_its_own_are_left_to_it(text: str) -> None:
    with pytest.raises(UnsupportedExpression):
        compile_projection([f"{text} AS r"], SCHEMA)


@pytest.mark.parametrize("kind", ["decimal(35,0)", "decimal(38,10)"])
@pytest.mark.parametrize("text", ["-v", "abs(v)", "negative(v)", "1 - -v"])
def test_the_opposite_of_decimals_that_spark_rounds_is_left_to_it(text: str, kind: str) -> None:
    with pytest.raises(UnsupportedExpression, match="rounded to 34 digits"):
        compile_projection([f"{text} AS r"], Schema.of(f"v {kind}"))
    assert compile_projection([f"{text.replace('1 - ', '')} AS r"], Schema.of("v decimal(34,4)")).expressions


def driver(condition: str) -> TestDriver:
    @stream_application("long")
    def app(app: StreamApplicationDescriptor) -> None:
        app.input_stream("in", schema="i int, s string").where(condition).send_to(app.output_stream("out"))

    return TestDriver(app)


@pytest.mark.parametrize("terms", [600])
@pytest.mark.extended
def test_an_application_runs_with_a_condition_of_thousands_of_terms(terms: int) -> None:
    condition = " OR ".join(f"i = {number} AND s = '{number}'" for number in range(terms))
    sent = [{"i": 0, "s": "0"}, {"i": terms - 1, "s": str(terms - 1)}, {"i": 5, "s": "4"}, {"i": -1, "s": "-1"}]
    assert [row.i for row in driver(condition).pipe("in", sent).run().output("out")] == [0, terms - 1]


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("i = 1 AND", "near 'AND' (character 7)"),
        ("(i = 1", "near '1' (character 6), where ) is expected"),
        ("i = 1 OR OR i = 2", "near 'OR' (character 10)"),
        ("i = 1\n AND )", "near ')' (line 2, character 6)"),
        ("s = 'abc", "' of character 5 is not closed"),
    ],
)
def test_a_syntax_error_says_so_and_where(condition: str, place: str) -> None:
    with pytest.raises(SamzaError) as raised:
        driver(condition).pipe("in", [{"i": 1, "s": "a"}]).run()
    assert f"has a syntax error {place}" in raised.value.sentence
    assert __file__ in raised.value.sentence


VALUES = ", ".join(f"'{number:06}'" for number in range(5_000))


@pytest.mark.parametrize(
    "condition",
    [
        f"s IN ({VALUES}",
        f"t IN ({VALUES})",
        f"soundex(s) IN ({VALUES})",
        f"i IN ({VALUES})",
        f"1 / i IN (1, 2) OR s IN ({VALUES})",
        f"i + length(concat({VALUES}))",
        f"s IN ({VALUES}) AND i IN (1 / 0)",
        f"CAST(s AS int) = 1 AND s IN ({VALUES})",
        f"'{'x' * 30_000}' = i",
    ],
)
@pytest.mark.few(1)
def test_no_sentence_quotes_a_long_condition_whole(condition: str) -> None:
    with pytest.raises(SamzaError) as raised:
        driver(condition).pipe("in", [{"i": 0, "s": "a"}]).run()
    assert len(str(raised.value)) < 1500, str(raised.value)[:3000]


def test_the_difference_of_two_plans_shows_where_long_conditions_differ() -> None:
    plans = [driver(f"s IN ({VALUES}, '{last}')").plan for last in ("x", "y")]
    (sentence,) = difference(*plans)
    assert len(sentence) < 600
    assert "'x')" in sentence
    assert "'y')" in sentence


def test_a_plan_shows_the_beginning_of_a_long_list_that_rules_out_rows() -> None:
    assert str(ColumnBound("s", "in", ("a", "b"))) == "s in ('a', 'b')"
    text = str(ColumnBound("s", "in", tuple(map(str, range(50_000)))))
    assert text.endswith("… (50000 values)")
    assert len(text) < 200


def test_a_date_behind_a_long_sum_is_left_to_catalyst_which_looks_at_the_date_first() -> None:
    dated = Schema.of("i int, u date")
    (short,) = compile_projection(["i + i + u AS r"], dated).expressions
    assert short.type.name == "date"
    with pytest.raises(UnsupportedExpression, match="a date stands behind a long sum"):
        compile_projection([" + ".join(["i"] * 40 + ["u"]) + " AS r"], dated)
