"""Records that a process keeps where a request is charged: not for long, not many, none that is large."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.runs.records import folders
from airflow_samza.runs.records.folders import KEPT_SECONDS, KeptRecords
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import CHARGED, FREE


class Store(LocalFilesystem):
    """A store that charges for each request, and notes which records are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.pace = CHARGED
        self.asked: list[str] = []

    def read(self, path: str) -> bytes:
        self.asked.append(path)
        return super().read(path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path)
    for name in "abc":
        store.put(name, name.encode())
    return store


def test_a_record_is_read_once_where_requests_are_charged(store: Store) -> None:
    kept = KeptRecords()
    assert [kept.read(store, "a") for _ in range(3)] == [b"a"] * 3
    assert store.asked == ["a"]


def test_on_a_disk_nothing_is_kept(store: Store) -> None:
    store.pace, kept = FREE, KeptRecords()
    kept.keep(store, "a", b"old")
    store.pace = CHARGED
    assert kept.read(store, "a") == b"a"
    store.pace = FREE
    store.put("a", b"new")
    assert kept.read(store, "a") == b"new"


def test_a_record_is_read_anew_after_a_minute(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now, kept = 5.0, KeptRecords()
    monkeypatch.setattr("time.monotonic", lambda: now)
    kept.keep(store, "a", b"kept")
    now += KEPT_SECONDS - 1
    assert kept.read(store, "a") == b"kept"
    now += 1
    assert kept.read(store, "a") == b"a"


def test_a_record_that_is_missing_is_asked_for_again(store: Store) -> None:
    kept = KeptRecords()
    assert kept.read(store, "late") is None
    store.put("late", b"1")
    assert kept.read(store, "late") == b"1"


def test_of_too_many_records_the_one_kept_longest_goes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_KEPT_AT_MOST", 2)
    kept = KeptRecords()
    for name in "abac":  # the second time "a" is written, it is the newest
        kept.keep(store, name, b"kept")
    assert [kept.read(store, name) for name in "ac"] == [b"kept"] * 2
    assert kept.read(store, "b") == b"b"


def test_a_record_of_a_mebibyte_is_kept_and_none_that_is_larger(store: Store) -> None:
    kept, most = KeptRecords(), bytes(1 << 20)
    kept.keep(store, "a", most)
    kept.keep(store, "b", most + b"0")
    assert kept.read(store, "a") == most
    assert kept.read(store, "b") == b"b"


def test_a_deleted_record_is_forgotten_and_no_other(store: Store) -> None:
    kept = KeptRecords()
    for name in "ab":
        kept.keep(store, name, b"kept")
    kept.forget(store, "a")
    assert [kept.read(store, name) for name in "ab"] == [b"a", b"kept"]
