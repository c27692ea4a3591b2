"""Contract of a root's filesystem, in particular that the first writer of a file wins, whole: local, HDFS, and object stores."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, StorageFull, TopicError
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.memory import MemoryFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.remote import RemoteFilesystem
from tests.support.dictionary_client import DictionaryClient
from tests.support.faulty_filesystem import FaultyFilesystem, failing_with

STORES = ("s3", "azure", "gcs")
AT_NIGHT = [
    pytest.param("azure", marks=pytest.mark.nightly),
    pytest.param("gcs", marks=pytest.mark.nightly),
    pytest.param("hdfs", marks=[pytest.mark.hdfs, pytest.mark.nightly]),
]
SHARED = ["local", "s3", *AT_NIGHT[:2], pytest.param("hdfs", marks=pytest.mark.hdfs)]
"""Places that several processes share."""

PLACES = ["memory", "calls", *SHARED]


@pytest.fixture(params=PLACES)
def filesystem(request: pytest.FixtureRequest, tmp_path: Path) -> Filesystem:
    if request.param == "memory":
        return MemoryFilesystem()
    if request.param == "calls":
        return RemoteFilesystem(DictionaryClient(), "root")
    if request.param == "local":
        return open_filesystem(f"file://{tmp_path}/root")
    if request.param in STORES:
        return open_filesystem(request.getfixturevalue(request.param).url(f"{tmp_path.parent.name}/{tmp_path.name}"))
    return open_filesystem(f"{request.getfixturevalue('hdfs').webhdfs}{tmp_path}")


@pytest.mark.parametrize("durable", [True, False])
def test_put_if_absent_writes_once_and_leaves_the_first(filesystem: Filesystem, durable: bool) -> None:
    assert filesystem.put_if_absent("a/b.json", b"first", durable=durable)
    assert not filesystem.put_if_absent("a/b.json", b"second", durable=durable)
    assert filesystem.read("a/b.json") == b"first"
    assert filesystem.list("a") == ["b.json"]


def test_of_many_threads_that_put_one_file_exactly_one_wins(filesystem: Filesystem) -> None:
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


@pytest.mark.parametrize("filesystem", ["local", "s3", *AT_NIGHT], indirect=True)
@pytest.mark.extended
def test_of_many_processes_that_put_the_same_files_each_file_has_one_winner(filesystem: Filesystem) -> None:
    processes, files = 12, 8
    begin = f"{time.time() + 3:.3f}"
    command = [
        sys.executable,
        str(Path(__file__).parents[1] / "support/racing_writer.py"),
        filesystem.root,
        begin,
        str(files),
    ]
    racing = [
        subprocess.Popen([*command, str(number)], stdout=subprocess.PIPE, text=True) for number in range(processes)
    ]
    won = {number: each.communicate(timeout=120)[0].split() for number, each in enumerate(racing)}
    assert [each.returncode for each in racing] == [0] * processes
    assert sorted(name for names in won.values() for name in names) == [f"file-{number}" for number in range(files)]
    for number, names in won.items():
        for name in names:
            assert filesystem.read(f"race/{name}") == str(number).encode() * 1000


def test_put_replaces_whole_files(filesystem: Filesystem) -> None:
    filesystem.put("status", b"one")
    filesystem.put("status", b"two")
    assert filesystem.read("status") == b"two"
    assert filesystem.list(".") == ["status"]


def test_files_are_written_read_renamed_and_deleted(filesystem: Filesystem) -> None:
    with filesystem.open_output("d/x") as file:
        file.write(b"0123456789")
    with pytest.raises(FileExistsError):
        filesystem.open_output("d/x").close()
    assert filesystem.size("d/x") == 10
    assert filesystem.open_input("d/x").read_at(4, 3) == b"3456"
    filesystem.rename("d/x", "e/y")
    assert (filesystem.exists("d/x"), filesystem.exists("e/y")) == (False, True)
    filesystem.put("d/x", b"newer")
    filesystem.rename("d/x", "e/y")
    assert filesystem.read("e/y") == b"newer"
    filesystem.delete("e/y")
    filesystem.delete("e/y")
    filesystem.delete_tree("e")
    filesystem.delete_tree("e")
    assert filesystem.list("e") == []
    for missing in (filesystem.read, filesystem.size, filesystem.open_input, filesystem.modified):
        with pytest.raises(FileNotFoundError):
            missing("e/y")


def test_a_folder_is_there_as_long_as_files_are_and_moves_with_them(filesystem: Filesystem) -> None:
    for path in ("d/x", "d/in/y", "dx/z"):
        filesystem.put(path, path.encode())
    assert [filesystem.exists(path) for path in ("d/in/y", "d/i", "d/x", "d/x/y")] == [True, False, True, False]
    assert [filesystem.list(path) for path in ("d", "d/in", "d/i", "d/x/y")] == [["in", "x"], ["y"], [], []]
    filesystem.rename("d", "e/f")
    assert (filesystem.list("d"), filesystem.list("."), filesystem.list("e/f")) == ([], ["dx", "e"], ["in", "x"])
    assert filesystem.read("e/f/in/y") == b"d/in/y"
    with pytest.raises((FileNotFoundError, TopicError)):
        filesystem.rename("d", "g")
    filesystem.delete_tree("e")
    filesystem.delete_empty("e")
    assert filesystem.list(".") == ["dx"]


def test_a_file_that_is_discarded_never_appears(filesystem: Filesystem) -> None:
    file = filesystem.open_output("d/x")
    file.write(b"0123456789")
    file.discard()  # type: ignore[attr-defined]
    if filesystem.local_path("d/x") is None:
        assert (filesystem.exists("d/x"), filesystem.list("d")) == (False, [])


def test_an_empty_file_is_a_file(filesystem: Filesystem) -> None:
    with filesystem.open_output("empty"):
        pass
    assert (filesystem.size("empty"), filesystem.read("empty"), filesystem.open_input("empty").read()) == (0, b"", b"")


@pytest.mark.parametrize("name", ["a b", "a%20b", "100%", "x=1;y", "p+q", "ü&?#", "a,b@c:d", "~'q\"[1]{}"])
def test_a_name_is_what_it_is(filesystem: Filesystem, name: str) -> None:
    for path in (name, f"in {name}/{name}"):
        assert filesystem.put_if_absent(path, name.encode())
        assert not filesystem.put_if_absent(path, b"")
        assert filesystem.read(path) == name.encode()
        assert filesystem.list(path.rpartition("/")[0] or ".").count(name) == 1


def test_the_sweeper_takes_what_is_old_and_half_written_alone(filesystem: Filesystem) -> None:
    filesystem.put("d/whole", b"x")
    with filesystem.open_output("d/.tmp-dead") as file:
        file.write(b"x")
    assert filesystem.list("d") == ["whole"]
    filesystem.delete_temporary("d", time.time() - 3600)
    assert filesystem.exists("d/.tmp-dead")
    filesystem.delete_temporary("d", time.time() + 3600)
    assert (filesystem.exists("d/.tmp-dead"), filesystem.exists("d/whole")) == (False, True)
    filesystem.delete_temporary("nowhere", time.time())


def test_a_path_cannot_leave_the_root(filesystem: Filesystem) -> None:
    for path in ("../x", "a/../../x", "/etc/passwd"):
        with pytest.raises(TopicError, match="leaves the root"):
            filesystem.read(path)


def test_a_file_in_the_place_of_a_directory_is_named_or_lies_beside_it(filesystem: Filesystem) -> None:
    filesystem.put("a", b"a file")
    if not filesystem.renames_folders:  # which has no directories
        assert filesystem.put_if_absent("a/b", b"x")
        assert (filesystem.read("a"), filesystem.list("."), filesystem.list("a")) == (b"a file", ["a"], ["b"])
        return
    with pytest.raises(TopicError, match=r"cannot (read|write) .*/a/b"):
        filesystem.put_if_absent("a/b", b"x")


@pytest.mark.parametrize("url", ["ftp://key:secret@bucket/x", "memory://x", "file://otherhost/x"])
def test_a_root_elsewhere_is_rejected_with_a_clear_sentence_and_no_secret(url: str) -> None:
    with pytest.raises(ConfigError, match="is on storage that cannot hold a root") as rejected:
        open_filesystem(url)
    assert "secret" not in str(rejected.value)
    assert "secret" not in str(rejected.value.facts)


def test_an_empty_root_is_rejected() -> None:
    with pytest.raises(ConfigError, match="The root is empty"):
        open_filesystem("")


@pytest.mark.parametrize(
    ("number", "kind", "said"),
    [(errno.ENOSPC, StorageFull, "no room left"), (errno.EIO, TopicError, "cannot write")],
)
def test_the_disks_errors_name_the_path(tmp_path: Path, number: int, kind: type[TopicError], said: str) -> None:
    for at in (1, 2, 3):
        with pytest.raises(kind, match=said) as rejected:
            FaultyFilesystem(tmp_path, at, failing_with(number)).put_if_absent("a/b", b"x")
        assert str(tmp_path / "a/b") in rejected.value.sentence
        assert list(tmp_path.rglob("b")) == []
    assert StorageFull.retryable


def test_a_local_put_leaves_its_file_alone_in_the_directory(tmp_path: Path) -> None:
    for data in (b"first", b"second"):
        LocalFilesystem(tmp_path).put_if_absent("a/b.json", data)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.json"]
