"""Key → partition: the three forms agree with each other, with Spark and with what was written down once."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.schema import key_type, parse_type
from tests.support.scalar_partitioner import partition_of

GOLDEN = json.loads(Path(__file__).with_name("golden_partitions.json").read_text())
READ: dict[str, Callable[[str], Any]] = {
    "binary": bytes.fromhex,
    "decimal(9,2)": decimal.Decimal,
    "decimal(38,10)": decimal.Decimal,
}
"""Functions from the texts of the file to values, by type."""
UTC = datetime.timezone.utc
TYPES = (
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "decimal(9,2)",
    "decimal(18,0)",
    "decimal(38,10)",
)


def random_value(kind: str, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return None
    bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}.get(kind)
    if bits:
        limit = 1 << (bits - 1)
        return chance.choice([0, 1, -1, limit - 1, -limit, chance.randrange(-limit, limit)])
    if kind == "boolean":
        return chance.random() < 0.5
    if kind in ("float", "double"):
        number = chance.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, chance.uniform(-1e9, 1e9)])
        return float(np.float32(number)) if kind == "float" else number
    if kind in ("string", "binary"):
        text = "".join(chance.choice("aZ0 é€😀\x7f") for _ in range(chance.choice([0, 1, 2, 3, 4, 5, 8, 13, 70])))
        return text if kind == "string" else text.encode()
    if kind == "date":
        return datetime.date(1970, 1, 1) + datetime.timedelta(days=chance.randrange(-50_000, 50_000))
    if kind.startswith("timestamp"):
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=chance.randrange(-(10**15), 10**16))
        return moment.replace(tzinfo=UTC) if kind == "timestamp" else moment
    declared = parse_type(kind)
    unscaled = chance.choice([0, 1, -1, -(10**declared.precision - 1), chance.randrange(10**declared.precision)])
    return decimal.Decimal(unscaled).scaleb(-declared.scale, decimal.Context(prec=40))


def column(kind: str, values: list[Any]) -> pa.Array:
    return pa.array(values, parse_type(kind).to_arrow())


def test_the_partition_of_a_key_never_changes() -> None:
    moved = []
    for case in GOLDEN["cases"]:
        key = tuple(
            READ[kind](value) if kind in READ and value is not None else value
            for value, kind in zip(case["key"], case["types"], strict=True)
        )
        names = [f"c{place}" for place in range(len(key))]
        arrays = [column(kind, [value]) for kind, value in zip(case["types"], key, strict=True)]
        (found,) = partition_array(pa.RecordBatch.from_arrays(arrays, names), names, case["partitions"])
        reference = partition_of(key, case["types"], case["partitions"])
        moved += [(case, found, reference)] if not found == reference == case["partition"] else []
    assert not moved


@pytest.mark.parametrize("n", [2, 7, 16, 300, 70_000])
@pytest.mark.parametrize("kind", TYPES)
def test_python_and_arrow_agree(kind: str, n: int) -> None:
    chance = random.Random(f"{kind}{n}")
    values = [random_value(kind, chance) for _ in range(500)]
    batch = pa.record_batch({"k": column(kind, values)})
    expected = [partition_of((value,), (kind,), n) for value in values]
    assert partition_array(batch, ["k"], n).tolist() == expected
    assert partition_array(batch.slice(13, 77), ["k"], n).tolist() == expected[13:90]
    assert partition_array(batch.slice(0, 0), ["k"], n).tolist() == []


def test_python_and_arrow_agree_on_composite_keys() -> None:
    chance = random.Random(5)
    for _ in range(30):
        kinds = [chance.choice(TYPES) for _ in range(chance.choice([2, 3]))]
        rows = [tuple(random_value(kind, chance) for kind in kinds) for _ in range(60)] + [(None,) * len(kinds)]
        arrays = [column(kind, list(values)) for kind, values in zip(kinds, zip(*rows, strict=True), strict=True)]
        names = [f"c{place}" for place in range(len(kinds))]
        found = partition_array(pa.RecordBatch.from_arrays(arrays, names), names, 101).tolist()
        assert found == [partition_of(row, kinds, 101) for row in rows]


def test_few_and_many_distinct_and_dictionary_encoded_and_large_strings_hash_alike() -> None:
    for distinct in (3, 100_000):
        values: list[str | None] = [f"user {number % distinct} é" for number in range(3000)]
        values[5] = None
        expected = [partition_of((value,), ("string",), 16) for value in values]
        plain = pa.array(values)
        with_null_inside = pa.DictionaryArray.from_arrays(pa.array(range(3000), pa.int32()), plain)
        for form in (
            plain,
            plain.cast(pa.large_string()),
            plain.dictionary_encode(),
            plain.cast(pa.string_view()),
            with_null_inside,
        ):
            assert partition_array(pa.record_batch({"k": form}), ["k"], 16).tolist() == expected


def test_one_very_long_string_among_short_ones_is_hashed_right() -> None:
    values = ["a", "long" * 50_000 + "é", "", "bc"] * 5
    assert partition_array(pa.record_batch({"k": values}), ["k"], 1000).tolist() == [
        partition_of((v,), ("string",), 1000) for v in values
    ]


def test_integers_of_any_width_and_unsigned_ones_go_to_the_same_partition() -> None:
    values = [0, 1, 77, 127]
    expected = [partition_of((value,), ("bigint",), 64) for value in values]
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()):
        assert partition_array(pa.record_batch({"k": pa.array(values, kind)}), ["k"], 64).tolist() == expected


def test_a_key_that_is_null_everywhere_goes_to_partition_0_and_one_partition_takes_all() -> None:
    assert partition_of((None, None), ("string", "int"), 9) == 0
    assert partition_of(("x", 5), ("string", "int"), 1) == 0
    batch = pa.record_batch({"a": pa.array([None, "x"]), "b": pa.array([None, None], pa.int32())})
    assert partition_array(batch, ["a", "b"], 9).tolist() == [0, partition_of(("x",), ("string",), 9)]
    assert partition_array(batch, ["a"], 1).tolist() == [0, 0]


def test_negative_zero_is_zero_and_every_nan_is_one() -> None:
    assert partition_of((0.0,), ("double",), 97) == partition_of((-0.0,), ("float",), 97)
    odd_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    found = partition_array(pa.record_batch({"k": pa.array(odd_nan)}), ["k"], 97).tolist()
    assert found == [partition_of((math.nan,), ("double",), 97)] * 2


def spark_expression(names: list[str], types: list[str], n: int) -> str:
    """Spark SQL text that gives the partition of a row."""
    casts = {"bigint": "BIGINT", "double": "DOUBLE"}
    kinds = [key_type(parse_type(kind)) for kind in types]
    hashed = [
        f"CAST({name} AS {casts[kind]})" if kind in casts else name for name, kind in zip(names, kinds, strict=True)
    ]
    nothing = " AND ".join(f"{name} IS NULL" for name in names)
    return f"CASE WHEN {nothing} THEN 0 ELSE pmod(hash({', '.join(hashed)}), {n}) END"


def test_what_cannot_be_a_key_is_rejected() -> None:
    with pytest.raises(SchemaError, match=r"array<int> cannot be a key"):
        key_type(parse_type("array<int>"))
    with pytest.raises(SchemaError, match="no key column 'q'"):
        partition_array(pa.record_batch({"k": [1]}), ["q"], 4)


@pytest.mark.parametrize("n", [1, 2, 4, 256, 257, 65_536, 65_537])
def test_splitting_keeps_every_row_once_and_the_order_inside_a_partition(n: int) -> None:
    rows = 5000
    batch = pa.record_batch({"id": list(range(rows)), "text": [f"t{number}" for number in range(rows)]})
    partitions = partition_array(batch, ["id"], n)
    split = split_by_partition(batch, partitions, n)
    assert [partition for partition, _ in split] == sorted(set(partitions.tolist()))
    for partition, piece in split:
        ids = piece.column("id").to_pylist()
        assert ids == np.flatnonzero(partitions == partition).tolist()
        assert piece.column("text").to_pylist() == [f"t{number}" for number in ids]
    assert split_by_partition(batch.slice(0, 0), partitions[:0], n) == []


@pytest.mark.spark
def test_spark_gives_the_same_partition() -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    try:
        chance = random.Random(11)
        arrays = {
            f"c{place}": column(kind, [random_value(kind, chance) for _ in range(400)])
            for place, kind in enumerate(TYPES)
        }
        table = pa.table(arrays)
        keys = [[place] for place in range(len(TYPES))] + [[4, 7], [7, 6, 14], [0, 10, 8]]
        for n in (2, 7, 1000):
            expressions = [
                f"{spark_expression([f'c{place}' for place in key], [TYPES[place] for place in key], n)} AS p{number}"
                for number, key in enumerate(keys)
            ]
            answer = spark.createDataFrame(table).selectExpr(*expressions).toArrow().to_pydict()
            for number, key in enumerate(keys):
                names = [f"c{place}" for place in key]
                (batch,) = table.combine_chunks().to_batches()
                assert partition_array(batch, names, n).tolist() == answer[f"p{number}"], (
                    n,
                    [TYPES[place] for place in key],
                )
        golden = [case for case in GOLDEN["cases"] if case["types"] == ["bigint"]]
        for case in golden:
            text = spark_expression(["k"], ["bigint"], case["partitions"])
            value = "NULL" if case["key"][0] is None else f"'{case['key'][0]}'"
            row = spark.sql(f"SELECT {text} AS p FROM (SELECT CAST({value} AS BIGINT) AS k)").first()
            assert row is not None
            assert row.p == case["partition"]
    finally:
        spark.stop()
