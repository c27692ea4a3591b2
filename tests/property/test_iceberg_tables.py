"""Random tables, changed at random between commits, read as pyiceberg's own scan and a model of plain rows have them."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
)
from pyiceberg.types import (
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from airflow_samza.systems.system import ColumnBound
from tests.support.budgets import share
from tests.support.iceberg_lake import add_files, data_file, delete_positions, rows_of, stream, system_at, table_of

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "n", IntegerType()),
    NestedField(3, "x", FloatType()),
    NestedField(4, "name", StringType()),
    NestedField(5, "day", DateType()),
    NestedField(6, "at", TimestamptzType()),
    NestedField(7, "in", StructType(NestedField(8, "a", IntegerType()), NestedField(9, "b", StringType()))),
)
TRANSFORMS: dict[str, list[Any]] = {
    "n": [IdentityTransform(), BucketTransform(3), TruncateTransform(10)],
    "name": [IdentityTransform(), BucketTransform(2), TruncateTransform(1)],
    "day": [IdentityTransform(), MonthTransform(), VoidTransform()],
    "at": [DayTransform(), IdentityTransform()],
}


class RandomTable:
    """A table, and its rows as a model has them: by column id, so that no change of the schema changes them."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        column = self.chance.choice([None, *TRANSFORMS])
        spec = PartitionSpec()
        if column is not None:
            field = SCHEMA.find_field(column)
            spec = PartitionSpec(PartitionField(field.field_id, 1000, self.chance.choice(TRANSFORMS[column]), "part"))
        version = self.chance.choice(["1", "2", "2"])
        self.table: Table = table_of(folder, SCHEMA, partition_spec=spec, properties={"format-version": version})
        self.version = int(version)
        self.ids = iter(range(10**6))
        self.rows: list[dict[int, Any]] = []
        self.files: dict[str, tuple[tuple[Any, ...], list[dict[int, Any]]]] = {}
        self.numbers = iter(range(100, 10**6))

    def value(self, field: NestedField) -> Any:
        kind, chance = field.field_type, self.chance
        if not field.required and chance.random() < 0.2:
            return None
        if isinstance(kind, IntegerType | LongType):
            return chance.choice([0, -1, 7, 12, 2**31 - 1, chance.randrange(-100, 100)])
        if isinstance(kind, FloatType | DoubleType):
            return chance.choice([0.5, -1.0, float("nan"), float("inf")])
        if isinstance(kind, StringType):
            return chance.choice(["", "nl", "be", "ünï", "a" * 40, "\U0001f600", "z"])
        if isinstance(kind, DateType):
            return date(1969, 12, 1) + timedelta(days=chance.randrange(90))
        if isinstance(kind, TimestamptzType):
            return EPOCH + timedelta(hours=chance.randrange(-100, 100), microseconds=chance.randrange(2))
        assert isinstance(kind, StructType)
        return {inner.field_id: self.value(inner) for inner in kind.fields}

    def commit(self) -> None:
        """Add rows, a file for each value of the partition."""
        schema, spec = self.table.schema(), self.table.spec()
        by_part: dict[tuple[Any, ...], list[dict[int, Any]]] = {}
        for _ in range(self.chance.randrange(1, 12)):
            row = {field.field_id: self.value(field) for field in schema.fields}
            row[1] = next(self.ids)
            by_part.setdefault(tuple(self.part(row, one) for one in spec.fields), []).append(row)
        for part, rows in by_part.items():
            batch = pa.Table.from_pylist([named(row, schema) for row in rows], schema=schema_to_pyarrow(schema))
            group = self.chance.choice([None, 2, 5])
            file = data_file(self.table, batch, part, row_group_size=group)
            add_files(self.table, file)
            self.files[file.file_path] = (part, rows)
            self.rows += rows

    def part(self, row: dict[int, Any], field: PartitionField) -> Any:
        source = self.table.schema().find_field(field.source_id).field_type
        value = row[field.source_id]
        if isinstance(value, datetime):
            value = (value - EPOCH) // timedelta(microseconds=1)
        elif isinstance(value, date):
            value = (value - EPOCH.date()).days
        return field.transform.transform(source)(value)

    def delete(self) -> None:
        """Delete rows of one file by their positions."""
        if self.version < 2 or not self.files:
            return
        path = self.chance.choice(sorted(self.files))
        part, rows = self.files[path]
        positions = sorted(self.chance.sample(range(len(rows)), self.chance.randrange(1, len(rows) + 1)))
        delete_positions(self.table, {path: positions}, part, vectors=self.chance.random() < 0.3)
        gone = {rows[place][1] for place in positions}
        self.rows = [row for row in self.rows if row[1] not in gone]

    def change(self) -> None:
        """Change the schema: rename, widen, drop, add, add what had the name of another column."""
        sources = {field.source_id for field in self.table.spec().fields}
        fields = {field.field_id: field.name for field in self.table.schema().fields if field.field_id != 1}
        free = [number for number in fields if number not in sources]
        act = self.chance.randrange(5)
        with self.table.update_schema() as changing:
            if act == 0:
                changing.rename_column(fields[self.chance.choice(sorted(fields))], f"c{next(self.numbers)}")
            elif act == 1 and 2 in fields:
                changing.update_column(fields[2], LongType())
            elif act == 2 and 3 in fields:
                changing.update_column(fields[3], DoubleType())
            elif act == 3 and free:
                number = self.chance.choice(sorted(free))
                changing.delete_column(fields[number])
                self.rows = [{key: one for key, one in row.items() if key != number} for row in self.rows]
                self.files = {
                    path: (part, [{key: one for key, one in row.items() if key != number} for row in rows])
                    for path, (part, rows) in self.files.items()
                }
            else:
                gone = {"n", "x", "name", "day", "in"} - set(fields.values())
                name = self.chance.choice([*sorted(gone), f"c{next(self.numbers)}"])
                changing.add_column(name, self.chance.choice([StringType(), LongType()]))


def named(row: dict[int, Any], schema: Schema) -> dict[str, Any]:
    """Return a row with names of columns; what it does not have is null."""
    found = {}
    for field in schema.fields:
        value = row.get(field.field_id)
        if isinstance(value, dict) and isinstance(field.field_type, StructType):
            value = {inner.name: value.get(inner.field_id) for inner in field.field_type.fields}
        found[field.name] = value
    return found


def comparable(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted((name, _text(value)) for name, value in row.items())) for row in rows)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def bounds_of(table: RandomTable) -> tuple[list[ColumnBound], Callable[[dict[str, Any]], bool]]:
    """Return a bound of a column, and whether a row fulfils it."""
    fields = [
        field
        for field in table.table.schema().fields
        if isinstance(field.field_type, IntegerType | LongType | StringType | DateType)
    ]
    field = table.chance.choice(fields)
    value = None
    while value is None:
        value = table.value(field)
    op = table.chance.choice(["=", "<", "<=", ">", ">=", "in", "is null", "is not null"])
    wanted = (value, value) if op == "in" else None if op.startswith("is") else value

    def key(one: Any) -> Any:
        return one.encode() if isinstance(one, str) else one

    def fulfils(row: dict[str, Any]) -> bool:
        found = row[field.name]
        if op.startswith("is"):
            return (found is None) == (op == "is null")
        if found is None:
            return False
        compared = {"=": "__eq__", "in": "__eq__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
        return bool(getattr(key(found), compared)(key(value)))

    return [ColumnBound(field.name, op, wanted)], fulfils


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(200, 12)))
@pytest.mark.few(3, 6)
def test_a_random_table_is_read_as_the_model_and_the_library_have_it(seed: int, tmp_path: Path) -> None:
    table = RandomTable(tmp_path, seed)
    for _ in range(table.chance.randrange(2, 7)):
        table.commit()
        for act in (table.delete, table.change):
            if table.chance.random() < 0.5:
                act()
    table.table.refresh()
    system, spec = system_at(tmp_path), stream(partitions=table.chance.choice([1, 3]))
    expected = [named(row, table.table.schema()) for row in table.rows]
    assert comparable(rows_of(system, spec)) == comparable(expected)
    assert comparable(table.table.scan().to_arrow().to_pylist()) == comparable(expected)
    for _ in range(6):
        bounds, fulfils = bounds_of(table)
        found = rows_of(system, spec, bounds)
        assert comparable([row for row in found if fulfils(row)]) == comparable([r for r in expected if fulfils(r)])
