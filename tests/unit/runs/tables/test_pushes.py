"""Checks of a push, its way to a version, and the files that stay when it does not get there."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from airflow_samza.errors import ConcurrentPush, ConfigError, NoSuchVersion, PushError
from airflow_samza.runs.records.folders import RunFolder, must_read, replace as put, write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_state import can_finish
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.push_checks import check_columns
from airflow_samza.runs.tables.push_request import request_path, standing_request
from airflow_samza.runs.tables.retention import GIVEN_UP, expire_versions
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.maintenance import sweep
from airflow_samza.systems.system import Publication
from tests.support.killed import killed
from tests.support.pushes import SCHEMA, TOPIC, Pushes

T = TypeVar("T")


@pytest.fixture(
    params=[
        "local",
        pytest.param("s3", marks=pytest.mark.extended),
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("azure", "gcs")),
    ]
)
def pushes(request: pytest.FixtureRequest, tmp_path: Path) -> Pushes:
    if request.param == "local":
        return Pushes(tmp_path)
    return Pushes(request.getfixturevalue(request.param).url(f"{tmp_path.parent.name}/{tmp_path.name}"))


def thousand(tier: str = "gold") -> dict[int, str | None]:
    return dict.fromkeys(range(1000), tier)


def test_a_full_push_replaces_all_rows(pushes: Pushes) -> None:
    first = pushes.push("a", {1: "gold", 2: "silver"})
    second = pushes.push("b", {2: "gold", 3: "gold"})
    assert pushes.rows_of(first) == {1: "gold", 2: "silver"}
    assert pushes.rows_of(second) == {2: "gold", 3: "gold"}
    assert (second.number, second.rows, second.full_rows) == (2, 2, 2)


def test_an_attempt_at_a_push_follows_the_request_that_was_made_last(pushes: Pushes) -> None:
    handle = pushes.request("a").handle
    for path in ("/in", "/fixed"):
        put(pushes.files, request_path(handle), pushes.request("a", source={"path": path}))
        assert standing_request(pushes.files, handle).source == {"path": path}


def test_an_incremental_push_changes_and_deletes(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold", 2: "silver", 3: "iron"})
    changed = pushes.push("b", {2: "gold", 3: None, 4: "new"}, mode="incremental")
    assert pushes.rows_of(changed) == {1: "gold", 2: "gold", 4: "new"}
    assert (changed.rows, changed.deletes, changed.base, changed.full_rows) == (2, 1, 1, 3)


def test_changes_on_changes_apply_in_order(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold"})
    pushes.push("b", {1: None, 2: "x"}, mode="incremental")
    assert pushes.rows_of(pushes.push("c", {1: "back", 2: None}, mode="incremental")) == {1: "back"}


def test_an_incremental_push_without_a_version_is_rejected(pushes: Pushes) -> None:
    with pytest.raises(PushError, match="nothing to change: table 'profiles' has no version yet"):
        pushes.push("a", {1: "gold"}, mode="incremental")


def test_changes_after_a_rollback_apply_to_what_it_brought_back(pushes: Pushes) -> None:
    pushes.push("good", {1: "gold"})
    pushes.push("bad", {1: "wrong", 2: "wrong"})
    back = rollback(pushes.files, "log", TOPIC.name, 1, "undo")
    assert pushes.rows_of(back) == {1: "gold"}
    assert pushes.rows_of(pushes.push("more", {3: "iron"}, mode="incremental")) == {1: "gold", 3: "iron"}


def test_a_second_push_of_the_same_id_finds_its_version(pushes: Pushes) -> None:
    first = pushes.push("a", {1: "gold"})
    assert pushes.finish(pushes.retried(pushes.request("a"))) == first
    assert len(versions.versions(pushes.files, "log", TOPIC.name)) == 1


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ({"null_keys": 3}, r"has 3 rows whose key \(id\) is null"),
        ({"duplicates": 2, "examples": [[7]]}, r"has 2 rows whose key \(id\) came before, such as \[7\]"),
        ({"nulls": {"tier": 5}}, r"nulls in columns that are declared never null: tier \(5 rows\)"),
    ],
)
def test_rows_that_may_not_be_are_counted_and_rejected(pushes: Pushes, found: dict[str, object], sentence: str) -> None:
    with pytest.raises(PushError, match=sentence):
        pushes.finish(pushes.stage(pushes.request("a"), {1: "gold"}, **found))


def test_null_keys_and_duplicates_pass_when_the_push_says_so(pushes: Pushes) -> None:
    request = pushes.request("a", on_null_key="drop", on_duplicate="any")
    assert pushes.finish(pushes.stage(request, {1: "gold"}, null_keys=3, duplicates=2)).number == 1


def test_a_push_that_shrinks_by_nine_tenths_is_rejected_by_default(pushes: Pushes) -> None:
    pushes.push("a", thousand())
    with pytest.raises(
        PushError, match=r"100 rows, 90% fewer than the 1,000 of version 1; at most 50% fewer are allowed"
    ):
        pushes.push("b", dict.fromkeys(range(100), "gold"), max_change_ratio=None)
    assert pushes.current().push_id == "a"


def test_a_push_may_grow_by_default_and_not_when_a_ratio_is_given(pushes: Pushes) -> None:
    pushes.push("a", dict.fromkeys(range(100), "gold"))
    assert pushes.push("b", thousand(), max_change_ratio=None).number == 2
    with pytest.raises(PushError, match="at most 20% more or fewer"):
        pushes.push("c", dict.fromkeys(range(1500), "gold"), max_change_ratio=0.2)


def test_a_change_of_too_many_rows_is_rejected_when_a_ratio_is_given(pushes: Pushes) -> None:
    pushes.push("a", thousand())
    with pytest.raises(PushError, match="300 changes, 30% of the 1,000 rows"):
        pushes.push("b", dict.fromkeys(range(300), "x"), mode="incremental", max_change_ratio=0.1)


def test_an_empty_push_is_rejected_unless_it_may_be(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold"})
    with pytest.raises(PushError, match="has 0 rows, and at least 1"):
        pushes.push("b", {}, min_rows=None)
    assert pushes.rows_of(pushes.push("c", {})) == {}
    assert pushes.push("d", {}, mode="incremental", min_rows=None).number == 3


def test_what_is_rejected_is_thrown_away_and_read_again(pushes: Pushes) -> None:
    request = pushes.stage(pushes.request("a"), {1: "gold"}, duplicates=1, examples=[1])
    with pytest.raises(PushError):
        pushes.finish(request)
    assert not can_finish(pushes.files, request.handle.folder)
    assert pushes.files.list(f"topics/{TOPIC.name}/segments") == []
    assert pushes.rows_of(pushes.finish(pushes.stage(request, {1: "fixed"}))) == {1: "fixed"}


def test_what_is_rejected_after_it_was_committed_makes_room(pushes: Pushes, tmp_path: Path) -> None:
    slow = pushes.stage(pushes.request("slow", max_change_ratio=0.2), {1: "slow"})
    killed(pushes.finish, slow, place="push-after-publish", folder=tmp_path)
    pushes.push("fast", thousand())
    with pytest.raises(ConcurrentPush):
        pushes.finish(slow)
    with pytest.raises(PushError, match="100% fewer"):
        pushes.finish(pushes.retried(slow))
    sweep(pushes.files, "log", grace_ms=-1)
    assert len(pushes.files.list(f"topics/{TOPIC.name}/segments")) == 1
    assert pushes.rows_of(pushes.finish(pushes.stage(pushes.retried(slow), thousand("fixed")))) == thousand("fixed")


def test_of_two_pushes_at_once_the_later_is_told_and_comes_after_when_tried_again(pushes: Pushes) -> None:
    slow, fast = pushes.stage(pushes.request("slow"), {1: "slow"}), pushes.stage(pushes.request("fast"), {1: "fast"})
    pushes.finish(fast)
    with pytest.raises(ConcurrentPush, match="lost version 1 to the push 'fast'"):
        pushes.finish(slow)
    assert pushes.rows_of(pushes.current()) == {1: "fast"}
    assert pushes.rows_of(pushes.finish(pushes.retried(slow))) == {1: "slow"}


def test_changes_that_lost_the_race_apply_behind_those_that_won(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold"})
    slow = pushes.stage(pushes.request("slow", mode="incremental"), {1: "slow", 2: "slow"})
    fast = pushes.stage(pushes.request("fast", mode="incremental"), {1: "fast", 3: "fast"})
    pushes.finish(fast)
    with pytest.raises(ConcurrentPush):
        pushes.finish(slow)
    assert pushes.rows_of(pushes.finish(pushes.retried(slow))) == {1: "slow", 2: "slow", 3: "fast"}
    assert pushes.rows_of(versions.by_number(pushes.files, "log", TOPIC.name, 2)) == {1: "fast", 3: "fast"}


@pytest.mark.parametrize("place", ["push-before-publish", "push-after-publish", "push-after-version"])
@pytest.mark.few(1)
def test_a_push_killed_half_way_shows_nothing_and_a_retry_completes_it(
    pushes: Pushes, place: str, tmp_path: Path
) -> None:
    pushes.push("a", {1: "gold"})
    request = pushes.stage(pushes.request("b"), {2: "silver"})
    killed(pushes.finish, request, place=place, folder=tmp_path)
    assert pushes.current().number == (2 if place == "push-after-version" else 1)
    done = pushes.finish(request)
    assert (done.number, pushes.rows_of(done)) == (2, {2: "silver"})
    assert len(versions.versions(pushes.files, "log", TOPIC.name)) == 2


def test_old_versions_are_given_up_and_their_rows_swept(pushes: Pushes) -> None:
    for number in range(5):
        pushes.push(str(number), {number: "x"}, keep_versions=2)
    assert versions.expired_numbers(pushes.files, "log", TOPIC.name) == {1, 2, 3}
    with pytest.raises(NoSuchVersion, match=r"Version 2 of table 'profiles' \(push '1'\) has expired"):
        versions.by_number(pushes.files, "log", TOPIC.name, 2)
    sweep(pushes.files, "log", grace_ms=-1)
    assert len(pushes.files.list(f"topics/{TOPIC.name}/segments")) == 2
    assert pushes.rows_of(versions.by_number(pushes.files, "log", TOPIC.name, 4)) == {3: "x"}
    assert pushes.rows_of(pushes.current()) == {4: "x"}


def test_retention_reads_no_record_of_what_is_settled(pushes: Pushes, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        pushes.push(str(number), {number: "x"}, keep_versions=2)
    asked: set[str] = set()

    def noted(files: Filesystem, path: str, kind: type[T]) -> T:
        asked.add(path)
        return must_read(files, path, kind)

    monkeypatch.setattr(versions, "must_read", noted)
    pushes.push("last", {9: "x"}, keep_versions=2)
    assert {int(Path(path).stem) for path in asked if "/versions/" in path} == {8, 9, 10}


def test_what_the_newest_version_stands_on_is_kept(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold"}, keep_versions=1)
    for number in range(3):
        pushes.push(str(number), {number + 2: "x"}, mode="incremental", keep_versions=1)
    sweep(pushes.files, "log", grace_ms=-1)
    assert pushes.rows_of(pushes.current()) == {1: "gold", 2: "x", 3: "x", 4: "x"}


def test_what_a_rollback_has_brought_back_is_kept(pushes: Pushes) -> None:
    pushes.push("good", {1: "gold"})
    pushes.push("bad", {1: "wrong"})
    rollback(pushes.files, "log", TOPIC.name, 1, "undo")
    assert expire_versions(pushes.files, pushes.system, "log", TOPIC.name, 1) == [1, 2]
    sweep(pushes.files, "log", grace_ms=-1)
    assert pushes.rows_of(pushes.current()) == {1: "gold"}


def test_a_version_that_a_living_run_reads_is_kept_until_the_run_is_closed(pushes: Pushes) -> None:
    pushes.push("a", {1: "gold"})
    versions.pin(pushes.files, "log", TOPIC.name, 1, "scores/monday")
    pushes.push("b", {1: "iron"}, keep_versions=1)
    assert versions.expired_numbers(pushes.files, "log", TOPIC.name) == set()
    write_once(pushes.files, RunFolder("scores", "monday").closed, RunEnd())
    pushes.push("c", {1: "wood"}, keep_versions=1)
    assert versions.expired_numbers(pushes.files, "log", TOPIC.name) == {1, 2}


def test_a_version_that_is_given_up_cannot_be_pinned(pushes: Pushes) -> None:
    for number in range(2):
        pushes.push(str(number), {1: "x"}, keep_versions=1)
    with pytest.raises(NoSuchVersion):
        versions.pin(pushes.files, "log", TOPIC.name, 1, "scores/monday")


def test_versions_are_read_after_others_were_given_up_and_swept(pushes: Pushes) -> None:
    pushes.push("gone", {1: "gold"})
    kept = pushes.push("kept", {1: "iron"})
    pushes.push("newest", {1: "wood"}, keep_versions=2)
    sweep(pushes.files, "log", grace_ms=-1)
    assert pushes.rows_of(kept) == {1: "iron"}


def test_all_differences_of_columns_are_told_with_both_sides(pushes: Pushes) -> None:
    with pytest.raises(PushError) as rejected:
        check_columns(pushes.request("a"), Schema.of("id string, level int"), SCHEMA, loose=False)
    said = str(rejected.value)
    assert "tier is missing (the table has string)" in said
    assert "level (int) is not in the table" in said
    assert "id is string in the source and bigint in the table" in said


def test_types_that_hold_fewer_values_fit_and_texts_of_csv_may_be_anything(pushes: Pushes) -> None:
    check_columns(pushes.request("a"), Schema.of("id int, tier string"), SCHEMA, loose=False)
    check_columns(pushes.request("a"), Schema.of("id string, tier string"), SCHEMA, loose=True)


def test_a_key_that_the_table_does_not_have_is_told(pushes: Pushes) -> None:
    with pytest.raises(PushError, match="there is no id"):
        check_columns(pushes.request("a"), Schema.of("member bigint"), Schema.of("member bigint"), loose=False)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"mode": "half"}, "mode='half'"),
        ({"on_duplicate": "last"}, "latest_by=None"),
        ({"deletes": "gone"}, "deletes='gone'"),
        ({"max_change_ratio": float("nan")}, "max_change_ratio=nan"),
        ({"keep_versions": 0}, "keep_versions=0"),
        ({"source": {"path": "/in", "table": "t"}}, "source="),
        ({"source": {"path": "/in", "fromat": "csv"}}, "has 'fromat' beside 'path', which is not known there"),
        ({"source": {"path": ""}}, "has '' as its path"),
        ({"source": {"jdbc": "jdbc:x:secret"}}, "has a str as its jdbc"),
        ({"columns": "id"}, "columns='id'"),
        ({"min_rows": "1"}, "min_rows='1'"),
        ({"keep_versions": "5"}, "keep_versions='5'"),
        ({"max_change_ratio": "0.2"}, "max_change_ratio='0.2'"),
    ],
)
def test_what_cannot_be_meant_is_rejected_by_name(pushes: Pushes, wrong: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        pushes.request("a", **wrong)


def test_a_rollback_to_a_version_whose_rows_are_gone_is_rejected_and_the_current_one_stays(pushes: Pushes) -> None:
    first = pushes.push("a", {1: "gold"})
    pushes.push("b", {1: "silver"})
    # As an earlier release could leave it: listed, and given up.
    pushes.system.publish(TOPIC, Publication(first.sections[0][0], GIVEN_UP, 0, {}))
    with pytest.raises(
        PushError, match=r"Version 1 of table 'profiles' \(push 'a'\) is listed, and its rows are gone\."
    ):
        rollback(pushes.files, "log", TOPIC.name, 1, "undo", pushes.system)
    assert pushes.current().push_id == "b"
    assert pushes.rows_of(pushes.current()) == {1: "silver"}
    assert pushes.files.list(f"tables/log/{TOPIC.name}/pins/{1:020}") == []
