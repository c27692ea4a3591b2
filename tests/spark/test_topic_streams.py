"""Topics as streams of a real Spark: checkpoints, limits, triggers, and the end of a section."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.spark.datasource import await_end, register
from airflow_samza.spark.sessions.session_start import start_session
from airflow_samza.systems.log.system import LogSystem
from tests.support.written_sections import SHARED, shared_log, write_epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_session("test of streams of topics", "local[2]", {})
    register(session)
    yield session
    session.stop()


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    return shared_log(tmp_path / "root")


class Sink:
    """A folder of Parquet files that a query of the topic writes, with its checkpoint."""

    def __init__(self, spark: SparkSession, log: LogSystem, folder: Path, **options: Any) -> None:
        self._spark = spark
        self._folder = folder
        self._options = {"root": log.filesystem.root, "topic": SHARED.name, "metadata": "true", **options}

    def start(self, **trigger: Any) -> StreamingQuery:
        stream = self._spark.readStream.format("samza").options(**self._options).load()
        return (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(**trigger)
            .start(str(self._folder / "rows"))
        )

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, self._spark.read.parquet(str(self._folder / "rows")).collect()))

    def batch_rows(self) -> list[tuple[Any, ...]]:
        options = {
            name: value for name, value in self._options.items() if name in ("root", "topic", "metadata", "section")
        }
        return sorted(map(tuple, self._spark.read.format("samza").options(**options).load().collect()))


@pytest.mark.extended
def test_a_query_goes_on_from_its_checkpoint_and_has_each_row_of_the_batch_source_once(
    spark: SparkSession, log: LogSystem, tmp_path: Path
) -> None:
    sink = Sink(spark, log, tmp_path, maxOffsetsPerTrigger="7")
    for epoch in range(3):
        write_epoch(log, "monday", epoch, range(epoch * 10, epoch * 10 + 10))
    first = sink.start(availableNow=True)
    first.awaitTermination()
    assert sink.rows() == sink.batch_rows()
    sizes = [progress["numInputRows"] for progress in first.recentProgress]
    assert max(sizes) <= 7
    assert sum(sizes) == 30
    second = sink.start(processingTime="0 seconds")
    write_epoch(log, "tuesday", 0, range(100, 105))
    second.processAllAvailable()
    second.stop()
    write_epoch(log, "monday", 3, range(30, 45), ends=True)
    sink.start(availableNow=True).awaitTermination()
    assert sink.rows() == sink.batch_rows()
    assert len(sink.rows()) == 50


def test_a_query_of_a_section_ends_with_the_run_that_writes_it(
    spark: SparkSession, log: LogSystem, tmp_path: Path
) -> None:
    sink = Sink(spark, log, tmp_path, section="monday")
    query = sink.start(processingTime="0 seconds")
    for epoch in range(4):
        write_epoch(log, "monday", epoch, range(epoch * 10, epoch * 10 + 10))
        write_epoch(log, "tuesday", epoch, range(1000, 1003), ends=epoch == 1)
    assert not await_end(query, timeout=3)
    write_epoch(log, "monday", 4, range(40, 42), ends=True)
    assert await_end(query, timeout=120)
    assert not query.isActive
    assert sorted(row[1] for row in sink.rows()) == list(range(42))
    assert sink.rows() == sink.batch_rows()
    again = sink.start(processingTime="0 seconds")
    assert await_end(again, timeout=120)
    assert sink.rows() == sink.batch_rows()


def test_a_query_fails_with_the_run_that_has_replaced_what_it_has_read(
    spark: SparkSession, log: LogSystem, tmp_path: Path
) -> None:
    sink = Sink(spark, log, tmp_path)
    write_epoch(log, "monday", 0, range(10), ends=True)
    sink.start(availableNow=True).awaitTermination()
    write_epoch(log, "monday", 0, range(10), generation="1.2", ends=True)
    with pytest.raises(Exception, match=r"The run 'views/monday' has replaced messages of the topic 'shared'"):
        sink.start(availableNow=True).awaitTermination()


def test_offsets_in_the_progress_are_json_by_partition(spark: SparkSession, log: LogSystem, tmp_path: Path) -> None:
    write_epoch(log, "monday", 0, range(10))
    query = Sink(spark, log, tmp_path).start(availableNow=True)
    query.awaitTermination()
    progress: Any = query.lastProgress
    end = progress["sources"][0]["endOffset"]
    read = json.loads(end) if isinstance(end, str) else end
    heads = log.metadata([SHARED])["shared"].head
    assert {int(partition): offset for partition, offset in read["offsets"].items()} == dict(enumerate(heads))
