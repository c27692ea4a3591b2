"""Rows of a Delta table: types, values of partitions, added and mapped columns, deletion vectors, row groups."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.system import ColumnBound, OffsetRange, StreamSpec, SystemStreamPartition
from tests.support.delta_lake import (
    HandMade,
    append,
    column,
    inline_vector,
    mapped,
    rows_of,
    stream,
    system_at,
    table_of,
    vector_file,
)

AT = datetime(2026, 11, 1, 1, 2, 3, 4, timezone.utc)
ALL = pa.schema(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("short", pa.int16()),
        ("small", pa.int32()),
        ("large", pa.int64()),
        ("single", pa.float32()),
        ("precise", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("in", pa.struct([("a b", pa.int32()), ("c", pa.string())])),
    ]
)
ROW: dict[str, Any] = {
    "flag": True,
    "tiny": -7,
    "short": 300,
    "small": 70_000,
    "large": 1 << 40,
    "single": 0.5,
    "precise": float("inf"),
    "price": Decimal("12.30"),
    "day": date(2026, 11, 1),
    "at": AT,
    "local": AT.replace(tzinfo=None),
    "name": "ä",
    "raw": b"\0\xff",
    "tags": ["x", None],
    "counts": [("k", 1), ("l", None)],
    "in": {"a b": 3, "c": None},
}
IDS = pa.schema([("id", pa.int64())])


def test_a_value_of_each_type_is_read(tmp_path: Path) -> None:
    table_of(tmp_path, ALL, [ROW, dict.fromkeys(ROW)])
    system = system_at(tmp_path)
    assert rows_of(system, stream()) == [ROW, dict.fromkeys(ROW)]
    assert system.metadata([stream()])["views"].schema == (
        "flag boolean, tiny tinyint, short smallint, small int, large bigint, single float, precise double, "
        "price decimal(9,2), day date, at timestamp, local timestamp_ntz, name string, raw binary, tags array<string>, "
        "counts map<string,bigint>, in struct<`a b`:int,c:string>"
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int8(), -7),
        (pa.int16(), 300),
        (pa.int32(), 70_000),
        (pa.int64(), 1 << 40),
        (pa.string(), "a b/%c=ä"),
        (pa.date32(), date(1969, 12, 31)),
        (pa.timestamp("us", "UTC"), AT),
        (pa.timestamp("us"), AT.replace(tzinfo=None)),
        (pa.decimal128(9, 2), Decimal("1.50")),
        (pa.bool_(), False),
        (pa.float64(), 0.25),
        (pa.float32(), float("inf")),
    ],
)
def test_a_partitions_value_may_be_of_any_type_and_null(kind: pa.DataType, value: Any, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", kind)])
    table_of(tmp_path, schema, [{"id": 1, "p": value}, {"id": 2, "p": None}], partition_by=["p"])
    rows = sorted(rows_of(system_at(tmp_path), stream()), key=lambda row: row["id"])
    assert rows == [{"id": 1, "p": value}, {"id": 2, "p": None}]
    assert rows_of(system_at(tmp_path), stream(), columns=["p"]) in (
        [{"p": value}, {"p": None}],
        [{"p": None}, {"p": value}],
    )


def test_an_empty_text_of_a_partition_is_null(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long"), column("p", "string")], partitions=["p"])
    table.begin()
    rows = pa.table({"id": [1]})
    table.commit(table.file("a.parquet", rows, partitionValues={"p": ""}), table.file("b.parquet", rows))
    assert rows_of(system_at(tmp_path), stream()) == [{"id": 1, "p": None}] * 2


def test_the_value_of_a_partition_counts_also_where_files_have_the_column(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long"), column("p", "string")], partitions=["p"])
    table.begin()
    table.commit(table.file("a.parquet", pa.table({"id": [1], "p": ["of the file"]}), partitionValues={"p": "nl"}))
    assert rows_of(system_at(tmp_path), stream()) == [{"id": 1, "p": "nl"}]


def test_a_column_that_was_added_later_is_null_in_older_files(tmp_path: Path) -> None:
    table = table_of(tmp_path, IDS, [{"id": 1}])
    more = pa.schema([("id", pa.int64()), ("name", pa.string())])
    append(table, [{"id": 2, "name": "x"}], more, schema_mode="merge")
    system = system_at(tmp_path)
    assert sorted(rows_of(system, stream()), key=lambda row: row["id"]) == [
        {"id": 1, "name": None},
        {"id": 2, "name": "x"},
    ]
    assert rows_of(system, stream(version="1")) == [{"id": 1}]
    assert rows_of(system, stream(), [ColumnBound("name", "=", "x")]) in (
        [{"id": 2, "name": "x"}],
        [{"id": 1, "name": None}, {"id": 2, "name": "x"}],
        [{"id": 2, "name": "x"}, {"id": 1, "name": None}],
    )


MAPPED = [
    mapped("id", "long", 1, "col-a"),
    mapped("country", "string", 2, "col-b"),
    mapped("in", {"type": "struct", "fields": [mapped("x", "long", 4, "col-d")]}, 3, "col-c"),
    mapped("new", "string", 5, "col-e"),
]
PHYSICAL = pa.table(
    {
        "col-a": [7, 8],
        "col-c": pa.array([{"col-d": 1}, None], pa.struct([("col-d", pa.int64())])),
        "id": ["of another column", "that was dropped"],
    }
)


@pytest.mark.parametrize(("reader", "features"), [(2, None), (3, ["columnMapping"])])
def test_columns_with_mapping_are_found_by_their_physical_names(
    reader: int, features: list[str] | None, tmp_path: Path
) -> None:
    mode = {"delta.columnMapping.mode": "name"}
    table = HandMade(tmp_path, MAPPED, partitions=["country"], reader=reader, features=features, configuration=mode)
    table.begin()
    stats = {"numRecords": 2, "minValues": {"col-a": 7}, "maxValues": {"col-a": 8}, "nullCount": {"col-a": 0}}
    table.commit(table.file("a.parquet", PHYSICAL, partitionValues={"col-b": "nl"}, stats=stats))
    system = system_at(tmp_path)
    assert rows_of(system, stream()) == [
        {"id": 7, "country": "nl", "in": {"x": 1}, "new": None},
        {"id": 8, "country": "nl", "in": None, "new": None},
    ]
    assert rows_of(system, stream(), [ColumnBound("id", ">", 8)]) == []
    assert len(rows_of(system, stream(), [ColumnBound("id", ">", 7)])) == 2
    assert rows_of(system, stream(), [ColumnBound("country", "=", "be")]) == []


def test_columns_with_mapping_by_id_are_found_by_their_field_ids(tmp_path: Path) -> None:
    mode = {"delta.columnMapping.mode": "id"}
    table = HandMade(tmp_path, MAPPED, partitions=["country"], reader=2, configuration=mode)
    table.begin()
    inner = pa.struct([pa.field("y", pa.int64(), metadata={"PARQUET:field_id": "4"})])
    fields = [
        pa.field("z", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("y", inner, metadata={"PARQUET:field_id": "3"}),
    ]
    rows = pa.table({"z": [7], "y": pa.array([{"y": 1}], inner)}, schema=pa.schema(fields))
    table.commit(table.file("a.parquet", rows, partitionValues={"col-b": "nl"}))
    assert rows_of(system_at(tmp_path), stream()) == [{"id": 7, "country": "nl", "in": {"x": 1}, "new": None}]
    table.commit(table.file("b.parquet", PHYSICAL, partitionValues={"col-b": "nl"}))
    with pytest.raises(TopicError, match="has no field ids, by which the table maps its columns"):
        rows_of(system_at(tmp_path), stream())


def test_the_property_of_a_mapping_means_nothing_without_the_feature(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")], configuration={"delta.columnMapping.mode": "name"})
    table.begin()
    table.commit(table.file("a.parquet", pa.table({"id": [1]})))
    assert rows_of(system_at(tmp_path), stream()) == [{"id": 1}]


def vectored(tmp_path: Path) -> HandMade:
    table = HandMade(tmp_path, [column("id", "long")], reader=3, features=["deletionVectors"])
    table.begin()
    return table


def test_rows_in_deletion_vectors_are_left_out(tmp_path: Path) -> None:
    table = vectored(tmp_path)
    one, two = vector_file(table.place, [0, 5], [99], prefix="ab")
    whole = pa.table({"id": range(100)})
    table.commit(
        table.file("a.parquet", whole, deletionVector=one, row_group_size=10),
        table.file("b.parquet", pa.table({"id": range(100, 200)}), deletionVector=two),
        table.file("c.parquet", pa.table({"id": [200, 201]}), deletionVector=inline_vector([1])),
        table.file("d.parquet", pa.table({"id": [300]})),
    )
    system = system_at(tmp_path)
    expected = [*(number for number in range(199) if number not in (0, 5)), 200, 300]
    assert [row["id"] for row in rows_of(system, stream())] == expected
    assert len(rows_of(system, stream(), columns=[])) == len(expected)
    fixed = system.slice(stream())
    assert fixed["rows"] == 203
    assert [one["rows"] for one in fixed["deletes"]] == [2, 1, 1]


@pytest.mark.parametrize("is_inline", [True, False])
def test_a_vector_of_more_rows_than_its_file_has_is_rejected(is_inline: bool, tmp_path: Path) -> None:
    table = vectored(tmp_path)
    many = range(70_000)
    vector = inline_vector(many) if is_inline else vector_file(table.place, many)[0]
    table.commit(table.file("a.parquet", pa.table({"id": [1, 2]}), deletionVector=vector))
    with pytest.raises(TopicError, match=r"deletes 70000 rows of a data file that has 2\."):
        rows_of(system_at(tmp_path), stream())


def test_a_vector_replaces_the_one_before(tmp_path: Path) -> None:
    table = vectored(tmp_path)
    rows = pa.table({"id": range(4)})
    (first,) = vector_file(table.place, [0])
    (second,) = vector_file(table.place, [0, 1])
    plain = table.file("a.parquet", rows)
    table.commit(plain)
    table.commit({"remove": {"path": "a.parquet"}}, {"add": {**plain["add"], "deletionVector": first}})
    table.commit(
        {"remove": {"path": "a.parquet", "deletionVector": first}}, {"add": {**plain["add"], "deletionVector": second}}
    )
    system = system_at(tmp_path)
    for version, left in ((1, 4), (2, 3), (3, 2)):
        assert len(rows_of(system, stream(version=str(version)))) == left


@pytest.mark.parametrize("content", [b"", b"\x01\x00\x00\x00\x09garbage!!", b"\x01" + bytes(60)])
def test_a_damaged_vector_is_an_error_that_names_its_file(content: bytes, tmp_path: Path) -> None:
    table = vectored(tmp_path)
    (vector,) = vector_file(table.place, [1])
    table.commit(table.file("a.parquet", pa.table({"id": [1, 2]}), deletionVector=vector))
    (file,) = table.place.glob("deletion_vector_*.bin")
    file.write_bytes(content)
    with pytest.raises(TopicError, match=r"deletion_vector_.*cannot be read as deletion vector"):
        rows_of(system_at(tmp_path), stream())


def test_times_of_older_spark_are_read(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("at", "timestamp")])
    table.begin()
    added = table.file("a.parquet", pa.table({"at": [AT.replace(tzinfo=None)]}))
    pq.write_table(
        pa.table({"at": pa.array([AT.replace(tzinfo=None), datetime(2500, 1, 1)], pa.timestamp("us"))}),
        table.place / "a.parquet",
        use_deprecated_int96_timestamps=True,
    )
    added["add"]["size"] = (table.place / "a.parquet").stat().st_size
    table.commit(added)
    found = rows_of(system_at(tmp_path), stream())
    assert found == [{"at": AT}, {"at": datetime(2500, 1, 1, tzinfo=timezone.utc)}]


def test_large_files_are_cut_by_row_groups(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long")])
    table.begin()
    table.commit(table.file("a.parquet", pa.table({"id": range(1000)}), row_group_size=100))
    spec, system = stream(partitions=4), system_at(tmp_path)
    fixed = system.slice(spec)
    assert [split for splits in fixed["splits"] for split in splits] == [[0, 0, 2], [0, 2, 5], [0, 5, 7], [0, 7, 10]]
    assert sorted(row["id"] for row in rows_of(system, spec)) == list(range(1000))
    found = rows_of(system, spec, [ColumnBound("id", ">=", 950)])
    assert [row["id"] for row in found] == list(range(900, 1000))


def test_offsets_count_the_rows_of_a_partition(tmp_path: Path) -> None:
    table = table_of(tmp_path, IDS, [{"id": 1}, {"id": 2}], [{"id": 3}])
    system, spec = system_at(tmp_path), stream()
    fixed = system.slice(spec)
    whole = [row["id"] for row in rows_of(system, spec, range_=fixed)]
    append(table, [{"id": 4}], IDS)
    place = SystemStreamPartition("lake", "views", 0)
    runs = list(system.consumer(spec, fixed).read(place, OffsetRange(1, 3)))
    assert [row["id"] for run in runs for row in run.batch.to_pylist()] == whole[1:3]  # type: ignore[union-attr]


def test_declared_columns_are_checked_against_the_table(tmp_path: Path) -> None:
    table_of(tmp_path, pa.schema([("id", pa.int64()), ("name", pa.string())]), [{"id": 1 << 40, "name": "x"}])
    system = system_at(tmp_path)
    assert rows_of(system, stream(schema="name string")) == [{"name": "x"}]
    with pytest.raises(SchemaError, match=r"The table web\.views has no column 'nam', which stream") as error:
        system.slice(stream(schema="nam string"))
    assert error.value.hint.startswith("Did you mean 'name'?")
    with pytest.raises(SchemaError, match=r"has no column 'nam', which stream") as error:
        system.slice(stream(schema="nam string, name string"))
    assert error.value.hint == "Its columns are id, name."
    with pytest.raises(SchemaError, match=r"Column 'name' of the table web\.views is string, and stream 'views'"):
        system.slice(stream(schema="name bigint"))
    tolerant = StreamSpec("views", schema="id int", options=stream().options, tolerant=True)
    assert "do not fit" in rows_of(system, tolerant)[0]["error"]


def test_a_type_without_a_column_type_is_named(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long"), column("v", "interval day")])
    table.begin()
    with pytest.raises(SchemaError, match=r"Column 'v' of the table web\.views is interval day, which has no column"):
        system_at(tmp_path).slice(stream())
    assert system_at(tmp_path).slice(stream(schema="id bigint"))["files"] == []


def test_columns_that_may_not_be_null_are_declared_so(tmp_path: Path) -> None:
    table = HandMade(tmp_path, [column("id", "long", nullable=False)])
    table.begin()
    assert system_at(tmp_path).slice(stream())["schema"] == "id bigint not null"


def test_a_file_that_vacuum_removed_is_told_by_version_and_remedy(tmp_path: Path) -> None:
    table = table_of(tmp_path, IDS, [{"id": 1}])
    system = system_at(tmp_path)
    fixed = system.slice(stream())
    table.delete("id = 1")
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(TopicError) as error:
        rows_of(system, stream(), range_=fixed)
    assert "of the table web.views (stream 'views') is gone: the plan reads version 1, of which" in error.value.sentence
    assert error.value.hint.startswith("Clear the plan task")


def test_planning_and_reading_load_no_library_of_delta(tmp_path: Path) -> None:
    table_of(tmp_path, IDS, [{"id": 1}])
    program = (
        "import json, os, sys\n"
        "from airflow_samza.systems.bindings import bind_system\n"
        "from airflow_samza.systems.system import StreamSpec, SystemBinding, SystemStreamPartition\n"
        f"system = bind_system('lake', SystemBinding('delta', {{'root': {str(tmp_path)!r}}}), '')\n"
        "spec = StreamSpec('views', options=(('table', 'web.views'),))\n"
        "fixed = json.loads(json.dumps(system.slice(spec)))\n"
        "def read():\n"
        "    consumer = system.consumer(spec, fixed)\n"
        "    run = next(consumer.read(SystemStreamPartition('lake', 'views', 0), None))\n"
        "    assert run.batch.to_pylist() == [{'id': 1}]\n"
        "read()\n"
        "child = os.fork()\n"
        "if child == 0:\n"  # a process that was forked plans and reads as well
        "    assert system.slice(spec) == fixed\n"
        "    read()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "print(*[name for name in sys.modules if name.startswith(('deltalake', 'arro3', 'pyiceberg', 'pyspark'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_range_is_json_and_names_no_place_outside_of_the_table(tmp_path: Path) -> None:
    table_of(tmp_path, IDS, [{"id": 1}])
    text = json.dumps(system_at(tmp_path).slice(stream()))
    assert str(tmp_path) not in text
