"""Pushes that need not be done: the same snapshot of a lake's table, or no changes since it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import PushError
from airflow_samza.runs.tables.push_finish import _spanning, same_rows
from airflow_samza.runs.tables.push_request import PushRequest
from tests.support.pushes import Pushes

DAYS = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00")


@pytest.fixture
def pushes(tmp_path: Path) -> Pushes:
    """A table that was pushed once, from snapshot 7 of a table of a lake, for the second day."""
    pushes = Pushes(tmp_path)
    pushes.finish(pushes.stage(of(pushes, "7", "monday"), {1: "gold", 2: "iron"}))
    return pushes


def of(pushes: Pushes, snapshot: str, push_id: str, until: str | None = DAYS[1], **more: Any) -> PushRequest:
    source = {"iceberg": "shop.members", "system": "lake", "snapshot": snapshot}
    interval = None if until is None else (DAYS[0], until)
    return pushes.request(push_id, source=source, interval=interval, **more)


@pytest.mark.parametrize("until", [DAYS[1], DAYS[2], None])
def test_a_push_of_the_same_snapshot_is_the_version_that_is_there(pushes: Pushes, until: str | None) -> None:
    assert same_rows(pushes.files, of(pushes, "7", "tuesday", until)) == pushes.current()


@pytest.mark.parametrize(
    ("snapshot", "until", "more"),
    [
        ("8", DAYS[1], {}),
        ("7", DAYS[0], {}),  # data of the past is no version of today
        ("7", DAYS[1], {"columns": ["id", "tier"]}),
        ("7", DAYS[1], {"on_null_key": "drop"}),
    ],
)
def test_another_snapshot_or_interval_or_option_is_a_push_of_its_own(
    pushes: Pushes, snapshot: str, until: str, more: dict[str, Any]
) -> None:
    assert same_rows(pushes.files, of(pushes, snapshot, "tuesday", until, **more)) is None


def test_a_push_of_the_same_snapshot_has_to_have_as_many_rows_as_are_asked_for(pushes: Pushes) -> None:
    assert same_rows(pushes.files, of(pushes, "7", "tuesday", min_rows=2)) == pushes.current()
    with pytest.raises(PushError, match="has 2 rows, and at least 3 are asked for"):
        same_rows(pushes.files, of(pushes, "7", "tuesday", min_rows=3))


def test_changes_since_the_snapshot_that_is_pushed_are_none(pushes: Pushes) -> None:
    changes: dict[str, Any] = {"mode": "incremental", "since": "7"}
    assert same_rows(pushes.files, of(pushes, "7", "tuesday", **changes)) == pushes.current()
    assert same_rows(pushes.files, of(pushes, "8", "tuesday", **changes)) is None


def test_other_sources_and_tables_without_a_version_are_pushed(pushes: Pushes, tmp_path: Path) -> None:
    assert same_rows(pushes.files, pushes.request("tuesday")) is None
    empty = Pushes(tmp_path / "other")
    assert same_rows(empty.files, of(empty, "7", "tuesday")) is None


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ((0, 5), (5, 9), (0, 9)),
        ((5, 9), (0, 5), (0, 9)),
        ((2, 8), (3, 4), (2, 8)),
        ((0, 0), (5, 9), (5, 9)),
        ((5, 9), (0, 0), (5, 9)),
        ((7, 7), (3, 3), (3, 3)),
    ],
)
def test_offsets_span_the_messages_of_both_and_an_empty_span_does_not_count(
    one: tuple[int, int], other: tuple[int, int], both: tuple[int, int]
) -> None:
    assert _spanning((one, (1, 2)), (other, (1, 2))) == (both, (1, 2))
