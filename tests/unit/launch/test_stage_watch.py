"""Questions of a task for the state of its stage, by a clock that only sleeping moves."""

from __future__ import annotations

import logging
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.launch import stage_watch
from airflow_samza.launch.stage_watch import PATIENCE_SECONDS, StageWatch
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import QUEUED, RUNNING, SUCCEEDED, StageHandle, StageStatus
from airflow_samza.systems.filesystems.pace import FREE


class Service:
    """A stage that succeeds at a moment; remembers when it was asked."""

    pace = FREE

    def __init__(self, ends_at: float, clock: Any) -> None:
        self.ends_at = ends_at
        self.clock = clock
        self.asked: list[float] = []

    def submit(self, stage_id: str) -> StageHandle:
        return StageHandle("views", "run-1", stage_id, Generation(1, 1), 1)

    def status(self, handle: StageHandle) -> StageStatus:
        self.asked.append(self.clock.now)
        return StageStatus(SUCCEEDED if self.clock.now >= self.ends_at else RUNNING, 1)

    def cancel(self, handle: StageHandle) -> None:
        raise AssertionError("nothing is to be cancelled")

    def finish(self, handle: StageHandle) -> Any:
        return None


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    monkeypatch.setattr(stage_watch, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep))
    return clock


def watched(service: Any, poll_interval: float) -> None:
    log = logging.getLogger("test")
    StageWatch(service, log, "run-1", service.submit, service.finish, poll_interval).run({"views": ()})


def test_a_short_stage_is_not_waited_for_much_longer_than_it_takes(clock: SimpleNamespace) -> None:
    service = Service(0.25, clock)
    watched(service, poll_interval=60)
    assert clock.now < 0.25 + 0.02


def test_a_long_stage_is_asked_at_the_poll_interval(clock: SimpleNamespace) -> None:
    service = Service(1000, clock)
    watched(service, poll_interval=10)
    late = [moment for moment in service.asked if moment > 250]
    assert {round(after - before, 6) for before, after in pairwise(late)} == {10.0}
    assert len(service.asked) < 300


class Stalling(Service):
    """One whose records cannot be read for a while from the tenth second on; a stage that is given up is cancelled."""

    def __init__(self, ends_at: float, clock: Any, stall: float, error: Exception) -> None:
        super().__init__(ends_at, clock)
        self.stall = stall
        self.error = error
        self.cancelled = False

    def status(self, handle: StageHandle) -> StageStatus:
        if 10 <= self.clock.now < 10 + self.stall:
            raise self.error
        return super().status(handle)

    def cancel(self, handle: StageHandle) -> None:
        self.cancelled = True


STALE = TopicError("The storage cannot read status.json: Stale file handle.", errno=116)


@pytest.mark.parametrize("error", [STALE, OSError(5, "Input/output error")])
def test_a_storage_that_does_not_answer_for_a_moment_costs_no_try(clock: SimpleNamespace, error: Exception) -> None:
    service = Stalling(100, clock, stall=PATIENCE_SECONDS - 5, error=error)
    watched(service, poll_interval=1)
    assert not service.cancelled


@pytest.mark.parametrize(
    ("stall", "error"), [(2 * PATIENCE_SECONDS, STALE), (1.0, TopicError("The record is damaged."))]
)
def test_what_does_not_pass_is_raised(clock: SimpleNamespace, stall: float, error: Exception) -> None:
    service = Stalling(1000, clock, stall=stall, error=error)
    with pytest.raises(TopicError):
        watched(service, poll_interval=1)
    assert service.cancelled


def test_a_storage_is_waited_for_until_the_patience_is_over_and_anew_once_it_has_answered(
    clock: SimpleNamespace,
) -> None:
    service: Any = Stalling(1000, clock, stall=PATIENCE_SECONDS, error=STALE)
    watch = StageWatch(service, logging.getLogger("test"), "run-1", service.submit, service.finish, 1)
    handle = service.submit("views")
    clock.now = 10.0
    assert watch._look(handle).state == QUEUED  # nothing is known of it yet
    clock.now += PATIENCE_SECONDS
    assert watch._look(handle).state == RUNNING
    service.stall += 2 * PATIENCE_SECONDS
    for passed in (1.0, PATIENCE_SECONDS - 1):
        clock.now += passed
        assert watch._look(handle) == StageStatus(RUNNING, 1)
    clock.now += 1
    with pytest.raises(TopicError):
        watch._look(handle)
