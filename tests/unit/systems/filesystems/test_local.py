"""A root on a disk that several users write: links below it are not followed, and only regular files are read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.local import LocalFilesystem


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Return a folder beside the root, with a file."""
    folder = tmp_path / "elsewhere"
    (folder / "deep").mkdir(parents=True)
    (folder / "diary.json").write_text("mine")
    (folder / ".tmp-mine").write_text("mine")
    return folder


@pytest.fixture
def files(tmp_path: Path, elsewhere: Path) -> LocalFilesystem:
    """Return a root in which somebody has planted a link to that folder, in a folder, and one to its file."""
    found = LocalFilesystem(tmp_path / "root")
    found.put("a/own.json", b"own")
    os.symlink(elsewhere, tmp_path / "root/a/planted")
    os.symlink(elsewhere / "diary.json", tmp_path / "root/a/link.json")
    return found


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


THROUGH: dict[str, Callable[[LocalFilesystem], object]] = {
    "read": lambda files: files.read("a/planted/diary.json"),
    "open_input": lambda files: files.open_input("a/planted/diary.json"),
    "list": lambda files: files.list("a/planted"),
    "list below": lambda files: files.list("a/planted/deep"),
    "put": lambda files: files.put("a/planted/diary.json", b"x"),
    "put_if_absent": lambda files: files.put_if_absent("a/planted/new.json", b"x"),
    "open_output": lambda files: files.open_output("a/planted/new.json"),
    "make_dirs": lambda files: files.make_dirs("a/planted/new"),
    "rename from": lambda files: files.rename("a/planted/diary.json", "b"),
    "rename to": lambda files: files.rename("a/own.json", "a/planted/diary.json"),
    "delete": lambda files: files.delete("a/planted/diary.json"),
    "delete_tree": lambda files: files.delete_tree("a/planted/deep"),
    "delete_temporary": lambda files: files.delete_temporary("a/planted", 1e12),
    "exists": lambda files: files.exists("a/planted/diary.json"),
    "size": lambda files: files.size("a/planted/diary.json"),
    "modified": lambda files: files.modified("a/planted/diary.json"),
    "local_path": lambda files: files.local_path("a/planted/diary.json"),
    "read a link": lambda files: files.read("a/link.json"),
    "map a link": lambda files: files.open_input("a/link.json"),
    "the path of a link": lambda files: files.local_path("a/link.json"),
}


@pytest.mark.parametrize("way", THROUGH)
def test_rejects_a_link_below_the_root(files: LocalFilesystem, elsewhere: Path, way: str) -> None:
    before = content(elsewhere)
    with pytest.raises(TopicError, match=r"root/a/(planted|link.json)\S* is a link, and links below a root are not"):
        THROUGH[way](files)
    assert content(elsewhere) == before
    assert files.read("a/own.json") == b"own"


def test_a_look_leaves_no_file_open(files: LocalFilesystem) -> None:
    files.put("deep/in/it/own.json", b"own")
    open_files = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert files.read("deep/in/it/own.json") == b"own"
        assert files.list("deep/in") == ["it"]
        assert not files.exists("deep/no/it/own.json")
        assert files.list("a/own.json") == []
        with pytest.raises(TopicError, match="planted is a link"):
            files.list("a/planted")
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_a_folder_that_is_looked_at_is_not_handed_to_other_programs(files: LocalFilesystem) -> None:
    folder = files._folder("a")
    assert not os.get_inheritable(folder)
    os.close(folder)


def test_an_empty_folder_behind_a_link_stays(files: LocalFilesystem, elsewhere: Path) -> None:
    files.delete_empty("a/planted/deep")
    files.delete_empty("a/planted")
    assert (elsewhere / "deep").is_dir()


def test_of_a_link_only_itself_is_deleted_and_moved(files: LocalFilesystem, elsewhere: Path) -> None:
    before = content(elsewhere)
    files.rename("a/planted", "trash/x")
    files.delete_tree("trash/x")
    files.delete("a/link.json")
    os.symlink(elsewhere, files.location("a/again"))
    files.delete_tree("a")
    assert files.list(".") == ["trash"]
    assert files.list("trash") == []
    assert content(elsewhere) == before


def test_what_is_put_takes_the_place_of_a_link(files: LocalFilesystem, elsewhere: Path) -> None:
    before = content(elsewhere)
    assert not files.put_if_absent("a/link.json", b"x")
    files.put("a/link.json", b"own")
    assert files.read("a/link.json") == b"own"
    assert content(elsewhere) == before


def test_the_root_itself_may_be_a_link(files: LocalFilesystem, tmp_path: Path) -> None:
    os.symlink(tmp_path / "root", tmp_path / "other")
    assert LocalFilesystem(tmp_path / "other").read("a/own.json") == b"own"


def test_rejects_a_pipe_at_once(files: LocalFilesystem) -> None:
    os.mkfifo(files.location("a/pipe.json"))
    reading = f"""
from airflow_samza.systems.filesystems.local import LocalFilesystem
for read in ("read", "open_input"):
    try:
        getattr(LocalFilesystem({files.root!r}), read)("a/pipe.json")
    except Exception as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", reading], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count(f"{files.root}/a/pipe.json is no regular file, and is not read.") == 2


def test_a_tree_with_pipes_sockets_and_links_is_deleted(files: LocalFilesystem, elsewhere: Path) -> None:
    os.mkfifo(files.location("a/pipe"))
    os.symlink("nowhere", files.location("a/dangling"))
    files.put("a/b/c/d", b"x")
    files.delete_tree("a")
    assert files.list(".") == []
    assert content(elsewhere)


def test_a_file_that_need_not_be_durable_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, synced = LocalFilesystem(tmp_path), list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    assert files.put_if_absent("manifest.json", b"{}", durable=False)
    assert not files.put_if_absent("manifest.json", b"other", durable=False)
    assert (files.read("manifest.json"), synced) == (b"{}", [])
    assert files.put_if_absent("commit.json", b"{}")
    assert len(synced) == 2  # the file, and its folder
