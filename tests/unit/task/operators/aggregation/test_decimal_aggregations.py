"""Sums and means of decimals are exact, or an error.

In one go, in windows, as partial results and from epoch to epoch.
"""

from __future__ import annotations

import datetime
import random
from collections import defaultdict
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pytest

from airflow_samza import StreamApplicationDescriptor, avg, hopping, session, stream_application, sum_, tumbling
from airflow_samza.application.application import StreamApplication
from airflow_samza.application.windows import WindowSpec
from airflow_samza.errors import SamzaError
from airflow_samza.schema import DataType, parse_type
from airflow_samza.testing import TestDriver

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.timezone.utc)
GREATEST, LEAST = Decimal(10**38 - 1), Decimal(1 - 10**38)
WINDOWS: dict[str, WindowSpec | None] = {
    "at the end": None,
    "tumbling": tumbling("1 hour"),
    "hopping": hopping("1 hour", "30 minutes"),
    "session": session("1 hour"),
    "early": tumbling("1 hour", early_every=1000),
}
Run = Callable[..., TestDriver]
EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def application(kind: str, window: WindowSpec | None) -> StreamApplication:
    @stream_application("sums")
    def sums(app: StreamApplicationDescriptor) -> None:
        stream = app.input_stream(
            "in", schema=f"k string, v {kind}, at timestamp", timestamp="at", max_delay="1 day", bounded=False
        )
        stream = stream.partition_by("k", id="by-k")
        made: dict[str, Any] = {"total": sum_("v"), "mean": avg("v")}
        results = (
            stream.aggregate("k", id="s", **made) if window is None else stream.window(window, key="k", id="s", **made)
        )
        results.send_to(app.output_stream("out"))

    return sums


def message(key: str, value: Decimal | None, second: int = 0) -> dict[str, Any]:
    return {"k": key, "v": value, "at": NOON + datetime.timedelta(seconds=second)}


def run_whole(app: StreamApplication, values: list[Decimal], *, reduced: bool = False) -> TestDriver:
    return (
        TestDriver(app, reduced=reduced)
        .pipe("in", [message("a", value, second) for second, value in enumerate(values)])
        .step()
        .drain()
    )


def run_in_epochs(app: StreamApplication, values: list[Decimal], *, reduced: bool = False) -> TestDriver:
    driver = TestDriver(app, reduced=reduced)
    for second, value in enumerate(values):
        driver.pipe("in", [message("a", value, second)]).step()
    return driver.drain()


@pytest.mark.parametrize("run", [run_whole, run_in_epochs])
@pytest.mark.parametrize("reduced", [False, True], ids=["messages", "partial results"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_a_sum_of_decimals_that_does_not_fit_is_an_overflow(window: WindowSpec | None, reduced: bool, run: Run) -> None:
    with pytest.raises(SamzaError) as raised:
        run(application("decimal(38,0)", window), [GREATEST] * 3, reduced=reduced)
    assert "ARITHMETIC_OVERFLOW" in str(raised.value)
    assert "decimal(38,0)" in str(raised.value)


@pytest.mark.parametrize(
    "values", [[LEAST, GREATEST, GREATEST], [GREATEST, LEAST] * 40, [Decimal(10**38 - 2), Decimal(1)]]
)
@pytest.mark.parametrize("run", [run_whole, run_in_epochs])
def test_a_sum_of_the_greatest_decimals_that_fits_is_exact(run: Run, values: list[Decimal]) -> None:
    @stream_application("sums")
    def greatest(app: StreamApplicationDescriptor) -> None:
        stream = app.input_stream("in", schema="k string, v decimal(38,0), at timestamp", bounded=False)
        stream.partition_by("k", id="by-k").aggregate("k", id="s", total=sum_("v")).send_to(app.output_stream("out"))

    (row,) = run(greatest, values).output("out")
    assert row.total == sum(map(int, values))


@pytest.mark.parametrize(
    "kind", ["decimal(1,1)", "decimal(10,2)", "decimal(28,3)", "decimal(34,0)", "decimal(38,20)", "decimal(38,38)"]
)
@pytest.mark.parametrize("reduced", [False, True], ids=["messages", "partial results"])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.few(12)
def test_a_mean_of_decimals_is_exact_and_rounded_half_up(window: WindowSpec | None, reduced: bool, kind: str) -> None:
    declared = parse_type(kind)
    generator = random.Random(f"{kind}{reduced}")
    # so great that sums fit, so different that a double would lose digits
    greatest = 10 ** (declared.precision - (6 if declared.precision >= 34 else 0)) - 1
    sent = [
        (generator.choice("abc"), Decimal(generator.randrange(-greatest, greatest + 1)).scaleb(-declared.scale, EXACT))
        for _ in range(60)
    ]
    driver = TestDriver(application(kind, window), reduced=reduced)
    for start in range(0, len(sent), 25):
        driver.pipe(
            "in",
            [message(key, value, start) for key, value in sent[start : start + 25]] + [message("none", None, start)],
        ).step()
    rows = [row for row in driver.drain().output("out") if not hasattr(row, "is_final") or row.is_final]
    by_key = defaultdict(list)
    for key, value in sent:
        by_key[key].append(value)
    scale = min(38, declared.scale + 4)
    for row in rows:
        if row.k == "none":
            assert (row.total, row.mean) == (None, None)
            continue
        total = Decimal(sum(int(value.scaleb(declared.scale, EXACT)) for value in by_key[row.k])).scaleb(
            -declared.scale, EXACT
        )
        mean = EXACT.divide(total, Decimal(len(by_key[row.k]))).quantize(Decimal(1).scaleb(-scale), context=EXACT)
        assert (row.total, row.mean) == (total, mean)
    assert {row.k for row in rows} == {"a", "b", "c", "none"}


def test_a_mean_that_does_not_fit_is_out_of_range() -> None:
    with pytest.raises(SamzaError, match="NUMERIC_VALUE_OUT_OF_RANGE"):
        run_whole(application("decimal(38,0)", None), [GREATEST])


def test_a_mean_of_decimals_has_sparks_type() -> None:
    spec = application("decimal(10,2)", None).spec()
    (aggregate,) = [operator for operator in spec.operators if operator.name == "s"]
    assert aggregate.schema is not None
    assert aggregate.schema["mean"].type == DataType("decimal", 14, 6)
    assert aggregate.schema["total"].type == DataType("decimal", 20, 2)
