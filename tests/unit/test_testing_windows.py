"""Windows on the test driver: watermarks of unbounded inputs close them, whatever the epochs.

What is late goes beside.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_samza import Row, bounded_delay, count, punctuated, session, stream_application, sum_, tumbling
from airflow_samza.testing import TestDriver
from tests.support.budgets import extended_but

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class View:
    """A page view."""

    country: str
    at: datetime
    dwell_ms: int = 100


def seconds(*numbers: float, country: str = "NL") -> list[View]:
    return [View(country, NOON + timedelta(seconds=number)) for number in numbers]


def driver_of(
    window: Any, *, bounded: bool = False, partitions: int = 1, late: bool = False, **said: Any
) -> TestDriver:
    def describe(app: Any) -> None:
        how = said if bounded or said else {"max_delay": "10 seconds"}
        views = app.input_stream("views", schema=View, timestamp="at", bounded=bounded, partitions=partitions, **how)
        by_country = views.partition_by("country", id="by-country")
        late_to = app.output_stream("late", schema=View) if late else None
        windows = by_country.window(
            window, key="country", views=count(), dwell=sum_("dwell_ms"), id="per-minute", late_to=late_to
        )
        windows.send_to(app.output_stream("out"))

    return TestDriver(stream_application("windows")(describe), config={"job.intermediate.stream.partitions": "2"})


def found(driver: TestDriver) -> list[tuple[str, float, int]]:
    return [(row.country, (row.window_start - NOON).total_seconds(), row.views) for row in driver.output("out")]


def test_a_window_comes_out_when_the_watermark_has_passed_its_end() -> None:
    driver = driver_of(tumbling("1 minute"))
    driver.pipe("views", seconds(1, 30, 69)).step()
    assert found(driver) == []
    driver.pipe("views", seconds(70)).step()
    assert found(driver) == [("NL", 0, 2)]
    assert found(driver.drain()) == [("NL", 0, 2), ("NL", 60, 2)]


@pytest.mark.parametrize("reduced", [False, True])
def test_reports_count_what_is_in_no_window(reduced: bool) -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema="country string, at timestamp", timestamp="at").partition_by(
            "country", id="by-country"
        )
        views.window(tumbling("1 minute"), key="country", views=count(), id="w").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("windows")(describe), reduced=reduced)
    driver.pipe("views", [{"country": "NL", "at": None}, {"country": "NL", "at": NOON}]).run()
    assert len(driver.output("out")) == 1
    assert sum(report.metrics.get("messages_without_time", 0) for report in driver.reports()) == 1
    assert sum(report.metrics.get("late_messages", 0) for report in driver.reports()) == 0


def test_late_messages_are_sent_beside() -> None:
    driver = driver_of(tumbling("1 minute"), late=True)
    driver.pipe("views", seconds(1, 80)).step()
    driver.pipe("views", seconds(59, 61)).step()
    driver.drain()
    assert found(driver) == [("NL", 0, 1), ("NL", 60, 2)]
    assert driver.output("late") == seconds(59)


def test_nothing_of_a_bounded_input_is_late() -> None:
    driver = driver_of(tumbling("1 minute"), bounded=True, late=True, max_delay="1 second")
    driver.pipe("views", seconds(500, 400, 1, 2)).run(mode="pipelined", epoch_messages=1)
    assert sorted(found(driver)) == [("NL", 0, 2), ("NL", 360, 1), ("NL", 480, 1)]
    assert driver.output("late") == []


@pytest.mark.parametrize("window", [tumbling("1 minute"), session("20 seconds")], ids=["tumbling", "session"])
@pytest.mark.parametrize("seed", extended_but(range(1), range(6)))
@pytest.mark.few(1, 4)
def test_windows_do_not_depend_on_the_epochs(window: Any, seed: int) -> None:
    chance = random.Random(seed)
    views = [
        view for at in range(60) for view in seconds(at * 7 + chance.randrange(-9, 9), country=chance.choice("ABC"))
    ]

    def run(pieces: Sequence[Sequence[View]]) -> list[Any]:
        driver = driver_of(window, partitions=1)
        for piece in pieces:
            driver.pipe("views", piece).step(epoch_messages=chance.choice([1, 5, None]))
        return sorted(found(driver.drain()))

    size = chance.choice([1, 4, 13])
    assert run([views[at : at + size] for at in range(0, 60, size)]) == run([views])


def test_windows_are_kept_from_run_to_run() -> None:
    driver = driver_of(tumbling("1 minute"))
    driver.pipe("views", seconds(1, 2)).catch_up()
    assert found(driver) == []  # rule C9: the end of a slice flushes nothing
    driver.pipe("views", seconds(3, 100)).catch_up()
    assert found(driver) == [("NL", 0, 3)]


def test_messages_that_say_so_make_the_watermark() -> None:
    driver = driver_of(
        tumbling("1 minute"), watermarks=punctuated(lambda view: view.at if view.dwell_ms == 0 else None)
    )
    driver.pipe("views", seconds(1, 500)).step()
    assert found(driver) == []
    driver.pipe("views", [View("NL", NOON + timedelta(minutes=1), dwell_ms=0)]).step()
    assert found(driver) == [("NL", 0, 1)]


def test_windows_of_windows_close_in_turn() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream(
            "views", schema=View, timestamp="at", bounded=False, watermarks=bounded_delay(0), partitions=1
        )
        minutes = views.partition_by("country", id="by-country").window(
            tumbling("1 minute"), key="country", views=count(), id="minutes"
        )
        hours = minutes.window(tumbling("1 hour"), key="country", views=sum_("views"), minutes=count(), id="hours")
        hours.send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("windows")(describe))
    driver.pipe("views", seconds(1, 61, 62, 3600)).step()
    assert [(row.views, row.minutes) for row in driver.output("out")] == [(3, 2)]


def test_windows_of_processing_time_close_by_the_drivers_clock() -> None:
    driver = driver_of(tumbling("1 minute", time="processing"))
    driver.clock = NOON
    driver.pipe("views", seconds(-5000, 3)).step()
    driver.advance("59 seconds").step()
    assert found(driver) == []
    driver.advance("1 second").step()
    assert found(driver) == [("NL", 0, 2)]


def test_early_results_are_told_from_the_last_one() -> None:
    driver = driver_of(tumbling("1 minute", early_every=2))
    driver.pipe("views", seconds(1, 2, 3)).step()
    assert [(row.pane, row.is_final, row.views) for row in driver.output("out")] == [(0, False, 2)]
    driver.drain()
    assert [(row.pane, row.is_final, row.views) for row in driver.output("out")] == [(0, False, 2), (1, True, 1)]


@dataclass(frozen=True)
class Longest:
    """The longest view of a window."""

    dwell_ms: int


def longest(former: Longest | None, view: View) -> Longest:
    return Longest(max(view.dwell_ms, former.dwell_ms if former is not None else 0))


@pytest.mark.parametrize("epoch_messages", [1, None])
def test_a_fold_makes_the_columns_of_its_result(epoch_messages: int | None) -> None:
    def describe(app: Any) -> None:
        views = app.input_stream(
            "views", schema=View, timestamp="at", key="country", bounded=False, max_delay="1 second", partitions=1
        )
        views.window(tumbling("1 minute"), key="country", fold=longest, id="longest").send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("fold")(describe))
    driver.pipe("views", [View("NL", NOON, 5), View("NL", NOON, 9), View("NL", NOON, 7)]).step(
        epoch_messages=epoch_messages
    ).drain()
    (row,) = driver.output("out")
    assert isinstance(row, Row)
    assert (row.country, row.dwell_ms) == ("NL", 9)
