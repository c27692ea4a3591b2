"""Of a mark and a pin one wins for good, whoever dies; all orders of their steps are in ``test_interleavings``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_samza.runs.tables.marks import make_mark, withdraw_proposals
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.faulty_filesystem import FaultyFilesystem

MARK, ATTEMPTS, AT = "t/expired/1.json", "t/attempts", "2026-01-01T00:00:00+00:00"


class Died(BaseException):
    """The end of a process."""


def die(operation: str, path: str) -> None:
    raise Died


def mark(files: LocalFilesystem, is_pinned: Callable[[], bool] = lambda: False) -> bool:
    return make_mark(files, MARK, ATTEMPTS, AT, is_pinned)


def test_a_mark_stands_and_leaves_no_attempt(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    assert mark(files)
    assert (files.exists(MARK), files.list(ATTEMPTS)) == (True, [])
    assert mark(files, lambda: True)  # for good


def test_a_pin_that_comes_between_the_looks_is_seen(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    looks = iter([False, True])
    assert not mark(files, lambda: next(looks))
    assert (files.exists(MARK), files.list(ATTEMPTS)) == (False, [])


def test_a_pin_that_comes_after_the_looks_withdraws_the_attempt(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    looks: list[bool] = []

    def look() -> bool:
        looks.append(True)
        if len(looks) == 2:
            withdraw_proposals(files, ATTEMPTS)  # by a pin that this look was too early for
        return False

    assert not mark(files, look)
    assert (files.exists(MARK), files.list(ATTEMPTS)) == (False, [])


def steps(tmp_path: Path) -> int:
    counted = FaultyFilesystem(tmp_path / "counted")
    assert mark(counted)
    return len(counted.operations)


def test_wherever_an_owner_dies_the_pin_that_follows_knows_for_good_whether_the_mark_stands(tmp_path: Path) -> None:
    outcomes = set()
    for step in range(1, steps(tmp_path) + 1):
        root = tmp_path / str(step)
        with pytest.raises(Died):
            mark(FaultyFilesystem(root, step, die, lasting=True))
        files = LocalFilesystem(root)
        withdraw_proposals(files, ATTEMPTS)
        stands = files.exists(MARK)
        outcomes.add(stands)
        withdraw_proposals(files, ATTEMPTS)
        assert files.exists(MARK) == stands
    assert outcomes == {True, False}
