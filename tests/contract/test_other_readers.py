"""Tables that outputs write and inputs read, beside DuckDB's own extensions: whoever looks finds the same rows."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from demo import lake_reader
from tests.support import delta_lake
from tests.support.delta_outputs import Output as DeltaOutput
from tests.support.iceberg_outputs import Output, output_stream
from tests.support.slotted import day

pytestmark = pytest.mark.extended

COLUMNS = "id bigint, name string, seen timestamp, price decimal(9,2), tags array<string>, size double"


def rows(*numbers: int) -> list[dict[str, Any]]:
    """Return rows with nulls in each column but the first."""
    return [
        {
            "id": number,
            "name": None if number % 5 == 0 else f"name-{number % 3}",
            "seen": None if number % 7 == 0 else datetime(2026, 11, 1 + number % 4, 1, 2, 3, 4, timezone.utc),
            "price": None if number % 4 == 0 else Decimal(25 * number).scaleb(-2),
            "tags": None if number % 6 == 0 else ["a", None, str(number)],
            "size": None if number % 8 == 0 else number / 3,
        }
        for number in numbers
    ]


def plain(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in the order of their ids, with values as JSON has them."""
    values = json.loads(json.dumps(sorted(found, key=lambda row: int(row["id"])), default=str))
    return list(values)


def by_duckdb(table: str, where: str = "true") -> list[dict[str, Any]]:
    names = [part.split()[0] for part in COLUMNS.split(", ")]
    (answer,) = lake_reader.ask(f"SELECT {', '.join(names)} FROM {table} WHERE {where} ORDER BY id")
    return [dict(zip(names, row, strict=True)) for row in answer]


@pytest.mark.parametrize("partition_by", ["", "day(seen), bucket(4, name)", "name, truncate(10, id)", "hour(seen)"])
def test_duckdb_reads_a_table_of_iceberg_as_it_was_written_replaced_and_cleared(
    tmp_path: Path, partition_by: str
) -> None:
    more = {"partition_by": partition_by} if partition_by else {}
    output = Output(tmp_path, output_stream(schema=COLUMNS, create="true", **more))
    output.system.create([output.spec])
    output.publish(rows(*range(10)), run="monday", slot=day(1))
    output.publish(rows(*range(10, 30)), run="tuesday", slot=day(2))
    output.publish(rows(*range(30, 45)), run="backfill", slot=day(1))
    output.publish(rows(50, 51, 52), run="tuesday", slot=day(2), generation="1.2")
    expected = rows(*range(30, 45), 50, 51, 52)
    table = lake_reader.iceberg_rows(tmp_path, "web.out")
    assert by_duckdb(table) == plain(expected)
    assert by_duckdb(table, "name = 'name-1'") == plain([row for row in expected if row["name"] == "name-1"])
    assert by_duckdb(table, "seen IS NULL") == plain([row for row in expected if row["seen"] is None])
    assert by_duckdb(table, "id > 49") == plain(rows(50, 51, 52))
    ((snapshots,),) = lake_reader.ask(
        f"SELECT count(*) FROM iceberg_snapshots({lake_reader.iceberg(tmp_path, 'web.out')})"
    )
    assert snapshots == [4]


def test_duckdb_finds_in_a_table_of_delta_what_an_input_reads(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("name", pa.string()),
            ("seen", pa.timestamp("us", "UTC")),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.string())),
            ("size", pa.float64()),
        ]
    )
    table = delta_lake.table_of(tmp_path, schema, rows(*range(20)), partition_by=["name"])
    delta_lake.append(table, rows(*range(20, 30)), schema)
    table.delete("id % 2 = 1 AND id < 20")
    read = delta_lake.rows_of(delta_lake.system_at(tmp_path), delta_lake.stream())
    found = by_duckdb(lake_reader.delta_rows(tmp_path / "web/views"))
    assert found == plain(read) == plain(rows(*range(0, 20, 2), *range(20, 30)))
    assert [number for number, _ in lake_reader.delta_versions(tmp_path / "web/views")] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"partition_by": "name"},
        {"partition_by": "day, name"},
        # It loses the partitions of tables with column mapping, also of those that Spark has written.
        {"delta.columnMapping.mode": "name"},
        {"delta.columnMapping.mode": "id"},
    ],
)
def test_duckdb_reads_a_table_of_delta_as_it_was_written_replaced_and_cleared(
    tmp_path: Path, options: dict[str, str]
) -> None:
    def dated(*numbers: int) -> list[dict[str, Any]]:
        return [{**row, "day": row["seen"] and row["seen"].date()} for row in rows(*numbers)]

    output = DeltaOutput(tmp_path, output_stream(schema=f"{COLUMNS}, day date", create="true", **options))
    output.system.create([output.spec])
    output.publish(dated(*range(10)), run="monday", slot=day(1))
    output.publish(dated(*range(10, 30)), run="tuesday", slot=day(2))
    output.publish(dated(*range(30, 45)), run="backfill", slot=day(1))
    output.publish(dated(50, 51, 52), run="tuesday", slot=day(2), generation="1.2")
    table = lake_reader.delta_rows(tmp_path / "web/out")
    expected = rows(*range(30, 45), 50, 51, 52)
    assert by_duckdb(table) == plain(expected)
    assert by_duckdb(table, "name = 'name-1'") == plain([row for row in expected if row["name"] == "name-1"])
    assert by_duckdb(table, "day IS NULL") == plain([row for row in expected if row["seen"] is None])
    if "partition_by" not in options:
        ((_, plan),) = lake_reader.ask(f"EXPLAIN ANALYZE SELECT id FROM {table} WHERE id > 49")[0]
        assert "Scanning Files: 1/2" in plan
