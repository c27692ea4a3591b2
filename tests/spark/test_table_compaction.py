"""Compaction on a real Spark.

A push whose chain has become long leaves one section with the same rows, each in its key's partition.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.engine.tables import table_compaction
from airflow_samza.engine.tables.table_compaction import CompactionTask
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.runs.failpoints import VARIABLE
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.table_version import sections_since
from tests.spark.conftest import APPS
from tests.spark.test_table_push import APPLICATION, BY_ID, MEMBERS, Pusher, pusher, session

__all__ = ["pusher", "session"]

pytestmark = [pytest.mark.extended, pytest.mark.spark, pytest.mark.timeout(900)]

TYPES = {"member_id": pa.int64(), "tier": pa.string(), "gone": pa.bool_()}


def change(pusher: Pusher, number: int, **options: Any) -> dict[int, str | None]:
    """An incremental push: what it changes, and what it deletes (None)."""
    rows: list[dict[str, Any]] = [
        {"member_id": number, "tier": None, "gone": True},
        {"member_id": 150, "tier": f"at {number}", "gone": False},
    ]
    rows += [{"member_id": 1000 + number, "tier": "new", "gone": False}]
    source = pusher.file(f"change-{number}.parquet", rows, TYPES)
    pusher.push(source, f"change-{number}", mode="incremental", deletes="gone", **options)
    return {number: None, 150: f"at {number}", 1000 + number: "new"}


def after(*changes: dict[int, str | None]) -> dict[int, str | None]:
    """The table after changes. Tiers may be null, so what is deleted is told by its number."""
    rows = dict(BY_ID)
    for change_ in changes:
        for member, tier in change_.items():
            rows.pop(member, None) if tier is None else rows.update({member: tier})
    return rows


def test_a_long_chain_is_compacted_by_the_push_that_makes_it_long(pusher: Pusher) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS), "full")
    made = [change(pusher, number, compact_after=3) for number in range(3)]
    found = versions.versions(pusher.files, "log", "t0-push")
    assert [version.compacted is not None for version in found] == [False, False, False, True]
    compacted = found[-1].compacted
    assert compacted is not None
    assert pusher.rows(found[-1]) == after(*made)
    assert (compacted.rows, len(compacted.chain)) == (300, 4)
    assert [pusher.rows(version) for version in found[:3]] == [after(*made[:number]) for number in range(3)]
    made.append(change(pusher, 3, compact_after=3))
    newest = versions.by_number(pusher.files, "log", "t0-push", 5)
    assert [producer for producer, _ in newest.sections] == ["pushes/t0/compacted@4", "pushes/t0/change-3"]
    assert pusher.rows(newest) == after(*made)
    lacking = sections_since(found[2].slice["sections"], newest.slice, pusher.files.exists)
    assert lacking is not None
    assert [section["producer"] for section in lacking[0]] == ["pushes/t0/change-2", "pushes/t0/change-3"]


@pytest.mark.nightly
def test_a_compaction_of_which_a_worker_fails_leaves_the_push_as_it_is(
    pusher: Pusher, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pusher.push(pusher.file("all.parquet", MEMBERS), "full")

    def broken(*given: object) -> CompactionTask:
        return CompactionTask(str(pusher.folder / "root"), {}, "nowhere", {"name": "t0-push"}, {}, 2, (0, 1, 2, 3))

    with monkeypatch.context() as patch:
        patch.setattr(table_compaction, "compaction_task", broken)
        made = change(pusher, 1, compact_after=1)
    assert "table t0: version 2 was not compacted: " in caplog.text
    assert pusher.rows(versions.by_number(pusher.files, "log", "t0-push", 2)) == after(made)
    more = change(pusher, 2, compact_after=1)
    newest = versions.by_number(pusher.files, "log", "t0-push", 3)
    assert newest.compacted is not None
    assert pusher.rows(newest) == after(made, more)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "place", ["compaction-before-staging", "compaction-task-after-record", "compaction-after-publish"]
)
def test_a_push_of_which_the_compaction_is_killed_stands_and_the_next_one_compacts(
    pusher: Pusher, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(APPS))
    pusher.push(pusher.file("all.parquet", MEMBERS), "full")
    runtime = SparkRuntime(str(pusher.folder / "root"), master="local[2]", spark_conf={"spark.task.maxFailures": "1"})
    monkeypatch.setenv(VARIABLE, f"{place}@{pusher.folder / 'struck'}")
    changes = pusher.file("more.parquet", [{"member_id": 150, "tier": "changed"}])
    handle = runtime.push(APPLICATION, "t0", changes, "more", mode="incremental", compact_after=1)
    runtime.wait(handle, timeout=600)
    # A worker's death is the end of the compaction; the runner's leaves what any process may finish.
    assert runtime.status(handle).state == ("succeeded" if "task" in place else "unfinished")
    monkeypatch.delenv(VARIABLE)
    done = runtime.finish_push(handle)
    assert (done.number, done.compacted) == (2, None)
    assert pusher.rows(done) == {**BY_ID, 150: "changed"}
    made = change(pusher, 1, compact_after=1)
    newest = versions.by_number(pusher.files, "log", "t0-push", 3)
    assert newest.compacted is not None
    assert pusher.rows(newest) == after(made)
