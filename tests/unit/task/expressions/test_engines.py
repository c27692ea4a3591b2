"""The engine of an expression, and the reason.

What we show people runs on Arrow, and what does not says its reason in words.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.application.operator_specs import SelectSpec, WhereSpec
from airflow_samza.schema import Schema
from airflow_samza.task.expressions import numbers
from airflow_samza.task.expressions.compiler import compile_condition, compile_projection
from airflow_samza.task.expressions.expression import (
    DOUBLE,
    EvaluationFailure,
    Expression,
    Frame,
    UnsupportedExpression,
)
from airflow_samza.task.expressions.nodes import FUNCTIONS
from airflow_samza.task.program.schemas import SchemaResolver

ROOT = Path(__file__).parents[4]
SHOWN = Schema.of(
    "member_id bigint, country string, dwell_ms bigint, value int, dep_delay int, x int, c string, id bigint, "
    "carrier string, origin string, dest string, time_hour timestamp, departures bigint, ms bigint, n bigint, "
    "seconds bigint, year int, month int, day int, flight int, number bigint, flights bigint, window_start timestamp, "
    "delay double, level int, member bigint, screen string, customer string, products array<string>, cents bigint, "
    "page string, name string, _change_type string, _commit_timestamp timestamp, _commit_version bigint, "
    "city string, state string, at timestamp, category bigint, seller bigint, opened timestamp, expires timestamp, "
    "auction bigint, bidder bigint, price bigint, extra string, bids bigint, most bigint, begins timestamp, "
    "highest bigint, window_end timestamp, auctions bigint, person bigint, item string"
)
"""The columns of all that is shown; one name has one type everywhere."""

SCHEMA = Schema.of(
    "i int, j int, x string, y string, n decimal(10,2), f float, d double, w timestamp, m map<string,int>, a array<int>"
)


def called(source: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The texts of every where("…") and select("…") of Python code; a block of the docs may be no whole program."""
    try:
        tree = ast.parse(textwrap.dedent(source))
    except SyntaxError:
        assert ".where(" not in source
        assert ".select(" not in source
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("where", "select")
        ):
            texts = tuple(a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))
            if texts:
                yield node.func.attr, texts


def shown() -> list[tuple[str, str, tuple[str, ...]]]:
    found = []
    for folder in ("dags", "demo", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name != "spark.py" and "peers" not in (path.stem, path.parent.name):
                found += [
                    (path.relative_to(ROOT).as_posix(), *call) for call in called(path.read_text(encoding="utf-8"))
                ]
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            found += [(path.relative_to(ROOT).as_posix(), *call) for call in called(block)]
    return found


@pytest.mark.parametrize(
    ("constant", "wanted"),
    [("3", "decimal(12,2)"), ("-3", "decimal(12,2)"), ("(3)", "decimal(12,2)"), ("3.5", "decimal(13,3)")]
    + [
        (text, "decimal(21,2)")
        for text in ("+3", "- +3", "-(3)", "CAST(3 AS int)", "int(3)", "round(3)", "greatest(1, 3)")
    ],
)
def test_only_a_plain_literal_beside_a_decimal_has_the_type_of_its_digits(constant: str, wanted: str) -> None:
    assert compile_projection([f"n * {constant} AS r"], SCHEMA).schema["r"].type.ddl() == wanted


@pytest.mark.parametrize("constant", ["3L", "300S", "CAST(3 AS bigint)", "floor(3)", "ceil(3)"])
def test_constants_that_may_be_literals_or_casts_go_to_catalyst_beside_a_decimal(constant: str) -> None:
    with pytest.raises(UnsupportedExpression, match="a literal or a cast"):
        compile_projection([f"n * {constant} AS r"], SCHEMA)
    assert compile_projection([f"i + {constant} AS r"], SCHEMA).schema["r"].type.name in ("int", "bigint")


def test_what_dags_demo_and_docs_show_runs_on_arrow() -> None:
    calls = shown()
    assert {"dags", "README.md", "benchmarks"} <= {place.partition("/")[0] for place, _, _ in calls}
    for place, method, texts in calls:
        try:
            compile_condition(texts[0], SHOWN) if method == "where" else compile_projection(texts, SHOWN)
        except UnsupportedExpression as reason:
            pytest.fail(f"{place}: {method} {texts} runs in Catalyst: {reason}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("rlike(x, '^a')", "function rlike is not in the Arrow subset"),
        ("x RLIKE '^a'", "RLIKE takes Java's regular expressions"),
        ("initcap(x)", "function initcap is not in the Arrow subset"),
        *(
            (text, f"function {text.partition('(')[0]} is not in the Arrow subset")
            for text in (
                "try_add(i, j)",
                "try_subtract(i, j)",
                "try_multiply(i, j)",
                "next_day(u, 'mon')",
                "reverse(x)",
                "octet_length(x)",
                "nvl2(i, x, y)",
                "try_element_at(ai, 2)",
                "date_from_unix_date(i)",
            )
        ),
        ("year(w, w)", "year with 2 arguments is not in the Arrow subset"),
        ("upper(i)", "upper is given a int"),
        ("x LIKE y", "an argument of LIKE is no literal"),
        ("m[x]", "a map is read by a key that is no literal"),
        ("CAST(x AS timestamp)", "a string is cast to timestamp"),
        ("n / 3", "decimals are divided with /"),
        ("round(f, 1)", "round is given a float"),
        ("split(x, 'a|b')", "split is given a regular expression"),
        ("w - INTERVAL 1 DAY 2 HOURS", "an interval stands alone"),
        ("1 + i + j", "integers are added or multiplied with a constant before the last, which Catalyst reorders"),
        ("CAST('a' AS int)", "a constant fails with CAST_INVALID_INPUT"),
        *(
            (text, "a value that can fail is widened to be compared with a constant, which Catalyst may simplify")
            for text in ("CAST(i + 1 AS bigint) > 5000000000", "bigint(i + 1) > 5000000000", "double(i + 1) > 3.5D")
        ),
        ("x LIKE 'a' = (y = 'b')", "x LIKE 'a' = (y = 'b') is ambiguous without parentheses"),
        (
            "i > 0 AND i / j > 2 AND i / j < 5",
            "a value that can fail stands twice behind a condition, and Catalyst evaluates it before",
        ),
    ],
)
def test_a_rejection_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnsupportedExpression) as caught:
        compile_projection([f"{text} AS r"], SCHEMA)
    assert str(caught.value) == reason


def test_an_operator_says_its_engine_and_the_reason() -> None:
    @stream_application("engines")
    def describe(app):  # type: ignore[no-untyped-def]
        views = app.input_stream("views", schema="member_id bigint, page string")
        views.where("page LIKE '/product/%'", id="kept").select("soundex(page) AS sound", id="sound").send_to(
            app.output_stream("out")
        )

    operators = SchemaResolver(describe.spec(), {}).resolve().values()
    assert [(found.engine, found.reason) for found in operators if isinstance(found.spec, WhereSpec | SelectSpec)] == [
        ("arrow", "SQL on whole batches"),
        ("catalyst", "function soundex is not in the Arrow subset"),
    ]


def test_every_function_of_the_subset_is_in_the_docs() -> None:
    page = (ROOT / "docs" / "concepts/expressions.md").read_text(encoding="utf-8")
    missing = [name for name in FUNCTIONS if not re.search(rf"`{name}\b", page)]
    assert not missing


@pytest.mark.parametrize(("release", "failure"), [((4, 2), ""), ((4, 3), "ARITHMETIC_OVERFLOW")])
def test_what_is_beyond_a_bigint_is_its_limit_until_spark_4_3(
    release: tuple[int, int], failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numbers, "spark_release", lambda: release)
    column = pa.array([1e30, float("nan"), None, -2.5])
    floor = FUNCTIONS["floor"].build(Expression(DOUBLE, nullable=True, fallible=False, run=lambda frame: column))
    assert floor.fallible
    if failure:
        with pytest.raises(EvaluationFailure, match=failure):
            floor.array(Frame([column], 4))
    else:
        assert floor.array(Frame([column], 4)).to_pylist() == [2**63 - 1, 0, None, -3]
