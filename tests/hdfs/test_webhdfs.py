"""WebHDFS against a real NameNode and DataNode.

What they reject, what is lost on the way, and how much of a file is read.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import StorageFull, StorageUnavailable, TopicError
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.webhdfs.client import WebHdfsClient
from airflow_samza.systems.filesystems.webhdfs.filesystem import WebHdfsFilesystem, open_webhdfs

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

pytestmark = pytest.mark.hdfs


def test_a_user_without_the_right_is_named(cluster: Hdfs, place: str) -> None:
    open_webhdfs(f"{cluster.webhdfs}{place}").put("mine", b"x")
    with pytest.raises(TopicError, match=f"cannot write .*{place}/theirs: Permission denied: user=jo") as rejected:
        open_webhdfs(f"{cluster.webhdfs}{place}", {"user": "jo"}).put_if_absent("theirs", b"x")
    assert "the user 'jo'" in rejected.value.hint
    assert "HADOOP_USER_NAME" in rejected.value.hint


def test_safe_mode_is_waited_for_and_named_when_it_lasts(cluster: Hdfs, place: str) -> None:
    patient, hasty = (open_webhdfs(f"{cluster.webhdfs}{place}", patience=seconds) for seconds in (60.0, 0.5))
    cluster.admin("-safemode", "enter")
    try:
        with pytest.raises(StorageUnavailable, match=r"did not write .*/a: .* is in safe mode"):
            hasty.put_if_absent("a", b"x")
        written: list[bool] = []
        waiting = threading.Thread(target=lambda: written.append(patient.put_if_absent("b", b"x")))
        waiting.start()
    finally:
        cluster.admin("-safemode", "leave")
    waiting.join(timeout=60)
    assert written == [True]
    assert hasty.list(".") == ["b"]


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A NameNode of a pair that nobody has made the active one: so it is standby."""
    from demo.hdfs import Hdfs

    found = Hdfs(tmp_path_factory.mktemp("standby"))
    found.settings |= {
        "dfs.nameservices": "pair",
        "dfs.ha.namenodes.pair": "a,b",
        "dfs.ha.namenode.id": "a",
        "dfs.namenode.rpc-address.pair.a": f"127.0.0.1:{found.rpc_port}",
        "dfs.namenode.http-address.pair.a": f"127.0.0.1:{found.http_port}",
        "dfs.namenode.rpc-address.pair.b": "127.0.0.1:1",
        "dfs.namenode.http-address.pair.b": "127.0.0.1:2",
        "dfs.namenode.shared.edits.dir": f"file://{found.folder / 'shared'}",
    }
    found.prepare()
    shutil.copytree(found.folder / "name", found.folder / "shared")
    found.start_namenode()
    try:
        found.await_ready(datanodes=0)
        yield found
    finally:
        found.stop()


@pytest.mark.extended
def test_a_standby_namenode_passes_on_and_is_named_when_none_is_active(
    standby: Hdfs, cluster: Hdfs, place: str
) -> None:
    for ask in (WebHdfsFilesystem.read, WebHdfsFilesystem.size):
        with pytest.raises(StorageUnavailable, match="no other NameNode is active"):
            ask(open_webhdfs(f"{standby.webhdfs}{place}", patience=0.5), "a")
    both = open_webhdfs(f"{standby.webhdfs},{cluster.webhdfs.partition('//')[2]}{place}")
    assert both.put_if_absent("a", b"x")
    assert open_webhdfs(f"{cluster.webhdfs}{place}").read("a") == b"x"
    with pytest.raises(
        StorageUnavailable, match=f"standby is http://127.0.0.1:{standby.http_port}, and no other NameNode is active"
    ):
        open_webhdfs(f"{standby.webhdfs}{place}", patience=0.5).put_if_absent("a", b"x")


def test_a_quota_that_is_used_up_is_storage_that_is_full(cluster: Hdfs, place: str) -> None:
    files = open_webhdfs(f"{cluster.webhdfs}{place}")
    files.make_dirs("small")
    cluster.admin("-setQuota", "1", f"{place}/small")
    with pytest.raises(StorageFull, match=f"no room left to write .*{place}/small/a"):
        files.put_if_absent("small/a", b"x")


@contextmanager
def losing_answers(cluster: Hdfs, operation: str, *, carried_out: bool) -> Iterator[str]:
    """A NameNode's address whose first answer to an operation is lost, after it was carried out or instead of that."""
    lost: list[str] = []

    class Between(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fails = f"op={operation}" in self.path and not lost
            if fails:
                lost.append(self.path)
            if not fails or carried_out:
                answer = httpx.request(self.command, f"http://127.0.0.1:{cluster.http_port}{self.path}")
            if fails:
                self.close_connection = True
                return
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_PUT = do_DELETE = do_GET

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Between)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"webhdfs://127.0.0.1:{server.server_port}"
        assert lost, f"nothing asked for {operation}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("carried_out", [True, False])
@pytest.mark.parametrize("operation", ["CREATE", "RENAME"])
def test_who_loses_an_answer_still_knows_that_it_has_won(
    cluster: Hdfs, place: str, operation: str, carried_out: bool
) -> None:
    with losing_answers(cluster, operation, carried_out=carried_out) as address:
        assert open_webhdfs(f"{address}{place}").put_if_absent("a", b"mine")
    files = open_webhdfs(f"{cluster.webhdfs}{place}")
    assert files.read("a") == b"mine"
    assert not files.put_if_absent("a", b"theirs")


def test_who_loses_an_answer_and_the_race_knows_that_it_has_lost(
    cluster: Hdfs, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = open_webhdfs(f"{cluster.webhdfs}{place}")
    create = WebHdfsClient.create

    def create_too_late(self: WebHdfsClient, path: str, content: bytes, *, durable: bool, shown: str = "") -> None:
        create(self, path, content, durable=durable, shown=shown)
        if content == b"mine":
            others.put_if_absent("a", b"theirs")

    monkeypatch.setattr(WebHdfsClient, "create", create_too_late)
    with losing_answers(cluster, "RENAME", carried_out=False) as address:
        assert not open_webhdfs(f"{address}{place}").put_if_absent("a", b"mine")
    assert others.read("a") == b"theirs"
    others.delete("a")
    others.delete_tree(".")  # nothing half written keeps it from going
    assert not others.exists(".")


def test_a_parquet_file_is_read_by_what_is_asked_for(
    cluster: Hdfs, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = open_location(f"{cluster.webhdfs}{place}/wide.parquet")
    table = pa.table({f"c{number}": pa.array(range(number, number + 500_000)) for number in range(10)})
    pq.write_table(table, there.path, filesystem=there.filesystem, compression="none", use_dictionary=False)
    read: list[int] = []
    original = WebHdfsClient.read

    def counted(self: WebHdfsClient, path: str, offset: int = 0, length: int | None = None) -> bytes:
        data = original(self, path, offset, length)
        read.append(len(data))
        return data

    monkeypatch.setattr(WebHdfsClient, "read", counted)
    assert pq.read_table(there.path, filesystem=there.filesystem, columns=["c3"]).equals(table.select(["c3"]))
    assert sum(read) < 0.25 * there.filesystem.get_file_info(there.path).size


def test_a_file_of_many_megabytes_comes_back_as_it_went(cluster: Hdfs, place: str) -> None:
    files, block = open_webhdfs(f"{cluster.webhdfs}{place}"), bytes(range(256)) * 4096
    with files.open_output("large") as file:
        for number in range(40):  # more than is held in memory
            file.write(bytes([number]) + block)
    source = files.open_input("large")
    source.seek(39 * (len(block) + 1))
    assert source.read() == bytes([39]) + block
    assert files.size("large") == 40 * (len(block) + 1)


def test_times_of_change_are_those_of_the_clock(cluster: Hdfs, place: str) -> None:
    files = open_webhdfs(f"{cluster.webhdfs}{place}")
    files.put("a", b"x")
    assert abs(files.modified("a") - time.time()) < 60
