"""Addresses in the metadata of tables: what is allowed is opened below the folders, whoever opens it."""

from __future__ import annotations

import os
import posixpath
import random
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_samza.systems.filesystems.addresses import Address, Folders
from airflow_samza.systems.iceberg.storage import TableStorage
from tests.support.budgets import share


@pytest.mark.parametrize(
    ("address", "folder", "expected"),
    [
        ("s3a://b/t/data/x", "s3://b/t", True),
        ("S3://b/t/data/x", "s3a://b/t/", True),
        ("s3://b/t", "s3://b/t", True),
        ("s3://b/t2/x", "s3://b/t", False),
        ("s3://b//t/x", "s3://b/t", False),
        ("s3://c/t/x", "s3://b/t", False),
        ("s3://me@b/t/x", "s3://b/t", False),
        ("s3://b?x/t/x", "s3://b/t", False),
        ("s3:///b/t/x", "s3://b/t", False),
        ("s3://b/t/%2e%2e/x", "s3://b/t", True),
        ("s3://b/t/../x", "s3://b/t", False),
        ("s3://b/t/..", "s3://b/t", False),
        ("s3://b/t/.\t./x", "s3://b/t", False),
        ("gs://b/t/x", "s3://b/t", False),
        ("abfs://c@a.dfs.core.windows.net/t/x", "abfss://c@a.dfs.core.windows.net/t", True),
        ("abfss://c@evil.example/t/x", "abfss://c@a.dfs.core.windows.net/t", False),
        ("hdfs://n:8020/t/x", "hdfs://n:8020/t", True),
        ("hdfs://other:8020/t/x", "hdfs://n:8020/t", False),
        ("/lake/t/x", "file:///lake/t/", True),
        ("file:/lake/t/x", "/lake/t", True),
        ("file://host/lake/t/x", "/lake/t", False),
        ("s3://b/x", "s3://b", True),
        ("file:///etc/passwd", "s3://b", False),
        ("ftp://b/x", "ftp://b", False),
        ("http://b/x", "http://b/", False),
        ("a=2026-01-01 05:00:00/x", "", True),
        ("a=%2e%2e/x", "", True),
        ("a/../x", "", False),
        ("..", "", False),
        ("/x", "", False),
        ("file:///x", "", False),
        ("etc/x", "lake/t", False),
        ("lake/t/x", "lake/t", True),
    ],
)
def test_an_address_lies_below_a_folder_of_its_own_storage(address: str, folder: str, expected: bool) -> None:
    assert Folders([folder]).have(address) is expected
    assert Folders(["gs://other", folder]).have(address) is expected
    assert not Folders([]).have(address)


PARTS = (
    "",
    "..",
    ".",
    "%2e%2e",
    "%2F",
    "t",
    "t2",
    "data",
    "x.parquet",
    "out",
    "in",
    ".\t.",
    "\n..",
    "..\0",
    "?",
    "#",
    " ",
)
BEGINNINGS = (
    "file://",
    "file:",
    "FILE://",
    "",
    "file://localhost",
    "file:///..",
    "s3://b",
    "s3a://b",
    "s3://c",
    "S3://b",
)


@pytest.mark.random
def test_what_is_allowed_is_opened_below_the_folder(tmp_path: Path) -> None:
    table, chance = tmp_path / "t", random.Random(47)
    for folder in (table / "data", tmp_path / "t2", tmp_path / "out"):
        folder.mkdir(parents=True)
    (table / "out").symlink_to(tmp_path / "out")
    (table / "in").symlink_to(table / "data")
    (tmp_path / "linked").symlink_to(table)
    allowed = 0
    for _ in range(share(40_000)):
        start = chance.choice(BEGINNINGS)
        local = not start.lower().startswith("s3")
        top = chance.choice((str(table), f"{tmp_path}/linked", str(tmp_path))) if local else chance.choice(("/t", ""))
        address = "/".join([f"{start}{top}", *chance.choices(PARTS, k=chance.randrange(5))])
        if local:
            if Folders([f"file://{table}"]).have(address):
                allowed += 1
                theirs = PyArrowFileIO.parse_location(address)[2]
                for opened in (TableStorage({}).at(address).path, theirs):
                    real = os.path.realpath(opened)
                    assert real == str(table) or real.startswith(f"{table}/"), address
        elif Folders(["s3://b/t"]).have(address):
            allowed += 1
            for opened in (PyArrowFileIO.parse_location(address)[2], "b" + Address.of(address).path):
                assert f"{opened}/".startswith("b/t/"), address
                assert f"{posixpath.normpath(opened)}/".startswith("b/t/"), address
    assert allowed > 100
