"""The pace of looks at a storage: as often as a caller likes where it is free, else ever more seldom."""

from __future__ import annotations

import itertools

import pytest

from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import CHARGED, FREE, Looks, Pace


@pytest.mark.parametrize("quiet", [0.0, 1.0, 3600.0])
@pytest.mark.parametrize("own", [0.01, 0.05, 5.0])
def test_on_a_disk_a_caller_looks_as_often_as_it_likes(own: float, quiet: float) -> None:
    assert FREE.pause(own, quiet) == FREE.beats(own) == FREE.seldom(own) == own


def test_a_disk_of_this_machine_is_free(tmp_path: object) -> None:
    assert LocalFilesystem(str(tmp_path)).pace.is_free


def test_looks_that_are_charged_are_a_second_apart_and_grow_to_ten() -> None:
    assert [CHARGED.pause(0.05, quiet) for quiet in (0, 1, 5, 10, 20, 50, 3600)] == [1, 1, 1.25, 2.5, 5, 10, 10]


def test_whatever_happens_is_seen_after_a_quarter_of_the_time_that_it_took_at_most() -> None:
    now, looks = 0.0, []
    while now < 300:
        looks.append(now)
        now += CHARGED.pause(0.05, now)
    late = [later - earlier for earlier, later in itertools.pairwise(looks)]
    assert all(wait <= max(CHARGED.first, 0.25 * before) + 1e-9 for wait, before in zip(late, looks, strict=False))
    assert len([look for look in looks if look < 60]) <= 20


def test_a_caller_that_looks_more_seldom_still_does() -> None:
    assert CHARGED.pause(30.0, 0.0) == 30.0


def test_news_makes_the_next_look_come_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    looks = Looks(Pace(first=1.0, most=10.0))
    now += 40
    before = looks.pause(0.05)
    looks.news()
    assert (before, looks.pause(0.05)) == (10.0, 1.0)


def test_six_signs_of_life_fit_into_the_silence_that_counts_as_death() -> None:
    from airflow_samza.runs.records.liveness import FROZEN_AFTER_SECONDS, STALE_AFTER_SECONDS

    assert 6 * CHARGED.beat <= min(STALE_AFTER_SECONDS, FROZEN_AFTER_SECONDS)
