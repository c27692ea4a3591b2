"""The block of the page on Spark Connect reads a topic; the session is a stand-in, the data source is the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support.documentation_pages import executed

pytestmark = pytest.mark.extended


class Session:
    """A session that has one format, and reads with it in this process."""

    __module__ = "pyspark.sql.connect.session"  # by which a client of a server is known

    def __init__(self, root: Path) -> None:
        self.root = root
        self.builder = self.read = self.dataSource = self
        self.known: dict[str, Any] = {}
        self.options: dict[str, str] = {}
        self.sent: list[str] = []
        self.rows: list[dict[str, Any]] = []

    def remote(self, url: str) -> Session:
        assert url.startswith("sc://")
        return self

    def getOrCreate(self) -> Session:
        return self

    def addArtifacts(self, *paths: str, pyfile: bool) -> None:
        assert pyfile
        self.sent += paths

    def register(self, source: Any) -> None:
        self.known[source.name()] = source

    def format(self, name: str) -> Session:
        self.source = self.known[name]
        return self

    def option(self, key: str, value: str) -> Session:
        self.options[key] = value
        return self

    def load(self) -> None:
        assert self.options.pop("root") == "/data/samza"
        source = self.source({**self.options, "root": str(self.root)})
        assert source.schema() == "page string, n bigint"
        reader = source.reader(StructType([StructField("page", StringType()), StructField("n", LongType())]))
        self.rows = [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def test_the_block_reads_a_topic_after_it_has_sent_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    log.append("page-views", pa.table({"page": ["a", "b", "c"], "n": [1, 2, 3]}), key=["page"], partitions=2)
    session = Session(tmp_path)
    monkeypatch.setattr(SparkSession, "builder", session)
    executed("operate/spark-connect.md")
    assert sorted((row["page"], row["n"]) for row in session.rows) == [("a", 1), ("b", 2), ("c", 3)]
    assert [Path(path).suffix for path in session.sent] == [".zip"]
