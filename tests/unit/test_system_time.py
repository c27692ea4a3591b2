"""The system's time as event time: a column that the task fills when it reads, whose clock makes the watermarks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_samza import count, stream_application, system_time, tumbling
from airflow_samza.errors import InvalidApplication
from airflow_samza.testing import TestDriver

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class View:
    """A page view, with the time at which it was read."""

    country: str
    read_at: datetime
    dwell_ms: int


def driver_of(*, schema: Any = "country string, dwell_ms int", bounded: bool = False) -> TestDriver:
    def describe(app: Any) -> None:
        views = app.input_stream(
            "views", schema=schema, timestamp=system_time("read_at"), bounded=bounded, key="country", partitions=1
        )
        views.send_to(app.output_stream("seen"))
        windows = views.window(tumbling("1 minute"), key="country", views=count(), id="w")
        windows.send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("read")(describe))
    driver.clock = NOON
    return driver


ROW = {"country": "NL", "dwell_ms": 5}


def test_messages_have_the_time_at_which_they_were_read() -> None:
    driver = driver_of().pipe("views", [ROW]).step().advance("5 seconds").pipe("views", [ROW]).step()
    assert [row.read_at for row in driver.output("seen")] == [NOON, NOON + timedelta(seconds=5)]


def test_windows_behind_it_close_by_the_clock_without_another_message() -> None:
    driver = driver_of().pipe("views", [ROW, ROW]).step().advance("59 seconds").step()
    assert driver.output("out") == []
    driver.advance("1 second").step()
    assert [(row.window_start, row.views) for row in driver.output("out")] == [(NOON, 2)]


def test_a_clock_that_goes_back_makes_nothing_late() -> None:
    driver = driver_of().pipe("views", [ROW]).advance("2 minutes").step()
    driver.clock = NOON
    driver.pipe("views", [ROW]).step()
    assert [row.views for row in driver.drain().output("out")] == [2]


def test_a_declared_field_is_filled_and_callables_get_the_dataclass() -> None:
    seen: list[Any] = []

    def describe(app: Any) -> None:
        app.input_stream("views", schema=View, timestamp=system_time("read_at")).sink(seen.append)

    driver = TestDriver(stream_application("read")(describe))
    driver.clock = NOON
    driver.pipe("views", [ROW]).run()
    assert seen == [View("NL", NOON, 5)]


def test_a_bounded_input_gives_its_windows_at_its_end() -> None:
    assert [row.views for row in driver_of(bounded=True).pipe("views", [ROW, ROW]).run().output("out")] == [2]


def test_the_plan_does_not_warn_of_missing_watermarks() -> None:
    assert not [warning for warning in driver_of().plan.warnings if "watermarks" in warning]


@dataclass(frozen=True)
class Plain:
    """Without a field for the time."""

    country: str


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            {"schema": Plain, "timestamp": system_time("read_at")},
            "Plain of input stream 'views' has no field 'read_at'",
        ),
        ({"schema": "read_at string", "timestamp": system_time("read_at")}, "is of type string"),
        ({"timestamp": system_time("read_at"), "max_delay": "1 s"}, "has the system's time and max_delay"),
    ],
)
def test_wrong_use_is_rejected(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence):
        stream_application("read")(lambda app: app.input_stream("views", **said).sink(print)).spec()


def test_a_system_time_needs_a_column() -> None:
    with pytest.raises(InvalidApplication, match="system_time got ''"):
        system_time("")
