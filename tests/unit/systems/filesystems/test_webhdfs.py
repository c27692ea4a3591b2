"""Addresses of HDFS, who asks it, and what comes when it does not answer, as far as no HDFS is needed."""

from __future__ import annotations

import base64
import gc
import io
import json
import logging
import socket
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, StorageUnavailable, TopicError
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.contents import READ_AT_LEAST, RangeReader
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.webhdfs.access import Access, find_access
from airflow_samza.systems.filesystems.webhdfs.address import parse_address
from airflow_samza.systems.filesystems.webhdfs.client import WebHdfsClient
from airflow_samza.systems.filesystems.webhdfs.filesystem import open_webhdfs

HA = {
    "dfs.nameservices": "prod,other",
    "dfs.ha.namenodes.prod": "a,b",
    "dfs.namenode.http-address.prod.a": "nn1:50070",
    "dfs.namenode.rpc-address.prod.b": "nn2:8020",
}
SINGLE = {
    "fs.defaultFS": "hdfs://nn:8020",
    "dfs.namenode.http-address": "0.0.0.0:50070",
    "dfs.namenode.https-address": "nn:50470",
}


def conf_dir(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    entries = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    (folder / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    return {"HADOOP_CONF_DIR": str(folder)}


def test_a_container_of_yarn_finds_the_settings_that_spark_has_brought(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought = tmp_path / "__spark_conf__" / "__hadoop_conf__"
    brought.mkdir(parents=True)
    conf_dir(brought, SINGLE)
    monkeypatch.chdir(tmp_path)
    assert parse_address("hdfs://nn:8020/a", {})[0].namenodes == ("http://nn:50070",)
    (tmp_path / "own").mkdir()
    own = conf_dir(tmp_path / "own", SINGLE | {"dfs.namenode.http-address": "nn:1"})
    assert parse_address("hdfs://nn:8020/a", own)[0].namenodes == ("http://nn:1",)


@pytest.mark.parametrize(
    ("settings", "url", "namenodes"),
    [
        ({}, "webhdfs://nn:9870/a", ["http://nn:9870"]),
        ({}, "webhdfs://nn/a", ["http://nn:9870"]),
        ({}, "swebhdfs://nn/a", ["https://nn:9871"]),
        ({}, "webhdfs://nn1:1,nn2:2/a", ["http://nn1:1", "http://nn2:2"]),
        ({}, "webhdfs://[::1]:9870/a", ["http://[::1]:9870"]),
        ({}, "hdfs://nn:8020/a", ["http://nn:9870"]),
        (SINGLE, "hdfs://nn:8020/a", ["http://nn:50070"]),
        (SINGLE, "hdfs:///a", ["http://nn:50070"]),
        (SINGLE, "hdfs://elsewhere:8020/a", ["http://elsewhere:9870"]),
        (SINGLE | {"dfs.http.policy": "HTTPS_ONLY"}, "hdfs://nn:8020/a", ["https://nn:50470"]),
        (HA, "hdfs://prod/a", ["http://nn1:50070", "http://nn2:9870"]),
        (HA, "webhdfs://prod/a", ["http://nn1:50070", "http://nn2:9870"]),
    ],
)
def test_an_address_is_looked_up_where_hadoop_looks(
    tmp_path: Path, settings: dict[str, str], url: str, namenodes: list[str]
) -> None:
    address, path = parse_address(url, conf_dir(tmp_path, settings) if settings else {})
    assert (list(address.namenodes), path) == (namenodes, "/a")


def test_an_address_that_is_not_known_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="names no NameNode"):
        parse_address("hdfs:///a", {})
    with pytest.raises(ConfigError, match="nameservice 'other', and no address"):
        parse_address("hdfs://other/a", conf_dir(tmp_path, HA))
    (tmp_path / "core-site.xml").write_text("<configuration>")
    with pytest.raises(ConfigError, match=r"core-site\.xml cannot be read"):
        parse_address("hdfs:///a", {"HADOOP_CONF_DIR": str(tmp_path)})


def test_a_user_in_a_url_is_rejected_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="names a user") as rejected:
        parse_address("webhdfs://jo:secret@nn:9870/a", {})
    assert "secret" not in str(rejected.value)


def test_who_asks_is_found_where_hadoop_finds_it(tmp_path: Path) -> None:
    assert find_access({"user": "jo"}, {"HADOOP_USER_NAME": "al"}) == Access("jo")
    assert find_access({}, {"HADOOP_USER_NAME": "al"}) == Access("al")
    assert find_access({"user": "jo", "token": "t", "ssl_verify": "false"}, {}) == Access("jo", "t", False)
    tokens = tmp_path / "tokens"
    mine = b"\x03abc\x02pw" + b"\x15HDFS_DELEGATION_TOKEN" + b"\x07nn:8020"
    other = b"\x01x\x01y\x04YARN\x00"
    tokens.write_bytes(b"HDTS\x00\x02" + b"\x01r" + other + b"\x01a" + mine)
    found = find_access({}, {"HADOOP_TOKEN_FILE_LOCATION": str(tokens), "HADOOP_USER_NAME": "al"})
    assert base64.urlsafe_b64decode(found.token + "==") == mine
    assert found.parameters == {"delegation": found.token}
    assert found.token not in repr(found)


@pytest.mark.parametrize("content", [b"", b"HDTS\x00\x01", b"HDTS\x00\x01\x01a\x7fabc", b"HDTS\x01\x00", b"{}"])
def test_a_damaged_file_of_tokens_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokens").write_bytes(content)
    with pytest.raises(ConfigError, match=r"The file of tokens .*/tokens cannot be read"):
        find_access({}, {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")})


def test_a_missing_file_of_tokens_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which does not exist"):
        find_access({}, {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "tokens")})


def test_an_option_that_hdfs_does_not_have_is_named() -> None:
    with pytest.raises(ConfigError, match="no storage option 'password'"):
        open_location("webhdfs://nn/a", {"password": "x"})


def test_a_file_is_read_in_ranges_and_no_byte_twice_in_a_row() -> None:
    data = bytes(range(256)) * 4 * READ_AT_LEAST.__floordiv__(256)
    asked: list[tuple[int, int]] = []

    def fetch(offset: int, length: int) -> bytes:
        asked.append((offset, length))
        return data[offset : offset + length]

    file = RangeReader(len(data), fetch)
    file.seek(-10, io.SEEK_END)  # as readers of footers do
    assert file.read(10) == data[-10:]
    file.seek(-1000, io.SEEK_END)
    assert file.read(990) == data[-1000:-10]
    assert asked == [(len(data) - READ_AT_LEAST, READ_AT_LEAST)]
    file.seek(100)
    assert (file.read(50), file.read(50)) == (data[100:150], data[150:200])
    assert asked[1:] == [(100, READ_AT_LEAST)]
    file.seek(0)
    assert file.readall() == data
    assert file.read(1) == b""


class _Answers(BaseHTTPRequestHandler):
    """Gives every request the same answer."""

    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_PUT = do_DELETE = do_GET

    def log_message(self, *arguments: object) -> None:
        pass


@contextmanager
def namenode(status: int, body: object) -> Iterator[str]:
    handler = type(
        "Handler",
        (_Answers,),
        {"status": status, "body": body if isinstance(body, bytes) else json.dumps(body).encode()},
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def rejection(kind: str, message: str) -> dict[str, dict[str, str]]:
    return {"RemoteException": {"exception": kind, "message": message}}


def nowhere() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def test_a_namenode_that_is_down_is_named() -> None:
    host = nowhere()
    with pytest.raises(
        StorageUnavailable, match=f"did not read webhdfs://{host}/r/x: the NameNode http://{host} does not answer"
    ):
        open_webhdfs(f"webhdfs://{host}/r", patience=0.2).read("x")
    assert StorageUnavailable.retryable


def test_a_client_that_nobody_has_any_more_closes_its_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Answers, "protocol_version", "HTTP/1.1")  # which leaves connections open
    found = {"FileStatus": {"pathSuffix": "", "type": "FILE", "length": 3, "modificationTime": 5000}}
    with namenode(200, found) as active, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        address, _ = parse_address(f"webhdfs://{active}/r", {})
        client = WebHdfsClient(address, find_access({}))
        assert client.status("/r/x") is not None
        del client
        gc.collect()
    assert [str(each.message) for each in warned if issubclass(each.category, ResourceWarning)] == []


@pytest.mark.extended
def test_standby_namenodes_pass_a_request_on_and_are_named_when_none_is_active() -> None:
    standby = rejection("StandbyException", "Operation category READ is not supported in state standby")
    found = {"FileStatus": {"pathSuffix": "", "type": "FILE", "length": 3, "modificationTime": 5000}}
    with namenode(403, standby) as first, namenode(403, standby) as second, namenode(200, found) as active:
        assert open_webhdfs(f"webhdfs://{first},{nowhere()},{active}/r", patience=0.2).size("x") == 3
        with pytest.raises(
            StorageUnavailable, match=f"standby is http://{first} and http://{second}, and no other NameNode is active"
        ):
            open_webhdfs(f"webhdfs://{first},{second}/r", patience=0.2).size("x")


@pytest.mark.extended
def test_a_datanode_that_a_standby_has_named_is_left_for_the_next_namenode() -> None:
    rejected = namenode(403, rejection("StandbyException", "not supported in state standby"))
    with rejected as datanode, namenode(200, {"Location": f"http://{datanode}/x?op=CREATE"}) as standby:
        with pytest.raises(
            StorageUnavailable, match=f"did not write .*/r/x: standby is http://{standby}, and no other"
        ):
            open_webhdfs(f"webhdfs://{standby}/r", patience=0.2).put("x", b"1")
        with namenode(200, b"{}") as active, pytest.raises(KeyError):  # it has been asked: what it answers is no place
            open_webhdfs(f"webhdfs://{standby},{active}/r", patience=1.0).put("x", b"1")


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (
            403,
            rejection("SafeModeException", "Cannot create /r/x. Name node is in safe mode.\nMore."),
            StorageUnavailable,
            "is in safe mode",
        ),
        (403, rejection("RetriableException", "NameNode still not started"), StorageUnavailable, "still not started"),
        (
            403,
            rejection("DSQuotaExceededException", "The DiskSpace quota of /r is exceeded"),
            TopicError,
            "no room left to read",
        ),
        (
            403,
            rejection("AccessControlException", "Permission denied: user=jo"),
            TopicError,
            "cannot read .*: Permission denied: user=jo",
        ),
        (401, b"<html>Authentication required</html>", TopicError, "cannot read .*: HTTP status 401"),
        (502, b"<html>Bad gateway</html>", StorageUnavailable, "HTTP status 502"),
        (404, b"<html>Not found</html>", TopicError, "HTTP status 404"),
    ],
)
@pytest.mark.few(1)
def test_rejections_say_path_and_reason(status: int, body: object, kind: type[TopicError], said: str) -> None:
    with namenode(status, body) as host, pytest.raises(kind, match=said) as rejected:
        open_webhdfs(f"webhdfs://{host}/r", {"token": "hush"}, patience=0.2).size("x")
    assert f"webhdfs://{host}/r/x" in rejected.value.sentence
    assert rejected.value.hint
    assert "hush" not in str(rejected.value) + str(rejected.value.__cause__) + repr(rejected.value.facts)


def test_no_log_shows_a_token(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="httpx")
    monkeypatch.setattr(logging.getLogger("httpx"), "disabled", False)  # whatever Airflow's settings have made of it
    logging.getLogger("httpx").info("HTTP Request: %s", "elsewhere")
    with namenode(200, b"{}") as host, pytest.raises(KeyError):
        open_webhdfs(f"webhdfs://{host}/r", {"token": "hush"}).size("x")
    assert "elsewhere" in caplog.text
    assert "hush" not in caplog.text


def test_a_root_on_hdfs_is_none_of_this_machines_folders() -> None:
    files = open_filesystem("webhdfs://nn:9870/samza/")
    assert files.root == "webhdfs://nn:9870/samza"
    assert files.location("a/b") == "webhdfs://nn:9870/samza/a/b"
    assert files.local_path("a/b") is None
