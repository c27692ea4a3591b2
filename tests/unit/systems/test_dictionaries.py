"""Dictionary-encoded columns stay so from a Parquet file through a topic, and nobody who does not ask for them sees them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.systems.dictionaries import GrowingDictionary, decoded
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import (
    ColumnBound,
    MessageRun,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.scalar_partitioner import partition_of

STREAM = StreamSpec("views/run 1/1.1", partitions=3, schema="id bigint, country string")
COUNTRIES = ["nl", "de", None, "fr"]


def encoded(first: int, rows: int, words: list[str | None] = COUNTRIES) -> pa.RecordBatch:
    ids = range(first, first + rows)
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "country": pa.array([words[n % len(words)] for n in ids]).dictionary_encode()}
    )


def written(tmp_path: Path, batches: list[pa.RecordBatch]) -> LogSystem:
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    log.create([STREAM])
    producer = log.producer(STREAM, "attempt")
    for batch in batches:
        producer.write_keyed(batch, ["country"])
    log.publish(STREAM, Publication("app/run/stage", "1.1", 0, {0: producer.finish()}))
    return log


def read(
    log: LogSystem, partition: int, *, dictionaries: bool, columns: list[str] | None = None
) -> list[pa.RecordBatch]:
    ssp = SystemStreamPartition("log", STREAM.name, partition)
    found = log.consumer(STREAM).read(ssp, None, columns, dictionaries=dictionaries)
    return [envelope.batch for envelope in found if isinstance(envelope, MessageRun)]


@pytest.mark.parametrize("dictionaries", [False, True])
def test_a_topic_gives_back_what_was_written_by_key(tmp_path: Path, dictionaries: bool) -> None:
    batches = [encoded(0, 100), encoded(100, 100, ["es", "nl"]), decoded(encoded(200, 50)), encoded(250, 60, [None])]
    log = written(tmp_path, batches)
    wanted = [row for batch in batches for row in batch.to_pylist()]
    for partition in range(3):
        found = read(log, partition, dictionaries=dictionaries)
        kept = [pa.types.is_dictionary(batch.schema.field("country").type) for batch in found]
        assert kept == [dictionaries] * len(found)
        mine = [row for row in wanted if partition_of((row["country"],), ("string",), 3) == partition]
        assert [row for batch in found for row in batch.to_pylist()] == mine


def test_single_columns_of_encoded_batches_can_be_read(tmp_path: Path) -> None:
    log = written(tmp_path, [encoded(0, 100), encoded(100, 100, ["es", "it", "nl"])])
    names = {
        row["country"]
        for place in range(3)
        for batch in read(log, place, dictionaries=True, columns=["country"])
        for row in batch.to_pylist()
    }
    ids = [
        row["id"]
        for place in range(3)
        for batch in read(log, place, dictionaries=True, columns=["id"])
        for row in batch.to_pylist()
    ]
    assert names == {"nl", "de", "fr", "es", "it", None}
    assert sorted(ids) == list(range(200))


def test_a_dictionary_that_does_not_pay_is_not_kept(tmp_path: Path) -> None:
    words: list[str | None] = [f"w{number}" for number in range(90)]
    log = written(tmp_path, [encoded(0, 100, words)])
    assert not any(
        pa.types.is_dictionary(batch.schema.field("country").type)
        for place in range(3)
        for batch in read(log, place, dictionaries=True)
    )


def test_a_growing_dictionary_only_adds_at_its_end() -> None:
    dictionary = GrowingDictionary(pa.string())
    first = dictionary.places(pa.array(["b", None, "a", "b"]).dictionary_encode())
    before = dictionary.values.to_pylist()
    second = dictionary.places(pa.array(["c", "a", None]))
    assert dictionary.values.to_pylist()[: len(before)] == before
    assert dictionary.encoded(first).to_pylist() == ["b", None, "a", "b"]
    assert dictionary.encoded(second).to_pylist() == ["c", "a", None]


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path) -> FilesSystem:
    table = pa.table(
        {
            "id": pa.array(range(8000), pa.int64()),
            "country": [("nl", "de", "fr", None)[n % 4] for n in range(8000)],
            "name": [f"n{n}" for n in range(8000)],
            "part": [None if n < 4000 else n // 2000 for n in range(8000)],
        }
    )
    (tmp_path / "views").mkdir()
    pq.write_table(table, tmp_path / "views" / "a.parquet", row_group_size=2000)
    return FilesSystem("lake", SystemBinding("files", {"root": str(tmp_path)}))


FILE = StreamSpec("views", partitions=1, schema="id bigint, country string, name string, part bigint")


def rows_of(lake: FilesSystem, *bounds: ColumnBound, dictionaries: bool = False) -> list[pa.RecordBatch]:
    found = lake.consumer(FILE).read(
        SystemStreamPartition("lake", "views", 0), None, None, bounds, dictionaries=dictionaries
    )
    return [envelope.batch for envelope in found if isinstance(envelope, MessageRun)]


def test_texts_that_repeat_are_read_with_their_dictionary_where_it_is_asked_for(lake: FilesSystem) -> None:
    kinds = {batch.schema.field("country").type for batch in rows_of(lake, dictionaries=True)}
    assert kinds == {pa.dictionary(pa.int32(), pa.string())}
    assert {batch.schema.field("name").type for batch in rows_of(lake, dictionaries=True)} == {pa.string()}
    assert {batch.schema.field("country").type for batch in rows_of(lake)} == {pa.string()}
    plain, kept = (pa.Table.from_batches(map(decoded, rows_of(lake, dictionaries=flag))) for flag in (False, True))
    assert plain.equals(kept)


@pytest.mark.parametrize(
    ("bound", "groups"),
    [
        (ColumnBound("id", ">", 5999), [3]),
        (ColumnBound("id", ">=", 5999), [2, 3]),
        (ColumnBound("id", "<", 2000), [0]),
        (ColumnBound("id", "<=", 2000), [0, 1]),
        (ColumnBound("id", "=", 3000), [1]),
        (ColumnBound("id", "in", (1, 7999)), [0, 3]),
        (ColumnBound("country", "=", "zz"), []),
        (ColumnBound("country", "=", "fr"), [0, 1, 2, 3]),
        (ColumnBound("part", "is null"), [0, 1]),
        (ColumnBound("part", "is not null"), [2, 3]),
        (ColumnBound("part", ">", 2), [3]),
        (ColumnBound("id", "=", "3000"), [0, 1, 2, 3]),  # another type than the file's says nothing
    ],
    ids=str,
)
def test_row_groups_are_left_out_that_cannot_fulfil_a_bound(
    lake: FilesSystem, bound: ColumnBound, groups: list[int]
) -> None:
    found = [row["id"] for batch in rows_of(lake, bound) for row in batch.to_pylist()]
    assert found == [number for group in groups for number in range(2000 * group, 2000 * group + 2000)]
