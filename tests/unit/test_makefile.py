"""Premises of ``make test``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.durations import Durations
from tests.support.progress import Progress
from tests.support.server_files import SERVERS


class Terminal:
    """A terminal that prints nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *words: None


def test_no_test_of_this_folder_needs_a_server(left_out: Sequence[pytest.Item]) -> None:
    ours = [item for item in left_out if Path(__file__).parent in item.path.parents]
    assert [item.nodeid for item in ours if any(map(item.get_closest_marker, SERVERS))] == []


def test_a_progress_line_has_the_share_by_seconds_and_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Durations, "of", lambda self, file: {"tests/long.py": 90.0}.get(file, 10.0))
    progress = Progress(Terminal())  # type: ignore[arg-type]
    progress.pytest_xdist_node_collection_finished(None, ["tests/long.py::a", "tests/short.py::b", "tests/short.py::c"])
    outcomes: dict[str, Literal["passed", "failed"]] = {"tests/short.py::b": "failed", "tests/short.py::c": "passed"}
    for nodeid, outcome in outcomes.items():
        report = pytest.TestReport(nodeid, ("", 0, ""), {}, outcome, None, "call")
        progress.pytest_runtest_logreport(report)
        report.when = "teardown"
        progress.pytest_runtest_logreport(report)
    assert progress.line(30.0) == " 10%: 2 of 3 tests, 1 failed, 30 s, about 4 min 30 s left"
