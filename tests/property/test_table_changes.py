"""Changes between any two versions of tables with random histories, as the formats' own libraries read the versions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import LongType, StringType

from airflow_samza.errors import PushError, SchemaError, TopicError
from airflow_samza.runs.tables.table_version import DELETED
from airflow_samza.systems.tables.inputs.change_columns import ADDED, CARRIED, CHANGE, REMOVED
from airflow_samza.task.tables.push_changes import changed_rows
from tests.support import delta_lake, iceberg_lake
from tests.support.budgets import share
from tests.support.table_histories import COLUMNS, REMEDY, DeltaHistory, History, IcebergHistory, Row, counted


@pytest.mark.random
@pytest.mark.parametrize("kind", [IcebergHistory, DeltaHistory])
@pytest.mark.parametrize("seed", range(share(20, 2)))
def test_rows_are_carried_or_gone_or_new(kind: type[History], seed: int, tmp_path: Path) -> None:
    history = kind(tmp_path, seed)
    some = list(history.versions)
    pairs = [("", some[-1]), *itertools.pairwise(some), (some[0], some[-1]), (some[-1], some[0])]
    for since, until in pairs:
        before, now = history.versions.get(since, []), history.versions[until]
        rows = history.changes(since, until, history.chance.choice([1, 3]))
        gone, new = (counted([row for row in rows if row[CHANGE] == one]) for one in (REMOVED, ADDED))
        carried = counted(history.changes(since, until, 1, carried=True))
        assert carried + gone == counted(before), (since, until)
        assert carried + new == counted(now), (since, until)
        assert pushed(before, rows, now) == {row["id"]: row for row in now}


def pushed(before: Sequence[Row], changes: Sequence[Row], now: Sequence[Row]) -> dict[int, Row]:
    """Return the rows of a pushed table to which changes are pushed, in batches of any size."""
    table, keyed = {row["id"]: row for row in before}, []
    for row in sorted(changes, key=lambda row: (row["id"], row[CHANGE])):
        keyed.append({**{name: row[name] for name in COLUMNS.names}, DELETED: False, CHANGE: row[CHANGE]})
    for batch in changed_rows(batches(keyed), ["id"], "profiles"):
        for row in batch.to_pylist():
            is_deleted = row.pop(DELETED)
            assert is_deleted or table.get(row["id"]) != row, "a row that has not changed is pushed"
            table.pop(row["id"], None)
            if not is_deleted:
                table[row["id"]] = row
    return table


def batches(rows: Sequence[Row], size: int = 3) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([*COLUMNS, (DELETED, pa.bool_()), (CHANGE, pa.string())])
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(list(rows[start : start + size]), schema=schema)


def resolved(*changes: tuple[int | None, str | None, str]) -> list[tuple[Any, ...]]:
    rows = [{"id": one, "tier": tier, DELETED: False, CHANGE: change} for one, tier, change in changes]
    return [
        (row["id"], row["tier"], row[DELETED])
        for one in changed_rows(batches(rows, 2), ["id"], "p")
        for row in one.to_pylist()
    ]


def test_keys_become_rows_deletes_or_nothing() -> None:
    assert resolved((1, "a", REMOVED), (1, "a", ADDED), (2, "a", REMOVED), (2, "b", ADDED)) == [(2, "b", False)]
    assert resolved((1, "a", REMOVED), (1, "b", REMOVED), (2, "c", REMOVED)) == [(1, None, True), (2, None, True)]
    assert resolved((1, "a", CARRIED), (2, "a", CARRIED), (2, "b", ADDED)) == [(2, "b", False)]
    assert resolved(*((1, one, REMOVED) for one in "ab"), *((1, one, ADDED) for one in "ba")) == []
    assert resolved((None, "a", ADDED), (None, "b", REMOVED), (1, "a", ADDED)) == [
        (None, "a", False),
        (1, "a", False),
    ]
    assert resolved((1, None, REMOVED), (1, None, ADDED), (2, None, REMOVED), (2, "", ADDED)) == [(2, "", False)]


def test_a_key_that_other_rows_still_have_is_rejected() -> None:
    with pytest.raises(PushError, match=r"still have their key \(id\), such as 7: which row counts now is not certain"):
        resolved((7, "a", CARRIED), (7, "b", REMOVED))


def test_deletion_vectors_that_replace_each_other_take_rows_and_bring_them_back(tmp_path: Path) -> None:
    table = delta_lake.HandMade(tmp_path, [delta_lake.column("id", "long")], reader=3, features=["deletionVectors"])
    table.begin()
    first, second = (delta_lake.inline_vector(positions) for positions in ([0], [1, 2]))
    rows = pa.table({"id": [1, 2, 3, 4]})
    for vector in (first, second):
        table.commit(table.file("a.parquet", rows, deletionVector=vector), *removed(first, vector))
    system, stream = delta_lake.system_at(tmp_path), delta_lake.stream(version="2")
    found = delta_lake.rows_of(system, stream, range_=system.changes(stream, "1", REMEDY))
    assert sorted((row["id"], row[CHANGE]) for row in found) == [(1, ADDED), (2, REMOVED), (3, REMOVED)]
    carried = delta_lake.rows_of(system, stream, range_=system.changes(stream, "1", REMEDY, carried=True))
    assert [row["id"] for row in carried] == [4]


def removed(former: Mapping[str, Any], vector: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [] if vector == former else [{"remove": {"path": "a.parquet", "dataChange": True, "deletionVector": former}}]


def test_a_field_within_a_column_that_was_replaced_by_its_namesake_is_another_one(tmp_path: Path) -> None:
    columns = pa.schema([("id", pa.int64()), ("of", pa.list_(pa.struct([("tier", pa.string()), ("n", pa.int32())])))])
    table = iceberg_lake.table_of(tmp_path, columns, [{"id": 1, "of": [{"tier": "gold", "n": 1}]}])
    first = str(table.metadata.snapshots[0].snapshot_id)
    system, stream = iceberg_lake.system_at(tmp_path), iceberg_lake.stream()
    with table.update_schema() as update:
        update.update_column(("of", "element", "n"), LongType())
    assert system.changes(stream, first, REMEDY)["files"] == []
    with table.update_schema() as update:
        update.delete_column(("of", "element", "tier"))
    with table.update_schema() as update:
        update.add_column(("of", "element", "tier"), StringType())
    with pytest.raises(SchemaError, match="its column 'of' is another one now, or has another type"):
        system.changes(stream, first, REMEDY)


def test_what_cannot_be_compared_is_rejected_with_the_remedy(tmp_path: Path) -> None:
    table = iceberg_lake.table_of(tmp_path, COLUMNS, [{"id": 1}], [{"id": 2}])
    first, second = (str(one.snapshot_id) for one in table.metadata.snapshots)
    system, stream = iceberg_lake.system_at(tmp_path), iceberg_lake.stream()
    with pytest.raises(TopicError, match=rf"since the snapshot 99 cannot be read: .*\n?.*{REMEDY}"):
        system.changes(stream, "99", REMEDY)
    with table.update_schema() as update:
        update.delete_column("tier")
    with table.update_schema() as update:
        update.add_column("tier", StringType())
    with pytest.raises(SchemaError, match="its column 'tier' is another one now, or has another type"):
        system.changes(stream, first, REMEDY)
    path = next(file.file.file_path for file in table.scan(snapshot_id=int(first)).plan_files())
    stream = iceberg_lake.stream(snapshot=second)
    range_ = system.changes(iceberg_lake.stream(snapshot=second), "", REMEDY)
    Path(path.removeprefix("file://")).unlink()
    with pytest.raises(TopicError, match=rf"is gone: .*\n?.*{REMEDY}"):
        iceberg_lake.rows_of(system, stream, range_=range_)
    with pytest.raises(TopicError, match=rf"it is gone\..*\n?.*{REMEDY}"):  # the files are looked at, to be cut
        system.changes(iceberg_lake.stream(partitions=9, snapshot=second), "", REMEDY)
