"""Random tables, changed at random from version to version, read as the library's own scan and a model have them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from airflow_samza.systems.system import ColumnBound
from tests.support.budgets import share
from tests.support.delta_lake import append, rows_of, stream, system_at, table_of

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
FIELDS = [
    ("id", pa.int64()),
    ("n", pa.int32()),
    ("x", pa.float64()),
    ("name", pa.string()),
    ("day", pa.date32()),
    ("at", pa.timestamp("us", "UTC")),
    ("in", pa.struct([("a", pa.int32()), ("b", pa.string())])),
]
PARTITIONS = ("n", "name", "day", "at")
LATER = [("more", pa.string()), ("count", pa.int64())]

Row = dict[str, Any]


class Model:
    """A table of the library beside the rows that it has, version by version."""

    def __init__(self, chance: random.Random, folder: Path) -> None:
        self.chance = chance
        self.fields = list(FIELDS)
        partitions = chance.sample(PARTITIONS, chance.choice([0, 1, 1, 2]))
        self.table = table_of(folder, pa.schema(self.fields), partition_by=partitions or None)
        self.rows: list[Row] = []
        self.versions: list[tuple[list[Row], list[str]]] = [([], self.names)]
        self.next = 0

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.fields]

    def change(self) -> None:
        """Make one change, which is one version, or none when there is nothing to do."""
        kind = self.chance.choice([self.append, self.append, self.append, self.delete, self.overwrite, self.widen])
        kind()
        if self.chance.random() < 0.2:
            self.table.create_checkpoint()
        self.table.update_incremental()
        while len(self.versions) <= self.table.version():
            self.versions.append((list(self.rows), self.names))

    def append(self) -> None:
        rows = [self.row() for _ in range(self.chance.randrange(1, 6))]
        append(self.table, rows, pa.schema(self.fields))
        self.rows += rows

    def delete(self) -> None:
        number = self.chance.randrange(self.next + 1)
        low = self.chance.random() < 0.3
        self.table.delete(f"id < {number}" if low else f"id = {number}")
        self.rows = [row for row in self.rows if (row["id"] >= number if low else row["id"] != number)]

    def overwrite(self) -> None:
        rows = [self.row()]
        append(self.table, rows, pa.schema(self.fields), mode="overwrite")
        self.rows = rows

    def widen(self) -> None:
        left = [field for field in LATER if field[0] not in self.names]
        if left:
            self.fields.append(left[0])
            rows = [self.row()]
            append(self.table, rows, pa.schema(self.fields), schema_mode="merge")
            self.rows += rows

    def row(self) -> Row:
        chance, number = self.chance, self.next
        self.next += 1
        values: dict[str, Callable[[], Any]] = {
            "n": lambda: chance.randrange(-2, 3),
            "x": lambda: chance.choice([0.0, 1.5, float("inf")]),
            "name": lambda: chance.choice(["a", "b c", "ä/%=", "\U0001f642", "a" * 50]),
            "day": lambda: date(1970, 1, 1) + timedelta(days=chance.randrange(-3, 4)),
            "at": lambda: EPOCH + timedelta(microseconds=chance.randrange(-5_000_000, 5_000_000)),
            "in": lambda: {"a": chance.randrange(3), "b": chance.choice(["x", None])},
            "more": lambda: chance.choice("xy"),
            "count": lambda: chance.randrange(9),
        }
        made = {name: values[name]() if chance.random() < 0.75 else None for name in self.names if name != "id"}
        return {"id": number, **made}


def sorted_rows(rows: Sequence[Row], names: Sequence[str]) -> list[Row]:
    return sorted(({name: row.get(name) for name in names} for row in rows), key=lambda row: int(row["id"]))


def of_library(folder: Path, version: int) -> list[Row]:
    """Return the rows of a version as the library scans them."""
    rows: list[Row] = pa.table(DeltaTable(str(folder / "web/views"), version=version).scan().read_all()).to_pylist()
    return rows


BOUNDS: list[tuple[str, str, Any, Callable[[Any], bool]]] = [
    ("n", "=", 1, lambda value: value == 1),
    ("n", ">", 0, lambda value: value > 0),
    ("n", "in", (-2, 2), lambda value: value in (-2, 2)),
    ("name", ">=", "b", lambda value: value.encode() >= b"b"),
    ("name", "=", "ä/%=", lambda value: value == "ä/%="),
    ("day", "<=", date(1970, 1, 1), lambda value: value <= date(1970, 1, 1)),
    ("more", "=", "x", lambda value: value == "x"),
]


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(40)))
@pytest.mark.few(2, 4)
def test_a_table_is_read_as_the_library_and_the_model_have_it(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    model = Model(chance, tmp_path)
    for _ in range(chance.randrange(1, 9)):
        model.change()
    system = system_at(tmp_path)
    for version in {*chance.sample(range(len(model.versions)), min(3, len(model.versions))), len(model.versions) - 1}:
        rows, names = model.versions[version]
        spec = stream(version=str(version), partitions=chance.choice([1, 3]))
        found = rows_of(system, spec)
        assert sorted_rows(found, names) == sorted_rows(rows, names)
        assert sorted_rows(found, names) == sorted_rows(of_library(tmp_path, version), names)
        assert system.slice(spec)["rows"] == len(rows)
        for column, op, value, holds in BOUNDS:
            if column in names:
                bounded = rows_of(system, spec, [ColumnBound(column, op, value)])
                wanted = [row for row in rows if row.get(column) is not None and holds(row[column])]
                kept = [row for row in bounded if row[column] is not None and holds(row[column])]
                assert sorted_rows(kept, names) == sorted_rows(wanted, names)
        for bound, nulls in (("is null", True), ("is not null", False)):
            kept = [row for row in rows_of(system, spec, [ColumnBound("n", bound)]) if (row["n"] is None) == nulls]
            assert len(kept) == sum((row["n"] is None) == nulls for row in rows)
