"""Windows in applications.

What is late, what goes by the clock, early results, what goes through topics, days in zones.
"""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import Row, count, hopping, last, session, stream_application, sum_, tumbling
from airflow_samza.application.operator_specs import WindowOperatorSpec
from airflow_samza.application.windows import WindowSpec
from airflow_samza.errors import InvalidApplication, MessageError
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.schema import Schema
from airflow_samza.task.messages.output_writers import OutputWriter, Sender
from airflow_samza.task.operators.windows.grids import FixedGrid, ZonedGrid
from airflow_samza.task.operators.windows.window import Window
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import check_application
from airflow_samza.testing import TestDriver

VIEWS = Schema.of("country string, at timestamp, dwell int")
MIDNIGHT = datetime(2026, 1, 1, tzinfo=timezone.utc)


class Collected:
    """A producer that keeps what is written."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()


class Clock:
    """A clock that is set."""

    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def spec_of(window: WindowSpec, **said: Any) -> WindowOperatorSpec:
    made: list[Any] = []

    def describe(app: Any) -> None:
        stream = app.input_stream("views", schema=VIEWS, timestamp="at", key="country")
        made.append(stream.window(window, key="country", id="w", **(said or {"n": count(), "dwell": sum_("dwell")})))

    stream_application("test")(describe).spec()
    found: WindowOperatorSpec = made[0]._operator
    return found


def operator(window: WindowSpec, clock: Clock | None = None, late_to: Sender | None = None, **said: Any) -> Window:
    spec = spec_of(window, **said)
    assert spec.schema is not None
    return Window(spec, VIEWS, spec.schema, clock or Clock(), late_to)


def views(*seconds: float | None, country: str = "NL") -> pa.RecordBatch:
    rows = [
        {"country": country, "at": None if s is None else MIDNIGHT + timedelta(seconds=s), "dwell": n}
        for n, s in enumerate(seconds)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=VIEWS.to_arrow())


def at(seconds: float) -> int:
    return int(MIDNIGHT.timestamp() * 1000 + seconds * 1000)


def counts(batches: Any) -> list[tuple[float, int]]:
    return [
        ((row["window_start"] - MIDNIGHT).total_seconds(), row["n"]) for batch in batches for row in batch.to_pylist()
    ]


# -- what is complete, what is late
# --------------------------------------------------------------------------------------


def test_a_window_is_complete_when_the_watermark_is_its_end() -> None:
    window = operator(tumbling("10 s"))
    assert counts(window.process(views(1, 9.999999, 10))) == []
    assert counts(window.on_watermark(at(10) - 1)) == []
    assert counts(window.on_watermark(at(10))) == [(0, 2)]
    assert counts(window.flush()) == [(10, 1)]


def test_a_session_closes_when_nothing_can_join_it_any_more() -> None:
    window = operator(session("10 s"))
    assert counts(window.process(views(0))) == []
    assert counts(window.on_watermark(at(10))) == []  # a message of exactly then still belongs to it
    assert counts(window.process(views(10))) == []
    assert counts(window.on_watermark(at(20) + 1)) == [(0, 2)]


def test_late_messages_are_counted_and_go_to_their_stream_as_they_came() -> None:
    collected = Collected()
    late_to = Sender(OutputWriter("late", collected, (), 1, 0), VIEWS, "window 'w'")
    window = operator(tumbling("10 s"), late_to=late_to)
    list(window.on_watermark(at(20)))
    assert counts(window.process(views(19, 20, 5))) == []
    assert (window.late, window.metrics()["late_messages"]) == (2, 2)
    assert [row["dwell"] for row in collected.rows] == [0, 2]
    assert counts(window.flush()) == [(20, 1)]


def test_a_hopping_message_counts_in_the_windows_that_are_still_open() -> None:
    window = operator(hopping("20 s", "10 s"))
    list(window.on_watermark(at(20)))
    list(window.process(views(15)))
    assert (counts(window.flush()), window.late) == ([(10, 1)], 0)


def test_messages_without_a_time_are_in_no_window_and_counted_apart() -> None:
    window = operator(tumbling("10 s"))
    list(window.process(views(None, 3, None)))
    assert (counts(window.flush()), window.metrics()) == ([(0, 1)], {"late_messages": 0, "messages_without_time": 2})


def test_windows_come_in_the_order_of_their_ends_then_of_their_keys_as_they_came() -> None:
    window = operator(tumbling("10 s"))
    list(window.process(views(15, country="b")))
    list(window.process(views(5, country="c")))
    list(window.process(views(15, 5, country="a")))
    (batch,) = window.flush()
    assert batch.column("country").to_pylist() == ["c", "a", "b", "a"]


# -- processing time and early results
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [tumbling("10 s", time="processing"), session("10 s", time="processing")])
def test_windows_of_processing_time_close_by_the_clock(kind: WindowSpec) -> None:
    clock = Clock()
    window = operator(kind, clock)
    list(window.process(views(1, 2)))
    clock.now += 5_000
    list(window.process(views(None)))
    assert list(window.on_time(clock.now + 1_000)) == []
    rows = [row for batch in window.on_time(clock.now + 20_000) for row in batch.to_pylist()]
    assert [row["n"] for row in rows] == [3]
    assert rows[0]["window_start"].timestamp() == 1_000
    assert window.waits_for_time


def test_a_clock_that_goes_back_makes_nothing_late() -> None:
    clock = Clock()
    window = operator(tumbling("10 s", time="processing"), clock)
    list(window.process(views(1)))
    clock.now -= 60_000
    list(window.process(views(1)))
    assert [batch.to_pylist()[0]["n"] for batch in window.flush()] == [2]


@pytest.mark.parametrize("kind", [tumbling, session])
@pytest.mark.parametrize("accumulating", [False, True])
def test_early_results_are_due_after_a_time(kind: Any, accumulating: bool) -> None:
    clock = Clock()
    window = operator(kind("1 hour", early_after="5 s", accumulating=accumulating), clock)

    def rows(batches: Any) -> list[tuple[int, int, bool]]:
        return [(row["pane"], row["n"], row["is_final"]) for batch in batches for row in batch.to_pylist()]

    list(window.process(views(1)))
    clock.now += 4_000
    list(window.process(views(2)))
    assert rows(window.on_time(clock.now)) == []
    assert rows(window.on_time(clock.now + 1_000)) == [(0, 2, False)]
    assert rows(window.on_time(clock.now + 9_000)) == []  # nothing new
    list(window.process(views(3)))
    assert rows(window.flush()) == [(1, 3 if accumulating else 1, True)]


def test_a_window_that_has_given_all_early_has_a_last_result_only_when_results_accumulate() -> None:
    for accumulating, expected in ((False, []), (True, [(1, 2, True)])):
        window = operator(tumbling("1 hour", early_every=2, accumulating=accumulating))
        assert [(r["pane"], r["n"]) for b in window.process(views(1, 2)) for r in b.to_pylist()] == [(0, 2)]
        assert [(r["pane"], r["n"], r["is_final"]) for b in window.flush() for r in b.to_pylist()] == expected


@pytest.mark.parametrize("accumulating", [False, True])
def test_sessions_have_early_results_when_enough_was_read(accumulating: bool) -> None:
    window = operator(session("10 s", early_every=2, accumulating=accumulating), n=count(), one=last("dwell"))
    found = [row for batch in window.process(views(1, 30, 5)) for row in batch.to_pylist()]
    assert [(row["pane"], row["n"], row["one"]) for row in found] == [(0, 2, 2)]
    list(window.process(views(8)))
    found = [row for batch in window.flush() for row in batch.to_pylist()]
    assert [(row["n"], row["pane"]) for row in found] == [(3 if accumulating else 1, 1), (1, 0)]


# -- folds
# ---------------------------------------------------------------------------------------------------------------


def test_a_fold_starts_from_its_initial_value_in_every_window() -> None:
    def keep(former: list[int], view: Row) -> list[int]:
        former.append(view.dwell)
        return former

    def as_row(former: Any, view: Row) -> dict[str, Any]:
        return {"seen": keep(former["seen"], view)}

    initial: Any
    for initial in ({"seen": []}, lambda: {"seen": []}):
        window = operator(tumbling("10 s"), fold=as_row, initial=initial, schema="seen array<int>")
        list(window.process(views(1, 2, 11)))
        assert [row["seen"] for batch in window.flush() for row in batch.to_pylist()] == [[0, 1], [2]]


@pytest.mark.parametrize("kind", [tumbling, session])
def test_a_fold_that_fails_is_named_with_its_message(kind: Any) -> None:
    window = operator(kind("10 s"), fold=lambda former, view: 1 // 0, schema="n int")
    with pytest.raises(
        MessageError, match=r"in window 'w' failed with ZeroDivisionError.*on the message Row\(country='NL'"
    ):
        list(itertools.chain(window.process(views(1)), window.flush()))


def test_a_fold_that_makes_something_else_is_named() -> None:
    window = operator(tumbling("10 s"), fold=lambda former, view: 5, schema="n int")
    list(window.process(views(1)))
    with pytest.raises(MessageError, match=r"window 'w' returned 5 .*expected: the columns n int"):
        list(window.flush())


def test_values_of_a_fold_that_are_no_rows_are_kept_too() -> None:
    class Tally(dict[str, int]):
        """A value of the fold's own."""

    def tally(former: Tally | None, view: Row) -> Tally:
        return Tally(n=(former or {"n": 0})["n"] + 1)

    first, second = (operator(tumbling("10 s"), fold=tally, schema="n bigint") for _ in range(2))
    list(first.process(views(1, 2)))
    second.restore(first.snapshot())
    list(second.process(views(3)))
    assert counts(second.flush()) == [(0, 3)]


# -- through topics
# ------------------------------------------------------------------------------------------------------


def combined_for(describe: Any) -> str | None:
    """The operator whose partial results go through the topic instead of messages."""
    spec = stream_application("test")(describe).spec()
    plan = ExecutionPlanner({}, {}).plan(spec)
    content = reduce_topics(spec, plan, check_application(spec, plan)).get("by-country", TopicContent())
    return content.combined_for


@pytest.mark.parametrize(
    "window", [tumbling("10 s"), hopping("30 s", "10 s"), tumbling("1 day", zone="Europe/Amsterdam")], ids=str
)
def test_partial_results_through_a_topic_change_nothing(window: WindowSpec) -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("views", schema=VIEWS, timestamp="at", partitions=3).partition_by(
            "country", id="by-country"
        )
        stream.window(window, key="country", n=count(), dwell=sum_("dwell"), id="w").send_to(app.output_stream("out"))

    rows = [{"country": "ABC"[n % 3], "at": MIDNIGHT + timedelta(seconds=n * 7 % 100), "dwell": n} for n in range(300)]
    rows.append({"country": "A", "at": None, "dwell": 0})

    less, whole = (
        TestDriver(stream_application("test")(describe), reduced=reduced).pipe("views", rows).run()
        for reduced in (True, False)
    )
    assert sorted(map(repr, less.output("out"))) == sorted(map(repr, whole.output("out")))
    assert combined_for(describe) == "test-1-window-w"


@pytest.mark.parametrize(
    ("window", "more"),
    [
        (session("10 s"), {}),
        (tumbling("10 s", early_every=2), {}),
        (tumbling("10 s", time="processing"), {}),
        (hopping("10 s", "3 s"), {}),
        (hopping("20 s", "10 s"), {"one": last("dwell")}),
    ],
    ids=str,
)
def test_windows_that_need_every_message_get_it(window: WindowSpec, more: dict[str, Any]) -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("views", schema=VIEWS, timestamp="at", partitions=3).partition_by(
            "country", id="by-country"
        )
        stream.window(window, key="country", n=count(), id="w", **more).send_to(app.output_stream("out"))

    assert combined_for(describe) is None


def test_a_stream_without_an_end_carries_messages_since_they_may_be_late() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("views", schema=VIEWS, timestamp="at", max_delay="1 s", bounded=False, partitions=3)
        windows = stream.partition_by("country", id="by-country").window(
            tumbling("10 s"), key="country", n=count(), id="w"
        )
        windows.send_to(app.output_stream("out"))

    assert combined_for(describe) is None


# -- zones
# ---------------------------------------------------------------------------------------------------------------

HOUR = 3_600_000_000


def lengths(grid: ZonedGrid, day: datetime) -> list[float]:
    """The windows that start on a local day, in hours."""
    import numpy as np

    begin = int(day.timestamp() * 1_000_000)
    _, starts = grid.assign(np.arange(begin, begin + 26 * HOUR, HOUR // 4))
    starts = np.unique(starts)
    ends = grid.ends(starts)
    zone = day.tzinfo
    kept = [
        place for place, start in enumerate(starts) if datetime.fromtimestamp(start / 1e6, zone).date() == day.date()
    ]
    return [(ends[place] - starts[place]) / HOUR for place in kept]


@pytest.mark.parametrize(
    ("zone", "day", "hop", "expected"),
    [
        ("Europe/Amsterdam", (2026, 3, 29), 24, [23]),
        ("Europe/Amsterdam", (2026, 10, 25), 24, [25]),
        ("Europe/Amsterdam", (2026, 3, 29), 6, [5, 6, 6, 6]),
        ("Europe/Amsterdam", (2026, 10, 25), 6, [7, 6, 6, 6]),
        ("Europe/Amsterdam", (2026, 3, 29), 2, [2, 1, *[2] * 10]),
        ("Europe/Amsterdam", (2026, 10, 25), 1, [1] * 25),
        ("Europe/Amsterdam", (2026, 3, 29), 1, [1] * 23),
        ("America/Havana", (2025, 11, 2), 24, [25]),
        ("America/Sao_Paulo", (2018, 11, 4), 24, [23]),
        ("Australia/Lord_Howe", (2026, 4, 5), 24, [24.5]),
        ("Asia/Kolkata", (2026, 1, 1), 1, [1] * 24),
    ],
)
def test_windows_follow_the_wall_clock_of_their_zone(
    zone: str, day: tuple[int, int, int], hop: int, expected: list[float]
) -> None:
    from zoneinfo import ZoneInfo

    assert lengths(ZonedGrid(hop * HOUR, hop * HOUR, zone), datetime(*day, tzinfo=ZoneInfo(zone))) == expected


@pytest.mark.parametrize("year", [-5, 0, 1, 2, 9998, 9999, 10_000, 20_000])
@pytest.mark.parametrize("hours", [6, 24])
def test_windows_go_on_where_the_calendar_ends(year: int, hours: int) -> None:
    import numpy as np

    times = (year - 1970) * 31_556_952_000_000 + np.arange(-40, 40) * HOUR
    grid = ZonedGrid(hours * HOUR, hours * HOUR, "Europe/Amsterdam")
    _, starts = grid.assign(times)
    assert (np.diff(np.unique(starts)) == hours * HOUR).all()
    assert ((starts <= times) & (times < grid.ends(starts))).all()


@pytest.mark.parametrize("hours", [1, 3, 24, 48])
@pytest.mark.parametrize("hops", [1, 3])
def test_a_zone_without_changes_has_the_windows_of_utc(hours: int, hops: int) -> None:
    import numpy as np

    plain, zoned = FixedGrid(hops * hours * HOUR, hours * HOUR), ZonedGrid(hops * hours * HOUR, hours * HOUR, "Etc/UTC")
    times = np.random.default_rng(1).integers(-(10**15), 2 * 10**15, 500)
    for one, other in zip(plain.assign(times), zoned.assign(times), strict=True):
        assert (one == other).all() if one is not None else other is None
    assert (plain.latest_ends(times) == zoned.latest_ends(times)).all()
    assert [plain.earliest_open(int(t)) for t in times[:50]] == [zoned.earliest_open(int(t)) for t in times[:50]]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: tumbling("7 hours", zone="Europe/Amsterdam"), "do not fit into the days of the time zone"),
        (lambda: hopping("36 hours", "1 day", zone="Europe/Amsterdam"), "do not fit into the days of the time zone"),
        (lambda: tumbling("1 hour", accumulating=True), "is about early results, and these windows have none"),
    ],
)
def test_windows_that_make_no_sense_are_rejected(make: Any, sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence):
        make()
