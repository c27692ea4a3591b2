"""Topics in notebooks and other Spark jobs: the format samza."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.spark.datasource import register
from airflow_samza.spark.sessions.session_start import start_session
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    session = start_session("test of the format samza", "local[2]", {})
    register(session)
    yield session
    session.stop()


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    import pyarrow as pa

    system = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    rows = pa.table({"word": ["a", "b", "c", "d"], "n": [1, 2, 3, 4]})
    system.append("words", rows, key=["word"], partitions=3)
    end = EndOfStreamMessage("task-0", 1, None, "words")
    system.publish(StreamSpec("words"), Publication("test", "1.1", 0, {}, (end,)))
    return system


def read(spark: SparkSession, log: LogSystem, topic: str = "words", **options: Any) -> Any:
    return spark.read.format("samza").options(root=log.filesystem.root, topic=topic, **options).load()


def test_reads_the_user_messages_of_every_partition(spark: SparkSession, log: LogSystem) -> None:
    frame = read(spark, log)
    assert frame.columns == ["word", "n"]
    assert sorted(map(tuple, frame.collect())) == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    assert [row.n for row in frame.where("word = 'c'").select("n").collect()] == [3]


def test_shows_partition_and_offset_when_asked(spark: SparkSession, log: LogSystem) -> None:
    rows = read(spark, log, metadata="true").collect()
    assert len({(row._partition, row._offset) for row in rows}) == 4
    first = json.dumps({str(partition): 1 for partition in range(3)})
    assert all(row._offset >= 1 for row in read(spark, log, metadata="true", startingOffsets=first).collect())
    assert read(spark, log, endingOffsets=json.dumps({"0": 0, "1": 0, "2": 0})).count() == 0


def test_appends_to_a_topic_in_one_commit(spark: SparkSession, log: LogSystem) -> None:
    frame = spark.range(0, 100, 1, 4).selectExpr("cast(id % 7 as string) AS word", "id AS n")
    frame.write.format("samza").options(root=log.filesystem.root, topic="new", key="word", partitions="3").mode(
        "append"
    ).save()
    assert sorted(row.n for row in read(spark, log, "new").collect()) == list(range(100))
    facts = read(spark, log, "new", metadata="true").select("word", "_partition").distinct().count()
    assert facts == 7  # every key lies in one partition


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"topic": "nothing"}, "There is no topic 'nothing'"),
        ({"startingOffsets": "soon"}, "The option startingOffsets is 'soon'"),
        ({"endingOffsets": '{"9": 1}'}, "names partition 9, and the topic has 3"),
    ],
)
def test_says_what_is_wrong_with_the_options(
    spark: SparkSession, log: LogSystem, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(Exception, match=sentence):
        read(spark, log, **{"topic": "words", **options}).collect()


def test_a_failing_write_leaves_nothing(spark: SparkSession, log: LogSystem) -> None:
    frame = spark.range(0, 10, 1, 2).selectExpr("cast(id as string) AS word", "id / (id - 9) AS n")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        frame.write.format("samza").options(root=log.filesystem.root, topic="bad", key="word", partitions="2").mode(
            "append"
        ).save()
    assert log.metadata([StreamSpec("bad")])["bad"].head == (0, 0)
