"""The order in which files of a table are read that have come since the run before: that of their event times."""

from __future__ import annotations

import dataclasses
import itertools
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support import delta_lake, iceberg_lake

KINDS = {"iceberg": iceberg_lake, "delta": delta_lake}
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "date": (pa.date32(), lambda day: date(2026, 1, day)),
    "timestamp": (pa.timestamp("us", "UTC"), lambda day: datetime(2026, 1, day, 9, tzinfo=timezone.utc)),
    "bigint": (pa.int64(), lambda day: day * 86_400_000),
}


def order(lake: Any, tmp_path: Path, days: list[int], kind: str, *, timestamp: str | None, **more: Any) -> list[int]:
    """Return the days of the files that a first run reads, of a table with a commit a day."""
    column, value = VALUES[kind]
    schema = pa.schema([("at", column), ("day", pa.int32())])
    table = lake.table_of(tmp_path, schema, *([{"at": value(day), "day": day}] for day in days), **more)
    del table
    system = lake.system_at(tmp_path)
    range_ = system.arrived(dataclasses.replace(lake.stream(), timestamp=timestamp), None)
    return [row["day"] for row in lake.rows_of(system, lake.stream(), range_=range_)]


@pytest.mark.parametrize(("name", "kind"), [*itertools.product(KINDS, VALUES)], ids=lambda one: str(one))
def test_the_earliest_are_read_first_whenever_they_came(name: str, kind: str, tmp_path: Path) -> None:
    assert order(KINDS[name], tmp_path, [3, 1, 4, 2], kind, timestamp="at") == [1, 2, 3, 4]


def test_times_that_are_values_of_partitions_count(tmp_path: Path) -> None:
    partitions = {"partition_by": ["at"]}
    assert order(delta_lake, tmp_path, [3, 1, 4, 2], "date", timestamp="at", **partitions) == [1, 2, 3, 4]


def test_files_without_a_known_time_keep_their_order(tmp_path: Path) -> None:
    lake, schema = iceberg_lake, pa.schema([("at", pa.date32()), ("day", pa.int32())])
    table = lake.table_of(tmp_path, schema)
    system, spec = lake.system_at(tmp_path), dataclasses.replace(lake.stream(), timestamp="at")
    known = system.arrived(spec, None)["known"]
    for day in (3, 0, 1):
        lake.append(table, [{"at": date(2026, 1, day) if day else None, "day": day}])
    range_ = system.arrived(spec, known)
    assert [row["day"] for row in lake.rows_of(system, lake.stream(), range_=range_)] == [3, 0, 1]
