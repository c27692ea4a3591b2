"""Peculiarities of the store on RocksDB.

Versions on the host, changes instead of snapshots, limits, and one writer at a time.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import shutil
import zlib
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from airflow_samza.errors import StoreError
from airflow_samza.schema import Schema
from airflow_samza.storage import host_files, rocks_folder
from airflow_samza.storage.rocksdb import RocksStore, open_database
from airflow_samza.storage.store import StoreLayout
from tests.support.store_entries import put_all

COUNTS = StoreLayout("counts", Schema.of("key string"), Schema.of("value bigint"))
TEXTS = StoreLayout("texts", Schema.of("key int"), Schema.of("value string"))


def filled(folder: Path, rows: int = 100) -> RocksStore:
    store = RocksStore(COUNTS, str(folder))
    put_all(store, ((f"k{n:04}", (n,)) for n in range(rows)))
    return store


def following(folder: Path, kept: dict[str, pa.Table]) -> RocksStore:
    store = RocksStore(COUNTS, str(folder))
    store.restore_kept(kept)
    return store


def versions(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("store.json"))


def test_an_epoch_keeps_what_has_changed_and_now_and_then_a_new_base(tmp_path: Path) -> None:
    store = filled(tmp_path)
    first = store.kept()
    assert {name: table.num_rows for name, table in first.items()} == {"base": 100}
    store.put("k0001", (-1,))
    store.delete("k0002")
    second = store.kept()
    assert second["base"] is first["base"]
    assert second["changes-1"].to_pydict() == {
        "key.key": ["k0001", "k0002"],
        "value.value": [-1, None],
        "deleted": [False, True],
    }
    assert store.kept() == second
    put_all(store, ((f"k{n:04}", (0,)) for n in range(50)))
    assert {name: table.num_rows for name, table in store.kept().items()} == {"base": 100}


def test_a_row_is_written_a_few_times_however_many_epochs_there_are(tmp_path: Path) -> None:
    store = filled(tmp_path, 1000)
    store.kept()
    written, known = 0, set()
    for epoch in range(100):
        store.put(f"k{epoch * 7 % 1000:04}", (epoch,))
        for table in store.kept().values():
            if id(table) not in known:
                written += table.num_rows
                known.add(id(table))
        assert len(store.kept()) <= 17
    assert written < 100 + 7 * 1000


def test_the_next_epoch_on_the_host_goes_on_from_the_version_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    store.kept()
    store.put("k0001", (-1,))
    kept = store.kept()
    store.close()

    def loaded(self: RocksStore, changes: list[pa.Table]) -> None:
        raise AssertionError("it was loaded anew")

    monkeypatch.setattr(RocksStore, "_load", loaded)
    again = following(tmp_path, kept)
    assert (again.get("k0001"), again.get("k0099"), len(list(again.range()))) == ((-1,), (99,), 100)


def test_attempts_that_fail_change_no_version(tmp_path: Path) -> None:
    kept = filled(tmp_path).kept()
    failing, retry = following(tmp_path, kept), following(tmp_path, kept)
    failing.put("k0001", (-1,))
    failing.delete("k0002")
    failing.close()
    assert (retry.get("k0001"), retry.get("k0002")) == ((1,), (2,))
    assert following(tmp_path, kept).kept()["base"].equals(kept["base"])


@pytest.mark.extended
def test_on_another_host_it_is_loaded_from_what_was_kept(tmp_path: Path) -> None:
    store = filled(tmp_path / "one")
    store.kept()
    store.put("k0001", (-1,))
    store.delete("k0002")
    elsewhere = following(tmp_path / "other", store.kept())
    assert list(elsewhere.range()) == list(store.range())


def test_closing_leaves_no_clone_behind(tmp_path: Path) -> None:
    store = filled(tmp_path)
    kept = store.kept()
    store.close()
    again = following(tmp_path, kept)
    assert list(tmp_path.rglob("work-*"))
    again.close()
    assert not list(tmp_path.rglob("work-*"))
    assert len(versions(tmp_path)) == 1


def test_of_a_store_the_newest_versions_stay(tmp_path: Path) -> None:
    store = filled(tmp_path)
    for epoch in range(5):
        store.put("k", (epoch,))
        kept = store.kept()
    assert len(versions(tmp_path)) == 3
    assert following(tmp_path, kept).get("k") == (4,)


def damage(version: Path) -> None:
    (file,) = list(version.glob("*.sst"))[:1]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)


def cut(version: Path) -> None:
    file = next(version.glob("MANIFEST-*"))
    file.write_bytes(file.read_bytes()[:5])


def lose(version: Path) -> None:
    next(version.glob("*.sst")).unlink()


def age(version: Path) -> None:
    record = json.loads((version / "store.json").read_text())
    (version / "store.json").write_text(json.dumps({**record, "format": 0}))


def scramble(version: Path) -> None:
    (version / "store.json").write_text("{")


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (damage, "is damaged: "),
        (lose, "is damaged: "),
        (cut, "is damaged or cannot be opened"),
        (scramble, "is damaged: store.json cannot be read"),
        (age, "was written in the format 0 by another version, and this one reads 2"),
    ],
)
def test_a_version_that_is_damaged_or_of_another_format_is_built_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, harm: Any, said: str
) -> None:
    store = filled(tmp_path)
    kept = store.kept()
    store.close()
    (version,) = versions(tmp_path)
    harm(version)
    monkeypatch.setattr(host_files, "_checksums", {})  # as another process finds it
    with caplog.at_level(logging.WARNING):
        again = following(tmp_path, kept)
    assert again.kept()["base"].equals(kept["base"])
    assert len(list(again.range())) == 100
    assert said in caplog.text
    assert "It is built again." in caplog.text


def test_a_version_that_a_sweep_takes_at_this_moment_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    kept = store.kept()
    store.close()
    monkeypatch.setattr(rocks_folder, "note_checked", lambda path, files: shutil.rmtree(path))
    assert len(list(following(tmp_path, kept).range())) == 100


def test_one_process_of_a_host_compares_checksums_and_the_others_read_no_file_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path)
    kept = store.kept()
    store.close()
    for file in tmp_path.rglob("*.sst"):
        os.utime(file, (1000, 1000))
    summed: list[int] = []

    def crc32(block: bytes, before: int) -> int:
        summed.append(len(block))
        return zlib.crc32(block, before)

    monkeypatch.setattr(host_files, "zlib", Mock(crc32=crc32))
    for process in range(3):
        monkeypatch.setattr(host_files, "_checksums", {})
        store = following(tmp_path, kept)
        assert store.get("k0007") == (7,)
        store.close()
        assert bool(summed) == (process == 0)
        summed.clear()


def test_what_dead_processes_left_is_swept(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.kept()
    lineage = versions(tmp_path)[0].parent
    dead, alive = lineage / "work-999999999-abc", lineage / f"work-{os.getpid()}-abc"
    other = tmp_path / "other-lineage"
    for folder in (dead, alive, other):
        folder.mkdir()
        os.utime(folder, (0, 0))
    store.put("k", (1,))
    store.kept()
    assert (dead.exists(), alive.exists(), other.exists()) == (False, True, False)


def test_a_value_that_is_too_large_is_rejected_with_its_key_and_size(tmp_path: Path) -> None:
    store = RocksStore(TEXTS, str(tmp_path), most_value_bytes=100)
    store.put(1, ("x" * 50,))
    with pytest.raises(
        StoreError, match=r"'texts' gets a value of \d+ bytes for the key 2, and at most 100 are allowed"
    ) as caught:
        store.put(2, ("x" * 101,))
    assert "stores.texts.max.value.bytes" in caught.value.hint
    assert store.get(2) is None


def test_a_key_that_is_too_large_is_rejected(tmp_path: Path) -> None:
    store = RocksStore(COUNTS, str(tmp_path), most_key_bytes=10)
    with pytest.raises(
        StoreError, match="gets a key of 11 bytes for the key 'kkkkkkkkkkk', and at most 10 are allowed"
    ):
        put_all(store, [("k" * 11, (1,))])


@pytest.mark.extended
def test_a_store_that_grows_too_large_is_rejected_and_one_that_is_written_over_is_not(tmp_path: Path) -> None:
    store = RocksStore(TEXTS, str(tmp_path), most_bytes=2000)
    for turn in range(100):
        store.put(turn % 5, ("x" * 100,))
    with pytest.raises(
        StoreError, match=r"'texts' would hold \d+ bytes in one task, and stores.texts.max.bytes allows 2000"
    ):
        put_all(store, ((key, ("x" * 100,)) for key in range(100)))
    store.delete(0)
    store.delete(1)
    store.put(200, ("x",))


def test_only_one_at_a_time_opens_a_folder(tmp_path: Path) -> None:
    first = open_database(str(tmp_path / "db"), "counts")
    with pytest.raises(
        StoreError, match=r"'counts' in .* is open in another process, and only one at a time may write it"
    ):
        open_database(str(tmp_path / "db"), "counts")
    first.close()
    open_database(str(tmp_path / "db"), "counts").close()


def _attempt(folder: str, kept: dict[str, pa.Table], number: int, start: Any, results: Any) -> None:
    start.wait()
    for _ in range(5):
        store = RocksStore(COUNTS, folder)
        store.restore_kept(kept)
        store.put("mine", (number,))
        store.delete("k0001")
        mine = store.kept()
        store.close()
        again = RocksStore(COUNTS, folder)
        again.restore_kept(mine)
        results.put((again.get("mine"), again.get("k0001"), len(list(again.range()))))
        again.close()


@pytest.mark.extended
def test_attempts_of_many_processes_at_one_version_do_not_meet(tmp_path: Path) -> None:
    store = filled(tmp_path)
    kept = store.kept()
    store.close()
    context = multiprocessing.get_context("spawn")
    start, results = context.Event(), context.Queue()
    processes = [
        context.Process(target=_attempt, args=(str(tmp_path), kept, number, start, results)) for number in range(4)
    ]
    for process in processes:
        process.start()
    start.set()
    found = [results.get(timeout=300) for _ in range(20)]
    for process in processes:
        process.join(300)
    assert sorted(found) == sorted([((number,), None, 100) for number in range(4)] * 5)
    assert not list(tmp_path.rglob("work-*"))


@pytest.mark.extended
def test_many_entries_are_read_and_written_at_once(tmp_path: Path) -> None:
    store = filled(tmp_path, 10_000)
    assert len(store.get_all([f"k{n:04}" for n in range(0, 20_000, 2)])) == 5000
    assert [value for _, (value,) in store.range("k0010", "k0013")] == [10, 11, 12]
