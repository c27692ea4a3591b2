"""The host's folder of stores: built once, opened by all, rebuilt when damaged, swept."""

from __future__ import annotations

import fcntl
import json
import logging
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from unittest.mock import Mock

import pyarrow as pa
import pytest

from airflow_samza.errors import ConfigError, StoreError
from airflow_samza.storage import host_files
from airflow_samza.storage.columnar import ColumnarTable
from airflow_samza.storage.local_store import LocalStores, default_folder, host_folder
from airflow_samza.storage.offsets_file import LocalOffsets, OffsetsFile
from airflow_samza.storage.rocksdb import open_database

WEEK, HOUR = 7 * 86_400, 3600


def table_of(rows: int, value: str = "x") -> ColumnarTable:
    return ColumnarTable.of(pa.table({"key": range(rows), "value": [value] * rows}), ["key"])


class Built:
    """Builds a table, and counts how often."""

    def __init__(self, rows: int = 3, value: str = "x") -> None:
        self.times = 0
        self._rows, self._value = rows, value

    def __call__(self) -> ColumnarTable:
        self.times += 1
        return table_of(self._rows, self._value)


def only_store(folder: Path) -> Path:
    (record,) = folder.rglob("store.json")
    return record.parent


def test_a_store_is_built_once_and_then_opened(tmp_path: Path) -> None:
    build = Built()
    stores = LocalStores(str(tmp_path))
    assert stores.find("profiles-push", 0, "1", ColumnarTable) is None
    first = stores.kept("profiles-push", 0, "1", ColumnarTable, build)
    again = LocalStores(str(tmp_path)).kept("profiles-push", 0, "1", ColumnarTable, build)
    assert build.times == 1
    assert first.rows.equals(again.rows)
    assert again.find([pa.array([2, 9])]).tolist() == [2, -1]


def test_a_version_that_is_built_leaves_no_lock(tmp_path: Path) -> None:
    stores = LocalStores(str(tmp_path))
    for version in ("1", "2"):
        stores.kept("profiles-push", 0, version, ColumnarTable, Built())
    assert sorted(path.name for path in (tmp_path / "profiles-push" / "0").iterdir()) == ["1", "2"]


def test_versions_partitions_and_topics_are_apart(tmp_path: Path) -> None:
    stores = LocalStores(str(tmp_path))
    for topic, partition, version in (("a", 0, "1"), ("a", 0, "2"), ("a", 1, "1"), ("a/0", 0, "1"), ("../a", 0, "1")):
        value = f"{topic} {partition} {version}"
        assert stores.kept(topic, partition, version, ColumnarTable, Built(1, value)).rows.column(
            "value"
        ).to_pylist() == [value]
    assert {path.parent for path in tmp_path.parent.iterdir()} == {tmp_path.parent}


def damage_rows(store: Path) -> None:
    content = bytearray((store / "rows.arrow").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (store / "rows.arrow").write_bytes(content)


def cut_index(store: Path) -> None:
    content = (store / "index.arrow").read_bytes()
    (store / "index.arrow").write_bytes(content[:-9])


def lose_rows(store: Path) -> None:
    (store / "rows.arrow").unlink()


def lose_record(store: Path) -> None:
    (store / "store.json").unlink()


def scramble_record(store: Path) -> None:
    (store / "store.json").write_bytes(b"{\xff")


def age(store: Path) -> None:
    record = json.loads((store / "store.json").read_text())
    (store / "store.json").write_text(json.dumps({**record, "format": 0}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (damage_rows, "is damaged: the checksum of rows.arrow"),
        (cut_index, "is damaged: the size of index.arrow"),
        (lose_rows, "is damaged"),
        (lose_record, "has no store.json"),
        (scramble_record, "has a store.json that cannot be read"),
        (age, "was written in the format 0 by another version, and this one reads 1"),
    ],
)
def test_what_is_damaged_or_of_another_version_is_built_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, harm: Any, said: str
) -> None:
    build = Built()
    stores = LocalStores(str(tmp_path))
    stores.kept("t", 0, "1", ColumnarTable, build)
    harm(only_store(tmp_path))
    monkeypatch.setattr(host_files, "_checksums", {})  # as another process finds it
    with caplog.at_level(logging.WARNING):
        again = stores.kept("t", 0, "1", ColumnarTable, build)
    assert (build.times, len(again)) == (2, 3)
    assert said in caplog.text
    assert "It is built again." in caplog.text
    assert stores.find("t", 0, "1", ColumnarTable) is not None
    assert not list(tmp_path.rglob("*building*"))


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose content is read for its checksum."""
    files: list[str] = []
    real = host_files._checksum

    def checksum(file: BinaryIO) -> int:
        files.append(Path(file.name).name)
        return real(file)

    monkeypatch.setattr(host_files, "_checksum", checksum)
    return files


def as_another_process(tmp_path: Path) -> ColumnarTable | None:
    host_files._checksums.clear()
    return LocalStores(str(tmp_path)).find("t", 0, "1", ColumnarTable)


def old(store: Path) -> None:
    for path in store.glob("*.arrow"):
        os.utime(path, (1000, 1000))


def test_one_process_of_a_host_compares_checksums_and_the_others_read_no_content(
    tmp_path: Path, compared: list[str]
) -> None:
    LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built())
    old(only_store(tmp_path))
    compared.clear()
    for _ in range(3):
        table = as_another_process(tmp_path)
        assert table is not None
        assert table.find([pa.array([2, 9])]).tolist() == [2, -1]
    assert compared == ["index.arrow", "rows.arrow"]


def test_who_builds_a_store_does_not_read_it_again(tmp_path: Path, compared: list[str]) -> None:
    LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built())
    assert compared == ["index.arrow", "rows.arrow"]


def start_again(store: Path) -> None:
    note = json.loads((store / "checked.json").read_text())
    (store / "checked.json").write_text(json.dumps({**note, "boot": "before a power failure"}))


def scramble_note(store: Path) -> None:
    (store / "checked.json").write_bytes(b"{")


@pytest.mark.parametrize("happens", [damage_rows, start_again, scramble_note])
def test_checksums_are_compared_again_after_a_file_has_changed_or_the_system_was_started(
    tmp_path: Path, compared: list[str], happens: Callable[[Path], None]
) -> None:
    LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built())
    old(only_store(tmp_path))
    as_another_process(tmp_path)
    compared.clear()
    happens(only_store(tmp_path))
    assert (as_another_process(tmp_path) is None) == (happens is damage_rows)
    assert "rows.arrow" in compared


def test_what_was_just_written_is_not_yet_noted_as_checked(tmp_path: Path, compared: list[str]) -> None:
    """A second write within one tick of the clock would leave a file its time."""
    LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built())
    for path in only_store(tmp_path).glob("*.arrow"):
        os.utime(path, (1e11, 1e11))  # younger than any clock
    as_another_process(tmp_path)
    compared.clear()
    as_another_process(tmp_path)
    assert compared == ["index.arrow", "rows.arrow"]


def test_an_attempt_that_fails_leaves_nothing(tmp_path: Path) -> None:
    stores = LocalStores(str(tmp_path))

    def fail() -> ColumnarTable:
        raise ValueError("no such topic")

    with pytest.raises(ValueError, match="no such topic"):
        stores.kept("t", 0, "1", ColumnarTable, fail)
    assert not list(tmp_path.rglob("*.lock"))
    assert stores.find("t", 0, "1", ColumnarTable) is None
    assert stores.kept("t", 0, "1", ColumnarTable, Built()).rows.num_rows == 3


def test_a_store_larger_than_the_limit_is_rejected_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"takes \d+ bytes, and job.store.local.max.bytes allows 1000") as caught:
        LocalStores(str(tmp_path), 1000).kept("t", 0, "1", ColumnarTable, Built(100_000))
    assert "more hosts" in caught.value.hint
    assert not list(tmp_path.rglob("*.arrow"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ColumnarTable, folder: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ColumnarTable, "write", full)
    with pytest.raises(StoreError, match="could not be written: No space left on device") as caught:
        LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built())
    assert "job.store.local.dir" in caught.value.hint


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: LocalStores(folder).kept("t", 0, "1", ColumnarTable, Built()),
        lambda folder: LocalStores(folder).locked("t", 0).__enter__(),
        lambda folder: OffsetsFile(f"{folder}/OFFSETS").write(LocalOffsets({("t", 0): 1}, {})),
        lambda folder: open_database(f"{folder}/work", "counts"),
    ],
    ids=["columnar", "locked", "offsets", "rocksdb"],
)
def test_where_there_is_no_folder_it_is_named_and_what_to_set(tmp_path: Path, write: Callable[[str], object]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="could not be written: Not a directory") as caught:
        write(str(tmp_path / "file" / "stores"))
    assert "job.store.local.dir" in caught.value.hint
    assert OffsetsFile(str(tmp_path / "file" / "OFFSETS")).read() is None


def test_a_folder_by_a_variable_that_the_host_does_not_have_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAMZA_DISK", "/disk")
    assert host_folder("$SAMZA_DISK/a") == host_folder("${SAMZA_DISK}/a") == "/disk/a"
    monkeypatch.delenv("SAMZA_DISK")
    for configured in ("$SAMZA_DISK/a", "${SAMZA_DISK}/a"):
        with pytest.raises(ConfigError, match="the environment of the host has no SAMZA_DISK"):
            host_folder(configured)


def test_beyond_the_limit_what_was_opened_longest_ago_goes_first(tmp_path: Path) -> None:
    clock = [1000.0]
    unlimited = LocalStores(str(tmp_path), now=lambda: clock[0])
    for topic in ("a", "b", "c"):
        clock[0] += 1
        unlimited.kept(topic, 0, "1", ColumnarTable, Built(1000))
    size = unlimited.sweep() // 3
    clock[0] += 1
    assert unlimited.find("a", 0, "1", ColumnarTable) is not None  # used again
    clock[0] += 1
    stores = LocalStores(str(tmp_path), 2 * size + size // 2, now=lambda: clock[0])
    stores.kept("d", 0, "1", ColumnarTable, Built(1000))
    assert [topic for topic in "abcd" if stores.find(topic, 0, "1", ColumnarTable) is not None] == ["a", "d"]


def test_what_nobody_uses_is_swept(tmp_path: Path) -> None:
    clock = [1_000_000.0]
    stores = LocalStores(str(tmp_path), now=lambda: clock[0])

    def here() -> list[str]:
        return sorted(path.parent.name for path in tmp_path.rglob("store.json"))

    for version in ("1", "2", "3"):
        clock[0] += 1
        stores.kept("t", 0, version, ColumnarTable, Built())
    assert here() == ["1", "2", "3"]  # a task may have it open
    clock[0] += HOUR + 1
    stores.sweep()
    assert here() == ["2", "3"]
    clock[0] += WEEK
    stores.sweep()
    assert here() == []


def test_what_a_dead_builder_left_is_swept(tmp_path: Path) -> None:
    left = tmp_path / "t" / "0" / "1.building-abc"
    left.mkdir(parents=True)
    (left / "rows.arrow").write_bytes(b"x")
    LocalStores(str(tmp_path)).sweep()
    assert left.exists()  # it may be at work
    os.utime(left, (0, 0))
    LocalStores(str(tmp_path)).sweep()
    assert not left.exists()


def test_who_has_opened_a_store_keeps_it_when_it_is_swept(tmp_path: Path) -> None:
    table = LocalStores(str(tmp_path)).kept("t", 0, "1", ColumnarTable, Built(1000))
    LocalStores(str(tmp_path), now=lambda: 1e12).sweep()
    assert not list(tmp_path.rglob("*.arrow"))
    assert table.find([pa.array([999])]).tolist() == [999]
    assert table.rows.column("value")[999].as_py() == "x"


def test_who_builds_by_hand_keeps_others_out(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()

    def build() -> None:
        stores = LocalStores(str(tmp_path))
        with stores.locked("t", 0):
            if stores.find("t", 0, "1", ColumnarTable) is None:
                stores.kept("t", 0, "1", ColumnarTable, Built(20_000))
                results.put("built")

    processes = [context.Process(target=build) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
    assert results.get(timeout=300) == "built"
    assert results.empty()


def test_roots_have_folders_of_their_own(tmp_path: Path) -> None:
    assert default_folder("hdfs://a/root", str(tmp_path)) != default_folder("hdfs://b/root", str(tmp_path))
    assert default_folder("x", str(tmp_path)).startswith(str(tmp_path))


def _race(folder: str, start: Any, results: Any) -> None:
    stores = LocalStores(folder)
    built = []

    def build() -> ColumnarTable:
        built.append(1)
        return table_of(20_000)

    start.wait()
    seen = 0
    for version in range(8):
        seen += len(stores.kept("t", 0, str(version), ColumnarTable, build))
        if version % 3 == 2:
            stores.sweep()
    results.put((seen, len(built)))


def test_a_store_that_comes_while_it_is_looked_for_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stores, build = LocalStores(str(tmp_path)), Built()
    stores.kept("t", 0, "1", ColumnarTable, build)
    store = only_store(tmp_path)
    away = store.rename(tmp_path / "away")

    def comes(path: str, is_folder: Any = os.path.isdir) -> bool:
        if away.exists():  # the record was just looked for, and was not there
            away.rename(store)
        return bool(is_folder(path))

    monkeypatch.setattr(os.path, "isdir", comes)
    assert stores.kept("t", 0, "1", ColumnarTable, build).rows.num_rows == 3
    assert (build.times, caplog.text) == (1, "")


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_store_that_is_swept_while_it_is_opened_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, comes_back: bool
) -> None:
    stores, build = LocalStores(str(tmp_path)), Built()
    stores.kept("t", 0, "1", ColumnarTable, build)
    whole = ColumnarTable.open

    def swept(folder: str) -> ColumnarTable:
        monkeypatch.setattr(ColumnarTable, "open", whole)
        LocalStores(str(tmp_path), 0).sweep()
        if comes_back:
            stores.kept("t", 0, "1", ColumnarTable, build)
        raise FileNotFoundError(2, "No such file or directory", folder)

    monkeypatch.setattr(ColumnarTable, "open", swept)
    found = stores.find("t", 0, "1", ColumnarTable)
    assert (found is not None, build.times, caplog.text) == (comes_back, 1 + comes_back, "")


@pytest.mark.parametrize("locks", [True, False])
def test_processes_that_race_all_get_the_same_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool
) -> None:
    """With locks each is built once; without, whoever renames first wins."""
    if not locks:
        monkeypatch.setattr(fcntl, "flock", Mock(side_effect=OSError(95, "Operation not supported")))
    context = multiprocessing.get_context("fork")
    start, results = context.Event(), context.Queue()
    processes = [context.Process(target=_race, args=(str(tmp_path), start, results)) for _ in range(5)]
    for process in processes:
        process.start()
    start.set()
    counts = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(300)
    assert [seen for seen, _ in counts] == [8 * 20_000] * 5
    if locks:
        assert sum(built for _, built in counts) == 8
    assert not list(tmp_path.rglob("*building*"))
