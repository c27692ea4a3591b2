"""Root and Arrow's filesystem over any client of a remote storage: its calls are all that they need."""

from __future__ import annotations

import pyarrow.fs as pafs
import pytest

from airflow_samza.systems.filesystems.arrow_handler import RemoteHandler
from airflow_samza.systems.filesystems.remote import RemoteFilesystem
from tests.support.dictionary_client import DictionaryClient


def test_each_call_of_a_root_is_one_of_its_client() -> None:
    client = DictionaryClient()
    files = RemoteFilesystem(client, "/root/")
    assert (files.root, files.location("a/b")) == ("dictionary://test/root", "dictionary://test/root/a/b")
    files.put_if_absent("a", b"x")
    with files.open_output("b") as file:
        file.write(b"y")
    files.put("c", b"z")
    files.rename("c", "d/c")
    assert (files.size("a"), files.exists("c"), files.read("b"), files.list(".")) == (1, False, b"y", ["a", "b", "d"])
    files.delete_empty("d")
    files.delete_tree("d")
    assert list(client.files) == ["root/a", "root/b"]
    expected = ["put_new", "put_new", "put", "move", "status", "status", "read", "list", "delete"]
    assert client.asked == expected


def test_arrow_sees_files_folders_and_what_is_missing() -> None:
    client = DictionaryClient()
    files = pafs.PyFileSystem(RemoteHandler(client))
    for path in ("/in/a.txt", "/in/b/c/d.txt"):
        with files.open_output_stream(path) as sink:
            sink.write(b"abc")
    assert sorted(client.files) == ["in/a.txt", "in/b/c/d.txt"]
    kind = pafs.FileType
    infos = files.get_file_info(["/", "/in", "/in/b", "/in/a.txt", "/z"])
    assert [info.type for info in infos] == [kind.Directory, kind.Directory, kind.Directory, kind.File, kind.NotFound]
    assert infos[3].mtime_ns == client.files["in/a.txt"][1]
    below = files.get_file_info(pafs.FileSelector("/in", recursive=True))
    assert [info.path for info in below] == ["/in/b", "/in/b/c", "/in/a.txt", "/in/b/c/d.txt"]
    assert [info.path for info in files.get_file_info(pafs.FileSelector("/in"))] == ["/in/a.txt", "/in/b"]
    assert files.get_file_info(pafs.FileSelector("/z", allow_not_found=True)) == []
    with pytest.raises(FileNotFoundError):
        files.get_file_info(pafs.FileSelector("/z"))
    with pytest.raises(NotADirectoryError):
        files.get_file_info(pafs.FileSelector("/in/a.txt"))
    files.move("/in/a.txt", "/out/a.txt")
    assert files.open_input_file("/out/a.txt").read() == b"abc"
    for missing in (files.delete_file, files.open_input_file):
        with pytest.raises(FileNotFoundError):
            missing("/in/a.txt")
    files.copy_file("/out/a.txt", "/out/b.txt")
    files.delete_dir("/in")
    files.delete_file("/out/a.txt")
    assert {key: data for key, (data, _) in client.files.items()} == {"out/b.txt": b"abc"}


def test_a_whole_storage_is_never_emptied_and_no_file_grows() -> None:
    handler = RemoteHandler(DictionaryClient())
    with pytest.raises(NotImplementedError, match="dictionary://test is not emptied"):
        handler.delete_root_dir_contents()
    with pytest.raises(NotImplementedError, match="files of dictionary://test are written whole"):
        handler.open_append_stream("/a", None)
