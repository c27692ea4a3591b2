"""Data files of outputs: a file for each partition, with columns by field ids, and rows that do not fit as one sentence."""

from __future__ import annotations

import json
import math
import uuid
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, parse_transform
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
from airflow_samza.systems.files.formats import parquet_output
from airflow_samza.systems.iceberg.data_files import live_entries
from airflow_samza.systems.system import Publication
from airflow_samza.systems.tables import output as output_module
from tests.support.budgets import extended_but
from tests.support.iceberg_lake import table_of
from tests.support.iceberg_outputs import Output, ids, output_stream

ALL = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "flag", BooleanType()),
    NestedField(3, "small", IntegerType()),
    NestedField(4, "single", FloatType()),
    NestedField(5, "precise", DoubleType()),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "wide", DecimalType(38, 10)),
    NestedField(8, "day", DateType()),
    NestedField(9, "hour", TimeType()),
    NestedField(10, "local", TimestampType()),
    NestedField(11, "at", TimestamptzType()),
    NestedField(12, "name", StringType()),
    NestedField(13, "key", UUIDType()),
    NestedField(14, "code", FixedType(3)),
    NestedField(15, "raw", BinaryType()),
)
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "flag": True,
        "small": -7,
        "single": 0.5,
        "precise": float("inf"),
        "price": Decimal("-12.30"),
        "wide": Decimal("-1234567890123456789012345678.0000000001"),
        "day": date(1969, 12, 31),
        "hour": 3_723_000_004,
        "local": datetime(1969, 12, 31, 23, 59, 59, 999_999),
        "at": datetime(2026, 11, 1, 1, 2, 3, 4, timezone.utc),
        "name": "ä\U0001f600",
        "key": str(uuid.UUID(int=7)),
        "code": b"abc",
        "raw": b"\0\xff",
    },
    {"id": 2, **dict.fromkeys([field.name for field in ALL.fields[1:]])},
    {
        "id": 3,
        "flag": False,
        "small": 2**31 - 1,
        "single": -0.25,
        "precise": 1e-300,
        "price": Decimal("9999999.99"),
        "wide": Decimal("0E-10"),
        "day": date(2026, 11, 1),
        "hour": 0,
        "local": datetime(2026, 11, 1, 1, 2, 3, 4),
        "at": datetime(1969, 12, 31, 23, 0, tzinfo=timezone.utc),
        "name": "",
        "key": str(uuid.UUID(int=2**128 - 1)),
        "code": b"\0\0\0",
        "raw": b"",
    },
]


def made(folder: Path, schema: Schema, *partition: tuple[int, str], **more: Any) -> Output:
    """Return an output to a new table, partitioned by pairs of field id and transform."""
    fields = (
        PartitionField(source, 1000 + place, parse_transform(transform), f"part_{place}")
        for place, (source, transform) in enumerate(partition)
    )
    table_of(folder, schema, name="web.out", partition_spec=PartitionSpec(*fields), **more)
    return Output(folder)


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: int(row["id"]))


def in_their_types(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as pyiceberg has it."""
    found = dict(row)
    if row.get("hour") is not None:
        found["hour"] = (datetime(1970, 1, 1) + timedelta(microseconds=row["hour"])).time()
    if row.get("key") is not None:
        found["key"] = uuid.UUID(row["key"])
    return found


PARTITIONS = [
    (),
    *(((field.field_id, "identity"),) for field in ALL.fields),
    ((11, "day"), (12, "truncate[1]"), (13, "bucket[4]")),
    ((8, "month"), (7, "truncate[1000]"), (15, "truncate[1]")),
    ((9, "bucket[3]"), (10, "hour"), (11, "year")),
]


@pytest.mark.parametrize("version", extended_but(["2"], ["1", "2"]))
@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
@pytest.mark.few(6)
def test_rows_come_back_as_they_were_sent(tmp_path: Path, partition: tuple[tuple[int, str], ...], version: str) -> None:
    output = made(tmp_path, ALL, *partition, properties={"format-version": version})
    described = output.stage(ROWS)
    assert len(described["files"]) == (3 if partition else 1)
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    assert by_id(output.rows()) == ROWS
    assert by_id(output.scanned()) == [in_their_types(row) for row in ROWS]
    output.publish([ROWS[0]], generation="1.2")  # takes them all out again, whatever the partition values are
    assert output.rows() == [ROWS[0]]
    assert output.scanned() == [in_their_types(ROWS[0])]


def _predicates() -> list[Any]:
    from pyiceberg.expressions import EqualTo, GreaterThanOrEqual, IsNull, LessThanOrEqual, NotNull

    return [EqualTo, GreaterThanOrEqual, LessThanOrEqual, IsNull, NotNull]


@pytest.mark.parametrize(
    "field", [field for field in ALL.fields if field.name not in ("id", "flag", "raw")], ids=lambda field: field.name
)
@pytest.mark.few(4)
def test_statistics_of_files_never_hide_a_row(tmp_path: Path, field: NestedField) -> None:
    output = made(tmp_path, ALL)
    for epoch, row in enumerate(ROWS):
        output.publish([row], epoch=epoch)
    equal, least, most, null, some = _predicates()
    table = output.table()
    for row in (ROWS[0], ROWS[2]):
        value = in_their_types(row)[field.name]
        for kind in (equal, least, most):
            found = table.scan(kind(field.name, value)).to_arrow().to_pylist()
            assert in_their_types(row)["id"] in [one["id"] for one in found], (kind, value)
    assert [row["id"] for row in table.scan(null(field.name)).to_arrow().to_pylist()] == [2]
    assert sorted(row["id"] for row in table.scan(some(field.name)).to_arrow().to_pylist()) == [1, 3]


NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "tags", ListType(10, StringType(), element_required=False)),
    NestedField(3, "counts", MapType(11, StringType(), 12, LongType(), value_required=False)),
    NestedField(4, "in", StructType(NestedField(13, "a b", IntegerType()), NestedField(14, "c", TimeType()))),
    NestedField(
        5,
        "deep",
        ListType(
            15,
            StructType(
                NestedField(16, "key", UUIDType()),
                NestedField(17, "more", MapType(18, StringType(), 19, ListType(20, FixedType(2)))),
            ),
            element_required=False,
        ),
    ),
)


def test_nested_columns_come_back_as_they_were_sent(tmp_path: Path) -> None:
    output = made(tmp_path, NESTED, (1, "truncate[2]"))
    key = str(uuid.UUID(int=9))
    rows: list[dict[str, Any]] = [
        {
            "id": 1,
            "tags": ["x", None, "\u00fc"],
            "counts": {"k": 1, "l": None},
            "in": {"a b": 3, "c": 4},
            "deep": [{"key": key, "more": {"m": [b"ab", b"cd"], "n": []}}, None, {"key": None, "more": None}],
        },
        {"id": 2, "tags": None, "counts": None, "in": None, "deep": None},
        {"id": 3, "tags": [], "counts": {}, "in": {"a b": None, "c": None}, "deep": []},
        {"id": 4, "tags": ["y"], "counts": {"z": 9}, "in": {"a b": 1, "c": None}, "deep": [{"key": key, "more": {}}]},
    ]
    output.publish(rows)

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        """Return a row with its maps as dicts, whatever they are in Arrow."""
        deep = row["deep"]
        if deep is not None:
            deep = [
                one and {"key": one["key"] and str(one["key"]), "more": one["more"] and dict(one["more"])}
                for one in deep
            ]
            deep = [one and {**one, "more": {} if one["more"] == [] else one["more"]} for one in deep]
        inner = row["in"] and {
            "a b": row["in"]["a b"],
            "c": row["in"]["c"] if row["in"]["c"] is None or isinstance(row["in"]["c"], int) else 4,
        }
        return {**row, "counts": (row["counts"] and dict(row["counts"])) or row["counts"], "in": inner, "deep": deep}

    empty = {**rows[2], "counts": []}
    assert [plain(row) for row in by_id(output.rows())] == [rows[0], rows[1], empty, rows[3]]
    scanned = [plain(row) for row in by_id(output.scanned())]
    scanned[1]["deep"] = scanned[1]["deep"] or None  # pyiceberg takes a list of structs that is null for an empty one
    assert scanned == [rows[0], rows[1], empty, rows[3]]


def test_columns_of_files_have_the_field_ids_of_the_table(tmp_path: Path) -> None:
    output = made(tmp_path, NESTED)
    (file,) = output.files_of(output.stage([{"id": 1, "tags": ["x"], "counts": {"k": 1}, "in": {"a b": 3, "c": 4}}]))

    def field_ids(field: pa.Field) -> Any:
        kind = field.type
        inner = [kind.field(place) for place in range(kind.num_fields)]
        if pa.types.is_map(kind):
            inner = [kind.key_field, kind.item_field]
        return int(field.metadata[b"PARQUET:field_id"]), [field_ids(one) for one in inner]

    table = output.table().schema()
    found = [field_ids(field) for field in pq.read_schema(file)]
    wanted = {name: table.find_field(name).field_id for name in ("tags.element", "counts.key", "counts.value")}
    assert found[0] == (1, [])
    assert found[1] == (2, [(wanted["tags.element"], [])])
    assert found[2] == (3, [(wanted["counts.key"], []), (wanted["counts.value"], [])])
    inner = [table.find_field(name).field_id for name in ("in.a b", "in.c")]
    assert [one for one, _ in found[3][1]] == inner


def test_null_has_a_file_of_its_own(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "country", StringType()))
    output = made(tmp_path, schema, (2, "identity"))
    rows = [{"id": number, "country": [None, "", "nl"][number % 3]} for number in range(9)]
    described = output.stage(rows)
    assert {(file["partition"][0], file["rows"]) for file in described["files"]} == {(None, 3), ("", 3), ("nl", 3)}
    for file, path in zip(described["files"], output.files_of(described), strict=True):
        assert set(pq.read_table(path)["country"].to_pylist()) == {file["partition"][0]}
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    table = output.table()
    for where, wanted in (("country is null", [0, 3, 6]), ("country = ''", [1, 4, 7]), ("country = 'nl'", [2, 5, 8])):
        assert sorted(table.scan(where).to_arrow()["id"].to_pylist()) == wanted


NAMES = ["a b.c", "1st", "ünï", "select", "x" * 120, 'q"uote', "slash/back\\", "dash-ed", "da:sh", "%20"]


@pytest.mark.parametrize("partitioned", [False, True])
def test_any_name_of_a_column_is_written(tmp_path: Path, partitioned: bool) -> None:
    fields = [NestedField(place + 2, name, StringType()) for place, name in enumerate(NAMES)]
    schema = Schema(NestedField(1, "id", LongType()), *fields)
    partition = [(place + 2, "identity") for place in range(3)] if partitioned else []
    output = made(tmp_path, schema, *partition)
    row = {"id": 1, **{name: f"value of {name}" for name in NAMES}}
    output.publish([row])
    assert output.rows() == [row]
    assert output.scanned() == [row]


def test_values_that_are_no_number_are_partitions_that_can_be_replaced(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "x", DoubleType()))
    output = made(tmp_path, schema, (2, "identity"))
    output.publish([{"id": 1, "x": float("nan")}, {"id": 2, "x": 1.0}, {"id": 3, "x": float("nan")}])
    output.publish([{"id": 4, "x": float("nan")}], generation="1.2")
    assert output.ids() == [4]


def test_an_optional_column_that_is_missing_is_null(tmp_path: Path) -> None:
    output = made(tmp_path, ALL)
    output.publish(ids([1, 2]))
    wanted = dict.fromkeys([field.name for field in ALL.fields])
    assert by_id(output.rows()) == [{**wanted, "id": 1}, {**wanted, "id": 2}]


def batch(**columns: tuple[list[Any], pa.DataType]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, kind) for name, (values, kind) in columns.items()})


ID = ([1], pa.int64())
MISFITS: dict[str, tuple[pa.RecordBatch, str]] = {
    "extra": (batch(id=ID, naem=(["x"], pa.string())), "has no column 'naem', and the messages of the output 'out'"),
    "missing": (batch(name=(["x"], pa.string())), "requires the column 'id', and the messages of the output 'out'"),
    "null": (batch(id=([1, None], pa.int64())), "Column 'id' of the table web.out is required, and is null"),
    "narrower": (batch(id=ID, small=([1], pa.int64())), "Column 'small' of the output 'out' is bigint"),
    "text": (batch(id=ID, small=(["1"], pa.string())), "Column 'small' of the output 'out' is string"),
    "double": (batch(id=ID, single=([0.1], pa.float64())), "Column 'single' of the output 'out' is double"),
    "scale": (batch(id=ID, price=([Decimal("1.234")], pa.decimal128(9, 3))), "'price'"),
    "digits": (batch(id=ID, price=([Decimal("12345678901")], pa.decimal128(11, 0))), "'price'"),
    "uuid": (batch(id=ID, key=(["no uuid"], pa.string())), "Column 'key' of the table web.out is uuid, and a value"),
    "fixed": (batch(id=ID, code=([b"ab"], pa.binary())), "Column 'code' of the table web.out is fixed[3], and a value"),
    "midnight": (batch(id=ID, hour=([86_400_000_000], pa.int64())), "Column 'hour' of the table web.out is time"),
    "yesterday": (batch(id=ID, hour=([-1], pa.int64())), "Column 'hour' of the table web.out is time"),
}


@pytest.mark.parametrize("partition", [(), ((13, "bucket[4]"), (14, "bucket[2]"), (9, "identity"))], ids=["", "parts"])
@pytest.mark.parametrize("name", MISFITS)
def test_rows_that_do_not_fit_are_rejected_in_one_sentence(
    tmp_path: Path, name: str, partition: tuple[tuple[int, str], ...]
) -> None:
    rows, words = MISFITS[name]
    output = made(tmp_path, ALL, *partition)
    with pytest.raises(SchemaError) as error:
        output.stage(rows)
    assert words in error.value.sentence
    assert error.value.sentence.count(". ") == 0
    assert error.value.hint
    assert "file" not in error.value.sentence.lower(), "the rows come of messages"


INNER = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "in", StructType(NestedField(5, "n", LongType(), required=True))),
    NestedField(3, "tags", ListType(6, StringType(), element_required=True)),
    NestedField(4, "counts", MapType(7, StringType(), 8, LongType(), value_required=True)),
)


@pytest.mark.parametrize(
    ("column", "value", "path"),
    [("in", {"n": None}, "in.n"), ("tags", ["x", None], "tags.element"), ("counts", [("k", None)], "counts.value")],
)
def test_null_in_a_required_field_of_a_nested_column_is_rejected(
    tmp_path: Path, column: str, value: Any, path: str
) -> None:
    output = made(tmp_path, INNER)
    with pytest.raises(SchemaError, match=rf"Column '{path}' of the table web\.out") as error:
        output.stage([{"id": 1, column: value}])
    assert "null" in error.value.sentence
    rows: list[dict[str, Any]] = [
        {"id": 1, column: None},
        {"id": 2, "in": {"n": 1}, "tags": ["x"], "counts": [("k", 1)]},
    ]
    output.publish(rows)
    assert output.ids() == [1, 2]


def test_numbers_may_widen(tmp_path: Path) -> None:
    output = made(tmp_path, ALL, (1, "identity"))
    described = output.stage(
        batch(
            id=([1], pa.int8()),
            small=([2], pa.int16()),
            precise=([0.5], pa.float32()),
            single=([3], pa.int32()),
            price=([4], pa.int16()),
            wide=([Decimal("5.5")], pa.decimal128(5, 1)),
        )
    )
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    (row,) = output.rows()
    assert [row[name] for name in ("id", "small", "precise", "single", "price", "wide")] == [
        1,
        2,
        0.5,
        3.0,
        Decimal(4),
        Decimal("5.5"),
    ]


def test_columns_may_come_in_any_order_and_from_batch_to_batch_in_another(tmp_path: Path) -> None:
    output = made(tmp_path, ALL)
    system = output.system
    producer = system.producer(output.spec, "stage-1.1-0-0-" + "0" * 32, system.fix_output(output.spec, None, "r"))
    producer.write(0, batch(name=(["a"], pa.string()), id=ID))
    producer.write(0, batch(id=([2], pa.int32()), name=(["b"], pa.string())))
    producer.write(0, batch(id=([3], pa.int64())))
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: producer.finish()}))
    assert [(row["id"], row["name"]) for row in by_id(output.rows())] == [(1, "a"), (2, "b"), (3, None)]


def test_few_files_are_open_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "OPEN_FILES", 3)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType()))
    output = made(tmp_path, schema, (2, "identity"))
    system = output.system
    producer = system.producer(output.spec, "stage-1.1-0-0-" + "0" * 32, system.fix_output(output.spec, None, "r"))
    sent = []
    for start in range(0, 60, 10):
        rows = [{"id": start + place, "part": (start + place * 7) % 11} for place in range(10)]
        producer.write(0, pa.RecordBatch.from_pylist(rows, pa.schema([("id", pa.int64()), ("part", pa.int32())])))
        assert len(producer._open) <= 3
        sent += rows
    described = json.loads(json.dumps(producer.finish()))
    assert sum(file["rows"] for file in described["files"]) == described["rows"] == 60
    for file, path in zip(described["files"], output.files_of(described), strict=True):
        assert set(pq.read_table(path)["part"].to_pylist()) == set(file["partition"])
        assert path.stat().st_size == file["bytes"]
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    assert by_id(output.rows()) == sent


def test_open_files_hold_few_rows_back_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "HELD_BYTES", 500)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType()))
    output = made(tmp_path, schema, (2, "identity"))
    system = output.system
    producer = system.producer(output.spec, "stage-1.1-0-0-" + "0" * 32, system.fix_output(output.spec, None, "r"))
    sent = []
    for start in range(0, 200, 20):
        rows = [{"id": start + place, "part": place % 4} for place in range(20)]
        producer.write(0, pa.RecordBatch.from_pylist(rows, pa.schema([("id", pa.int64()), ("part", pa.int32())])))
        assert sum(file.held for file in producer._open.values()) <= 500
        sent += rows
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: producer.finish()}))
    assert by_id(output.rows()) == sent


def test_files_end_at_the_target_size_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_output, "ROW_GROUP_ROWS", 100)
    output = made(tmp_path, ALL, properties={"write.target-file-size-bytes": "2000"})
    numbers = [number * 7919 % 10007 for number in range(1000)]
    system = output.system
    producer = system.producer(output.spec, "stage-1.1-0-0-" + "0" * 32, system.fix_output(output.spec, None, "r"))
    for start in range(0, 1000, 100):
        producer.write(0, batch(id=(numbers[start : start + 100], pa.int64())))
    described = producer.finish()
    assert len(described["files"]) > 2
    assert all(file["bytes"] < 20_000 for file in described["files"])
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    assert output.ids() == sorted(numbers)


def test_a_file_of_several_row_groups_has_the_statistics_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_output, "ROW_GROUP_ROWS", 10)
    output = made(tmp_path, ALL)
    output.publish([{"id": number, "name": f"n{number:03}"} for number in range(100)])
    (task,) = output.table().scan().plan_files()
    assert task.file.record_count == 100
    for number in (0, 55, 99):
        assert output.table().scan(f"id = {number} and name = 'n{number:03}'").to_arrow().num_rows == 1


def order_of(*fields: SortField) -> dict[str, SortOrder]:
    return {"sort_order": SortOrder(*fields)}


@pytest.mark.parametrize("field", ALL.fields, ids=lambda field: field.name)
@pytest.mark.parametrize("direction", SortDirection)
@pytest.mark.few(6)
def test_files_of_a_table_with_a_sort_order_are_sorted_and_say_so(
    tmp_path: Path, field: NestedField, direction: SortDirection
) -> None:
    by = SortField(field.field_id, IdentityTransform(), direction)
    output = made(tmp_path, ALL, **order_of(by, SortField(1, IdentityTransform())))
    described = output.stage(ROWS)
    (path,) = output.files_of(described)
    stored = pq.read_table(path).to_pylist()
    values = [row[field.name] for row in stored if row[field.name] is not None]
    keys = [(isinstance(value, float) and math.isnan(value), value) for value in values]
    assert keys == sorted(keys, reverse=direction is SortDirection.DESC)
    nulls = [row[field.name] is None for row in stored]
    assert nulls == sorted(nulls, reverse=direction is SortDirection.ASC)
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    assert [entry.data_file.sort_order_id for entry in live_entries(output.table(), "main")] == [1]
    assert by_id(output.rows()) == by_id(ROWS)


def test_files_that_are_sorted_end_when_memory_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "SORTED_BYTES", 800)
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "part", IntegerType()))
    output = made(tmp_path, schema, (2, "identity"), **order_of(SortField(1, IdentityTransform())))
    for held in (10**6, 900):
        monkeypatch.setattr(output_module, "HELD_BYTES", held)
        producer = output.system.producer(
            output.spec, "stage-1.1-0-0-" + "0" * 32, output.system.fix_output(output.spec, None, "r")
        )
        for start in range(0, 500, 50):
            rows = [{"id": (start + place) * 7919 % 500, "part": place % 2} for place in range(50)]
            producer.write(0, pa.RecordBatch.from_pylist(rows, pa.schema([("id", pa.int64()), ("part", pa.int32())])))
            assert sum(file.held for file in producer._open.values()) <= held
        described = producer.finish()
        assert len(described["files"]) > 4
        stored = [pq.read_table(path)["id"].to_pylist() for path in output.files_of(described)]
        assert all(numbers == sorted(numbers) for numbers in stored)
        assert sorted(number for numbers in stored for number in numbers) == list(range(500))


@pytest.mark.parametrize("field", [SortField(13, parse_transform("bucket[4]")), SortField(99, IdentityTransform())])
def test_an_order_that_is_not_computed_here_is_not_claimed(tmp_path: Path, field: SortField) -> None:
    if field.source_id == 99:
        inner = StructType(NestedField(99, "x", LongType()))
        schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "home", inner))
        table = table_of(tmp_path, schema, name="web.out")
        with table.update_sort_order() as order:
            order.asc("home.x", IdentityTransform())
        output = Output(tmp_path)
    else:
        output = made(tmp_path, ALL, **order_of(field))
    output.publish(ids([2, 1]))
    assert [entry.data_file.sort_order_id for entry in live_entries(output.table(), "main")] == [None]
    assert output.ids() == [1, 2]


def test_the_codec_is_that_of_the_table(tmp_path: Path) -> None:
    for codec, wanted in (
        ("gzip", "GZIP"),
        ("uncompressed", "UNCOMPRESSED"),
        ("zstd", "ZSTD"),
        ("snappy", "SNAPPY"),
        ("lz4", "LZ4"),
        ("brotli", "BROTLI"),
        (None, "ZSTD"),
    ):
        properties = {} if codec is None else {"write.parquet.compression-codec": codec}
        output = made(tmp_path / str(codec), ALL, properties=properties)
        (file,) = output.files_of(output.stage(ids([1])))
        assert pq.read_metadata(file).row_group(0).column(0).compression == wanted


def test_files_lie_where_the_table_says(tmp_path: Path) -> None:
    folder = tmp_path / "web" / "out" / "elsewhere"
    output = made(tmp_path, ALL, properties={"write.data.path": f"file://{folder}/"})
    assert Path(output.table().location().removeprefix("file://")) == folder.parent
    described = output.stage(ids([1]))
    assert [path.parent for path in output.files_of(described)] == [folder]
    output.system.publish(output.spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    assert output.ids() == [1]


@pytest.mark.parametrize("finished", [False, True])
def test_an_abort_removes_the_files(tmp_path: Path, finished: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_module, "OPEN_FILES", 2)
    output = made(tmp_path, ALL, (1, "identity"))
    system = output.system
    fixed = system.fix_output(output.spec, None, "r")
    producer = system.producer(output.spec, "stage-1.1-0-0-" + "0" * 32, fixed)
    producer.write(0, batch(id=([1, 2, 3, 4, 5], pa.int64())))
    data = Path(fixed["data"].removeprefix("file://"))
    assert len(list(data.iterdir())) == 5
    if finished:
        producer.finish()
    producer.abort()
    producer.abort()
    assert list(data.iterdir()) == []


def test_a_task_without_rows_writes_no_file(tmp_path: Path) -> None:
    output = made(tmp_path, ALL)
    assert output.stage([])["files"] == []
    assert output.stage(batch(id=([], pa.int64())))["files"] == []
    assert not list(tmp_path.rglob("*.parquet"))


def test_names_of_files_begin_alike_in_all_tries_of_a_generation_alone(tmp_path: Path) -> None:
    output = made(tmp_path, ALL)

    def prefix(**options: Any) -> str:
        described = output.stage(ids([1]), **options)
        (path,) = output.files_of(described)
        assert path.name.startswith(described["prefix"])
        return str(described["prefix"])

    first = prefix()
    assert prefix(epoch=7, task=3) == first
    others = [prefix(generation="1.2"), prefix(generation="2.1"), prefix(run="other"), prefix(stage="other")]
    elsewhere = Output(tmp_path, root="another root")
    others.append(elsewhere.stage(ids([1]))["prefix"])
    named = Output(tmp_path, output_stream(name="second"))
    others.append(named.stage(ids([1]))["prefix"])  # two outputs of a stage may go to one table
    assert len({first, *others}) == 7


def test_tables_of_other_files_are_rejected(tmp_path: Path) -> None:
    output = made(tmp_path, ALL, properties={"write.format.default": "orc"})
    with pytest.raises(TopicError, match="keeps its files as orc") as error:
        output.system.fix_output(output.spec, None)
    assert "kind spark" in error.value.hint


def test_a_partition_within_a_struct_is_rejected(tmp_path: Path) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "in", StructType(NestedField(3, "n", LongType()))))
    output = made(tmp_path, schema, (3, "identity"))
    with pytest.raises(TopicError, match="is partitioned by identity"):
        output.system.fix_output(output.spec, None)
