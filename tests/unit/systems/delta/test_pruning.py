"""Files that conditions rule out: by values of partitions and by statistics, never a file with a row that is wanted."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.delta.partition_values import micros, partition_value
from airflow_samza.systems.delta.statistics import ValueRange
from airflow_samza.systems.system import ColumnBound, StreamSpec
from tests.support.delta_lake import HandMade, column, stream, system_at, table_of

ROWS: list[dict[str, Any]] = [
    {"id": 1, "country": "nl", "day": date(2026, 11, 1), "x": 0.5, "n": 5, "s": "b"},
    {"id": 2, "country": "be", "day": date(2026, 11, 2), "x": float("nan"), "n": 7, "s": "d"},
    {"id": 3, "country": None, "day": None, "x": 2.0, "n": None, "s": None},
]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("country", pa.string()),
        ("day", pa.date32()),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("s", pa.string()),
    ]
)


@pytest.mark.parametrize(
    ("column", "op", "value", "left"),
    [
        ("country", "=", "nl", [1]),
        ("country", "in", ("nl", "de"), [1]),
        ("country", ">=", "c", [1]),
        ("country", "is null", None, [3]),
        ("country", "is not null", None, [1, 2]),
        ("day", "<", date(2026, 11, 2), [1]),
        ("day", "=", date(2026, 11, 2), [2]),
        ("n", "=", 7, [2]),
        ("n", ">", 7, []),
        ("n", "<=", 5, [1]),
        ("n", "is null", None, [3]),
        ("n", "is not null", None, [1, 2]),
        ("s", "<", "c", [1]),
        ("s", "in", ("a", "d"), [2]),
        ("x", "=", 0, [1, 2, 3]),  # floats never rule anything out
        ("n", "=", "7", [1, 2]),  # a value of another type says nothing, but nulls never equal one
        ("other", "=", 7, [1, 2, 3]),
    ],
)
def test_a_bound_leaves_files_without_such_rows_out(
    column: str, op: str, value: Any, left: list[int], tmp_path: Path
) -> None:
    table_of(tmp_path, SCHEMA, ROWS, partition_by=["country", "day"])
    fixed = system_at(tmp_path).slice_within(stream(), [ColumnBound(column, op, value)])
    days = {"2026-11-01": 1, "2026-11-02": 2, "null": 3}
    assert sorted(days[file["partition"]["day"]] for file in fixed["files"]) == left


def test_files_without_statistics_stay(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")])
    table.begin()
    rows = pa.table({"id": [1]})
    nothing, broken = table.file("a.parquet", rows, stats={}), table.file("b.parquet", rows)
    broken["add"]["stats"] = '{"numRecords": 1'
    table.commit(nothing, broken)
    fixed = system_at(tmp_path).slice_within(stream(), [ColumnBound("id", "=", 99)])
    assert [file["rows"] for file in fixed["files"]] == [None, None]
    assert fixed["rows"] is None


def test_a_data_interval_is_a_range_of_times(tmp_path: Path) -> None:
    columns = [column("id", "long"), column("at", "timestamp"), column("ms", "long")]
    table = HandMade(tmp_path, columns, partitions=["at"])
    table.begin()
    rows = pa.table({"id": [1]})
    for hour in range(4):
        stats = {"numRecords": 1, "minValues": {"ms": hour * 3_600_000}, "maxValues": {"ms": hour * 3_600_000}}
        text = f"1970-01-01 0{hour}:00:00" if hour % 2 else f"1970-01-01T0{hour}:00:00.000000Z"
        table.commit(table.file(f"{hour}.parquet", rows, partitionValues={"at": text}, stats=stats))
    hour = 3_600_000_000
    for name in ("at", "ms"):
        spec = StreamSpec("views", options=stream().options, timestamp=name, interval=(hour, 3 * hour))
        assert [file["path"] for file in system_at(tmp_path).slice(spec)["files"]] == ["1.parquet", "2.parquet"]


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ("1970-01-01T00:00:00.001Z", 1_999),
        ("1970-01-01T00:00:01.000Z", 1_999_999),
        ("1970-01-01T00:00:01Z", 1_999_999),
        ("1970-01-01T00:01:00.000Z", 119_999_999),
        ("1969-12-31T23:59:00.000Z", -1),
    ],
)
def test_times_in_statistics_may_be_cut_off(tmp_path: Path, said: str, at: int) -> None:
    table = HandMade(tmp_path, [column("at", "timestamp")])
    table.begin()
    stats = {"numRecords": 1, "minValues": {"at": said}, "maxValues": {"at": said}}
    table.commit(table.file("a.parquet", pa.table({"at": pa.array([at], pa.timestamp("us", "UTC"))}), stats=stats))

    def files(start: int) -> int:
        spec = StreamSpec("views", options=stream().options, timestamp="at", interval=(start, start + 1_000_000))
        return len(system_at(tmp_path).slice(spec)["files"])

    assert files(at) == 1
    assert files(at + 60_000_000) == 0


def test_a_text_that_was_cut_off_reaches_beyond_its_mark() -> None:
    stats = {"numRecords": 1, "minValues": {"s": "a"}, "maxValues": {"s": "a\ufffd"}, "nullCount": {"s": 0}}
    assert ValueRange.of_statistics(stats, "s", "string").high == "a\U0010ffff"


def test_what_statistics_do_not_say_is_not_known() -> None:
    assert ValueRange.of_statistics({}, "n", "long") == ValueRange()
    wrong = {
        "numRecords": 1,
        "minValues": {"n": "x", "d": "x"},
        "maxValues": {"n": 1.5, "d": "y"},
        "nullCount": {"n": {}},
    }
    assert ValueRange.of_statistics(wrong, "n", "long") == ValueRange()
    assert ValueRange.of_statistics(wrong, "d", "date") == ValueRange()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1969-12-31 23:59:59.999999", -1),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:00:00.5-0200", 500_000),
    ],
)
def test_times_are_read_in_each_form_that_writers_have(text: str, found: int) -> None:
    assert micros(text) == found


@pytest.mark.parametrize(
    ("text", "word"), [("x", "int"), ("maybe", "boolean"), ("2026-13-01", "date"), ("x", "decimal(1,0)")]
)
def test_a_value_that_is_none_is_an_error(text: str, word: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no"):
        partition_value(text, word)


def test_a_partition_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long"), column("p", "integer")], partitions=["p"])
    table.begin()
    table.commit(table.file("a.parquet", pa.table({"id": [1]}), partitionValues={"p": "x"}))
    with pytest.raises(TopicError, match=r"is damaged: the partition of a\.parquet has p=x: 'x' is no int"):
        system_at(tmp_path).slice(stream())
