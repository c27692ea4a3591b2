"""Processes really die at every step of a catch-up run.

A retry or the next run goes on, and nothing is lost or doubled. No Spark.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.budgets import extended_but
from tests.support.failpoints import PLACES, STATE_PLACES
from tests.support.forked_runs import BUSY, FENCED, ForkedRuns
from tests.support.runs_here import Here

COUNTING = "tests.support.carrying_apps:counting"

# No state is written by a stage that has just begun, and a bounded number of messages is one epoch.
EVERY_STEP = [place for place in (*PLACES, *STATE_PLACES) if place != "after-epoch"]

RETRIED = ("after-commit", "state-before-version")
PASSED_BY = ("after-first-publish", "state-after-version")
CLEARED = ("after-commit",)
"""The steps that each change tries."""

SCHEMA = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


class Dying:
    """Runs of an application in processes of their own, which die when told to."""

    def __init__(self, forked: ForkedRuns, folder: Path) -> None:
        self.forked = forked
        self.here = Here(folder)
        self.total = 0

    def clicks(self, count: int) -> None:
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(self.total, self.total + count)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, SCHEMA), key=["member"], partitions=2)
        self.total += count

    def drive(self, run_id: str, generation: int = 1, die_at: str = "") -> int:
        config = {"job.state.lease.grace.ms": "0"}
        return self.forked.run(self.here.root, COUNTING, run_id, generation, die_at=die_at, config=config)

    def check(self) -> None:
        """Check that the output is that of one run over everything."""
        found = sorted((row["page"], row["number"]) for row in self.here.rows("numbered"))
        assert found == sorted((f"p{n}", n // 3 + 1) for n in range(self.total))


@pytest.fixture(scope="module")
def forked() -> Iterator[ForkedRuns]:
    made = ForkedRuns()
    yield made
    made.close()


@pytest.fixture
def dying(forked: ForkedRuns, tmp_path: Path) -> Dying:
    made = Dying(forked, tmp_path)
    made.clicks(7)
    assert made.drive("run-1") == 0
    made.clicks(5)
    return made


@pytest.mark.parametrize("step", extended_but(RETRIED, EVERY_STEP, EVERY_STEP[::2]))
@pytest.mark.few(1, 5)
def test_a_retry_goes_on_wherever_the_run_died(dying: Dying, step: str) -> None:
    assert dying.drive("run-2", die_at=step) == -signal.SIGKILL
    dying.clicks(4)
    assert dying.drive("run-2") == 0
    assert dying.drive("run-3") == 0
    dying.check()


@pytest.mark.parametrize("step", extended_but(PASSED_BY, EVERY_STEP, EVERY_STEP[1::2]))
@pytest.mark.few(1, 5)
def test_the_next_run_goes_on_or_names_the_dead_one(dying: Dying, step: str) -> None:
    assert dying.drive("run-2", die_at=step) == -signal.SIGKILL
    dying.clicks(4)
    if dying.drive("run-3") == BUSY:  # something of run-2 may be published: it has to finish first
        assert dying.drive("run-2") == 0
        assert dying.drive("run-3") == 0
    elif dying.drive("run-2") == FENCED:  # it was passed by, and a clear plans it anew
        assert dying.drive("run-2", generation=2) == 0
    dying.check()


@pytest.mark.parametrize("step", extended_but(CLEARED, EVERY_STEP, EVERY_STEP[::2]))
@pytest.mark.few(0, 5)
def test_a_run_that_is_cleared_replaces_what_it_left_behind(dying: Dying, step: str) -> None:
    assert dying.drive("run-2", die_at=step) == -signal.SIGKILL
    dying.clicks(4)
    assert dying.drive("run-2", generation=2) == 0
    dying.check()


@pytest.mark.extended
def test_runs_that_start_at_once_go_one_after_the_other(dying: Dying) -> None:
    """Each in a process of its own, planned at the same time; one of them dies, and is tried again."""
    config = {"job.state.lease.wait.ms": "120000"}

    def drive(number: int) -> int:
        forked = ForkedRuns()
        try:
            die_at = "after-commit" if number == 3 else ""
            ended = forked.run(dying.here.root, COUNTING, f"run-{number}", die_at=die_at, config=config)
            return (
                forked.run(dying.here.root, COUNTING, f"run-{number}", config=config)
                if ended == -signal.SIGKILL
                else ended
            )
        finally:
            forked.close()

    with ThreadPoolExecutor(4) as together:
        assert list(together.map(drive, range(2, 6))) == [0, 0, 0, 0]
    dying.clicks(3)
    assert dying.drive("run-last") == 0
    dying.check()
