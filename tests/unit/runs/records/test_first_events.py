"""First events of assets: one task at a time sends one, and nobody waits for a task that is gone."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from airflow_samza.runs.records.first_events import TURN_SECONDS, take_turn
from airflow_samza.systems.filesystems.local import LocalFilesystem

URI = "s3://lake/delays"


@pytest.fixture
def files(tmp_path: Path) -> LocalFilesystem:
    return LocalFilesystem(tmp_path)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def never() -> bool:
    return False


def test_of_tasks_that_come_at_once_one_sends_the_first_event(files: LocalFilesystem) -> None:
    known, first = threading.Event(), []
    begin = threading.Barrier(8)

    def task(number: int) -> None:
        begin.wait()
        take_turn(files, URI, f"run-{number}", known.is_set, sleep=lambda _: time.sleep(0.01))
        if not known.is_set():
            first.append(number)
            known.set()

    threads = [threading.Thread(target=task, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(first) == 1


def test_an_asset_that_is_known_needs_no_turn(files: LocalFilesystem, tmp_path: Path) -> None:
    take_turn(files, URI, "run-1", lambda: True)
    assert list(tmp_path.iterdir()) == []


def test_the_next_has_its_turn_where_the_first_has_died(files: LocalFilesystem) -> None:
    clock = Clock()
    for number in range(3):
        take_turn(files, URI, f"run-{number}", never, now=clock.now, sleep=clock.sleep)
    assert 2 * TURN_SECONDS <= clock.time - 1000 < 2 * TURN_SECONDS + 2


def test_assets_do_not_wait_for_each_other(files: LocalFilesystem) -> None:
    clock = Clock()
    for uri in (URI, "s3://lake/others"):
        take_turn(files, uri, "run-1", never, now=clock.now, sleep=clock.sleep)
    assert clock.time == 1000


def test_a_turn_of_long_ago_keeps_nobody(files: LocalFilesystem) -> None:
    clock = Clock()
    take_turn(files, URI, "run-1", never, now=clock.now, sleep=clock.sleep)
    clock.time += 86_400
    take_turn(files, URI, "run-2", never, now=clock.now, sleep=clock.sleep)
    assert clock.time == 1000 + 86_400


def test_turns_of_an_asset_lie_where_every_release_looks_for_them(files: LocalFilesystem) -> None:
    take_turn(files, URI, "run-1", never)
    assert files.list("assets") == ["0204e9ec4716cfd8f3e6fe0e36169a9d"]
