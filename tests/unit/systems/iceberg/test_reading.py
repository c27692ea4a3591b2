"""Rows of a table: by field ids through every change of its schema, from files of any kind that Iceberg allows."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform, MonthTransform, YearTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.files.formats.parquet import ParquetInput
from airflow_samza.systems.system import ColumnBound, OffsetRange, StreamSpec, SystemStreamPartition
from tests.support.iceberg_lake import add_files, append, data_file, rows_of, stream, system_at, table_of

ALL = Schema(
    NestedField(1, "flag", BooleanType()),
    NestedField(2, "small", IntegerType()),
    NestedField(3, "large", LongType()),
    NestedField(4, "single", FloatType()),
    NestedField(5, "precise", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "day", DateType()),
    NestedField(8, "hour", TimeType()),
    NestedField(9, "local", TimestampType()),
    NestedField(10, "at", TimestamptzType()),
    NestedField(11, "name", StringType()),
    NestedField(12, "key", UUIDType()),
    NestedField(13, "code", FixedType(3)),
    NestedField(14, "raw", BinaryType()),
    NestedField(15, "tags", ListType(16, StringType(), element_required=False)),
    NestedField(17, "counts", MapType(18, StringType(), 19, LongType(), value_required=False)),
    NestedField(20, "in", StructType(NestedField(21, "a b", IntegerType()), NestedField(22, "c", StringType()))),
)
ROW: dict[str, Any] = {
    "flag": True,
    "small": 7,
    "large": 1 << 40,
    "single": 0.5,
    "precise": float("inf"),
    "price": Decimal("12.30"),
    "day": date(2026, 11, 1),
    "hour": time(1, 2, 3, 4),
    "local": datetime(2026, 11, 1, 1, 2, 3, 4),
    "at": datetime(2026, 11, 1, 1, 2, 3, 4, timezone.utc),
    "name": "ä",
    "key": uuid.UUID(int=7).bytes,
    "code": b"abc",
    "raw": b"\0\xff",
    "tags": ["x", None],
    "counts": [("k", 1), ("l", None)],
    "in": {"a b": 3, "c": None},
}
READ = {**ROW, "hour": 3_723_000_004, "key": str(uuid.UUID(int=7))}


def test_a_value_of_each_type_is_read(tmp_path: Path) -> None:
    table_of(tmp_path, ALL, [ROW, dict.fromkeys(ROW)])
    assert rows_of(system_at(tmp_path), stream()) == [READ, dict.fromkeys(ROW)]


def test_columns_follow_their_ids_through_every_change(tmp_path: Path) -> None:
    table = table_of(tmp_path, ALL, [ROW])
    with table.update_schema() as changing:
        changing.rename_column("name", "title")
        changing.rename_column("in.c", "d")
        changing.update_column("small", LongType())
        changing.update_column("single", DoubleType())
        changing.update_column("price", DecimalType(20, 2))
        changing.add_column("extra", StringType())
        changing.add_column(("in", "e"), LongType())
        changing.delete_column("large")
    with table.update_schema() as changing:
        changing.add_column("large", StringType())  # the name of another column that was there before
        changing.add_column("name", LongType())
    (row,) = rows_of(system_at(tmp_path), stream())
    assert row["title"] == "ä"
    assert row["in"] == {"a b": 3, "d": None, "e": None}
    assert (row["small"], row["single"], row["price"]) == (7, 0.5, Decimal("12.30"))
    assert (row["extra"], row["large"], row["name"]) == (None, None, None)
    assert rows_of(system_at(tmp_path), stream(), columns=["large", "title"]) == [{"large": None, "title": "ä"}]
    assert rows_of(system_at(tmp_path), stream(), [ColumnBound("name", "=", 5)], columns=["title"]) in (
        [],
        [{"title": "ä"}],
    )
    old = str(table.metadata.snapshots[0].snapshot_id)
    assert rows_of(system_at(tmp_path), stream(snapshot=old)) == [READ]


def test_a_bound_never_meets_the_statistics_of_another_column(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = table_of(tmp_path, schema, [{"id": 1, "n": 5}])
    first = str(table.metadata.snapshots[0].snapshot_id)
    with table.update_schema() as changing:
        changing.rename_column("n", "m")
        changing.rename_column("id", "n")
    bound = [ColumnBound("n", "=", 5)]  # of the present n, which was id, no row is 5; of the former one all are
    assert rows_of(system_at(tmp_path), stream(snapshot=first), bound) == [{"id": 1, "n": 5}]
    assert rows_of(system_at(tmp_path), stream(), bound) == []
    assert rows_of(system_at(tmp_path), stream(), [ColumnBound("n", "=", 1)]) == [{"n": 1, "m": 5}]


SPEC = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "country"), PartitionField(3, 1001, DayTransform(), "day")
)
PARTITIONED = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "country", StringType()), NestedField(3, "at", TimestamptzType())
)


def at(day: int) -> datetime:
    return datetime(2026, 11, day, 12, tzinfo=timezone.utc)


def test_only_files_that_may_have_rows_are_in_the_range(tmp_path: Path) -> None:
    table = table_of(tmp_path, PARTITIONED, partition_spec=SPEC)
    columns = schema_to_pyarrow(table.schema())
    for country in ("nl", "be", None):
        for day in (1, 2):
            rows = pa.Table.from_pylist([{"id": day, "country": country, "at": at(day)}], schema=columns)
            days = (at(day).date() - date(1970, 1, 1)).days
            add_files(table, data_file(table, rows, (country, days)))
    system = system_at(tmp_path)
    fixed = system.slice_within(stream(), [ColumnBound("country", "=", "nl")])
    assert [file["partition"] for file in fixed["files"]] == [
        {"country": "nl", "day": "2026-11-01"},
        {"country": "nl", "day": "2026-11-02"},
    ]
    assert len(system.slice_within(stream(), [ColumnBound("country", "is null")])["files"]) == 2
    assert len(system.slice_within(stream(), [ColumnBound("country", "in", ("be", "de"))])["files"]) == 2
    begin, end = (int(at(day).replace(hour=0).timestamp()) * 1_000_000 for day in (2, 3))
    spec = StreamSpec("views", options=(("table", "web.views"),), timestamp="at", interval=(begin, end))
    assert len(system.slice(spec)["files"]) == 3
    assert {row["at"] for row in rows_of(system, spec)} == {at(2)}
    assert rows_of(system, spec, columns=["id"]) == [{"id": 2}] * 3


def test_a_partitions_value_stands_in_for_a_column_that_its_file_lacks(tmp_path: Path) -> None:
    table = table_of(tmp_path, PARTITIONED, partition_spec=SPEC)
    columns = schema_to_pyarrow(table.schema())
    whole = pa.Table.from_pylist([{"id": 1, "country": "of the file", "at": at(1)}], schema=columns)
    days = (at(1).date() - date(1970, 1, 1)).days
    for rows, country in ((whole, "nl"), (whole.drop(["country"]), "nl"), (whole.drop(["country"]), None)):
        add_files(table, data_file(table, rows, (country, days)))
    assert [row["country"] for row in rows_of(system_at(tmp_path), stream())] == ["of the file", "nl", None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LongType(), 7),
        (StringType(), "x"),
        (DateType(), date(2026, 11, 1)),
        (TimestamptzType(), datetime(2026, 11, 1, tzinfo=timezone.utc)),
        (DecimalType(9, 2), Decimal("1.50")),
        (BooleanType(), False),
        (BinaryType(), b"\1\2"),
        (DoubleType(), 0.25),
    ],
)
def test_a_partitions_value_may_be_of_any_type(kind: Any, value: Any, tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "p", kind))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p"))
    table = table_of(tmp_path, schema, partition_spec=spec)
    of_iceberg = value
    if isinstance(value, datetime):
        of_iceberg = int(value.timestamp()) * 1_000_000
    elif isinstance(value, date):
        of_iceberg = (value - date(1970, 1, 1)).days
    rows = pa.Table.from_pylist([{"id": 1}], schema=schema_to_pyarrow(table.schema().select("id")))
    add_files(table, data_file(table, rows, (of_iceberg,)))
    assert rows_of(system_at(tmp_path), stream()) == [{"id": 1, "p": value}]


def test_files_without_ids_are_read_by_the_name_mapping_of_the_table(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("in", pa.struct([("a", pa.string())]))])
    table = table_of(tmp_path, schema)
    rows = pa.table({"id": [1], "in": [{"a": "x"}]}, schema=schema)
    add_files(table, data_file(table, rows, ids=False))
    with pytest.raises(TopicError, match="has no field ids, and the table has no name mapping") as error:
        rows_of(system_at(tmp_path), stream())
    assert "schema.name-mapping.default" in error.value.hint
    with table.transaction() as transaction:
        transaction.set_properties({"schema.name-mapping.default": table.schema().name_mapping.model_dump_json()})
    with table.update_schema() as changing:
        changing.rename_column("id", "number")
        changing.rename_column("in.a", "b")
    assert rows_of(system_at(tmp_path), stream()) == [{"number": 1, "in": {"b": "x"}}]


def test_large_files_are_cut_by_row_groups(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.schema([("id", pa.int64())]))
    rows = pa.table({"id": range(1000)}).cast(schema_to_pyarrow(table.schema()))
    add_files(table, data_file(table, rows, row_group_size=100))
    spec = stream(partitions=4)
    fixed = system_at(tmp_path).slice(spec)
    assert [split for splits in fixed["splits"] for split in splits] == [[0, 0, 2], [0, 2, 5], [0, 5, 7], [0, 7, 10]]
    assert sorted(row["id"] for row in rows_of(system_at(tmp_path), spec)) == list(range(1000))
    found = rows_of(system_at(tmp_path), spec, [ColumnBound("id", ">=", 950)])
    assert [row["id"] for row in found] == list(range(900, 1000))


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.date32(), pa.int64()], ids=str)
def test_a_slice_and_a_condition_read_the_row_groups_that_both_leave(
    kind: pa.DataType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days of a month, two to a row group; the column of times was renamed since, and another one has its name."""
    table = table_of(tmp_path, pa.schema([("id", pa.int64()), ("time", kind), ("other", kind)]))
    days = pa.array(range(30), pa.int32()).cast(pa.date32())
    times = pa.array(range(0, 30 * 86_400_000, 86_400_000), kind) if kind == pa.int64() else days.cast(kind)
    rows = pa.table({"id": range(30), "time": times, "other": pa.repeat(times[0], 30)})
    add_files(table, data_file(table, rows.cast(schema_to_pyarrow(table.schema())), row_group_size=2))
    with table.update_schema() as changing:
        changing.rename_column("time", "at")
    with table.update_schema() as changing:
        changing.rename_column("other", "time")
    read: list[int] = []
    batches = ParquetInput.groups

    def seen(self: ParquetInput, *asked: Any) -> list[int]:
        groups = batches(self, *asked)
        read.extend(groups)
        return groups

    monkeypatch.setattr(ParquetInput, "groups", seen)
    day = 86_400_000_000
    spec = StreamSpec("views", options=(("table", "web.views"),), timestamp="at", interval=(5 * day, 9 * day))
    system = system_at(tmp_path)
    assert sorted(row["id"] for row in rows_of(system, spec, columns=["id"])) == [5, 6, 7, 8]
    assert read == [2, 3, 4]
    read.clear()
    condition = [ColumnBound("id", ">=", 7)]
    fixed = system.slice_within(spec, condition)
    assert sorted(row["id"] for row in rows_of(system, spec, condition, range_=fixed)) == [6, 7, 8]
    assert read == [3, 4]
    read.clear()
    assert not system.slice_within(spec, [ColumnBound("id", ">", 29)])["files"]


def test_offsets_count_the_rows_of_a_partition(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.schema([("id", pa.int64())]), [{"id": 1}, {"id": 2}], [{"id": 3}])
    system, spec = system_at(tmp_path), stream()
    fixed = system.slice(spec)
    whole = [row["id"] for row in rows_of(system, spec, range_=fixed)]
    append(table, [{"id": 4}])
    place = SystemStreamPartition("lake", "views", 0)
    runs = list(system.consumer(spec, fixed).read(place, OffsetRange(1, 3)))
    assert [row["id"] for run in runs for row in run.batch.to_pylist()] == whole[1:3]  # type: ignore[union-attr]
    with pytest.raises(TopicError, match="no partition 1"):
        next(system.consumer(spec, fixed).read(place._replace(partition=1), None))


def test_rows_that_do_not_fit_a_narrower_column_are_errors_or_bad_records(tmp_path: Path) -> None:
    table_of(tmp_path, pa.schema([("id", pa.int64())]), [{"id": 1}, {"id": 1 << 40}])
    system, spec = system_at(tmp_path), stream(schema="id int")
    with pytest.raises(SchemaError, match="'id' \\(bigint\\) that do not fit the declared int"):
        rows_of(system, spec)
    tolerant = StreamSpec("views", schema="id int", options=spec.options, tolerant=True)
    found = rows_of(system, tolerant)
    assert [row.get("id") for row in found] == [1, None]
    assert "do not fit" in found[1]["error"]


def test_text_that_repeats_stays_in_its_dictionary(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.schema([("name", pa.string())]))
    field = pa.field("name", pa.string(), metadata={"PARQUET:field_id": "1"})  # as Spark writes it
    add_files(table, data_file(table, pa.table({"name": ["x"] * 5000}, schema=pa.schema([field]))))
    system, spec = system_at(tmp_path), stream()
    place = SystemStreamPartition("lake", "views", 0)
    run = next(system.consumer(spec).read(place, None, dictionaries=True))
    assert pa.types.is_dictionary(run.batch.schema.field("name").type)  # type: ignore[union-attr]


def test_reading_a_planned_range_loads_no_pyiceberg(tmp_path: Path) -> None:
    table_of(tmp_path, pa.schema([("id", pa.int64())]), [{"id": 1}])
    fixed = json.dumps(system_at(tmp_path).slice(stream()))
    program = (
        "import json, sys\n"
        "from airflow_samza.systems.bindings import bind_system\n"
        "from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition\n"
        f"system = bind_system('lake', SystemBinding('iceberg', {{'root': {str(tmp_path)!r}}}), '')\n"
        "spec = StreamSpec('views', options=(('table', 'web.views'),))\n"
        "consumer = system.consumer(spec, json.loads(sys.argv[1]))\n"
        "run = next(consumer.read(SystemStreamPartition('lake', 'views', 0), None))\n"
        "assert run.batch.to_pylist() == [{'id': 1}]\n"
        "print(*[name for name in sys.modules if name.startswith(('pyiceberg', 'sqlalchemy', 'pydantic'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, fixed], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_times_in_bounds_may_be_cut_off(tmp_path: Path) -> None:
    table = table_of(tmp_path, pa.schema([("at", pa.timestamp("us", "UTC"))]))
    append(table, [{"at": datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc)}])  # as other writers have it of all below

    def files(start: int) -> int:
        spec = StreamSpec("views", options=stream().options, timestamp="at", interval=(start, start + 1_000_000))
        return len(system_at(tmp_path).slice(spec)["files"])

    assert [files(start) for start in (60_001_000, 61_000_000, 119_999_999)] == [1, 1, 1]
    assert files(120_000_000) == 0


@pytest.mark.parametrize(
    ("transform", "partitions"),
    [
        (YearTransform(), (-1969, 56, 8029)),
        (MonthTransform(), (-23_628, 672, 96_359)),
        (DayTransform(), (-719_162, 20_454, 2_932_896)),
        (IdentityTransform(), (-719_162, 20_454, 2_932_896)),
    ],
    ids=["year", "month", "day", "date"],
)
@pytest.mark.parametrize(("op", "value"), [("<", date.min), (">", date.max), ("<=", date.min), (">=", date.max)])
def test_a_condition_about_the_first_or_the_last_date_loses_no_row(
    tmp_path: Path, transform: Any, partitions: tuple[int, ...], op: str, value: date
) -> None:
    spec = PartitionSpec(PartitionField(1, 1000, transform, "part"))
    table = table_of(tmp_path, Schema(NestedField(1, "d", DateType())), partition_spec=spec)
    days, schema = (date.min, date(2026, 1, 1), date.max), schema_to_pyarrow(table.schema())
    add_files(
        table,
        *(
            data_file(table, pa.Table.from_pylist([{"d": day}], schema), [part])
            for day, part in zip(days, partitions, strict=True)
        ),
    )
    found = {row["d"] for row in rows_of(system_at(tmp_path), stream(), [ColumnBound("d", op, value)])}
    assert found >= ({value} if "=" in op else set())
