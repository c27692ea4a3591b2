"""Versions of a pushed table: one winner per number, what is current and what was, rollback."""

from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest

from airflow_samza.errors import ConcurrentPush, NoSuchVersion, PushError
from airflow_samza.records import decode, encode
from airflow_samza.runs.tables import versions as tables
from airflow_samza.runs.tables.table_version import FULL, INCREMENTAL, TableVersion
from airflow_samza.runs.tables.versions import rollback
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem

PLACE = ("log", "profiles-push")


@pytest.fixture
def files(tmp_path: Path) -> Filesystem:
    return LocalFilesystem(tmp_path)


def day(number: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, number, hour, tzinfo=timezone.utc)


def drafted(
    files: Filesystem, push_id: str, *, of: int | None = None, at: datetime | None = None, kind: str = FULL
) -> TableVersion:
    """A push that is about to become visible: ``of`` the day that its data interval covers, ``at`` when it is made."""
    current = tables.newest(files, *PLACE)
    own = (f"pushes/profiles/{push_id}", "1.1")
    return TableVersion(
        number=tables.highest_number(files, *PLACE) + 1,
        push_id=push_id,
        kind=kind,
        sections=(own,) if kind == FULL or current is None else (*current.sections, own),
        offsets=((0, 10),),
        commits=1,
        rows=10,
        bytes=100,
        schema="id bigint, tier string",
        key=("id",),
        pushed_at=(at or day(1)).isoformat(timespec="microseconds"),
        interval=(day(of).isoformat(), day(of + 1).isoformat()) if of is not None else None,
        base=None if kind == FULL or current is None else current.number,
        full_rows=10,
        table="profiles",
    )


def pushed(
    files: Filesystem, push_id: str, *, of: int | None = None, at: datetime | None = None, kind: str = FULL
) -> TableVersion:
    return tables.add(files, *PLACE, drafted(files, push_id, of=of, at=at, kind=kind))


def current(files: Filesystem) -> str:
    version = tables.newest(files, *PLACE)
    assert version is not None
    return version.push_id


def was_current(files: Filesystem, instant: datetime) -> str:
    return tables.as_of(files, *PLACE, instant).push_id


def test_a_version_survives_json(files: Filesystem) -> None:
    version = pushed(files, "monday", of=5)
    assert decode(TableVersion, encode(version), "v") == version == tables.by_number(files, *PLACE, 1)


def test_nothing_pushed_is_no_version(files: Filesystem) -> None:
    assert tables.newest(files, *PLACE) is None
    assert tables.by_push_id(files, *PLACE, "monday") is None
    with pytest.raises(NoSuchVersion, match="has no version that was current"):
        tables.as_of(files, *PLACE, day(9))


def test_each_push_is_the_next_number_and_becomes_current(files: Filesystem) -> None:
    assert [pushed(files, push, of=of).number for push, of in (("a", 1), ("b", 2))] == [1, 2]
    assert current(files) == "b"


def test_a_push_of_the_same_id_finds_its_version(files: Filesystem) -> None:
    first = pushed(files, "a", of=1)
    pushed(files, "b", of=2)
    assert pushed(files, "a", of=1) == first
    assert len(tables.versions(files, *PLACE)) == 2


def test_of_pushes_that_want_one_number_exactly_one_gets_it(files: Filesystem) -> None:
    drafts = [drafted(files, f"push-{number}", of=1) for number in range(8)]
    won: list[str] = []
    lost: list[ConcurrentPush] = []
    start = threading.Barrier(len(drafts))

    def try_it(draft: TableVersion) -> None:
        start.wait()
        try:
            won.append(tables.add(files, *PLACE, draft).push_id)
        except ConcurrentPush as error:
            lost.append(error)

    threads = [threading.Thread(target=try_it, args=(draft,)) for draft in drafts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert len(lost) == 7
    assert {error.facts["winner"] for error in lost} == set(won)
    assert all(error.retryable and f"lost version 1 to the push '{won[0]}'" in str(error) for error in lost)


def test_the_loser_comes_after_when_it_tries_again(files: Filesystem) -> None:
    draft = drafted(files, "late", of=1)
    pushed(files, "early", of=1)
    with pytest.raises(ConcurrentPush):
        tables.add(files, *PLACE, draft)
    assert pushed(files, "late", of=1).number == 2


def test_a_change_needs_a_version_to_change(files: Filesystem) -> None:
    with pytest.raises(PushError, match="nothing to change"):
        pushed(files, "more", kind=INCREMENTAL)


def test_a_change_consists_of_its_base_and_itself(files: Filesystem) -> None:
    full, changed = pushed(files, "full", of=1), pushed(files, "more", of=2, kind=INCREMENTAL)
    assert changed.sections == (*full.sections, ("pushes/profiles/more", "1.1"))
    assert [section["producer"] for section in changed.slice["sections"]] == [
        "pushes/profiles/full",
        "pushes/profiles/more",
    ]


def test_current_at_an_instant_is_by_the_data_interval_not_by_the_clock(files: Filesystem) -> None:
    pushed(files, "of-monday", of=5, at=day(20))
    pushed(files, "of-tuesday", of=6, at=day(20))
    assert was_current(files, day(6)) == "of-monday"
    assert was_current(files, day(6, 23)) == "of-monday"
    assert was_current(files, day(7)) == "of-tuesday"
    with pytest.raises(NoSuchVersion):
        was_current(files, day(5, 12))


def test_a_push_without_an_interval_counts_from_when_it_was_made(files: Filesystem) -> None:
    pushed(files, "by-hand", at=day(5, 12))
    assert was_current(files, day(5, 13)) == "by-hand"
    with pytest.raises(NoSuchVersion):
        was_current(files, day(5, 11))


def test_a_push_of_older_data_does_not_become_current(files: Filesystem) -> None:
    pushed(files, "of-wednesday", of=7)
    backfilled = pushed(files, "of-monday", of=5)
    assert backfilled.is_late
    assert current(files) == "of-wednesday"
    assert was_current(files, day(7)) == "of-monday"
    assert was_current(files, day(8)) == "of-wednesday"


def test_a_second_push_of_the_same_interval_replaces_the_first(files: Filesystem) -> None:
    pushed(files, "wrong", of=5)
    pushed(files, "fixed", of=5)
    assert current(files) == was_current(files, day(6)) == "fixed"


def test_a_rollback_brings_back_what_an_older_version_read(files: Filesystem) -> None:
    good = pushed(files, "good", of=5)
    pushed(files, "bad", of=6)
    back = rollback(files, *PLACE, 1, "undo")
    assert (back.number, back.reads, back.sections, back.offsets) == (3, 1, good.sections, good.offsets)
    assert current(files) == "undo"
    assert was_current(files, day(7, 1)) == "bad"
    assert rollback(files, *PLACE, 1, "undo") == back


def test_a_rollback_to_a_rollback_reads_what_that_read(files: Filesystem) -> None:
    pushed(files, "good", of=5)
    pushed(files, "bad", of=6)
    rollback(files, *PLACE, 1, "undo")
    assert rollback(files, *PLACE, 3, "undo-again").reads == 1


def test_a_rollback_may_name_a_push_or_say_previous(files: Filesystem) -> None:
    for push in ("a", "b", "c"):
        pushed(files, push, of=5)
    assert rollback(files, *PLACE, "previous", "undo-c").reads == 2
    assert rollback(files, *PLACE, "previous", "undo-b").reads == 1
    assert rollback(files, *PLACE, "c", "redo").reads == 3
    with pytest.raises(NoSuchVersion, match="has no push 'z'"):
        rollback(files, *PLACE, "z", "odd")


def test_a_rollback_may_name_a_push_by_digits_that_are_no_versions_number(files: Filesystem) -> None:
    for push in ("20260105", "1", "c"):
        pushed(files, push, of=5)
    assert rollback(files, *PLACE, "20260105", "undo").reads == 1
    assert rollback(files, *PLACE, "1", "undo-again").reads == 1
    for odd, said in (("20260106", "has no version 20260106"), ("²", "has no push '²'")):
        with pytest.raises(NoSuchVersion, match=said):
            rollback(files, *PLACE, odd, "odd")


def test_a_rollback_under_the_id_of_a_push_is_rejected(files: Filesystem) -> None:
    for push in ("a", "b"):
        pushed(files, push, of=5)
    with pytest.raises(PushError, match=r"The push id 'b' of table '.*' is taken: it made version 2, a full push"):
        rollback(files, *PLACE, "a", "b")
    assert current(files) == "b"


def test_before_the_first_version_there_is_none_to_go_back_to(files: Filesystem) -> None:
    pushed(files, "a", of=5)
    with pytest.raises(NoSuchVersion, match="has no version before 1"):
        rollback(files, *PLACE, "previous", "undo")


def test_a_push_after_a_rollback_becomes_current(files: Filesystem) -> None:
    pushed(files, "good", of=5)
    pushed(files, "bad", of=6)
    rollback(files, *PLACE, 1, "undo")
    fixed = pushed(files, "fixed", of=6)
    assert not fixed.is_late
    assert current(files) == was_current(files, datetime.now(timezone.utc)) == "fixed"


def test_what_is_current_now_is_what_was_current_last(files: Filesystem) -> None:
    pushed(files, "by-hand", at=day(9, 12))
    pushed(files, "of-wednesday", of=7, at=day(9, 13))
    assert current(files) == was_current(files, day(30)) == "of-wednesday"


def test_an_unknown_version_is_told_with_those_that_are_there(files: Filesystem) -> None:
    pushed(files, "a", of=1)
    with pytest.raises(NoSuchVersion, match="Its versions are: 1"):
        tables.by_number(files, *PLACE, 7)


def test_an_instant_without_a_zone_is_rejected(files: Filesystem) -> None:
    with pytest.raises(PushError, match="no time zone"):
        tables.as_of(files, *PLACE, datetime(2026, 1, 1))
