"""Incremental pushes from tables of lakes: since which snapshot they take changes, and when that is not certain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import PushError
from airflow_samza.runs.tables.lake_changes import PUSH_ALL, changed_since
from airflow_samza.runs.tables.push_request import PushRequest
from tests.support.pushes import Pushes

MEMBERS = {"iceberg": "shop.members", "system": "lake"}


def of(pushes: Pushes, push_id: str, snapshot: str | None = None, **more: Any) -> PushRequest:
    source = {**MEMBERS, **({} if snapshot is None else {"snapshot": snapshot})}
    return pushes.request(push_id, **{"source": source, "table_id": "first", **more})


def pushed(pushes: Pushes, snapshot: str | None = "7", **more: Any) -> Pushes:
    pushes.finish(pushes.stage(of(pushes, "monday", snapshot, **more), {1: "gold"}))
    return pushes


@pytest.fixture
def pushes(tmp_path: Path) -> Pushes:
    return Pushes(tmp_path)


@pytest.mark.parametrize(("snapshot", "since"), [("7", "7"), (None, "")])
def test_changes_are_those_since_the_snapshot_of_the_current_version(
    pushes: Pushes, snapshot: str | None, since: str
) -> None:
    pushed(pushes, snapshot)
    assert changed_since(pushes.files, of(pushes, "tuesday", "9", mode="incremental")) == since


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"source": {**MEMBERS, "iceberg": "shop.others"}}, "was pushed from snapshot 7 of iceberg table shop.members"),
        ({"source": {**MEMBERS, "system": "store"}}, "of system 'lake'"),
        ({"source": {"delta": "shop.members", "system": "lake"}}, "was pushed from snapshot 7 of iceberg table"),
        ({"table_id": "second"}, "was pushed from a former table of this name"),
        ({"columns": ["id", "tier"]}, "was pushed with columns=None, and this push has others"),
    ],
)
def test_rejects_changes_of_what_the_current_version_does_not_have(
    pushes: Pushes, more: dict[str, Any], why: str
) -> None:
    pushed(pushes)
    with pytest.raises(PushError, match="and version 1, which is current, ") as raised:
        changed_since(pushes.files, of(pushes, "tuesday", mode="incremental", **more))
    assert why in raised.value.sentence
    assert raised.value.hint == PUSH_ALL


@pytest.mark.parametrize(("before", "now"), [(None, "gone"), ("gone", None), ("gone", "left")])
def test_rejects_changes_by_another_condition_than_those_before(
    pushes: Pushes, before: str | None, now: str | None
) -> None:
    pushed(pushes)  # a full push has none
    changes: dict[str, Any] = {"mode": "incremental", "since": "7", "deletes": before}
    assert changed_since(pushes.files, of(pushes, "tuesday", "8", **changes)) == "7"
    pushes.finish(pushes.stage(of(pushes, "tuesday", "8", **changes), {2: "iron"}))
    again = of(pushes, "wednesday", "9", mode="incremental", deletes=before)
    assert changed_since(pushes.files, again) == "8"
    said = "no deletes=" if before is None else f"deletes={before!r}"
    with pytest.raises(
        PushError, match=f"version 2, which is current, was pushed with {said}, and this push has {now!r}"
    ):
        changed_since(pushes.files, of(pushes, "wednesday", "9", mode="incremental", deletes=now))


def test_columns_of_a_list_and_of_a_tuple_are_the_same(pushes: Pushes) -> None:
    pushed(pushes, columns=["id", "tier"])
    assert changed_since(pushes.files, of(pushes, "tuesday", mode="incremental", columns=("id", "tier"))) == "7"


def test_rejects_changes_of_a_table_that_was_pushed_from_elsewhere_or_never(pushes: Pushes) -> None:
    with pytest.raises(PushError, match="'tuesday'"):
        changed_since(pushes.files, of(pushes, "tuesday", mode="incremental"))
    pushes.push("monday", {1: "gold"})
    with pytest.raises(PushError, match="was pushed from elsewhere"):
        changed_since(pushes.files, of(pushes, "tuesday", mode="incremental"))
