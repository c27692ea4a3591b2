"""Failures that pass by themselves: one line a minute, and one when it works again."""

from __future__ import annotations

import logging

import pytest

from airflow_samza.engine.runner_records import LOG_SECONDS, RepeatedFailures


class Beats:
    """Something that is tried again and again, by a clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        self.now, self.lines = 100.0, caplog
        caplog.set_level(logging.INFO, "beats")
        monkeypatch.setattr("time.monotonic", lambda: self.now)
        self.failures = RepeatedFailures(logging.getLogger("beats"), "A sign of life")

    def fails(self, after: float = 0.0) -> None:
        self.now += after
        self.failures.met(OSError("No space left"))


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Beats:
    return Beats(monkeypatch, caplog)


def test_the_first_failure_and_then_one_a_minute_is_logged(beats: Beats) -> None:
    for after in (0.0, 1.0, LOG_SECONDS - 1.5, 0.5, 1.0, LOG_SECONDS - 1):
        beats.fails(after)
    assert beats.lines.messages == [
        f"A sign of life failed, and is tried again ({count} times so far): No space left" for count in (1, 4, 6)
    ]


def test_the_end_of_failures_is_logged_with_how_long_they_took_and_they_are_counted_anew(beats: Beats) -> None:
    for _ in range(3):
        beats.fails(after=10.0)
    beats.now += 5
    assert beats.failures.seconds == 25.0
    beats.failures.over()
    assert beats.lines.messages[-1] == "A sign of life works again, after 25 s and 3 failures"
    beats.fails(after=1.0)
    assert (beats.lines.messages[-1][-37:], beats.failures.seconds) == ("again (1 times so far): No space left", 0.0)


def test_what_works_says_nothing(beats: Beats) -> None:
    beats.failures.over()
    assert (beats.lines.messages, beats.failures.seconds) == ([], 0.0)
