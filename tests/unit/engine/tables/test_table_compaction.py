"""A compaction leaves every version what it was: what readers get, what stays to be read on, and what is given up."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.stage_context import PushContext
from airflow_samza.engine.tables import table_compaction
from airflow_samza.engine.tables.table_compaction import CompactionTask, compact_here, compact_if_due, compaction_task
from airflow_samza.errors import ConcurrentPush, ConfigError, NoSuchVersion, PushError, TopicError
from airflow_samza.records import plain
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.compacting import LEAST_CHANGES, is_due
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.tables.table_version import Compaction, Compactions, TableVersion, holds_all, sections_since
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.log.maintenance import sweep
from airflow_samza.systems.system import MessageRun, OffsetRange, SystemBinding, SystemStreamPartition
from tests.support.budgets import extended_but
from tests.support.failpoints import COMPACTION_PLACES
from tests.support.killed import killed
from tests.support.pushes import PARTITIONS, TOPIC, Pushes
from tests.support.stand_ins import Attempt

PLACE = ("log", TOPIC.name)
FOLDER = TableFolder(*PLACE)


@pytest.fixture
def pushes(tmp_path: Path) -> Pushes:
    return Pushes(tmp_path / "root")


def chain(pushes: Pushes, *ids: str) -> dict[int, str | None]:
    """A full push of ten rows, and incremental ones that change, add and delete; what the last version holds."""
    rows: dict[int, str | None] = dict.fromkeys(range(10), "gold")
    pushes.push("full", rows)
    for number, push in enumerate(ids):
        changes: dict[int, str | None] = {number: push, 100 + number: push, 9 - number: None}
        rows = {key: tier for key, tier in {**rows, **changes}.items() if tier is not None}
        pushes.push(push, changes, mode="incremental")
    return rows


def compacted(pushes: Pushes, version: TableVersion | None = None) -> Compaction:
    return compact_here(*compaction_of(pushes, version))[0]


def compaction_of(pushes: Pushes, version: TableVersion | None = None) -> tuple[Any, ...]:
    binding = SystemBinding("log", {"root": str(pushes.path)})
    return pushes.files, binding, FOLDER, version or pushes.current()


def version(pushes: Pushes, number: int) -> TableVersion:
    return versions.by_number(pushes.files, *PLACE, number)


def messages(pushes: Pushes, found: TableVersion) -> list[dict[str, Any]]:
    """The rows that a reader who has nothing goes through."""
    rows: list[dict[str, Any]] = []
    consumer = pushes.system.consumer(TOPIC, found.slice)
    for partition in range(PARTITIONS):
        span = OffsetRange(*found.slice["offsets"][partition])
        for envelope in consumer.read(SystemStreamPartition("log", TOPIC.name, partition), span):
            rows += envelope.batch.to_pylist() if isinstance(envelope, MessageRun) else []
    consumer.close()
    return rows


def lacks(pushes: Pushes, former: TableVersion, now: TableVersion) -> list[str] | None:
    """A reader that has the one version reads these pushes to have the other; None: all of it."""
    found = sections_since(former.slice["sections"], now.slice, pushes.files.exists)
    return [section["producer"].rpartition("/")[2] for section in found[0]] if found is not None else None


def expire(pushes: Pushes, keep: int) -> None:
    expire_versions(pushes.files, pushes.system, *PLACE, keep)
    sweep(pushes.files, "log", grace_ms=-1, staged_grace_ms=-1)


def segments(pushes: Pushes) -> int:
    return len(pushes.files.list(f"topics/{TOPIC.name}/segments"))


# -- what readers get
# ---------------------------------------------------------------------------------------------------


def test_a_new_reader_of_the_newest_version_goes_through_each_row_once_and_no_deleted_one(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b", "c")
    former = pushes.current()
    assert len(messages(pushes, former)) == 19
    made = compacted(pushes)
    assert pushes.rows_of(pushes.current()) == pushes.rows_of(former) == rows
    assert len(messages(pushes, pushes.current())) == len(rows) == made.rows
    assert [section["producer"] for section in pushes.current().slice["sections"]] == ["pushes/profiles/compacted@4"]


def test_a_table_of_which_all_rows_are_deleted_compacts_to_nothing(pushes: Pushes) -> None:
    pushes.push("full", {1: "gold"})
    pushes.push("a", {1: None}, mode="incremental")
    assert compacted(pushes).rows == 0
    assert pushes.rows_of(pushes.current()) == {}
    assert pushes.rows_of(pushes.push("b", {2: "new"}, mode="incremental")) == {2: "new"}


def test_numbers_push_ids_instants_and_slices_that_were_taken_before_mean_the_same_rows(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    before = versions.versions(pushes.files, *PLACE)
    rows = [pushes.rows_of(found) for found in before]
    compacted(pushes)
    pushes.push("c", {0: "later"}, mode="incremental")
    assert [plain(found) for found in versions.versions(pushes.files, *PLACE)[:3]] == [plain(found) for found in before]
    assert [pushes.rows_of(version(pushes, found.number)) for found in before] == rows
    by_id = [versions.by_push_id(pushes.files, *PLACE, found.push_id) for found in before]
    assert [pushes.rows_of(found) for found in by_id if found is not None] == rows
    at = [versions.as_of(pushes.files, *PLACE, datetime.fromisoformat(found.current_from)) for found in before]
    assert [pushes.rows_of(found) for found in at] == rows
    assert [pushes.rows_of(found) for found in before] == rows


def test_a_rollback_to_a_compacted_version_reads_its_section_whenever_it_was_made(pushes: Pushes) -> None:
    rows = chain(pushes, "a")
    pushes.push("bad", {1: "wrong"})
    early = rollback(pushes.files, *PLACE, "a", "early")
    compacted(pushes)
    late = rollback(pushes.files, *PLACE, "a", "late")
    for found in (version(pushes, early.number), late):
        assert pushes.rows_of(found) == rows
        assert [section["producer"] for section in found.slice["sections"]] == ["pushes/profiles/compacted@2"]
    assert pushes.rows_of(pushes.push("more", {50: "new"}, mode="incremental")) == {**rows, 50: "new"}


def test_the_next_changes_build_on_the_compacted_section(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    compacted(pushes)
    made = pushes.push("c", {0: None, 7: "changed"}, mode="incremental")
    assert [producer for producer, _ in made.sections] == ["pushes/profiles/compacted@3", "pushes/profiles/c"]
    assert pushes.rows_of(made) == {**{key: tier for key, tier in rows.items() if key}, 7: "changed"}
    assert (made.full_rows, made.changes) == (len(rows), 2)


def test_changes_that_were_committed_before_the_compaction_apply_behind_it(pushes: Pushes, tmp_path: Path) -> None:
    rows = chain(pushes, "a")
    slow = pushes.stage(pushes.request("slow", mode="incremental"), {0: "slow", 1: None})
    killed(pushes.finish, slow, place="push-after-publish", folder=tmp_path)
    compacted(pushes)
    made = pushes.finish(pushes.retried(slow))
    assert pushes.rows_of(made) == {**{key: tier for key, tier in rows.items() if key != 1}, 0: "slow"}


def test_the_rows_of_a_compacted_version_are_counted_for_the_guard(pushes: Pushes) -> None:
    pushes.push("full", dict.fromkeys(range(100), "gold"))
    pushes.push("grown", dict.fromkeys(range(100, 1000), "gold"), mode="incremental")
    pushes.finish(pushes.stage(pushes.request("few", max_change_ratio=None), dict.fromkeys(range(60), "gold")))
    rollback(pushes.files, *PLACE, "grown", "back")
    assert compacted(pushes).rows == 1000
    with pytest.raises(PushError, match="60 rows, 94% fewer than the 1,000 of version 4"):
        pushes.finish(
            pushes.stage(pushes.request("few-again", max_change_ratio=None), dict.fromkeys(range(60), "gold"))
        )


# -- who has something already
# ------------------------------------------------------------------------------------------


def test_who_has_a_former_version_reads_on_by_the_changes(pushes: Pushes) -> None:
    chain(pushes, "a", "b", "c")
    stored = versions.versions(pushes.files, *PLACE)
    compacted(pushes)
    assert [lacks(pushes, found, pushes.current()) for found in stored] == [["a", "b", "c"], ["b", "c"], ["c"], []]
    pushes.push("d", {0: "d"}, mode="incremental")
    assert [lacks(pushes, found, pushes.current()) for found in stored] == [
        ["a", "b", "c", "d"],
        ["b", "c", "d"],
        ["c", "d"],
        ["d"],
    ]
    assert lacks(pushes, version(pushes, 4), pushes.current()) == ["d"]


def test_who_has_a_version_from_before_two_compactions_reads_on_by_the_changes(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    stored = version(pushes, 2)
    compacted(pushes)
    pushes.push("c", {0: "c"}, mode="incremental")
    compacted(pushes)
    pushes.push("d", {0: "d"}, mode="incremental")
    assert lacks(pushes, stored, pushes.current()) == ["b", "c", "d"]
    assert lacks(pushes, version(pushes, 4), pushes.current()) == ["d"]


def test_a_full_push_is_read_whole_whatever_one_has(pushes: Pushes) -> None:
    chain(pushes, "a")
    compacted(pushes)
    stored = pushes.current()
    pushes.push("anew", {1: "x"})
    assert lacks(pushes, stored, pushes.current()) is None


def test_what_is_given_up_is_not_read_on_from_and_the_rows_come_from_the_section(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    stored = versions.versions(pushes.files, *PLACE)
    compacted(pushes)
    taken_before = pushes.push("c", {0: "c"}, mode="incremental")
    assert lacks(pushes, stored[1], taken_before) == ["b", "c"]
    expire(pushes, 1)
    for found in (
        taken_before,
        pushes.current(),
    ):  # also a slice that was taken before says so: who reads asks for the mark
        assert [lacks(pushes, former, found) for former in stored] == [None, None, ["c"]]


def test_a_compacted_version_is_no_news_for_who_has_it(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    former = [found.slice for found in versions.versions(pushes.files, *PLACE)]
    compacted(pushes)
    now = pushes.current()
    assert [holds_all(slice_, now.slice) for slice_ in former] == [False, False, True]
    assert holds_all(now.slice, now.slice)
    assert [versions.number_read(pushes.files, *PLACE, slice_) for slice_ in (*former, now.slice)] == [1, 2, 3, 3]


# -- what is given up
# ---------------------------------------------------------------------------------------------------


def test_the_chain_goes_once_the_version_before_and_the_compacted_one_are_past(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    compacted(pushes)
    expire(pushes, 1)
    assert segments(pushes) == 5  # who took the version up a moment ago reads the chain
    pushes.push("c", {0: "c"}, mode="incremental")
    expire(pushes, 2)
    assert segments(pushes) == 3  # the compacted section's, one for each partition, and c
    assert pushes.rows_of(version(pushes, 3)) == rows
    assert pushes.rows_of(pushes.current()) == {**rows, 0: "c"}
    pushes.push("anew", {1: "x"})
    expire(pushes, 1)
    assert segments(pushes) == 1


def test_while_the_version_before_is_kept_its_readers_may_go_on(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    stored = version(pushes, 2)
    compacted(pushes)
    pushes.push("c", {0: "c"}, mode="incremental")
    expire(pushes, 3)
    assert lacks(pushes, stored, pushes.current()) == ["b", "c"]


def test_a_run_that_was_planned_before_the_compaction_keeps_the_chain(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    planned = versions.pin(pushes.files, *PLACE, 3, "scores/monday")
    compacted(pushes)
    pushes.push("c", {0: "c"}, mode="incremental")
    expire(pushes, 1)
    assert pushes.rows_of(planned) == rows
    assert versions.pin(pushes.files, *PLACE, 3, "scores/monday").may_be_read(planned.slice)
    write_once(pushes.files, RunFolder("scores", "monday").closed, RunEnd())
    expire(pushes, 1)
    assert segments(pushes) == 3


def test_who_pins_a_version_whose_chain_was_given_up_meanwhile_is_told(pushes: Pushes) -> None:
    chain(pushes, "a", "b")
    planned = pushes.current()
    compacted(pushes)
    pushes.push("c", {0: "c"}, mode="incremental")
    expire(pushes, 2)
    pinned = versions.pin(pushes.files, *PLACE, 3, "scores/monday")
    assert not pinned.may_be_read(planned.slice)
    assert pinned.may_be_read(pinned.slice)


def test_what_a_rollback_reads_is_kept(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    compacted(pushes)
    pushes.push("anew", {1: "x"})
    rollback(pushes.files, *PLACE, "b", "back")
    expire(pushes, 1)
    assert pushes.rows_of(pushes.current()) == rows
    assert pushes.rows_of(pushes.push("c", {0: "c"}, mode="incremental")) == {**rows, 0: "c"}
    expire(pushes, 1)
    assert pushes.rows_of(pushes.current()) == {**rows, 0: "c"}
    with pytest.raises(NoSuchVersion):
        version(pushes, 3)


# -- killed, doubled, failed
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", extended_but(COMPACTION_PLACES[::2], COMPACTION_PLACES))
@pytest.mark.few(1)
def test_a_compaction_killed_half_way_shows_nothing_and_the_next_one_completes_it(
    pushes: Pushes, place: str, tmp_path: Path
) -> None:
    rows = chain(pushes, "a", "b")
    killed(compact_here, *compaction_of(pushes), place=place, folder=tmp_path)
    assert (pushes.current().compacted is not None) == (place == "compaction-after-record")
    assert pushes.rows_of(pushes.current()) == rows
    assert compacted(pushes) == compacted(pushes)
    assert pushes.rows_of(pushes.current()) == rows
    assert len([name for name in pushes.files.list(f"topics/{TOPIC.name}/commits") if name.endswith(".json")]) == 4


@pytest.mark.parametrize("place", extended_but(COMPACTION_PLACES[1:2], COMPACTION_PLACES[:-1]))
@pytest.mark.extended
def test_what_a_killed_compaction_has_written_goes_with_its_version(pushes: Pushes, place: str, tmp_path: Path) -> None:
    rows = chain(pushes, "a", "b")
    killed(compact_here, *compaction_of(pushes), place=place, folder=tmp_path)
    assert pushes.rows_of(pushes.push("c", {0: "c"}, mode="incremental")) == {**rows, 0: "c"}
    pushes.push("anew", {1: "x"})
    expire(pushes, 1)
    assert segments(pushes) == 1
    assert pushes.files.list(FOLDER.compacting) == []


def test_of_two_compactions_at_once_one_counts(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    current, start = pushes.current(), threading.Barrier(4)
    found: list[tuple[Compaction, bool]] = []

    def work() -> None:
        start.wait()
        found.append(compact_here(pushes.files, SystemBinding("log", {"root": str(pushes.path)}), FOLDER, current))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({made for made, _ in found}) == 1
    assert [is_new for _, is_new in found].count(True) == 1
    assert pushes.rows_of(pushes.current()) == rows


def test_a_compaction_of_which_something_staged_was_swept_begins_anew(pushes: Pushes, tmp_path: Path) -> None:
    rows = chain(pushes, "a")
    killed(compact_here, *compaction_of(pushes), place="compaction-before-publish", folder=tmp_path)
    sweep(pushes.files, "log", grace_ms=-1, staged_grace_ms=-1)
    with pytest.raises(TopicError, match="is missing"):
        compacted(pushes)
    assert compacted(pushes).rows == len(rows)
    assert pushes.rows_of(pushes.current()) == rows


def test_a_push_of_which_the_compaction_is_slow_loses_nothing_to_the_next_one(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    slow = pushes.current()
    made = pushes.push("c", {0: "c"}, mode="incremental")
    compacted(pushes, slow)
    assert pushes.rows_of(version(pushes, made.number)) == {**rows, 0: "c"}
    assert lacks(pushes, version(pushes, 2), pushes.current()) == ["b", "c"]
    lost = pushes.stage(pushes.request("lost", mode="incremental", after=made.number - 1), {1: "x"})
    with pytest.raises(ConcurrentPush):
        pushes.finish(lost)


# -- when it is time
# ----------------------------------------------------------------------------------------------------


def no_room(work: CompactionTask) -> None:
    raise RuntimeError("Spark has no room")


def all_parts(work: CompactionTask) -> None:
    for task in work.tasks:
        work.run(task)


def attempted(pushes: Pushes, request: PushRequest) -> PushContext:
    """An attempt at a push of the table."""
    binding = SystemBinding("log", {"root": str(pushes.path)})
    attempt = Attempt(StageHandle("push", "run", "push", Generation(1, 1), 1))
    return PushContext(pushes.files, {"log": binding}, attempt, {}, pushes.system, request)


def test_a_compaction_that_fails_is_told_and_the_push_stands(pushes: Pushes, caplog: pytest.LogCaptureFixture) -> None:
    rows = chain(pushes, "a")
    request = pushes.request("a", mode="incremental", compact_after=1)
    compact_if_due(attempted(pushes, request), no_room, pushes.current())
    assert "table profiles: version 2 was not compacted: Spark has no room" in caplog.text
    assert pushes.rows_of(pushes.current()) == rows


def test_a_push_compacts_its_version_once_and_says_of_what_and_how_long_it_took(
    pushes: Pushes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = chain(pushes, "a", "b")
    caplog.set_level("INFO", "airflow_samza.runner")
    monkeypatch.setattr(table_compaction, "time", SimpleNamespace(monotonic=count(100.0, 2.5).__next__))
    work = attempted(pushes, pushes.request("b", mode="incremental", compact_after=1))
    for _ in range(2):
        compact_if_due(work, all_parts, version(pushes, 3))
    newest = pushes.current()
    made = Compactions(pushes.files, FOLDER).of(3)
    assert made is not None
    assert caplog.messages == [
        f"table profiles: version 3 is compacted: 3 sections to one of {len(rows)} rows, {made.bytes:,} bytes, in 2.5 s"
    ]
    assert pushes.rows_of(newest) == rows


def test_a_version_that_is_no_longer_the_newest_is_left_as_it_is(
    pushes: Pushes, caplog: pytest.LogCaptureFixture
) -> None:
    chain(pushes, "a", "b")
    request = pushes.request("a", mode="incremental", compact_after=1)
    compact_if_due(attempted(pushes, request), no_room, version(pushes, 2))
    assert caplog.text == ""


def test_a_chain_is_compacted_after_so_many_pushes_and_then_counted_anew(pushes: Pushes) -> None:
    chain(pushes, "a", "b", "c")
    found = versions.versions(pushes.files, *PLACE)
    assert [is_due(each, 2) for each in found] == [False, False, True, True]
    assert not any(is_due(each, 0) for each in found)
    compacted(pushes)
    assert not is_due(pushes.current(), 2)
    assert [is_due(pushes.push(push, {1: push}, mode="incremental"), 2) for push in ("d", "e")] == [False, True]


def test_a_chain_is_compacted_when_half_of_the_rows_were_changed_and_they_are_many(pushes: Pushes) -> None:
    chain(pushes, "a")
    found = replace(pushes.current(), full_rows=LEAST_CHANGES * 2)
    assert [is_due(replace(found, changes=LEAST_CHANGES + more), 24) for more in (0, 1)] == [False, True]
    assert not is_due(replace(found, full_rows=10, changes=LEAST_CHANGES - 1), 24)


@pytest.mark.parametrize("wrong", [-1, "5", True, 1.5])
def test_an_odd_limit_is_rejected_by_name(pushes: Pushes, wrong: object) -> None:
    with pytest.raises(ConfigError, match="compact_after="):
        pushes.request("a", compact_after=wrong)


def test_a_rollback_reads_the_same_rows_at_every_instant_after_it(pushes: Pushes) -> None:
    rows = chain(pushes, "a", "b")
    compacted(pushes)
    pushes.push("anew", {1: "x"})
    rollback(pushes.files, *PLACE, "b", "back")
    later = datetime.now(timezone.utc) + timedelta(days=1)
    assert pushes.rows_of(versions.as_of(pushes.files, *PLACE, later)) == rows


def test_what_is_compacted_survives_a_power_failure_since_what_it_was_made_of_goes(pushes: Pushes) -> None:
    chain(pushes, "a")
    work = compaction_task(pushes.files, pushes.system, SystemBinding("log"), FOLDER, pushes.current(), [0])
    assert work.bindings["log"]["options"]["durable"] == "true"
