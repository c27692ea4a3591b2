"""Processes that are taken for dead by the heartbeats that one process sees; both clocks are the test's."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.runs.records import liveness
from airflow_samza.runs.records.liveness import (
    CONFIRM_SECONDS,
    FRESH_SECONDS,
    FROZEN_AFTER_SECONDS,
    STALE_AFTER_SECONDS,
    Heartbeats,
    identity,
)

HERE = identity()
ELSEWHERE = {**HERE, "place": "another host"}
RUNNER = "/samza/runs/a/b/servers/key/1"


class Clocks:
    """The clock of the wall, which may jump, and the one that only goes on."""

    def __init__(self) -> None:
        self.wall = 1_000_000.0
        self.steady = 50.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    made = Clocks()
    monkeypatch.setattr(liveness, "time", made)
    return made


def beating(seen: Heartbeats, clocks: Clocks, who: dict[str, Any], seconds: int) -> None:
    for _ in range(seconds):
        assert seen.is_alive(RUNNER, who, clocks.wall)
        clocks.go_on(1)


def dead_after(seen: Heartbeats, clocks: Clocks, who: dict[str, Any], at: float) -> int:
    """After how many seconds of silence, looked at each second, a runner is taken for dead."""
    for second in range(200):
        if not seen.is_alive(RUNNER, who, at):
            return second
        clocks.go_on(1)
    raise AssertionError("it was never taken for dead")


@pytest.mark.parametrize(
    ("who", "limit"), [(HERE, FROZEN_AFTER_SECONDS + CONFIRM_SECONDS), (ELSEWHERE, STALE_AFTER_SECONDS)]
)
def test_a_runner_that_falls_silent_is_given_up_within_a_minute(
    clocks: Clocks, who: dict[str, Any], limit: float
) -> None:
    seen = Heartbeats()
    beating(seen, clocks, who, 5)
    assert dead_after(seen, clocks, who, clocks.wall) == limit < 60


@pytest.mark.parametrize("jump", [3600.0, -3600.0])
@pytest.mark.parametrize("who", [HERE, ELSEWHERE])
def test_a_clock_that_jumps_kills_no_runner_that_beats(clocks: Clocks, who: dict[str, Any], jump: float) -> None:
    seen = Heartbeats()
    beating(seen, clocks, who, 5)
    last = clocks.wall - 1
    clocks.wall += jump
    assert seen.is_alive(RUNNER, who, last)
    beating(seen, clocks, who, 60)


@pytest.mark.parametrize("who", [HERE, ELSEWHERE])
def test_a_dead_runner_whose_clock_was_ahead_is_given_up_all_the_same(clocks: Clocks, who: dict[str, Any]) -> None:
    assert dead_after(Heartbeats(), clocks, who, clocks.wall + 86_400) <= FROZEN_AFTER_SECONDS + CONFIRM_SECONDS


def test_a_host_that_has_slept_gives_its_runners_time_to_wake_up(clocks: Clocks) -> None:
    seen = Heartbeats()
    beating(seen, clocks, HERE, 5)
    last = clocks.wall - 1
    clocks.go_on(8 * 3600)
    assert seen.is_alive(RUNNER, HERE, last)
    clocks.go_on(1)
    beating(seen, clocks, HERE, 60)


def test_a_first_look_at_an_old_heartbeat_of_this_host_waits_for_the_next_one(clocks: Clocks) -> None:
    assert dead_after(Heartbeats(), clocks, HERE, clocks.wall - 3600) == CONFIRM_SECONDS


def test_a_first_look_at_an_old_heartbeat_of_another_host_decides(clocks: Clocks) -> None:
    assert not Heartbeats().is_alive(RUNNER, ELSEWHERE, clocks.wall - STALE_AFTER_SECONDS)


def test_a_process_of_this_host_that_is_gone_is_dead_at_once(clocks: Clocks) -> None:
    assert not Heartbeats().is_alive(RUNNER, {**HERE, "started": 0.0}, clocks.wall)


def test_a_young_heartbeat_of_another_host_is_no_sign_of_life_until_it_moves(clocks: Clocks) -> None:
    seen = Heartbeats()
    assert not seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall)
    clocks.go_on(1)
    assert seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall)
    clocks.go_on(FRESH_SECONDS)
    assert not seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall - FRESH_SECONDS)


def test_a_young_heartbeat_of_this_host_is_a_sign_of_life(clocks: Clocks) -> None:
    assert Heartbeats().is_fresh(RUNNER, HERE, clocks.wall - 1)
    assert not Heartbeats().is_fresh(RUNNER, HERE, clocks.wall - FRESH_SECONDS)


def test_a_beat_of_five_seconds_stays_fresh_until_two_more_were_due(clocks: Clocks) -> None:
    seen = Heartbeats()
    seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall - 1, 5.0)
    seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall, 5.0)
    clocks.go_on(9.0)
    assert seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall - 9.0, 5.0)
    clocks.go_on(1.0)
    assert not seen.is_fresh(RUNNER, ELSEWHERE, clocks.wall - 10.0, 5.0)


def test_nothing_is_remembered_of_a_runner_that_has_ended(clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Heartbeats()
    beating(seen, clocks, HERE, 2)
    clocks.go_on(10)
    assert seen.silent_for(RUNNER) == 11
    monkeypatch.setattr(liveness, "process_is_there", lambda who: False)
    assert not seen.is_alive(RUNNER, HERE, clocks.wall)
    assert seen.silent_for(RUNNER) == 0
