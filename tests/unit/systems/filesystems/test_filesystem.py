"""Links by which a program that knows nothing of our filesystems fetches one file."""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.filesystem import link_to
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem

if TYPE_CHECKING:
    from demo.store_servers import S3Server


def test_a_link_into_a_bucket_is_of_one_file_and_shows_no_secret(s3: S3Server) -> None:
    options = {
        "endpoint": s3.endpoint,
        "access_key_id": "somebody",
        "secret_access_key": "hidden hidden",
        "region": "us-east-1",
    }
    files = open_filesystem(s3.url("links"), options)
    files.put("code/driver-1.jar", b"a program")
    link = link_to(files, "code/driver-1.jar", 60)
    assert "hidden" not in link
    with urllib.request.urlopen(link, timeout=30) as answer:
        assert answer.read() == b"a program"
    with pytest.raises(urllib.error.HTTPError) as rejected:
        urllib.request.urlopen(link_to(files, "code/none.jar", 60), timeout=30)
    rejected.value.close()


def test_a_link_to_hdfs_is_hadoops_own_or_one_of_http() -> None:
    path = "runs/a/run%1/driver.jar"
    assert (
        link_to(open_filesystem("hdfs://nn:8020/samza"), path, 60) == "hdfs://nn:8020/samza/runs/a/run%251/driver.jar"
    )
    link = link_to(open_filesystem("webhdfs://nn:9870/samza", {"user": "etl"}), path, 60)
    assert link == "http://nn:9870/webhdfs/v1/samza/runs/a/run%251/driver.jar?op=OPEN&user.name=etl"


def test_a_folder_of_this_machine_gives_no_links(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Spark's hosts cannot fetch a driver from the root"):
        link_to(LocalFilesystem(str(tmp_path)), "driver.jar", 60)
