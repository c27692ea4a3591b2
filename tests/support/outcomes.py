"""Outcomes of the tests of a run, kept in a file of JSON lines while it goes on.

A plugin of pytest, for the process that prints. ``make test`` counts its tests by that file, runs those that failed once
more, and with ``--continue`` leaves out those that have passed in the run before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

WRITTEN, LEFT_OUT = "TEST_OUTCOMES", "TESTS_LEFT_OUT"
"""Variables with the path of the file that is written, and of one whose tests are left out."""


@dataclass(frozen=True)
class Outcome:
    """A test of one run: its id, passed, failed or skipped, its seconds, the traceback or why it was skipped."""

    test: str
    outcome: str
    seconds: float = 0.0
    traceback: str = ""
    reason: str = ""


class Reports:
    """The reports of tests that have not ended."""

    def __init__(self) -> None:
        self._phases: dict[str, list[pytest.TestReport]] = {}

    def outcome(self, report: pytest.TestReport) -> Outcome | None:
        """Return the outcome of a test with its last report: of the teardown, or of a worker process that was lost."""
        phases = self._phases.setdefault(report.nodeid, [])
        phases.append(report)
        if report.when in ("setup", "call"):
            return None
        del self._phases[report.nodeid]
        failed = [phase.longreprtext for phase in phases if phase.failed]
        skipped = [phase.longrepr[2] for phase in phases if phase.skipped and isinstance(phase.longrepr, tuple)]
        outcome = "failed" if failed else "skipped" if any(phase.skipped for phase in phases) else "passed"
        seconds = sum(phase.duration for phase in phases)
        reason = "".join(skipped).removeprefix("Skipped: ")
        return Outcome(report.nodeid, outcome, round(seconds, 3), "\n".join(failed), reason)


class Outcomes:
    """Writes the outcome of each test when it has ended."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._reports = Reports()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the outcome of a test that has ended."""
        if (outcome := self._reports.outcome(report)) is not None:
            write(self._file, outcome)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Write a file of tests that cannot be read as one that has failed."""
        if report.failed:
            write(self._file, Outcome(report.nodeid, "failed", traceback=report.longreprtext))


def write(file: Path, outcome: Outcome) -> None:
    """Append an outcome to a file."""
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(outcome)) + "\n")


def read(file: Path) -> dict[str, Outcome]:
    """Return the last outcome of each test that a file has; a line that an ended process has torn is passed over."""
    found: dict[str, Outcome] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            outcome = Outcome(**json.loads(line))
        except ValueError:
            continue
        found[outcome.test] = outcome
    return found


def passed(outcomes: Mapping[str, Outcome]) -> list[Outcome]:
    """Return the outcomes of the tests that have passed."""
    return [outcome for outcome in outcomes.values() if outcome.outcome == "passed"]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that have passed already, in each process alike."""
    if (file := os.environ.get(LEFT_OUT)) is None:
        return
    done = read(Path(file))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in done])
    items[:] = [item for item in items if item.nodeid not in done]


def pytest_configure(config: pytest.Config) -> None:
    """Write outcomes in the process that prints."""
    if (file := os.environ.get(WRITTEN)) is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(file)))
