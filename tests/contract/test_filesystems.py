"""What a root's filesystem holds to, in particular that the first writer of a file wins, whole."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, StorageFull, TopicError
from airflow_samza.systems.filesystem import LocalFilesystem, open_filesystem
from airflow_samza.systems.filesystem_faults import FaultyFilesystem, failing_with


def test_put_if_absent_writes_once_and_leaves_the_first(tmp_path: Path) -> None:
    filesystem = open_filesystem(f"file://{tmp_path}/root")
    assert filesystem.put_if_absent("a/b.json", b"first")
    assert not filesystem.put_if_absent("a/b.json", b"second")
    assert filesystem.read("a/b.json") == b"first"
    assert filesystem.list("a") == ["b.json"]
    assert [path.name for path in (tmp_path / "root/a").iterdir()] == ["b.json"]


def test_of_many_threads_that_put_one_file_exactly_one_wins(tmp_path: Path) -> None:
    filesystem = LocalFilesystem(tmp_path)
    gate = threading.Barrier(16)
    won: list[int] = []

    def put(number: int) -> None:
        gate.wait()
        if filesystem.put_if_absent("one", str(number).encode() * 1000):
            won.append(number)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert filesystem.read("one") == str(won[0]).encode() * 1000


def test_put_replaces_whole_files(tmp_path: Path) -> None:
    filesystem = LocalFilesystem(tmp_path)
    filesystem.put("status", b"one")
    filesystem.put("status", b"two")
    assert filesystem.read("status") == b"two"
    assert filesystem.list(".") == ["status"]


def test_files_are_written_read_renamed_and_deleted(tmp_path: Path) -> None:
    filesystem = LocalFilesystem(tmp_path)
    with filesystem.open_output("d/x") as file:
        file.write(b"0123456789")
    with pytest.raises(FileExistsError):
        filesystem.open_output("d/x")
    assert filesystem.size("d/x") == 10
    source = filesystem.open_input("d/x")
    assert source.read_at(3, 4) == b"456"
    filesystem.rename("d/x", "e/y")
    assert (filesystem.exists("d/x"), filesystem.exists("e/y")) == (False, True)
    filesystem.delete("e/y")
    filesystem.delete("e/y")
    filesystem.delete_tree("e")
    filesystem.delete_tree("e")
    assert (filesystem.exists("e"), filesystem.list("e")) == (False, [])
    for missing in (filesystem.read, filesystem.size, filesystem.open_input, filesystem.modified):
        with pytest.raises(FileNotFoundError):
            missing("e/y")


def test_a_path_cannot_leave_the_root(tmp_path: Path) -> None:
    for path in ("../x", "a/../../x", "/etc/passwd"):
        with pytest.raises(TopicError, match="leaves the root"):
            LocalFilesystem(tmp_path).read(path)


@pytest.mark.parametrize("url", ["s3://key:secret@bucket/x", "hdfs://nn:8020/x", "memory://x", "file://otherhost/x"])
def test_a_root_elsewhere_is_refused_with_a_clear_sentence_and_no_secret(url: str) -> None:
    with pytest.raises(ConfigError, match="not on a local or mounted filesystem") as refused:
        open_filesystem(url)
    assert "secret" not in str(refused.value)
    assert "secret" not in str(refused.value.facts)


def test_an_empty_root_is_refused() -> None:
    with pytest.raises(ConfigError, match="The root is empty"):
        open_filesystem("")


@pytest.mark.parametrize(
    ("number", "kind", "said"), [(errno.ENOSPC, StorageFull, "no room left"), (errno.EIO, TopicError, "refused to write")]
)
def test_the_disks_errors_name_the_path(tmp_path: Path, number: int, kind: type[TopicError], said: str) -> None:
    for at in (1, 2, 3):
        with pytest.raises(kind, match=said) as refused:
            FaultyFilesystem(tmp_path, at, failing_with(number)).put_if_absent("a/b", b"x")
        assert str(tmp_path / "a/b") in refused.value.sentence
        assert list(tmp_path.rglob("b")) == []
    assert StorageFull.retryable


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file")
    with pytest.raises(TopicError, match=r"refused to write .*/a/b"):
        LocalFilesystem(tmp_path).put_if_absent("a/b", b"x")
