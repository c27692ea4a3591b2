"""Times for which attempts have run a stage: sums, what several cover together, and the watch that measures them."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, strategies as st

from airflow_samza.runs.records.spans import Span, Stopwatch, covered, prolonged, seconds_of

spans = st.lists(st.builds(Span, st.just(1), st.integers(0, 60).map(float), st.integers(0, 20).map(float)), max_size=8)


@given(spans)
def test_spans_cover_each_second_once(found: list[Span]) -> None:
    seconds = {second for span in found for second in range(int(span.began_at), int(span.began_at + span.seconds))}
    assert covered(found) == len(seconds)
    assert covered(found) <= seconds_of(found)


def test_stages_that_run_at_the_same_time_are_not_added_up() -> None:
    assert covered([Span(1, 0.0, 10.7), Span(1, 0.1, 10.8)]) == 10.9
    assert covered([Span(1, 0.0, 5.0), Span(1, 3_600.0, 7.0)]) == 12.0


def test_a_span_goes_on_only_where_its_attempt_has_begun() -> None:
    known = (Span(1, 0.0, 5.0),)
    assert prolonged(known, 1, 2.0) == (Span(1, 0.0, 7.0),)
    assert prolonged(known, 2, 2.0) == known
    assert prolonged(known, 1, -3_600.0) == known
    assert prolonged((), 1, 2.0) == ()


def test_a_watch_measures_from_its_start_to_its_stop_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    now, clock = 100.0, 5_000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "time", lambda: clock)
    watch = Stopwatch(2, (Span(1, 10.0, 16.0),))
    now += 50
    assert (watch.has_begun, watch.seconds) == (False, 16.0)
    watch.start()
    now, clock = now + 4, clock - 3_600
    watch.start()
    assert watch.spans == (Span(1, 10.0, 16.0), Span(2, 5_000.0, 4.0))
    watch.stop()
    now += 500
    assert watch.seconds == 20.0
