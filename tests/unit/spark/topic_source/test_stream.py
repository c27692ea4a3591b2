"""Topics as streams of Spark, driven as Spark drives a reader: offsets as JSON, new readers, batches planned again."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.spark.datasource import SamzaReader
from airflow_samza.spark.topic_source.stream import SamzaStreamReader
from airflow_samza.systems.log.maintenance import expire
from airflow_samza.systems.log.system import LogSystem
from tests.support.budgets import share
from tests.support.written_sections import SHARED, shared_log, write_epoch

COLUMNS = ("word", "n", "_partition", "_offset")


class Query:
    """A streaming query: what Spark calls, and the rows that it has got, batch by batch."""

    def __init__(self, log: LogSystem, **options: str) -> None:
        self._options = {"root": log.filesystem.root, "topic": SHARED.name, **options}
        self.batches: list[list[tuple[Any, ...]]] = []
        self._ranges: list[tuple[str, str]] = []
        self.start()

    def start(self) -> None:
        """Start it, for the first time or from its checkpoint."""
        self._reader = SamzaStreamReader(self._options, COLUMNS)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for batch in self.batches for row in batch)

    @property
    def offset(self) -> dict[str, Any]:
        return json.loads(self._ranges[-1][1]) if self._ranges else self._reader.initialOffset()

    def trigger(self, all_of_it: bool = False) -> bool:
        """Run a batch; return whether there was one."""
        start = json.dumps(self.offset)
        limit = ReadAllAvailable() if all_of_it else self._reader.getDefaultReadLimit()
        end = json.dumps(self._reader.latestOffset(json.loads(start), limit))
        if end == start:
            return False
        self.batches.append(self._batch(start, end))
        self._ranges.append((start, end))
        return True

    def again(self) -> list[tuple[Any, ...]]:
        """Return the rows of the last batch, planned again as after a restart before its commit."""
        return self._batch(*self._ranges[-1])

    def available_now(self) -> None:
        self._reader.prepareForTriggerAvailableNow()
        while self.trigger():
            pass

    def _batch(self, start: str, end: str) -> list[tuple[Any, ...]]:
        pieces = self._reader.partitions(json.loads(start), json.loads(end))
        return rows_of(self._reader, pieces)


def rows_of(reader: Any, pieces: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for piece in pieces for batch in reader.read(piece) for row in batch.to_pylist())


def batch_rows(log: LogSystem, **options: str) -> list[tuple[Any, ...]]:
    reader = SamzaReader({"root": log.filesystem.root, "topic": SHARED.name, **options}, COLUMNS)
    return rows_of(reader, reader.partitions())


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(200)))
def test_a_stream_gives_each_row_once_as_the_batch_source_has_them(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    log = shared_log(tmp_path)
    section = chance.choice([None, "monday"])
    most = chance.choice([None, 1, 3, 10])
    named = {} if section is None else {"section": section}
    limited = {} if most is None else {"maxOffsetsPerTrigger": str(most)}
    query = Query(log, **named, **limited)
    epochs = {"monday": 0, "tuesday": 0}
    sizes: list[int] = []
    for _ in range(chance.randrange(4, 12)):
        act = chance.choice(["write", "write", "write", "trigger", "restart", "again", "available"])
        if act == "write":
            run = chance.choice(list(epochs))
            write_epoch(log, run, epochs[run], range(chance.randrange(5)), ends=chance.random() < 0.1)
            epochs[run] += 1
        elif act == "restart":
            query.start()
        elif act == "again" and query.batches:
            assert query.again() == query.batches[-1]
        elif act == "available":
            before = len(query.batches)
            query.available_now()
            sizes += map(len, query.batches[before:])
            query.start()  # the next query has another end
            assert query.rows == batch_rows(log, **named)
        else:
            query.trigger()
    query.start()
    while query.trigger():
        pass
    assert query.rows == batch_rows(log, **named)
    assert most is None or all(len(batch) <= most for batch in query.batches)


def test_a_query_without_limit_takes_all_and_one_with_a_limit_takes_all_when_told(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(50))
    query = Query(log, maxOffsetsPerTrigger="8")
    assert query._reader.getDefaultReadLimit() == ReadMaxRows(8)
    assert query.trigger()
    assert len(query.batches[0]) == 8
    assert query.trigger(all_of_it=True)
    assert len(query.batches) == 2
    assert query.rows == batch_rows(log)


def test_what_comes_after_the_beginning_of_an_available_now_query_waits_for_the_next(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(5))
    query = Query(log)
    query._reader.prepareForTriggerAvailableNow()
    write_epoch(log, "monday", 1, range(5, 9))
    query.trigger()
    assert not query.trigger()
    assert len(query.rows) == 5


def test_a_section_says_when_it_has_ended_and_rows_of_others_are_not_in_it(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "tuesday", 0, range(100, 103), ends=True)
    query = Query(log, section="monday")
    assert not query.trigger()
    write_epoch(log, "monday", 0, range(4))
    assert query.trigger()
    assert not query.offset["ended"]
    write_epoch(log, "monday", 1, range(4, 6), ends=True)
    write_epoch(log, "tuesday", 1, range(103, 105))
    assert query.trigger()
    assert query.offset["ended"]
    assert [row[1] for row in sorted(query.rows, key=lambda row: row[1])] == list(range(6))
    write_epoch(log, "tuesday", 2, range(105, 107))
    assert not query.trigger()


@pytest.mark.parametrize("start", ["earliest", "latest", "offsets"])
def test_a_stream_starts_where_it_is_told(tmp_path: Path, start: str) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(20))
    given = json.dumps({"0": 2, "1": 1}) if start == "offsets" else start
    query = Query(log, startingOffsets=given)
    write_epoch(log, "monday", 1, range(20, 30))
    query.trigger()
    if start == "latest":
        assert sorted(row[1] for row in query.rows) == list(range(20, 30))
    else:
        same = {"startingOffsets": given} if start == "offsets" else {}
        assert query.rows == batch_rows(log, **same)


def test_a_stream_says_when_a_run_has_replaced_what_it_has_read(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(10), ends=True)
    query, tolerant = Query(log), Query(log, failOnReplaced="false")
    query.trigger()
    tolerant.trigger()
    write_epoch(log, "monday", 0, range(10), generation="1.2", ends=True)
    query.start()
    with pytest.raises(TopicError, match=r"The run 'views/monday' has replaced messages .*'shared'.* read them twice"):
        query.trigger()
    tolerant.trigger()
    assert len(tolerant.rows) == 20


def test_what_was_replaced_before_it_was_read_is_not_read_and_no_error(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(10), ends=True)
    query = Query(log)
    write_epoch(log, "monday", 0, range(5), generation="1.2", ends=True)
    query.trigger()
    assert query.rows == batch_rows(log)
    assert len(query.rows) == 5


def test_a_stream_says_that_what_it_would_read_next_has_expired(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(10))
    query = Query(log)
    query.trigger()
    write_epoch(log, "monday", 1, range(10, 20))
    assert expire(log.topic("shared"), time.time_ns() // 1_000_000 + 60_000)
    write_epoch(log, "monday", 2, range(20, 30))
    with pytest.raises(TopicError, match=r"The offsets from \d+ of 'shared'/0 are expired") as error:
        query.trigger()
    assert "checkpointLocation" in error.value.hint


def test_a_stream_says_that_its_topic_was_made_anew(tmp_path: Path) -> None:
    log = shared_log(tmp_path)
    write_epoch(log, "monday", 0, range(10))
    query = Query(log)
    query.trigger()
    topic = log.expiring("shared")
    assert topic is not None
    topic.delete()
    log = shared_log(tmp_path)
    query.start()
    with pytest.raises(TopicError, match=r"'shared' is not the one that was read .* made anew") as error:
        query.trigger()
    assert "checkpointLocation" in error.value.hint


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"endingOffsets": "{}"}, "a stream has no ending offsets"),
        ({"maxOffsetsPerTrigger": "0"}, "The option maxOffsetsPerTrigger is '0'"),
        ({"startingOffsets": "soon"}, "The option startingOffsets is 'soon'"),
        ({"startingOffsets": '{"7": 1}'}, "names partition 7, and the topic has 3"),
        ({"failOnReplaced": "perhaps"}, "The option failOnReplaced is 'perhaps'"),
    ],
)
def test_says_what_is_wrong_with_the_options_of_a_stream(
    tmp_path: Path, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Query(shared_log(tmp_path), **options)
