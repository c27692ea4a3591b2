"""The types of columns, and the Arrow types that they are and come from."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.schema import SIMPLE_TYPES, DataType, type_from_arrow


@pytest.mark.parametrize("kind", SIMPLE_TYPES)
def test_simple_types_survive_arrow(kind: str) -> None:
    assert type_from_arrow(DataType(kind).to_arrow()) == DataType(kind)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.uint8(), "smallint"),
        (pa.uint16(), "int"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.float16(), "float"),
        (pa.large_string(), "string"),
        (pa.binary(4), "binary"),
        (pa.date64(), "date"),
        (pa.timestamp("ns", "Europe/Amsterdam"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.large_list(pa.int32()), "array<int>"),
        (pa.list_(pa.int32(), 3), "array<int>"),
        (pa.decimal256(30, 2), "decimal(30,2)"),
        (pa.struct([("a", pa.int64())]), "struct<a:bigint>"),
        (pa.map_(pa.string(), pa.float64()), "map<string,double>"),
    ],
)
def test_arrow_types_as_they_come(kind: pa.DataType, expected: str) -> None:
    assert type_from_arrow(kind).ddl() == expected


@pytest.mark.parametrize("kind", [pa.null(), pa.time32("s"), pa.duration("us"), pa.decimal256(60, 2)])
def test_rejects_arrow_types_that_no_column_has(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="has no column type"):
        type_from_arrow(kind)


def test_integers_of_every_width_are_integers() -> None:
    assert [DataType(kind).is_integer for kind in ("tinyint", "smallint", "int", "bigint")] == [True] * 4
    assert not DataType("double").is_integer
