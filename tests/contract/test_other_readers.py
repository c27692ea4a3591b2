"""Tables that outputs write and inputs read, beside DuckDB's own extensions: whoever looks finds the same rows."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from deltalake import DeltaTable

from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.iceberg import expiry
from airflow_samza.systems.iceberg.catalogs import opened_catalog
from demo import lake_reader
from tests.support import delta_lake
from tests.support.budgets import nightly_but
from tests.support.delta_outputs import Output as DeltaOutput
from tests.support.iceberg_catalogs import binding_of, system_of
from tests.support.iceberg_outputs import Output, output_stream
from tests.support.slotted import Slotted, day

pytestmark = pytest.mark.extended

COLUMNS = "id bigint, name string, seen timestamp, price decimal(9,2), tags array<string>, size double"
SPECS = ["", "day(seen), bucket(4, name)", "name, truncate(10, id)", "hour(seen)"]


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


@pytest.mark.parametrize("partition_by", nightly_but(SPECS[:2], SPECS))
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


def play_epochs_that_are_merged(output: Slotted, look: Callable[[], tuple[int, list[int]]]) -> None:
    """Commit epochs of which small files are merged, and clear; ``look``: how many files and which rows others find."""
    for epoch in range(12):
        output.publish("monday", [epoch], None, epoch=epoch)
    files, found = look()
    assert files == 3  # that of the first ten epochs, and two
    assert found == output.rows() == list(range(12))
    output.publish("monday", [50], None, "1.2")
    assert look() == (1, [50])
    assert output.rows() == [50]


def delta_from_afar(url: str, folder: Path) -> tuple[int, list[int]]:
    """Return how many files a table elsewhere has, and the rows, as the library finds them in a copy of it."""
    there = open_location(url)
    pafs.copy_files(there.path, str(folder), source_filesystem=there.filesystem)
    table = DeltaTable(str(folder))
    return len(table.file_uris()), sorted(pa.table(table.scan().read_all()).column("id").to_pylist())


@pytest.mark.parametrize("place", ["s3", pytest.param("hdfs", marks=[pytest.mark.hdfs, pytest.mark.nightly])])
def test_small_files_of_a_table_of_delta_are_merged_in_a_bucket_and_on_hdfs(
    place: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if place == "s3":
        root = request.getfixturevalue("s3").url(f"merged/{tmp_path.name}")
    else:
        root = f"{request.getfixturevalue('hdfs').webhdfs}{tmp_path}"
    copies = itertools.count()
    play_epochs_that_are_merged(
        Slotted("delta", root), lambda: delta_from_afar(f"{root}/web/out", tmp_path / f"copy-{next(copies)}")
    )


def test_small_files_of_a_table_of_iceberg_are_merged_in_a_bucket(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "YOUNG_SECONDS", 0)
    with binding_of("sqlite over s3", tmp_path / "catalog", request) as options:

        def look() -> tuple[int, list[int]]:
            with opened_catalog(system_of(options).settings) as catalog:
                scan = catalog.load_table("web.out").scan()
                return len(list(scan.plan_files())), sorted(scan.to_arrow().column("id").to_pylist())

        play_epochs_that_are_merged(Slotted("iceberg", "", options), look)
