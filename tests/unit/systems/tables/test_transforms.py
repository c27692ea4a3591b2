"""Partition transforms over columns: as pyiceberg's own have them value by value, and rows split by them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from airflow_samza.systems.tables.columns import TableField, TableType
from airflow_samza.systems.tables.transforms import (
    PartitionField,
    is_transform,
    partition_value,
    split_rows,
    transformed,
)
from tests.support.budgets import share

EPOCH, EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=timezone.utc)
MICRO = timedelta(microseconds=1)


class Kind(NamedTuple):
    """Type of a column: of Iceberg, of Arrow here, its values here, and the same value as pyiceberg has it."""

    iceberg: IcebergType
    arrow: pa.DataType
    values: st.SearchStrategy[Any]
    theirs: Callable[[Any], Any] = lambda value: value


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**precision - 1
    return st.integers(-bound, bound).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))


def positive_zero(value: float) -> float:
    """Return the value; zeros of both signs are partitions of their own, and equal each other in Python."""
    return value + 0.0


INTS = st.one_of(st.integers(-(2**31) + 1000, 2**31 - 1), st.integers(-20, 20))
LONGS = st.one_of(st.integers(-(2**63) + 1000, 2**63 - 1), INTS)
TEXTS = st.text(st.sampled_from("ab\u00fc\u4e2d\U0001f600e\u0301\0"), max_size=7)
MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)) | st.datetimes(
    datetime(1969, 12, 30), datetime(1970, 1, 2)
)

KINDS = {
    "boolean": Kind(BooleanType(), pa.bool_(), st.booleans()),
    "int": Kind(IntegerType(), pa.int32(), INTS),
    "long": Kind(LongType(), pa.int64(), LONGS),
    "float": Kind(FloatType(), pa.float32(), st.floats(width=32, allow_nan=False).map(positive_zero)),
    "double": Kind(DoubleType(), pa.float64(), st.floats(allow_nan=False).map(positive_zero)),
    "date": Kind(
        DateType(),
        pa.date32(),
        st.dates() | st.dates(date(1969, 11, 1), date(1970, 2, 1)),
        lambda value: (value - EPOCH.date()).days,
    ),
    "time": Kind(TimeType(), pa.int64(), st.times().map(lambda at: (datetime.combine(EPOCH, at) - EPOCH) // MICRO)),
    "timestamp": Kind(TimestampType(), pa.timestamp("us"), MOMENTS, lambda value: (value - EPOCH) // MICRO),
    "timestamptz": Kind(
        TimestamptzType(),
        pa.timestamp("us", "UTC"),
        MOMENTS.map(lambda at: at.replace(tzinfo=timezone.utc)),
        lambda value: (value - EPOCH_UTC) // MICRO,
    ),
    "string": Kind(StringType(), pa.string(), TEXTS),
    "uuid": Kind(UUIDType(), pa.string(), st.uuids().map(str), uuid.UUID),
    "fixed[3]": Kind(FixedType(3), pa.binary(), st.binary(min_size=3, max_size=3)),
    "binary": Kind(BinaryType(), pa.binary(), st.binary(max_size=7)),
    "decimal(9, 2)": Kind(DecimalType(9, 2), pa.decimal128(9, 2), decimals(9, 2)),
    "decimal(18, 0)": Kind(DecimalType(18, 0), pa.decimal128(18, 0), decimals(18, 0)),
    "decimal(38, 10)": Kind(DecimalType(38, 10), pa.decimal128(38, 10), decimals(38, 10)),
}
TRANSFORMS = ("identity", "void", "year", "month", "day", "hour", "bucket[1]", "bucket[16]", "bucket[2147483647]")
TRUNCATES = ("truncate[1]", "truncate[3]", "truncate[100]")


def pairs() -> list[tuple[str, str]]:
    found = []
    for word, kind in KINDS.items():
        for name in (*TRANSFORMS, *TRUNCATES):
            if parse_transform(name).can_transform(kind.iceberg):
                found.append((word, name))
    return found


def test_floors_of_long_decimals_below_zero_have_a_digit_more() -> None:
    least = Decimal("-9999999999999999999999999999.9999999999")
    assert rows_by_partition("decimal(38, 10)", "truncate[100]", [least]) == {Decimal(-(10**28)): [0]}


def expected(kind: Kind, transform: str, value: Any) -> Any:
    """Return the partition value that pyiceberg has for a value of a column."""
    if value is None:
        return None
    return parse_transform(transform).transform(kind.iceberg)(kind.theirs(value))


def of_manifest(kind: Kind, transform: str, plain: Any) -> Any:
    """Return a partition value as a manifest gets it: it has been JSON in between."""
    result = str(parse_transform(transform).result_type(kind.iceberg))
    return partition_value(json.loads(json.dumps(plain)), result)


def rows_by_partition(word: str, transform: str, values: list[Any]) -> dict[Any, list[int]]:
    """Return which rows have which partition value, by the functions here."""
    kind = KINDS[word]
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(values)), pa.int64()), pa.array(values, kind.arrow)], ["row", "x"]
    )
    split = split_rows(batch, [(PartitionField("part", 2, transform), TableField(2, "x", TableType(word)))])
    found: dict[Any, list[int]] = {}
    for (plain,), rows in split:
        value = of_manifest(kind, transform, plain)
        assert value not in found, "one partition came twice"
        found[value] = rows.column("row").to_pylist()
    return found


@pytest.mark.parametrize("word", KINDS)
@settings(deadline=None, max_examples=share(100, 12))
@given(data=st.data())
@pytest.mark.few(5)
def test_rows_have_the_partition_values_of_the_library(word: str, data: st.DataObject) -> None:
    kind = KINDS[word]
    values = data.draw(st.lists(kind.values | st.none(), min_size=1, max_size=12))
    for transform in [name for of, name in pairs() if of == word]:
        wanted: dict[Any, list[int]] = {}
        for row, value in enumerate(values):
            wanted.setdefault(expected(kind, transform, value), []).append(row)
        assert rows_by_partition(word, transform, values) == wanted, transform


def test_every_type_has_its_transforms() -> None:
    assert len(pairs()) > 80
    assert all(is_transform(name) for _, name in pairs())
    assert not any(is_transform(name) for name in ("unknown", "zorder", "bucket", "truncate[x]", "bucket[-1]", ""))


BITS_SAID = [
    # The table of hashes in the specification of Iceberg.
    ("int", 34, 2017239379),
    ("long", 34, 2017239379),
    ("decimal(9, 2)", Decimal("14.20"), -500754589),
    ("date", date(2017, 11, 16), -653330422),
    ("time", (datetime.combine(EPOCH, time(22, 31, 8)) - EPOCH) // MICRO, -662762989),
    ("timestamp", datetime(2017, 11, 16, 22, 31, 8), -2047944441),
    ("timestamp", datetime(2017, 11, 16, 22, 31, 8, 1), -1207196810),
    ("timestamptz", datetime(2017, 11, 16, 22, 31, 8, tzinfo=timezone.utc), -2047944441),
    ("string", "iceberg", 1210000089),
    ("uuid", "f79c3e09-677c-4bbd-a479-3f349cb785e7", 1488055340),
    ("fixed[4]", bytes([0, 1, 2, 3]), -188683207),
    ("binary", bytes([0, 1, 2, 3]), -188683207),
]


@pytest.mark.parametrize(("word", "value", "hashed"), BITS_SAID)
def test_buckets_are_those_of_the_specification(word: str, value: Any, hashed: int) -> None:
    arrow = KINDS[word].arrow if word in KINDS else pa.binary()
    found = transformed(pa.array([None, value], arrow), word, "bucket[2147483647]").to_pylist()
    assert found == [None, (hashed & 0x7FFFFFFF) % 2147483647]


@example(rows=[(None, None), (1, None), (None, "x"), (1, "x"), (None, None)])
@settings(deadline=None, max_examples=share(100))
@given(rows=st.lists(st.tuples(INTS | st.none(), TEXTS | st.none()), min_size=1, max_size=30))
def test_rows_are_split_by_all_fields_and_keep_their_order(rows: list[tuple[int | None, str | None]]) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array([n for n, _ in rows], pa.int32()), pa.array([text for _, text in rows], pa.string())], ["n", "text"]
    )
    partition = [
        (PartitionField("bucket", 1, "bucket[3]"), TableField(1, "n", TableType("int"))),
        (PartitionField("start", 2, "truncate[1]"), TableField(2, "text", TableType("string"))),
        (PartitionField("old", 2, "void"), TableField(2, "text", TableType("string"))),
    ]
    wanted: dict[tuple[Any, ...], list[tuple[int | None, str | None]]] = {}
    for n, text in rows:
        values = expected(KINDS["int"], "bucket[3]", n), expected(KINDS["string"], "truncate[1]", text), None
        wanted.setdefault(values, []).append((n, text))
    found = {values: [tuple(row.values()) for row in part.to_pylist()] for values, part in split_rows(batch, partition)}
    assert found == wanted


def test_a_slice_of_a_batch_is_split_like_the_whole() -> None:
    batch = pa.RecordBatch.from_pydict({"n": pa.array([9, 9, 1, None, 1, 9], pa.int32())}).slice(2, 3)
    partition = [(PartitionField("n", 1, "identity"), TableField(1, "n", TableType("int")))]
    found = {values: rows.column("n").to_pylist() for values, rows in split_rows(batch, partition)}
    assert found == {(1,): [1, 1], (None,): [None]}


@pytest.mark.parametrize("arrow", [pa.float32(), pa.float64()])
def test_values_that_are_no_number_are_one_partition(arrow: pa.DataType) -> None:
    values = [float("nan"), 1.0, float("nan"), float("inf"), None]
    batch = pa.RecordBatch.from_pydict({"x": pa.array(values, arrow)})
    partition = [(PartitionField("x", 1, "identity"), TableField(1, "x", TableType("double")))]
    assert {values: rows.num_rows for values, rows in split_rows(batch, partition)} == {
        ("nan",): 2,
        ("1.0",): 1,
        ("inf",): 1,
        (None,): 1,
    }
