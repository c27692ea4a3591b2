"""Progress of a run of the tests: a line twice a minute with what has passed, what has failed, and the time that is left.

A plugin of pytest, for the process that prints. Tests that pass leave no dots.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.support.durations import Durations
from tests.support.outcomes import Outcome, Reports

_EVERY = 30.0


class Progress:
    """The tests of one run, and how many of them have ended."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal
        self._seconds: dict[str, float] = {}
        self._reports = Reports()
        self._outcomes: dict[str, Outcome] = {}
        self._began = self._printed = time.monotonic()

    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        """Take the tests that the worker processes have found; all find the same."""
        if not self._seconds:
            self._take(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Take the tests where this process runs them itself."""
        if session.items:
            self._take([item.nodeid for item in session.items])

    def _take(self, nodeids: list[str]) -> None:
        self._seconds = Durations().by_test(nodeids)
        self._began = self._printed = time.monotonic()
        self._write(f"{len(nodeids):,} tests, about {_words(sum(self._seconds.values()))} of work for one process")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that has ended; print how far the run is, if that has not been said for half a minute."""
        if (outcome := self._reports.outcome(report)) is not None:
            self._outcomes[outcome.test] = outcome
        if time.monotonic() - self._printed >= _EVERY:
            self._printed = time.monotonic()
            self._write(self.line(self._printed - self._began))

    def line(self, elapsed: float) -> str:
        """Return the line for a run that has taken so many seconds."""
        total = sum(self._seconds.values())
        over = sum(self._seconds.get(nodeid, 0.0) for nodeid in self._outcomes)
        failed = sum(outcome.outcome == "failed" for outcome in self._outcomes.values())
        share = over / total if total else 1.0
        left = f", about {_words(elapsed * (1 - share) / share)} left" if share else ""
        counts = f"{len(self._outcomes):,} of {len(self._seconds):,} tests, {failed} failed"
        return f"{share:4.0%}: {counts}, {_words(elapsed)}{left}"

    def _write(self, line: str) -> None:
        self._terminal.ensure_newline()
        self._terminal.write_line(line)
        self._terminal.flush()


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Print nothing for a test that has passed."""
    return ("passed", "", "") if report.passed and report.when == "call" else None


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Watch the run in the process that prints."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(terminal))


def _words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
