"""The requests that the demo reads from the log of its store."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.object_store.filesystem import open_object_store
from demo.object_stores import requests_in
from demo.store_servers import S3Server

pytestmark = pytest.mark.extended


def test_the_log_of_a_store_has_the_requests_that_its_clients_count_also_those_without_success(
    s3: S3Server, tmp_path: Path
) -> None:
    files = open_object_store(s3.url(f"{tmp_path.parent.name}/{tmp_path.name}"))
    log = s3.folder / "log"
    asked, before = requests.snapshot(), requests_in(log.read_text())
    assert files.put_if_absent("a/b.json", b"x" * 100)
    assert not files.put_if_absent("a/b.json", b"y")
    assert files.read("a/b.json") == b"x" * 100
    assert files.client.read_range(files.key("a/b.json"), 0, 10) == b"x" * 10
    assert not files.exists("nothing")
    assert files.list("a") == ["b.json"]
    files.delete("a/b.json")
    assert dict(requests_in(log.read_text()) - before) == requests.since(asked)
